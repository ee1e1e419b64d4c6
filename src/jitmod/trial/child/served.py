"""An arm as the steps of a trial see it: opened for one question, then asked. All that it takes and gives is data,

so that it may as well live in a process of its own (`hosts.py`).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from . import precision, sabotage
from .arms import Bench
from .claims import Claims
from .compiles import compile_log
from .patches import Patches
from .predict import Predictions
from .probes import Probes
from .program import Observation, Program, describe
from .room import Peak
from .sampling import Arm, Sample
from .shadow import Shadow
from .share import Clock

_SPOILS: dict[str, Callable[[Any], Any]] = {"scaled": sabotage.scaled, "rolled": sabotage.rolled}


@dataclass(frozen=True)
class Opening:
    """Which arm, and what is put into it. `number` is the candidate's, `seconds` is what a shadow may take.

    `alone`: it has a process of its own. `cold`: nothing that was compiled before is used when it is loaded. `limit`:
    a compiled function of the candidate that needs more bytes than this does not run; 0: it runs, and is only asked.
    """

    how: str
    number: int = 0
    spoil: str = ""
    seconds: float = 0.0
    alone: bool = False
    cold: bool = False
    limit: int | None = None


BASELINE = Opening("baseline")


@dataclass(frozen=True)
class Seen:
    """What the probes saw: marks in order, how often each was entered, also while loading; the site's trip count.

    `functions` has the changed and new functions with how often they were entered, `unread` changed files that were
    never loaded; `opaque` are module globals that cannot be looked into.
    """

    placed: tuple[str, ...] = ()
    entered: dict[str, int] = field(default_factory=dict)
    loaded: dict[str, int] = field(default_factory=dict)
    trips: dict[str, int] = field(default_factory=dict)
    functions: dict[str, int] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    opaque: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pace:
    """How many calls make a sample, and the seconds of one."""

    batch: int
    seconds: float


class Served:
    """One arm in this process. Opening it raises whatever the project's code raises."""

    def __init__(self, bench: Bench, opening: Opening) -> None:
        self._probes = Probes()
        self._clock = Clock()
        self._shadow: Shadow | None = None
        self._arm: Arm | None = None
        self._claims: Claims | None = None
        self._touched: tuple[str, ...] = ()
        self._predictions = Predictions(opening.limit or None)
        self._loading: dict[str, float] = {}
        try:
            if opening.cold:
                jax.block_until_ready(jax.jit(jax.numpy.sin)(0.0))  # type: ignore[no-untyped-call]  # XLA's own start
                jax.clear_caches()  # type: ignore[no-untyped-call]
            compile_log().reset()
            self._program = self._load(bench, opening)
            seconds = self._program.world.seconds(bench.changed_files(opening.number))
            self._loading = {"seconds": seconds, **compile_log().seconds}
        except BaseException:
            self.__exit__()
            raise
        self.takes_rep = self._program.takes_rep

    def _load(self, bench: Bench, opening: Opening) -> Program:
        number = opening.number
        match opening.how:
            case "baseline":
                return bench.load(bench.baseline)
            case "candidate" if opening.limit is not None:
                return bench.load_predicting(number, self._predictions)
            case "candidate":
                return bench.load(bench.candidate(number))
            case "watched baseline":
                self._claims = Claims(bench.any_tree)
                program, self._probes, self._clock = bench.load_watched_baseline(number)
                return program
            case "watched candidate":
                self._claims = Claims(bench.any_tree, None if opening.alone else Patches(bench.any_tree))
                self._touched = tuple(one.path for one in bench.touched(number))
                program, self._probes = bench.load_watched_candidate(number)
                return program
            case "shadowed candidate":
                program, self._shadow = bench.load_shadowed_candidate(number, time.monotonic() + opening.seconds)
                return program
            case "scaled baseline":
                return bench.load_scaled_script(bench.baseline, bench.candidate(number))
            case "scaled candidate":
                return bench.load_scaled_script(bench.candidate(number), bench.baseline)
            case "rounded baseline":
                return bench.load_rounded_baseline(number)
            case "sabotaged candidate":
                return bench.load_sabotaged(number, _SPOILS[opening.spoil])
        raise ValueError(f"no such opening: {opening.how}")

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        if self._claims is not None:
            self._claims.stop()

    def observe(self, rep: int) -> Observation:
        return self._program.observe(rep)

    def observe_moved(self, rep: int, names: Sequence[str]) -> Observation:
        """A call with other values in its arguments and in the globals of these names."""
        return self._program.observe_moved(rep, names)

    def observe_set(self, rep: int, names: Sequence[str]) -> Observation:
        """A call after the globals of these names were set to other values."""
        return self._program.observe_set(rep, names)

    def first_call(self) -> tuple[Observation, dict[str, Any]]:
        """The first call, and what it took as a cold one."""
        try:
            given = self._program.arguments(0)
        except (Exception, SystemExit) as error:
            return Observation(error=describe(error)), {}
        log = compile_log()
        log.reset()
        observed = self._program.observe(0, given)
        return observed, {"seconds": observed.seconds, **log.seconds, "compilations": log.count}

    def in_double(self, rep: int) -> Observation:
        """The call in double precision."""
        return precision.in_double(self._program, rep)

    def claims(self) -> list[str]:
        """Why the project wants a process for itself, as far as a watched arm has shown it."""
        return self._claims.reasons() if self._claims is not None else []

    def seen(self) -> Seen:
        probes = self._probes
        ran = probes.entered + probes.loaded
        return Seen(
            tuple(sorted(probes.placed)),
            {mark: count for mark, count in probes.entered.items() if mark in probes.placed},
            {mark: count for mark, count in probes.loaded.items() if mark in probes.placed},
            dict(probes.trips),
            {mark: ran[mark] for mark in sorted(probes.functions)},
            tuple(path for path in self._touched if not self._program.world.executions([path])),
            tuple(self._program.opaque()),
        )

    def restart_clock(self) -> None:
        self._clock.reset()

    def share(self, seconds: float) -> float | None:
        """The wall share of the changed code in `seconds` since the clock was restarted."""
        return self._clock.share(seconds)

    def site(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """The findings of site parity, and its failure."""
        assert self._shadow is not None
        return self._shadow.findings.document(), self._shadow.findings.failure

    def predicted(self) -> int | None:
        """The most bytes that a compiled function of the candidate needs beside its arguments, as far as was asked.

        No more are asked from now on.
        """
        self._predictions.stop()
        return self._predictions.largest

    def grow(self, peak: Peak | None) -> int | None:
        """A call, and by how many bytes the memory of this process grows in it. Raises what project code raises."""
        program = self._program
        given = program.arguments(0)
        if peak is not None:
            peak.restart()
        with program.world:
            program.call(given, 0)
        return peak.growth if peak is not None else None

    def prepare(self, mutates: bool, changed: Sequence[str]) -> None:
        """Be ready to be timed."""
        self._arm = Arm(self._program, mutates, changed)

    def warm_up(self) -> Pace:
        arm = self._timed
        arm.warm_up()
        return Pace(arm.batch, arm.seconds)

    def settle(self) -> None:
        """Nothing that exists now is looked at by the collector while samples are taken."""
        gc.collect()
        gc.freeze()

    def sample(self, batch: int, rep: int) -> Sample:
        return self._timed.sample(batch, rep)

    def cold(self) -> dict[str, Any]:
        return self._timed.cold()

    def novelty(self) -> dict[str, float] | None:
        return self._timed.novelty()

    def loading(self) -> dict[str, float]:
        """Seconds that the changed files took when they were loaded, and the compilations meanwhile, by phase."""
        return self._loading

    @property
    def _timed(self) -> Arm:
        assert self._arm is not None, "prepare first"
        return self._arm
