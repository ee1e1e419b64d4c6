"""The first process: does the site run, does the candidate agree, can the workload see it, which knobs are best?"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import compare, precision, targets, text
from .channel import Channel
from .hosts import Arm, Host
from .memory import is_memory
from .outlived import frozen, outlives
from .parity import Judged, Reference, new_warning, slack
from .program import REFUSED, Observation, WorkloadError, describe
from .scripts import compare_scaled
from .served import BASELINE, Opening, Seen
from .tuning import tune

_REPS = (0, 1)
_DRAWN_SHARE = 0.2  # of the time that is left, for calls with further values of `rep`
_SITE_SHARE = 0.3  # of the time that is left, for the comparison of single executions,
_SITE_SECONDS, _SITE_CALLS = 5.0, 5.0  # and no more than this, and so many times a first call


class Stop(Exception):
    """Nothing more can be learnt; what was found is in the channel."""


def explore(host: Host, channel: Channel, deadline: float, ruled_out: Mapping[str, str]) -> None:
    """Everything that one process can find out about the job; each finding goes to `channel` at once.

    `ruled_out` are candidates that ended an earlier process.
    """
    try:
        reference = _baseline(host, channel, deadline)
        chosen = tune(host, channel, reference, deadline, ruled_out)
        if chosen is None:
            channel.put("parity", {"failure": {"test": "memory"}})
            return
        channel.put("chosen", chosen)
        _check(host, channel, reference, chosen, deadline)
    except Stop:
        return


def _baseline(host: Host, channel: Channel, deadline: float) -> Reference:
    first = _first_calls(host, channel, deadline)
    channel.stage("baseline: second calls")
    try:
        with host.open(BASELINE) as arm:
            again = _observe_all(arm, [call.rep for call in first])
    except (Exception, SystemExit) as error:
        raise _second(host, channel, describe(error)) from None
    raised = next((o.error for o in again if o.error), None)
    if raised:
        raise _second(host, channel, raised)
    reference = Reference(first, again, 1.0, host.bench.job["workload"]["metric_tolerance"])
    return _widened(channel, reference)


def _first_calls(host: Host, channel: Channel, deadline: float) -> tuple[Observation, ...]:
    """The baseline's calls, with probes at the site. Stops where they show that nothing can be learnt here."""
    channel.stage("baseline: loading")
    try:
        opened = host.open(Opening("watched baseline"))
    except WorkloadError as error:
        raise _problem(channel, "unproven", f"the workload cannot be run: {error}") from None
    except (Exception, SystemExit) as error:
        raise _problem(channel, "unproven", f"the workload cannot be loaded: {_said(describe(error))}") from None
    with opened as arm:
        channel.put("takes_rep", arm.takes_rep)
        channel.stage("baseline: first calls")
        first = _observe_all(arm, _REPS, arm.restart_clock)
        share = arm.share(first[-1].seconds)
        if arm.takes_rep and not first[-1].error:
            first += _observe_all(arm, _drawn(host.bench.job["seed"], first[-1].seconds, deadline))
        seen, claims = arm.seen(), arm.claims()
    mark = next(iter(seen.placed), None)
    with_site = host.bench.job["site"] is not None
    # What a person changed may be a constant of the module; what a codemod rewrote has to run in the call.
    ran = _ran(seen, also_loaded=not with_site)
    channel.put("baseline_execution", {"placed": len(seen.placed), "entered": sum(ran.values()),
                                       "trips": seen.trips.get(mark) if mark else None})  # fmt: skip
    raised = next((o.error for o in first if o.error), None)
    if raised:
        raise _problem(channel, "unproven", _raises(raised))
    channel.put("wall_share", share)
    if not ran and (seen.placed or with_site):
        raise Stop
    if claims and not host.is_paired:
        raise _apart(channel, f"the project {' and '.join(claims)}")
    return first


def _ran(seen: Seen, also_loaded: bool) -> Counter[str]:
    return Counter(seen.entered) + Counter(seen.loaded if also_loaded else {})


def _apart(channel: Channel, why: str) -> Stop:
    """Arms in one process would mix or would not fit: the trial begins anew with a process for each."""
    channel.put("apart", why)
    return Stop()


def _second(host: Host, channel: Channel, error: dict[str, str]) -> Stop:
    """The baseline ran once and does not run a second time."""
    if host.is_paired:
        return _problem(channel, "unproven", f"the workload runs once, and then raises: {_said(error)}")
    if is_memory(error):
        return _apart(channel, f"two versions do not fit beside each other: {_said(error)}")
    return _apart(channel, f"the project cannot be loaded twice in one process: {_said(error)}")


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


