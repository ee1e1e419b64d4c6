"""Results that are one object, or lie in the same memory, in one arm only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from jitmod.trial.child import parity
from jitmod.trial.child.program import Observation
from jitmod.trial.child.sharing import shared

ROWS = np.ones((4, 3))


def _frozen() -> np.ndarray[Any, Any]:
    array = np.ones(3)
    array.flags.writeable = False
    return array


def _twice(value: Any) -> list[Any]:
    return [value, value]


Makes = Callable[[Any], Any]
DIFFERENT: dict[str, tuple[Makes, Makes]] = {
    "one array twice": (lambda x: [x.copy(), x.copy()], lambda x: _twice(x.copy())),
    "two arrays of one": (lambda x: _twice(x.copy()), lambda x: [x.copy(), x.copy()]),
    "a view": (lambda x: {"a": x[1:].copy(), "b": x.copy()}, lambda x: (lambda y: {"a": y[1:], "b": y})(x.copy())),
    "the argument": (lambda x: (x.copy(),), lambda x: (x,)),
    "a part of the argument": (lambda x: x[::2].copy(), lambda x: x[::2]),
    "one list twice": (lambda x: [[1] for _ in range(2)], lambda x: _twice([1])),
    "one dictionary twice": (lambda x: [{}, {}], lambda x: _twice({})),
    "read-only": (lambda x: np.ones(3), lambda x: _frozen()),
}
EQUAL: dict[str, tuple[Makes, Makes]] = {
    "one list becomes two": (lambda x: _twice([1]), lambda x: [[1], [1]]),
    "rows of one array": (lambda x: [np.ones(3) for _ in range(4)], lambda x: list(np.ones((4, 3)))),
    "interleaved": (lambda x: [np.ones(2), np.ones(2)], lambda x: (lambda y: [y[::2], y[1::2]])(np.ones(4))),
    "what cannot be changed": (lambda x: [jnp.ones(2), jnp.ones(2)], lambda x: _twice(jnp.ones(2))),
    "a copy that can be written to": (lambda x: _frozen(), lambda x: np.ones(3)),
    "views of what is read-only": (lambda x: [_frozen(), _frozen()], lambda x: _twice(_frozen())),
    "the same in both": (lambda x: [x, x], lambda x: [x, x]),
}


@pytest.mark.parametrize("name", [*DIFFERENT, *EQUAL])
def test_sharing(name: str) -> None:
    observed = []
    for made in (DIFFERENT | EQUAL)[name]:
        given = np.arange(6.0)
        observed.append(Observation(shared=shared(made(given), (given,))))
    expected, got = observed
    failure = parity.Reference((expected,), (expected,), 1.0, None).judge(0, got).failure
    assert (failure is not None and failure["test"] == "structure") is (name in DIFFERENT)


def test_what_varies_from_run_to_run_does_not_count() -> None:
    array = np.ones(3)
    calls = [Observation(shared=shared(value, ())) for value in (_twice(array), [array], [array])]
    assert parity.Reference((calls[0],), (calls[1],), 1.0, None).judge(0, calls[2]).failure is None


def test_where_a_shared_part_is() -> None:
    found = shared({"a": [ROWS], "b": ROWS[1]}, (ROWS.T,))
    assert {(one.path, one.other) for one in found} == {
        ("output['a'][0]", "arguments[0]"),
        ("output['b']", "arguments[0]"),
        ("output['b']", "output['a'][0]"),
    }
