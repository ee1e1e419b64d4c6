"""The first process: does the site run, does the candidate agree, can the workload see it, which knobs are best?"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import compare, sabotage, text
from .arms import Bench
from .channel import Channel
from .program import Observation, Program, WorkloadError, describe
from .sampling import Arm

_REPS = (0, 1)
_MAX_TUNED = 6
_GAIN = 1.05


class Stop(Exception):
    """Nothing more can be learnt; what was found is in the channel."""


@dataclass(frozen=True)
class Reference:
    """The baseline's calls, twice each, and by how much the bounds widen because they differ."""

    first: tuple[Observation, ...]
    again: tuple[Observation, ...]
    factor: float
    metric_tolerance: float | None

    def parity(self, rep: int, got: Observation) -> tuple[dict[str, Any] | None, compare.Comparison]:
        """The failure of a candidate's call, or None; and the comparison of its output."""
        expected = self.first[rep]
        judged_by_metric = expected.metric is not None
        output = compare.compare(expected.output, got.output, self.factor, values=not judged_by_metric)
        failure = output.failure
        if failure is None and judged_by_metric:
            failure = _metric_failure(expected, got, self.metric_tolerance or 1e-4)
        if failure is None:
            arguments = compare.compare(expected.arguments, got.arguments, self.factor)
            failure = arguments.failure and {**arguments.failure, "test": "effects"}
        if failure is None:
            failure = text.compare(expected.lines, self.again[rep].lines, got.lines, self.factor)
        return failure and {**failure, "call": rep + 1}, output


def explore(bench: Bench, channel: Channel, deadline: float) -> None:
    """Everything that one process can find out about the job; each finding goes to `channel` at once."""
    try:
        reference = _baseline(bench, channel)
        chosen = _tune(bench, channel, reference, deadline)
        channel.put("chosen", chosen)
        _check(bench, channel, reference, chosen)
    except Stop:
        return


def _baseline(bench: Bench, channel: Channel) -> Reference:
    channel.stage("baseline: loading")
    try:
        program, probes = bench.load_watched_baseline(0)
    except WorkloadError as error:
        raise _problem(channel, "unproven", f"the workload cannot be run: {error}") from None
    except (Exception, SystemExit) as error:
        raise _problem(channel, "unproven", f"the workload cannot be loaded: {_said(describe(error))}") from None
    channel.put("takes_rep", program.takes_rep)
    channel.stage("baseline: first calls")
    first = _observe_all(program)
    mark = next(iter(probes.placed), None)
    channel.put("baseline_execution", {"placed": len(probes.placed), "entered": sum(probes.entered.values()),
                                       "trips": probes.trips.get(mark) if mark else None})  # fmt: skip
    raised = next((o.error for o in first if o.error), None)
    if raised:
        raise _problem(channel, "unproven", f"the workload raises in the baseline: {_said(raised)}")
    if not probes.entered and (probes.placed or bench.job["site"]):
        raise Stop
    channel.stage("baseline: second calls")
    try:
        again = _observe_all(bench.load(bench.baseline))
    except (Exception, SystemExit) as error:
        why = f"the project cannot be loaded twice in one process: {_said(describe(error))}"
        raise _problem(channel, "unproven", why) from None
    return Reference(first, again, _noise(channel, first, again), bench.job["workload"]["metric_tolerance"])


def _noise(channel: Channel, first: tuple[Observation, ...], again: tuple[Observation, ...]) -> float:
    """The factor for the bounds: two runs of the baseline must agree within half of them."""
    worst = 0.0
    for one, two in zip(first, again, strict=True):
        comparison = compare.compare(one.output, two.output, factor=compare.MAX_FACTOR / 2)
        if two.error or (comparison.failure and one.metric is None):
            raise _problem(channel, "unproven", "the workload's output changes from run to run; fix its seeds, "
                           "give a metric or take fewer steps")  # fmt: skip
        if not text.is_stable(one.lines, two.lines):
            raise _problem(channel, "unproven", "the lines that the workload prints change from run to run")
        worst = max(worst, comparison.error if math.isfinite(comparison.error) else 0.0)
    factor = max(1.0, 2 * worst)
    channel.put("noise", {"error_in_bounds": worst, "factor": factor})
    return factor


def _tune(bench: Bench, channel: Channel, reference: Reference, deadline: float) -> int:
    """The number of the candidate to judge: best form at default knobs first, then its knobs by hill climbing."""
    candidates = bench.job["candidates"]
    if len(candidates) == 1:
        return 0
    clock = time.monotonic() + 0.4 * (deadline - time.monotonic())
    seconds: dict[int, float] = {}

    def measure(number: int) -> float:
        if number not in seconds and len(seconds) < _MAX_TUNED and (not seconds or time.monotonic() < clock):
            channel.stage(f"candidate {number + 1}: tuning")
            seconds[number], failure = _quick(bench, reference, number)
            entry = {k: candidates[number][k] for k in ("form", "knobs")}
            timed = seconds[number] if failure is None else None
            channel.put(f"tuning {number}", {**entry, "candidate": number, "seconds": timed, "failure": failure})
        return seconds.get(number, math.inf)

    defaults = [number for number, c in enumerate(candidates) if c["default"]]
    best = defaults[0]
    for number in defaults:
        if measure(number) * _GAIN < measure(best):
            best = number
    for knob in candidates[best]["knobs"]:
        best = _climb(candidates, best, knob, measure)
    return best