def _check(host: Host, channel: Channel, reference: Reference, chosen: int, deadline: float) -> None:
    channel.stage("candidate: loading")
    try:
        opened = host.open(Opening("watched candidate", chosen))
    except (Exception, SystemExit) as error:
        described = describe(error)
        if is_memory(described) and not host.is_paired:
            raise _apart(channel, f"two versions do not fit beside each other: {_said(described)}") from None
        raise _problem(channel, "crashed", f"the candidate cannot be loaded: {_said(described)}") from None
    with opened as arm:
        channel.stage("candidate: first calls")
        observed = _observe_all(arm, reference.reps)
        seen, claims = arm.seen(), arm.claims()
    if claims and not host.is_paired:
        raise _apart(channel, f"the candidate {' and '.join(claims)}")
    ran = _ran(seen, also_loaded=not host.bench.job["new_functions"])
    missed = [mark for mark in seen.placed if not ran[mark]]
    channel.put("candidate_execution", {"entered": dict(ran), "missed": missed, **_unreached(host, chosen, seen)})
    raised = next((o.error for o in observed if o.error), None)
    if raised and is_memory(raised) and not host.is_paired:
        raise _apart(channel, f"two versions do not fit beside each other: {_said(raised)}")
    if raised and raised["type"] == REFUSED:
        raise _problem(channel, "unproven", f"in the candidate, {_said(raised)}")
    if raised:
        channel.put("parity", {"failure": {"test": "exception", **raised}})
        return
    parity, allowed = _end_to_end(host, channel, reference, observed, chosen)
    mentioned = host.bench.mentioned(chosen)
    parity["not_compared"] += [name for name in seen.opaque if name.rpartition(".")[2] in mentioned]
    if parity["failure"] is None:
        longest = _SITE_SECONDS + _SITE_CALLS * reference.first[0].seconds
        until = time.monotonic() + min(longest, _SITE_SHARE * (deadline - time.monotonic()))
        parity |= _at_the_site(host, channel, chosen, reference.reps, until)
    if parity["failure"] is None and not parity["site"].get("compared") and not parity["calibrated"]:
        channel.stage("both arms: a script with other values")
        parity |= compare_scaled(host, reference, chosen, allowed)
    channel.put("parity", parity)
    kept = _kept(reference, observed)
    if parity["failure"] is None and not kept and reference.reps == _REPS:
        channel.stage("both arms: new values after a call")
        if outlives(host, reference, chosen, _DRAWN_SHARE * (deadline - time.monotonic())):
            kept = ["a place that outlives its calls"]
    channel.put("kept", kept)
    if parity["failure"] is None and not kept:
        channel.stage("both arms: globals that are set between two calls")
        channel.put("frozen", frozen(host, reference, chosen, _DRAWN_SHARE * (deadline - time.monotonic())))
    if parity["failure"] is None and ran:
        _sabotage(host, channel, reference, chosen, allowed)


def _kept(reference: Reference, observed: Sequence[Observation]) -> list[str]:
    """Where the candidate keeps results from call to call, and the baseline does not, if no call brings new values."""
    if observed[0].is_renewable or reference.reps != _REPS:
        return []
    known = reference.first[0].known.union(*(call.cached for call in reference.first))
    return sorted({name for call in observed for name in (*call.globals, *call.cached)} - known)


def _unreached(host: Host, chosen: int, seen: Seen) -> dict[str, list[str]]:
    """What else is changed, and did not run: nothing was learnt of it."""
    changed = {f"{one.path}:{name}" for one in host.bench.touched(chosen) for name in one.changed}
    silent = [mark for mark, count in seen.functions.items() if not count]
    inside = [mark for mark in silent if mark.rpartition(":")[0] not in seen.unread]
    return {"unreached": [*seen.unread, *(m for m in inside if m in changed)],
            "unused": [mark for mark in inside if mark not in changed]}  # fmt: skip


def _end_to_end(
    host: Host, channel: Channel, reference: Reference, observed: tuple[Observation, ...], chosen: int
) -> tuple[dict[str, Any], compare.Slack | None]:
    """The comparison of whole calls, and wider bounds for what rounding alone changes, if that is needed."""
    reference_name = host.bench.job.get("reference", "baseline")
    facts: dict[str, Any] = {"reference": reference_name, "calibrated": False, "chaotic": False}
    if facts["reference"] == "float64":
        channel.stage("baseline: in double precision")
        with host.open(BASELINE) as arm:
            facts["distance"] = precision.distances(reference, observed, arm.in_double)
        reference = Reference(reference.first, reference.again, reference.factor, reference.metric_tolerance, False)
    judged = _judge_all(reference, observed)
    failure, allowed = _first_failure(judged), None
    if failure is not None and failure.get("path") != "metric":
        channel.stage("baseline: with rounding put in")
        rounding = _rounding(host, reference, chosen)
        facts["rounding_in_bounds"] = {k: v if math.isfinite(v) else None for k, v in list(rounding.items())[:20]}
        allowed = slack(reference.factor, rounding)
        failure = _first_failure(_judge_all(reference, observed, allowed))
        if failure is None and not all(one.failure is None or "in_double" in one.failure for one in judged):
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
        "not_compared": sorted({path for one in judged for path in one.unseen}),
        **facts,
    }, allowed


