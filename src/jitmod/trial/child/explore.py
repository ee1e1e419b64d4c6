"""The first process: does the site run, does the candidate agree, can the workload see it, which knobs are best?"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from . import compare, precision, sabotage, text
from .arms import Bench
from .channel import Channel
from .parity import Judged, Reference, new_warning, slack
from .program import Observation, Program, WorkloadError, describe
from .tuning import tune

_REPS = (0, 1)
_SITE_SHARE = 0.3  # of the time that is left, for the comparison of single executions,
_SITE_SECONDS, _SITE_CALLS = 5.0, 5.0  # and no more than this, and so many times a first call


class Stop(Exception):
    """Nothing more can be learnt; what was found is in the channel."""


def explore(bench: Bench, channel: Channel, deadline: float) -> None:
    """Everything that one process can find out about the job; each finding goes to `channel` at once."""
    try:
        reference = _baseline(bench, channel)
        chosen = tune(bench, channel, reference, deadline)
        channel.put("chosen", chosen)
        _check(bench, channel, reference, chosen, deadline)
    except Stop:
        return


def _baseline(bench: Bench, channel: Channel) -> Reference:
    channel.stage("baseline: loading")
    try:
        program, probes, clock = bench.load_watched_baseline(0)
    except WorkloadError as error:
        raise _problem(channel, "unproven", f"the workload cannot be run: {error}") from None
    except (Exception, SystemExit) as error:
        raise _problem(channel, "unproven", f"the workload cannot be loaded: {_said(describe(error))}") from None
    channel.put("takes_rep", program.takes_rep)
    channel.stage("baseline: first calls")
    first = _observe_all(program, clock.reset)
    mark = next(iter(probes.placed), None)
    # What a person changed may be a constant of the module; what a codemod rewrote has to run in the call.
    ran = probes.entered if bench.job["site"] else probes.entered + probes.loaded
    channel.put("baseline_execution", {"placed": len(probes.placed), "entered": sum(ran.values()),
                                       "trips": probes.trips.get(mark) if mark else None})  # fmt: skip
    raised = next((o.error for o in first if o.error), None)
    if raised:
        raise _problem(channel, "unproven", f"the workload raises in the baseline: {_said(raised)}")
    channel.put("wall_share", clock.share(first[-1].seconds))
    if not ran and (probes.placed or bench.job["site"]):
        raise Stop
    channel.stage("baseline: second calls")
    try:
        again = _observe_all(bench.load(bench.baseline))
    except (Exception, SystemExit) as error:
        why = f"the project cannot be loaded twice in one process: {_said(describe(error))}"
        raise _problem(channel, "unproven", why) from None
    reference = Reference(first, again, 1.0, bench.job["workload"]["metric_tolerance"])
    return _widened(channel, reference)


def _widened(channel: Channel, reference: Reference) -> Reference:
    """With bounds within whose half two runs of the baseline agree."""
    worst = 0.0
    for one, two in zip(reference.first, reference.again, strict=True):
        comparison = compare.compare(one.output, two.output, factor=compare.MAX_FACTOR / 2)
        if two.error or (comparison.failure and one.metric is None):
            raise _problem(channel, "unproven", "the workload's output changes from run to run; fix its seeds, "
                           "give a metric or take fewer steps")  # fmt: skip
        if not text.is_stable(one.lines, two.lines):
            raise _problem(channel, "unproven", "the lines that the workload prints change from run to run")
        worst = max(worst, comparison.error if math.isfinite(comparison.error) else 0.0)
    factor = max(1.0, 2 * worst)
    channel.put("noise", {"error_in_bounds": worst, "factor": factor})
    return Reference(reference.first, reference.again, factor, reference.metric_tolerance)


def _check(bench: Bench, channel: Channel, reference: Reference, chosen: int, deadline: float) -> None:
    channel.stage("candidate: loading")
    try:
        program, probes = bench.load_watched_candidate(chosen)
    except (Exception, SystemExit) as error:
        raise _problem(channel, "crashed", f"the candidate cannot be loaded: {_said(describe(error))}") from None
    channel.stage("candidate: first calls")
    observed = _observe_all(program)
    ran = probes.entered if bench.job["new_functions"] else probes.entered + probes.loaded
    missed = sorted(mark for mark in probes.placed if not ran[mark])
    channel.put("candidate_execution", {"entered": dict(ran), "missed": missed})
    raised = next((o.error for o in observed if o.error), None)
    if raised:
        channel.put("parity", {"failure": {"test": "exception", **raised}})
        return
    parity, allowed = _end_to_end(bench, channel, reference, observed, chosen)
    if parity["failure"] is None:
        longest = _SITE_SECONDS + _SITE_CALLS * reference.first[0].seconds
        until = time.monotonic() + min(longest, _SITE_SHARE * (deadline - time.monotonic()))
        parity |= _at_the_site(bench, channel, chosen, until)
    channel.put("parity", parity)
    if parity["failure"] is None and ran:
        _sabotage(bench, channel, reference, chosen, allowed)


def _end_to_end(
    bench: Bench, channel: Channel, reference: Reference, observed: tuple[Observation, ...], chosen: int
) -> tuple[dict[str, Any], compare.Slack | None]:
    """The comparison of whole calls, and wider bounds for what rounding alone changes, if that is needed."""
    facts: dict[str, Any] = {"reference": bench.job.get("reference", "baseline"), "calibrated": False, "chaotic": False}
    if facts["reference"] == "float64":
        channel.stage("baseline: in double precision")
        facts["distance"] = precision.distances(bench, reference, observed)
        reference = Reference(reference.first, reference.again, reference.factor, reference.metric_tolerance, False)
    judged = _judge_all(reference, observed)
    failure, allowed = _first_failure(judged), None
    if failure is not None and failure.get("path") != "metric":
        channel.stage("baseline: with rounding put in")
        rounding = _rounding(bench, reference, chosen)
        facts["rounding_in_bounds"] = {k: v if math.isfinite(v) else None for k, v in list(rounding.items())[:20]}
        allowed = slack(reference.factor, rounding)
        failure = _first_failure(_judge_all(reference, observed, allowed))
        if failure is None:
            facts["calibrated"] = True
            facts["chaotic"] = any(e > compare.MAX_FACTOR for j in judged for e in j.errors.values())
    if failure is None:
        failure = new_warning(reference.first + reference.again, observed)
    outputs = [j.output for j in judged]
    return {
        "failure": failure,
        "calls": len(observed),
        "error_in_bounds": max((o.error for o in outputs if math.isfinite(o.error)), default=0.0),
        "weak_types": sorted({path for o in outputs for path in o.weak_types}),
        "not_compared": sorted({path for o in outputs for path in o.opaque}),
        **facts,
    }, allowed


def _judge_all(
    reference: Reference, observed: tuple[Observation, ...], allowed: compare.Slack | None = None
) -> list[Judged]:
    return [reference.judge(rep, observation, allowed) for rep, observation in enumerate(observed)]


def _first_failure(judged: list[Judged]) -> dict[str, Any] | None:
    return next((one.failure for one in judged if one.failure), None)


def _rounding(bench: Bench, reference: Reference, chosen: int) -> dict[str, float]:
    """How far each part of the baseline's calls moves where its changed code is moved by units in the last place."""
    try:
        observed = _observe_all(bench.load_rounded_baseline(chosen))
    except (Exception, SystemExit):
        return {}
    if any(o.error for o in observed):
        return {}
    found: dict[str, float] = {}
    for one in _judge_all(reference, observed):
        for name, size in one.errors.items():
            found[name] = max(found.get(name, 0.0), size)
    return found


