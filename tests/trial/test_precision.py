"""Double precision as the reference, and what a call leaves in module globals."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest

from jitmod.model import Status
from jitmod.trial import gate
from jitmod.trial.child import module_state, precision
from jitmod.trial.child.parity import Reference
from jitmod.trial.child.program import Observation
from jitmod.trial.child.snapshot import snapshot

from .planted.bench import Trials, trials

__all__ = ["trials"]

X = jnp.linspace(0.1, 1.0, 4)

SUMS = """\
import jax
import jax.numpy as jnp

WEIGHTS = jnp.linspace(0.5, 1.5, 64)


def total(xs):
    found = jnp.zeros(())
    for number in range(64):
        found = found + xs[number] * WEIGHTS[number]
    return found
"""
LOOP = SUMS[SUMS.index("    found =") :]
BENCH = """\
import jax

from items import total


def setup():
    return (jax.random.normal(jax.random.key(0), (64,)),)


def run(xs):
    return total(xs)
"""
ARMS = {
    "another order of the sum": ("    return jnp.sum(xs * WEIGHTS)\n", None),
    "half precision inside": (
        "    return jnp.sum((xs * WEIGHTS).astype(jnp.bfloat16)).astype(jnp.float32)\n",
        "values",
    ),
}


@pytest.mark.parametrize("name", ARMS)
def test_distance_from_double_precision_decides(name: str, trials: Trials) -> None:
    body, test = ARMS[name]
    trials.write({"items.py": SUMS, "bench.py": BENCH})
    job, found = trials.explore({"items.py": SUMS.replace(LOOP, body)}, reference="float64")
    assert 0.0 < found["parity"]["distance"][0]["baseline"] < 1e-5
    verdict = gate.screen(job, found)
    assert (verdict and verdict.test) == test, verdict


class Counted:
    number = 0

    def bump(self) -> None:
        self.number += 1


EXACT = {
    "whole numbers": ([jnp.arange(3), 2.0], [jnp.arange(3) + 1, 2.0], "values"),
    "text": (["a", X], ["b", X], "values"),
    "places of NaN": (X, X.at[0].set(jnp.nan), "values"),
    "missing leaf": ([X, X], [X], "structure"),
    "rounding": (X, X * (1 + 1e-3), None),
}


@pytest.mark.parametrize("name", EXACT)
def test_no_precision_excuses_other(name: str) -> None:
    one, other, test = EXACT[name]
    calls = [Observation(output=snapshot(value)) for value in (one, other)]
    reference = Reference((calls[0],), (calls[0],), 1.0, None, judges_values=False)
    (found,) = precision.distances(reference, calls[1:], lambda rep: calls[0])
    verdict = gate._far(found)
    assert verdict is not None and verdict.test == (test or "values")
    assert ("failure" in found) == (test is not None)


@pytest.mark.parametrize("moved", [2.0, 1.0])
def test_distance_of_python_numbers(moved: float) -> None:
    assert precision._distance(snapshot([1.0]), snapshot([moved])) == moved - 1


def test_globals_that_a_call_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("m")
    vars(module).update(counts=[1], weights=jnp.ones(2), cache={}, kept=(1, 2), function=len)
    vars(module).update(text="a", later=deque(), draws=np.random.default_rng(0), mixed={"f": len, "n": 0})
    monkeypatch.setattr(Counted, "number", 0)
    monkeypatch.setattr(Counted, "__module__", "m")
    vars(module)["Counted"] = Counted
    known = module_state.state({"m": module})
    assert known.keys() == {
        "m.counts", "m.weights", "m.cache", "m.kept", "m.text", "m.later", "m.draws", "m.mixed", "m.Counted.number",
    }  # fmt: skip
    assert module_state.changed(known, {"m": module}) == {}
    vars(module)["counts"].append(2)
    vars(module)["text"] = "b"
    vars(module)["later"].append(1)
    vars(module)["draws"].normal()
    vars(module)["mixed"]["n"] = 1
    Counted.number = 1
    vars(module)["cache"]["f"] = len
    vars(module).update(weights=jnp.ones(2) * 2, new=3)
    assert module_state.changed(known, {"m": module}).keys() == {
        "m.counts", "m.weights", "m.text", "m.later", "m.draws", "m.mixed", "m.Counted.number",
    }  # fmt: skip


def counting() -> Callable[[], int]:
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return count

    return step


def test_globals_that_are_changed_by_way_of_functions() -> None:
    module, counted, items = types.ModuleType("m"), Counted(), [1]
    step = counting()
    step.__module__ = "m"
    vars(module).update(step=step, bump=counted.bump, append=items.append, static=dict.fromkeys, length=len)
    known = module_state.state({"m": module})
    assert known.keys() == {"m.step.<count>", "m.bump", "m.append"}
    assert module_state.changed(known, {"m": module}) == {}
    for name, given in (("step", ()), ("bump", ()), ("append", (2,))):
        vars(module)[name](*given)
    assert module_state.changed(known, {"m": module}).keys() == known.keys()


@pytest.mark.parametrize(
    ("expected", "got", "said"),
    [([1], [1], None), ([1], [2], "expected 1, got 2"), ([1], None, "left alone"), (None, [1], "changed by the call")],
)
def test_differences_of_globals(expected: list[int] | None, got: list[int] | None, said: str | None) -> None:
    sides = [{} if value is None else {"m.x": snapshot(value, "m.x")} for value in (expected, got)]
    failure, errors = module_state.difference(sides[0], sides[0], sides[1], {"m.x"}, 1.0)
    assert (failure is None) == (said is None) == (not errors)
    if expected != got:  # where two runs of the baseline differ in that, it says nothing
        assert module_state.difference(sides[0], sides[1], sides[1], {"m.x"}, 1.0) == (None, {})
    if failure is not None:
        assert failure["test"] == "effects" and said in f"expected {failure['expected']}, got {failure['got']}"


MEANS = """\
import json

