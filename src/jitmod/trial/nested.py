"""Nested jits, measured: how long jax takes to compile one jit around functions that have their own, or do not.

The example is that of https://github.com/jax-ml/jax/discussions/7995: a function of 512 operations, called again and
again. What it shows depends on the version of jax, so that it is run and not quoted.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from typing import Any

CALLS = (1, 2, 4, 16)
_ROUNDS = 3
_TERMS = 256


@dataclass(frozen=True)
class Stages:
    """Seconds of each stage, medians of a few rounds, and of one call of what was compiled."""

    trace: float
    lower: float
    compile: float
    call: float

    @property
    def cold(self) -> float:
        return self.trace + self.lower + self.compile


@dataclass(frozen=True)
class Nested:
    """One jit that calls an inner function `calls` times, whose own jit is `kept` or `dropped`."""

    calls: int
    kept: Stages
    dropped: Stages


def nested_jits(calls: tuple[int, ...] = CALLS, terms: int = _TERMS, rounds: int = _ROUNDS) -> Iterator[Nested]:
    """Measure the example in this process, kept and dropped by turns."""
    for count in calls:
        found: dict[bool, list[Stages]] = {True: [], False: []}
        for _ in range(rounds + 1):
            for keeps in (True, False):
                found[keeps].append(_stages(count, terms, keeps))
        yield Nested(count, *(_median(found[keeps][1:]) for keeps in (True, False)))  # the first round warms up


def as_text(measured: Iterator[Nested]) -> Iterator[str]:
    """The lines of a table, in milliseconds, and what follows from it."""
    import jax

    head = f"jax {jax.__version__} on {jax.default_backend()}: one jit that calls a function of {2 * _TERMS} operations"
    yield f"{head} (ms)"
    yield f"{'calls':>5}  {'inner jit':<9}  {'trace':>8}  {'lower':>8}  {'compile':>8}  {'together':>8}  {'a call':>8}"
    least = None
    for one in measured:
        for name, stages in (("kept", one.kept), ("dropped", one.dropped)):
            times = (stages.trace, stages.lower, stages.compile, stages.cold, stages.call)
            yield f"{one.calls:>5}  {name:<9}  " + "  ".join(f"{1e3 * seconds:>8.3g}" for seconds in times)
        ratio = one.dropped.cold / one.kept.cold
        yield f"       keeping it makes the first call {ratio:.2g}x as fast"
        least = one.calls if least is None and ratio > 1.1 else least
    yield f"here an inner jit pays from {least} calls on" if least is not None else "here an inner jit never pays"


def _stages(calls: int, terms: int, keeps: bool) -> Stages:
    import jax

    def inner(x: Any) -> Any:
        return sum(i * x for i in range(terms))

    function: Callable[[Any], Any] = jax.jit(inner) if keeps else inner

    def outer(x: Any) -> Any:
        return sum(function(x) for _ in range(calls))

    x = jax.numpy.asarray(3.14)
    start = time.perf_counter()
    traced = jax.jit(outer).trace(x)
    middle = time.perf_counter()
    lowered = traced.lower()
    end = time.perf_counter()
    compiled = lowered.compile()
    done = time.perf_counter()
    compiled(x).block_until_ready()
    called = time.perf_counter()
    compiled(x).block_until_ready()
    return Stages(middle - start, end - middle, done - end, time.perf_counter() - called)


def _median(found: list[Stages]) -> Stages:
    return Stages(*(statistics.median(times) for times in zip(*map(astuple, found), strict=True)))