def _at_the_site(bench: Bench, channel: Channel, chosen: int, until: float) -> dict[str, Any]:
    channel.stage("candidate: single executions of the changed code")
    try:
        program, shadow = bench.load_shadowed_candidate(chosen, until)
        observed = program.observe(0)
    except (Exception, SystemExit) as error:
        return {"site": {"problem": _said(describe(error))}}
    found = shadow.findings
    site = found.document() | ({"problem": _said(observed.error)} if observed.error else {})
    return {"site": site} | ({"failure": found.failure} if found.failure is not None else {})


def _sabotage(bench: Bench, channel: Channel, reference: Reference, chosen: int, allowed: compare.Slack | None) -> None:
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
        failure = reference.judge(0, observed, allowed).failure
        results[name] = "seen" if failure else "unseen"
        if failure:
            break
    channel.put("sabotage", results)


def _observe_all(program: Program, before_last: Callable[[], None] | None = None) -> tuple[Observation, ...]:
    """The first call and a later one; with another `rep` where the workload takes it. A failure ends the series."""
    observed: list[Observation] = []
    for rep in _REPS:
        if before_last is not None and rep == _REPS[-1]:
            before_last()
        observed.append(program.observe(rep))
        if observed[-1].error:
            break
    return tuple(observed)


def _problem(channel: Channel, status: str, why: str) -> Stop:
    channel.put("problem", {"status": status, "why": why})
    return Stop()


def _said(error: dict[str, str]) -> str:
    at = f" ({error['at']})" if error["at"] else ""
    return f"{error['type']}: {error['text']}{at}"