def _judge_all(
    reference: Reference, observed: tuple[Observation, ...], allowed: compare.Slack | None = None
) -> list[Judged]:
    return [reference.judge(rep, observation, allowed) for rep, observation in enumerate(observed)]


def _first_failure(judged: list[Judged]) -> dict[str, Any] | None:
    return next((one.failure for one in judged if one.failure), None)


def _rounding(host: Host, reference: Reference, chosen: int) -> dict[str, float]:
    """How far each part of the baseline's calls moves where its changed code is moved by units in the last place."""
    try:
        with host.open(Opening("rounded baseline", chosen)) as arm:
            observed = _observe_all(arm, reference.reps)
    except (Exception, SystemExit):
        return {}
    if any(o.error for o in observed):
        return {}
    found: dict[str, float] = {}
    for one in _judge_all(reference, observed):
        for name, size in one.errors.items():
            found[name] = max(found.get(name, 0.0), size)
    return found


def _at_the_site(
    host: Host, channel: Channel, chosen: int, reps: Sequence[int], until: float
) -> dict[str, Any]:
    channel.stage("candidate: single executions of the changed code")
    try:
        with host.open(Opening("shadowed candidate", chosen, seconds=until - time.monotonic())) as arm:
            observed = arm.observe(0)
            found, failure = arm.site()
            if arm.takes_rep and not observed.error and failure is None and time.monotonic() < until:
                observed = arm.observe(reps[-1])
                found, failure = arm.site()
    except (Exception, SystemExit) as error:
        return {"site": {"problem": _said(describe(error))}}
    site = found | ({"problem": _said(observed.error)} if observed.error else {})
    return {"site": site} | ({"failure": failure} if failure is not None else {})


def _sabotage(host: Host, channel: Channel, reference: Reference, chosen: int, allowed: compare.Slack | None) -> None:
    """Spoil the candidate until parity notices. `seen` is what is hoped for."""
    results: dict[str, str] = {}
    for name in ("scaled", "rolled"):
        channel.stage(f"candidate: sabotage ({name})")
        try:
            with host.open(Opening("sabotaged candidate", chosen, spoil=name)) as arm:
                observed = arm.observe(0)
        except (Exception, SystemExit):
            results[name] = "raised"
            continue
        if observed.error:
            # The assertions of a test are how it sees.
            noticed = targets.is_test(host.bench.job["workload"]["run"]) and observed.error["type"] == "AssertionError"
            results[name] = "seen" if noticed else "raised"
            if noticed:
                break
            continue
        failure = reference.judge(0, observed, allowed).failure
        if failure is None and arm.takes_rep:  # nothing is left of a result that is multiplied by rep 0
            last = arm.observe(reference.reps[-1])
            failure = None if last.error else reference.judge(len(reference.reps) - 1, last, allowed).failure
        results[name] = "seen" if failure else "unseen"
        if failure:
            break
    channel.put("sabotage", results)


def _drawn(seed: int, seconds: float, deadline: float) -> tuple[int, ...]:
    """Further values of `rep`, where they cost little: nobody who writes a change knows them."""
    calls = 2 * (len(_REPS) + 1)  # by both runs of the baseline, and by the candidate
    if calls * seconds > _DRAWN_SHARE * (deadline - time.monotonic()):
        return ()
    return 2, random.Random(seed).randrange(100, 1000)


def _observe_all(
    arm: Arm, reps: Sequence[int], before_last: Callable[[], None] | None = None
) -> tuple[Observation, ...]:
    """A call for each of `reps`, which it is given where the workload takes it. A failure ends the series."""
    observed: list[Observation] = []
    for rep in reps:
        if before_last is not None and rep == reps[-1]:
            before_last()
        observed.append(arm.observe(rep))
        if observed[-1].error:
            break
    return tuple(observed)


def _problem(channel: Channel, status: str, why: str) -> Stop:
    channel.put("problem", {"status": status, "why": why})
    return Stop()


def _raises(error: dict[str, str]) -> str:
    return _said(error) if error["type"] == REFUSED else f"the workload raises in the baseline: {_said(error)}"


def _said(error: dict[str, str]) -> str:
    if error["type"] == REFUSED:
        return error["text"]
    at = f" ({error['at']})" if error["at"] else ""
    return f"{error['type']}: {error['text']}{at}"
