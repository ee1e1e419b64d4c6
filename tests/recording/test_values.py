"""Each kind of argument comes back as it was, or is refused by name."""

from __future__ import annotations

import functools
import io
import os
import sys
import threading
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jitmod.trial.child import record_values, replay_values
from jitmod.trial.child.record_values import Unrecordable
from jitmod.trial.child.snapshot import snapshot

Pair = namedtuple("Pair", ["left", "right"])


class Net(eqx.Module):
    mlp: eqx.nn.MLP
    act: Callable[..., Any]
    width: int = eqx.field(static=True, default=4)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.act(self.mlp(x))


class Colour(Enum):
    RED = 1


@dataclass
class Config:
    rate: float
    names: tuple[str, ...] = ("a",)


@eqx.filter_jit
def filter_jitted(x: jax.Array) -> jax.Array:
    return x + 1


doubled = jax.jit(lambda x: x * 2)


def plain(x: Any) -> Any:
    return x


def outer(scale: float) -> Callable[[float], float]:
    def inner(x: float, more: float = 1.0) -> float:
        return inner(x - 1) if x > 10 else x * scale + more

    return inner


def _net() -> Net:
    return Net(eqx.nn.MLP(3, 3, 4, 2, key=jax.random.key(0)), jax.nn.gelu)


VALUES: dict[str, Any] = {
    "numbers": (1, 2.5, True, 3 + 4j, 2**80, float("inf")),
    "texts": ("a", b"b", None, ..., slice(1, 2)),
    "containers": {"a": [1, (2, {3})], "b": OrderedDict(x=1), 3: frozenset([4])},
    "namedtuple, enum, dataclass": (Pair(1, jnp.ones(2)), Colour.RED, Config(0.1)),
    "float32": jnp.arange(6.0).reshape(2, 3),
    "bfloat16": jnp.arange(3, dtype=jnp.bfloat16),
    "float8": jnp.arange(3).astype(jnp.float8_e4m3fn),
    "int8 and bool": (jnp.arange(3, dtype=jnp.int8), jnp.array([True, False])),
    "complex": jnp.array([1 + 2j]),
    "empty": jnp.zeros((0, 3)),
    "scalar array": jnp.float32(2),
    "weak scalar": jnp.asarray(2.0),
    "weak vector": jnp.stack([1.0, 2.0]),
    "weak integers": jnp.stack([1, 2, 3]),
    "large weak constant": jnp.full((9999,), 1.5),
    "not a number": jnp.array([jnp.nan, jnp.inf, -0.0]),
    "typed key": jax.random.key(3),
    "typed keys of another kind": jax.random.split(jax.random.key(1, impl="rbg"), 3),
    "raw key": jax.random.PRNGKey(1),
    "numpy": (np.arange(3), np.float64(2.5), np.array(["a"]), np.datetime64("2020-01-01")),
    "numpy, not contiguous": np.arange(12).reshape(3, 4)[::2, ::-1],
    "numpy of another byte order": np.arange(3, dtype=">i4"),
    "numpy of jax's dtypes": np.arange(3).astype(jnp.bfloat16),
    "numpy objects": np.array([jnp.ones(2), None], dtype=object),
    "numpy records": np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    "Module": _net(),
    "Modules of the library": (eqx.nn.LSTMCell(2, 3, key=jax.random.key(0)), eqx.nn.Dropout(0.5)),
    "gradients with None": eqx.filter(_net(), eqx.is_inexact_array),
    "optimiser state": optax.adam(1e-3).init(eqx.filter(_net(), eqx.is_array)),
    "public functions": (jax.nn.relu, jnp.sin, np.exp, len, jax.nn.initializers.he_normal),
}


def _again(value: Any) -> Any:
    file = io.BytesIO()
    record_values.write(value, 2**24).save(file)
    file.seek(0)
    return replay_values.read(file, lambda name: sys.modules[name])


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_round_trip(value: Any) -> None:
    before, after = snapshot(value), snapshot(_again(value))
    assert [(e.path, e.kind, e.type, e.dtype, e.shape, e.weak) for e in after] == [
        (e.path, e.kind, e.type, e.dtype, e.shape, e.weak) for e in before
    ]
    for one, two in zip(before, after, strict=True):
        if isinstance(one.data, np.ndarray):
            assert one.data.tobytes() == two.data.tobytes() or (one.data == two.data).all()
        else:
            assert one.data == two.data
    assert type(_again(value)) is type(value)


