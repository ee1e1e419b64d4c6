"""Times of one arm: cold calls with their compilations, and batches of warm ones."""

from __future__ import annotations

import math
import resource
import statistics
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import jax

from . import sabotage
from .compiles import compile_log
from .program import Program

_SAMPLE = 5e-3
_MAX_BATCH = 1000
_MAX_FRESH = 32
_WARM_UPS = 3
_NOVEL, _NOVEL_SLOW = 7, 3  # calls of either kind
_SLOW = 0.2  # seconds from which a call that was no faster than the last one counts as warm


@dataclass(frozen=True)
class Sample:
    """Seconds of one call, as the mean of a batch; page faults of the batch; calls made, timed or not.

    `scripts` counts how often those calls ran the body of a changed file, `compiled` has the compilations by function.
    """

    seconds: float
    faults: int
    calls: int
    scripts: int
    compiled: dict[str, int] = field(default_factory=dict)


class Arm:
    """A program that is called again and again. Arguments are shared by all calls unless a call changes them."""

    def __init__(self, program: Program, mutates: bool, changed: Collection[str] = ()) -> None:
        self._changed = changed
        self.program = program
        self.batch = 1
        self.seconds = math.inf  # of a warm call, roughly
        self._shared = None if mutates else program.arguments(0)

    def warm_up(self) -> None:
        """Call until nothing is compiled any more, then choose how many calls make a sample of 5 ms."""
        seconds = math.inf
        for rep in range(_WARM_UPS):
            before, seconds = seconds, min(seconds, self.sample(1, rep).seconds)
            if seconds > _SLOW and seconds > 0.8 * before:
                break
        limit = _MAX_BATCH if self._shared is not None else _MAX_FRESH
        self.seconds = seconds
        self.batch = max(1, min(limit, math.ceil(_SAMPLE / max(seconds, 1e-9))))

    def sample(self, batch: int, rep: int) -> Sample:
        """Time `batch` calls; a workload that takes `rep` gets `rep`, `rep + 1`, ... and `rep - 1` before, untimed."""
        if self._shared is not None:
            arguments = [self._shared] * batch
        else:
            arguments = [self.program.arguments(rep + number) for number in range(batch)]
        call, world, log = self.program.call, self.program.world, compile_log()
        log.reset()
        scripts = world.executions(self._changed)
        with world:
            ahead = batch > 1 and self._shared is not None
            if ahead:  # the first call after the other arm's is slower than its like
                call(arguments[0], rep - 1)
            faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            start = time.perf_counter()
            for number, given in enumerate(arguments):
                call(given, rep + number)
            seconds = time.perf_counter() - start
            faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
        ran = world.executions(self._changed) - scripts
        return Sample(seconds / batch, faults, batch + ahead, ran, dict(log.compiled))

    def novelty(self) -> dict[str, float] | None:
        """Seconds of a call with values that it has had before, and of one with others.

        The others are moved by rounding: as good as the first ones, and unknown. None without arguments, and where the
        workload does not take such ones.
        """
        try:
            return self._novelty() if self.program.arguments(0) else None
        except Exception:
            return None

    def _novelty(self) -> dict[str, float]:
        seconds: dict[str, list[float]] = {"known": [], "new": []}
        for _ in range(_NOVEL_SLOW if self.seconds > _SLOW else _NOVEL):
            for name, taken in seconds.items():
                given = self._shared if self._shared is not None else self.program.arguments(0)
                if name == "new":
                    given = sabotage.renewed(given)
                    jax.block_until_ready(given)  # type: ignore[no-untyped-call]
                with self.program.world:
                    start = time.perf_counter()
                    self.program.call(given, 0)
                    taken.append(time.perf_counter() - start)
        return {name: statistics.median(taken) for name, taken in seconds.items()}

    def cold(self) -> dict[str, Any]:
        """A call without anything compiled: seconds by phase, and the number of compilations."""
        arguments = self._shared if self._shared is not None else self.program.arguments(0)
        log = compile_log()
        jax.clear_caches()  # type: ignore[no-untyped-call]
        log.reset()
        with self.program.world:
            start = time.perf_counter()
            self.program.call(arguments, 0)
            seconds = time.perf_counter() - start
        return {"seconds": seconds, **log.seconds, "compilations": log.count}