import jax
import jax.numpy as jnp


def means(w, xs):
    total = 0.0
    for x in xs:
        y = jnp.sum(jnp.exp(jnp.sin(w @ x)))
        total += float(y)
    print(total / 7, len(xs) / 7)
    with open("means.json", "w") as file:
        json.dump({"mean": total / 7, "share": len(xs) / 7}, file)
    return len(xs)
"""
MEANS_BENCH = """\
import jax

from items import means


def setup():
    one, two = jax.random.split(jax.random.key(0))
    return jax.random.normal(one, (257, 64)), list(jax.random.normal(two, (6, 64)))


def run(w, xs):
    return means(w, xs)
"""
MEANS_LOOP = MEANS[MEANS.index("    total = 0.0") : MEANS.index("    print")]
TOGETHER = MEANS.replace(
    MEANS_LOOP, "    ys = jnp.exp(jnp.sin(jnp.stack(xs) @ w.T))\n    total = float(jnp.sum(jnp.sum(ys, 0)[::-1]))\n"
)


@pytest.mark.parametrize(
    ("candidate", "path"),
    [
        (TOGETHER, None),
        (TOGETHER.replace("len(xs) / 7)", "len(xs) / 7 * 1.00002)"), "text"),
        (MEANS.replace("len(xs) / 7}", "len(xs) / 7 * 1.00002}"), "file means.json"),
    ],
    ids=["rounding", "another number in the text", "another number in the file"],
)
def test_doubles_that_are_printed(candidate: str, path: str | None, trials: Trials) -> None:
    trials.write({"items.py": MEANS, "bench.py": MEANS_BENCH})
    job, found = trials.explore({"items.py": candidate})
    verdict = gate.screen(job, found)
    if path is None:
        assert verdict is None, verdict
        return
    assert verdict is not None and (verdict.status, verdict.test) == (Status.REJECTED, "effects"), verdict
    assert (path if path != "text" else "line 1") in verdict.why