def _climb(candidates: list[dict[str, Any]], best: int, knob: str, measure: Callable[[int], float]) -> int:
    """Up from the default until a step gains less than 5 %; down only where the first step up did not gain."""

    def others(number: int) -> tuple[Any, ...]:
        c = candidates[number]
        return c["variant"], {k: v for k, v in c["knobs"].items() if k != knob}

    line = sorted((n for n in range(len(candidates)) if others(n) == others(best)),
                  key=lambda n: candidates[n]["knobs"][knob])  # fmt: skip
    start = best
    for step in (1, -1):
        if best != start:
            break
        while 0 <= line.index(best) + step < len(line):
            following = line[line.index(best) + step]
            if not measure(following) * _GAIN < measure(best):
                break
            best = following
    return best


def _quick(bench: Bench, reference: Reference, number: int) -> tuple[float, dict[str, Any] | None]:
    """Seconds of a warm call, and how its first call failed, if it did."""
    try:
        program = bench.load(bench.candidate(number))
        observed = program.observe(0)
        if observed.error:
            return math.inf, {"test": "exception", **observed.error}
        failure, _ = reference.parity(0, observed)
        if failure:
            return math.inf, failure
        arm = Arm(program, observed.mutates)
        arm.warm_up()
        return statistics.median(arm.sample(arm.batch, rep).seconds for rep in range(2, 5)), None
    except (Exception, SystemExit) as error:
        return math.inf, {"test": "exception", **describe(error)}


def _check(bench: Bench, channel: Channel, reference: Reference, chosen: int) -> None:
    channel.stage("candidate: loading")
    try:
        program, probes = bench.load_watched_candidate(chosen)
    except (Exception, SystemExit) as error:
        raise _problem(channel, "crashed", f"the candidate cannot be loaded: {_said(describe(error))}") from None
    channel.stage("candidate: first calls")
    observed = _observe_all(program)
    missed = sorted(mark for mark in probes.placed if not probes.entered[mark])
    channel.put("candidate_execution", {"entered": dict(probes.entered), "missed": missed})
    raised = next((o.error for o in observed if o.error), None)
    if raised:
        channel.put("parity", {"failure": {"test": "exception", **raised}})
        return
    failures: list[dict[str, Any]] = []
    outputs: list[compare.Comparison] = []
    for rep, observation in enumerate(observed):
        failure, output = reference.parity(rep, observation)
        outputs.append(output)
        failures += [failure] if failure else []
    if not failures:
        failures += _warning_failure(reference.first + reference.again, observed)
    channel.put("parity", {
        "failure": failures[0] if failures else None,
        "calls": len(observed),
        "error_in_bounds": max((o.error for o in outputs if math.isfinite(o.error)), default=0.0),
        "weak_types": sorted({path for o in outputs for path in o.weak_types}),
        "not_compared": sorted({path for o in outputs for path in o.opaque}),
    })  # fmt: skip
    if not failures and probes.entered:
        _sabotage(bench, channel, reference, chosen)


def _sabotage(bench: Bench, channel: Channel, reference: Reference, chosen: int) -> None:
    """Spoil the candidate until parity notices. `seen` is what is hoped for."""
    results: dict[str, str] = {}
    for name, spoil in (("scaled", sabotage.scaled), ("rolled", sabotage.rolled)):
        channel.stage(f"candidate: sabotage ({name})")
        try:
            observed = bench.load_sabotaged(chosen, spoil).observe(0)
        except (Exception, SystemExit):
            results[name] = "raised"
            continue
        if observed.error:
            results[name] = "raised"
            continue
        failure, _ = reference.parity(0, observed)
        results[name] = "seen" if failure else "unseen"
        if failure:
            break
    channel.put("sabotage", results)


def _observe_all(program: Program) -> tuple[Observation, ...]:
    """The first call and a later one; with another `rep` where the workload takes it. A failure ends the series."""
    observed: list[Observation] = []
    for rep in _REPS:
        observed.append(program.observe(rep))
        if observed[-1].error:
            break
    return tuple(observed)


def _metric_failure(expected: Observation, got: Observation, tolerance: float) -> dict[str, Any] | None:
    a, b = expected.metric, got.metric
    assert a is not None and b is not None
    if abs(a - b) <= tolerance * abs(a) or (math.isnan(a) and math.isnan(b)):
        return None
    return {"test": "values", "path": "metric", "expected": str(a), "got": str(b), "tolerance": tolerance}


def _warning_failure(expected: tuple[Observation, ...], got: tuple[Observation, ...]) -> list[dict[str, Any]]:
    """Warnings of libraries come once a trace in one arm and once a step in the other: only new kinds count."""
    known = set(itertools.chain.from_iterable(o.library_warnings for o in expected))
    new = sorted(set(itertools.chain.from_iterable(o.library_warnings for o in got)) - known)
    return [{"test": "effects", "expected": "no such warning", "got": f"{c}: {t}"[:300]} for c, t in new[:1]]


def _problem(channel: Channel, status: str, why: str) -> Stop:
    channel.put("problem", {"status": status, "why": why})
    return Stop()


def _said(error: dict[str, str]) -> str:
    at = f" ({error['at']})" if error["at"] else ""
    return f"{error['type']}: {error['text']}{at}"
