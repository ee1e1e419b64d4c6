"""Parity: what counts as equal in values, structure and printed text."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jitmod.trial.child import text
from jitmod.trial.child.compare import compare
from jitmod.trial.child.snapshot import arrays, snapshot

X = jnp.linspace(0.0, 1.0, 6, dtype=jnp.float32).reshape(2, 3)


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclasses.dataclass
class Plain:
    a: Any


class Net(eqx.Module):
    w: jax.Array
    size: int = eqx.field(static=True)


class Opaque:
    __slots__ = ("x",)


EQUAL = {
    "rounding of float32": (X, X * (1 + 3e-6)),
    "tiny against the leaf's scale": (jnp.array([1e3, 0.0]), jnp.array([1e3, 5e-3])),
    "rounding of bfloat16": (X.astype(jnp.bfloat16), (X * 1.004).astype(jnp.bfloat16)),
    "NaN and infinity in the same places": (jnp.array([jnp.nan, jnp.inf, 1.0]), jnp.array([jnp.nan, jnp.inf, 1.0])),
    "order of keys": ({"a": 1, "b": X}, {"b": X, "a": 1}),
    "modules": (Net(X, 3), Net(X, 3)),
    "empty": (jnp.zeros((0, 3)), jnp.zeros((0, 3))),
    "keys": (jax.random.key(3), jax.random.key(3)),
    "host double of a float32 result": (float(X[1, 1]), float(X[1, 1]) * (1 + 1e-6)),
}
UNEQUAL = {
    "float32 off by a thousandth": (X, X * 1.001, "values"),
    "one element": (X, X.at[1, 2].add(1e-2), "values"),
    "integer off by one": (jnp.arange(4), jnp.arange(4).at[2].add(1), "values"),
    "NaN appears": (X, X.at[0, 0].set(jnp.nan), "values"),
    "infinity changes sign": (jnp.array([jnp.inf]), jnp.array([-jnp.inf]), "values"),
    "string": ("a", "b", "values"),
    "bool": (True, False, "values"),
    "key": (jax.random.key(3), jax.random.key(4), "values"),
    "static field": (Net(X, 3), Net(X, 4), "values"),
    "function": ([np.sin], [np.cos], "values"),
    "dtype": (X, X.astype(jnp.float16), "structure"),
    "shape": (X, X.T, "structure"),
    "numpy for jax": (X, np.asarray(X), "structure"),
    "Python number for array": (X[0, 0], float(X[0, 0]), "structure"),
    "numpy number for Python number": (1.0, np.float64(1.0), "structure"),
    "tuple for list": ([X], (X,), "structure"),
    "tuple for named tuple": (Pair(X, X), (X, X), "structure"),
    "longer list": ([X], [X, X], "structure"),
    "shorter list": ([X, X], [X], "structure"),
    "other key": ({"a": X}, {"b": X}, "structure"),
    "None for array": (X, None, "structure"),
    "inside a plain object": (Plain(X), Plain(X + 1), "values"),
    "inside an object array": (np.array([X, None], object), np.array([None, X], object), "structure"),
}


@pytest.mark.parametrize("name", EQUAL)
def test_agrees(name: str) -> None:
    left, right = EQUAL[name]
    assert compare(snapshot(left), snapshot(right)).failure is None


@pytest.mark.parametrize("name", UNEQUAL)
def test_differs(name: str) -> None:
    left, right, test = UNEQUAL[name]
    failure = compare(snapshot(left), snapshot(right)).failure
    assert failure is not None and failure["test"] == test


def test_failure_names_the_worst_element() -> None:
    failure = compare(snapshot({"y": X}), snapshot({"y": X.at[1, 2].add(1.0).at[0, 1].add(0.1)})).failure
    assert failure is not None
    assert (failure["path"], failure["index"], failure["shape"]) == ("output['y']", [1, 2], [2, 3])
    assert (float(failure["expected"]), float(failure["got"])) == (1.0, 2.0)


def test_doubles_are_compared_as_doubles_where_jax_has_them() -> None:
    with jax.enable_x64(True):
        assert compare(snapshot(1.0), snapshot(1.0 + 1e-7)).failure is not None
        assert compare(snapshot(1.0), snapshot(1.0 + 1e-12)).failure is None


def test_snapshot_survives_donation_and_mutation() -> None:
    buffer = np.zeros(3)
    before = snapshot(buffer)
    buffer[1] = 7
    assert compare(before, snapshot(buffer)).failure is not None
    donated = jnp.ones(3)
    donated.delete()
    assert [entry.kind for entry in snapshot(donated)] == ["deleted"]


def test_cycles_and_opaque_objects_end() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert [entry.kind for entry in snapshot(loop)] == ["container", "cycle"]
    assert compare(snapshot(Opaque()), snapshot(Opaque())).opaque == ("output",)


def test_weak_types_are_reported() -> None:
    assert compare(snapshot(jnp.asarray(1.0)), snapshot(jnp.float32(1.0))).weak_types == ("output",)


def test_arrays_inside_plain_objects_are_waited_for() -> None:
    assert len(arrays([X, Plain(X), "text"])) == 2


SAME_TEXT = {
    "equal": ("loss 0.5", "loss 0.5"),
    "rounding": ("loss 0.512345", "loss 0.512346"),
    "last printed digit": ("loss 0.512", "loss 0.513"),
    "coarse durations": ("epoch 3 took 1.2 s", "epoch 3 took 0.1 s"),
    "rates": ("12.3 it/s", "99.0 it/s"),
    "addresses": ("<f at 0x7f00aa>", "<f at 0x7f11bb>"),
    "width of arrays": ("[1. 2.]", "[ 1.0000001  2.       ]"),
    "nan": ("loss nan", "loss nan"),
}
OTHER_TEXT = {
    "number": ("loss 0.512", "loss 0.520"),
    "coarse number": ("loss 0.5", "loss 0.6"),
    "integer": ("step 10", "step 11"),
    "word": ("loss 0.5", "cost 0.5"),
    "missing token": ("loss 0.5 0.7", "loss 0.5"),
    "simulated time": ("t = 5.0 s", "t = 4.99 s"),
    "steps that look like seconds": ("5 steps", "6 steps"),
}


@pytest.mark.parametrize("name", SAME_TEXT)
def test_text_agrees(name: str) -> None:
    left, right = SAME_TEXT[name]
    line = [("stdout", left)]
    assert text.compare(line, line, [("stdout", right)], 1.0) is None


@pytest.mark.parametrize("name", OTHER_TEXT)
def test_text_differs(name: str) -> None:
    left, right = OTHER_TEXT[name]
    line = [("stdout", left)]
    failure = text.compare(line, line, [("stdout", right)], 1.0)
    assert failure is not None and failure["test"] == "effects"


@pytest.mark.parametrize(
    ("got", "line"),
    [
        ([("stdout", "a")], 2),
        ([("stdout", "a"), ("stdout", "b"), ("stdout", "c")], 3),
        ([("stdout", "b"), ("stdout", "a")], 1),
        ([("stdout", "a"), ("stderr", "b")], 2),
    ],
    ids=["lost line", "new line", "other order", "other channel"],
)
def test_lines_count(got: list[tuple[str, str]], line: int) -> None:
    expected = [("stdout", "a"), ("stdout", "b")]
    failure = text.compare(expected, expected, got, 1.0)
    assert failure is not None and failure["line"] == line


def test_tokens_that_vary_in_the_baseline_do_not_count() -> None:
    first, again = [("stdout", "id 17 loss 0.5")], [("stdout", "id 23 loss 0.5")]
    assert text.compare(first, again, [("stdout", "id 99 loss 0.5")], 1.0) is None
    assert text.compare(first, again, [("stdout", "id 99 loss 0.7")], 1.0) is not None