def test_callables_work_as_before() -> None:
    net, x = _net(), jnp.arange(3.0)
    again = _again((net, filter_jitted, doubled, functools.partial(plain, 7), net.__call__, plain, Net))
    assert again[1] is filter_jitted and again[2] is doubled and again[5] is plain and again[6] is Net
    assert jnp.array_equal(again[0](x), net(x)) and jnp.array_equal(again[4](x), net(x)) and again[3]() == 7
    assert again[0].act is jax.nn.gelu


def test_a_function_inside_a_function_keeps_its_cells_defaults_and_itself() -> None:
    inner = outer(3.0)
    again = _again({"f": inner, "same": inner})
    assert again["f"] is again["same"] is not inner
    assert again["f"](12.0) == inner(12.0) == 11 * 3.0 + 1 or again["f"](12.0) == inner(12.0)
    assert again["f"].__qualname__ == inner.__qualname__


def test_an_optimiser_is_made_again_from_its_closures() -> None:
    optimiser = optax.chain(optax.clip(1.0), optax.adam(1e-2))
    again = _again(optimiser)
    parameters = {"w": jnp.arange(3.0)}
    one = optimiser.update(parameters, optimiser.init(parameters))[0]
    two = again.update(parameters, again.init(parameters))[0]
    assert jnp.array_equal(one["w"], two["w"])


def test_one_buffer_stays_one_buffer_and_is_a_copy() -> None:
    array, host = jnp.ones(3), np.ones(3)
    again = _again([array, array, host, host])
    assert again[0] is again[1] and again[2] is again[3]
    written = record_values.write(host, 2**20)
    host[0] = 5
    assert written.arrays[0][0] == 1


def _deleted() -> jax.Array:
    array = jnp.ones(3) + 0
    array.delete()
    return array


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "generator": (lambda: (i for i in [1]), "a generator, which reading would use up"),
    "iterator": (lambda: [iter([1])], "a list_iterator, which reading would use up"),
    "file": (lambda: sys.__stdout__, "which reading would use up"),
    "deleted buffer": (_deleted, "a deleted (donated) buffer"),
    "environment": (lambda: {"env": os.environ}, "the environment of the process"),
    "lock": (threading.Lock, "cannot pickle"),
    "too large": (lambda: np.zeros(2**24), "more than 16 MiB"),
    "too much text": (lambda: ["x" * 2**24], "more than 16 MiB"),
    "large weak array": (lambda: jnp.broadcast_to(jnp.stack([1.0, 2.0]), (4096, 2)), "a large weakly typed array"),
}


@pytest.mark.parametrize(("make", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_by_name(make: Callable[[], Any], why: str) -> None:
    with pytest.raises(Unrecordable) as refused:
        record_values.write(make(), 2**24)
    assert why in str(refused.value)


def test_a_tracer_is_refused_also_inside_a_module() -> None:
    said = []

    @eqx.filter_jit
    def traced(net: Net) -> jax.Array:
        with pytest.raises(Unrecordable) as refused:
            record_values.write(net, 2**24)
        said.append(str(refused.value))
        return net(jnp.ones(3))

    traced(_net())
    assert said == ["a tracer: the call is part of a compiled function"]


def test_the_digest_names_the_contents() -> None:
    def digest(value: Any) -> str:
        return record_values.write(value, 2**20).digest

    assert digest([1, jnp.ones(3)]) == digest([1, jnp.ones(3)])
    others = [jnp.zeros(3), np.ones(3), jnp.ones(3, jnp.bfloat16), jnp.full(3, 1.0)]
    assert len({digest([1, jnp.ones(3)]), digest([2, jnp.ones(3)]), *(digest([1, other]) for other in others)}) == 6


def test_a_secret_is_found_in_any_text() -> None:
    with pytest.raises(Unrecordable, match="secret of the environment"):
        record_values.write({"url": ["https://x?key=abcdef123"]}, 2**20, [b"abcdef123"])


def test_a_local_class_needs_cloudpickle(monkeypatch: pytest.MonkeyPatch) -> None:
    class Local:
        def __init__(self, value: int) -> None:
            self.value = value

    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(Unrecordable, match="Local"):
        record_values.write(Local(1), 2**20)
    monkeypatch.delitem(sys.modules, "cloudpickle")
    pytest.importorskip("cloudpickle")
    assert _again(Local(1)).value == 1
