"""Arguments made from annotations: consistent sizes, no guessed numbers, and a refusal that names the parameter."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jitmod.trial.child.synthesis import CannotMake, calls

# A file of its own, because the linter takes the axes for names.
_FILE = Path(__file__).parents[1] / "fixtures" / "recording" / "annotated.py"
_SPEC = importlib.util.spec_from_file_location("annotated", _FILE)
assert _SPEC is not None and _SPEC.loader is not None
annotated: Any = importlib.util.module_from_spec(_SPEC)
sys.modules["annotated"] = annotated
_SPEC.loader.exec_module(annotated)


def _outputs(function: Any, receiver: type | None = None) -> list[Any]:
    return [function(*positional, **named) for positional, named in calls(function, receiver)]


def test_a_name_of_an_axis_has_one_size_and_no_other_has_it() -> None:
    xs, ys, w, v = _outputs(annotated.sizes)[0]
    n, d = xs[0], ys[1]
    assert (xs, ys, w, v) == ((n, 3), (n, d), (d, n + 1), (d,)) and n != d and n >= 2


def test_dtypes_and_keys() -> None:
    a, b, c, k, u, s, scalar = _outputs(annotated.kinds)[0]
    assert (a, b, u) == (jnp.int32, jnp.bool_, jnp.uint8) and isinstance(c, np.ndarray) and s == scalar == ()
    assert jnp.issubdtype(k.dtype, jax.dtypes.prng_key) and k.ndim == 1


def test_containers_defaults_and_options() -> None:
    xs, one, two, many, maybe, last, steps = _outputs(annotated.containers)[0]
    assert set(xs) == {one} == {last} and len(xs) == many >= 2 and maybe.shape == two != one and steps == 7


def test_calls_differ_in_numbers_but_not_in_sizes() -> None:
    made = calls(annotated.sizes, None)
    shapes = {tuple(x.shape for x in named.values()) for _, named in made}
    assert len(made) >= 3 and len(shapes) == 1
    assert not jnp.array_equal(made[0][1]["xs"], made[1][1]["xs"])


def test_a_module_is_made_by_its_constructor_with_the_same_axes() -> None:
    scale, x = _outputs(annotated.module)[0]
    assert scale == x
    own, given = _outputs(annotated.Net.both, annotated.Net)[0]
    assert own.shape == given.shape


def test_annotations_as_text_and_jitted_functions() -> None:
    jitted = eqx.filter_jit(annotated.sizes)
    assert _outputs(jitted)[0] == _outputs(annotated.sizes)[0]


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("unknown", "cfg"), ("number", "steps"), ("bare", "y"), ("rankless", "x"), ("library", "in_features"),
        ("broken", "x"),
    ],
)
def test_what_cannot_be_made_is_named(function: str, name: str) -> None:
    with pytest.raises(CannotMake, match=f"`{name}`"):
        calls(getattr(annotated, function), None)
