"""The gate: what the evidence of a job is worth. A pure function, so that anyone can recompute a verdict."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jitmod.model import Status, Verdict
from jitmod.trial import needs
from jitmod.trial.child import stats
from jitmod.trial.child.memory import is_memory
from jitmod.trial.job import digest
from jitmod.trial.measured import samples
from jitmod.trial.retraces import warm_calls
from jitmod.trial.times import Times

_JUDGES = 2
# Stages in which running out of time or memory is not the candidate's doing: it has run before, or it is not what runs.
_NOT_THE_CANDIDATES = ("baseline", "both", "candidate: sabotage", "candidate: single executions")
_COMPARABLE = 0.1  # relative distance from double precision beyond which the reference is another computation
_EPSILON = 2.0**-23  # of single precision


def judge(job: Mapping[str, Any], evidence: Mapping[str, Any]) -> Verdict:
    """The verdict on `job`. Raises ValueError where the evidence belongs to another job."""
    if evidence["job"] != digest(job):
        raise ValueError("this evidence belongs to another job")
    explored, alone = evidence["explore"], evidence.get("alone", {})
    verdict = screen(job, explored) or _judge_measurements(job, explored, evidence["judges"])
    if verdict.status is Status.ACCEPTED:
        too_large = needs.judge(job, alone)
        if too_large is not None:
            verdict = replace(verdict, status=too_large.status, why=too_large.why, test=too_large.test)
    candidate = job["candidates"][explored.get("chosen", 0)]
    controls = {name: explored.get(name, {}) for name in ("sabotage", "noise")}
    parity = {**explored.get("parity", {}), **controls}
    return replace(
        verdict,
        device=explored.get("device", {}).get("platform"),
        knobs=dict(candidate["knobs"]),
        parity=parity,
        measured=samples(explored, evidence["judges"]),
        memory=needs.summary(explored, alone),
        evidence_digest=digest(evidence),
    )


def screen(job: Mapping[str, Any], explored: Mapping[str, Any]) -> Verdict | None:
    """The verdict that the first process alone gives: None where the candidate is right and its times decide."""
    device = explored.get("device", {}).get("platform")
    if job["require_gpu"] and device is not None and device not in {"gpu", "cuda", "rocm"}:
        return Verdict(Status.UNPROVEN, f"a GPU is required, and the trial found only {device}")
    if "problem" in explored:
        return Verdict(Status(explored["problem"]["status"]), explored["problem"]["why"])
    if "failure" in explored:
        return _failure(explored["failure"], Status.UNPROVEN)
    if job.get("guard"):
        return _guarded(explored)
    execution = explored["baseline_execution"]
    if not execution["entered"] and (execution["placed"] or job["site"]):
        what = "the site" if job["site"] else "the changed lines"
        return Verdict(Status.UNPROVEN, f"the workload never reaches {what}")
    if execution["trips"] is not None and execution["trips"] < 2:
        return Verdict(Status.UNPROVEN, f"the loop makes {execution['trips']} iteration(s); a trial needs 2 or more")
    parity = explored["parity"]
    failure = parity["failure"]
    if failure:
        return _different(failure)
    return (
        _opaque(parity)
        or _unsettled(parity)
        or _unseen(job, explored)
        or _untested(job, explored)
        or _too_small(job, explored)
        or _kept(explored)
        or _frozen(explored)
    )


def _different(failure: Mapping[str, Any]) -> Verdict:
    """The rejection of a candidate that gives something else, or nothing, because memory does not last."""
    if failure["test"] == "exception" and is_memory(failure):
        why = f"memory: the candidate runs out of it: {failure['type']}: {failure['text']}"
        return Verdict(Status.REJECTED, why, test="memory")
    if failure["test"] == "memory":
        return Verdict(Status.REJECTED, "memory: none of the candidates fits", test="memory")
    return Verdict(Status.REJECTED, _parity_text(failure), test=failure["test"])


def _guarded(explored: Mapping[str, Any]) -> Verdict | None:
    """Of a change that is meant to give other results: that it fails where the baseline does not."""
    failure = explored["parity"]["failure"] if "parity" in explored else None
    if failure is not None and failure["test"] == "exception":
        return Verdict(Status.REJECTED, _parity_text(failure), test="exception")
    if "chosen" not in explored or "parity" not in explored:
        return Verdict(Status.UNPROVEN, "the workload never reaches the changed lines")
    return None


def _kept(explored: Mapping[str, Any]) -> Verdict | None:
    """Times of calls that find what an earlier one has computed say nothing about those that do not."""
    kept = explored.get("kept", [])
    if not kept:
        return None
    why = f"the candidate keeps results in {kept[0]}, and every call gets the same values: let the workload take `rep`"
    return Verdict(Status.UNPROVEN, why)


def _frozen(explored: Mapping[str, Any]) -> Verdict | None:
    """A compiled function takes a global for a constant. The workload does not call what sets it; others may."""
    names = explored.get("frozen", [])
    if not names:
        return None
    why = f"the candidate goes on with the old value of {' or '.join(names[:3])} when that is set between two calls"
    return Verdict(Status.UNPROVEN, why)


def _untested(job: Mapping[str, Any], explored: Mapping[str, Any]) -> Verdict | None:
    if not job.get("needs_fresh_values") or explored["takes_rep"]:
        return None
    why = "retraces: untested, every call gets the same values: let the workload take `rep`, and vary with it"
    return Verdict(Status.UNPROVEN, why)


def _opaque(parity: Mapping[str, Any]) -> Verdict | None:
    """Values that nothing can look into may differ."""
    paths = list(parity.get("not_compared", ()))
    if not paths:
        return None
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return Verdict(Status.UNPROVEN, f"cannot compare {paths[0]}{more}: let the workload return arrays and plain values")


def _unsettled(parity: Mapping[str, Any]) -> Verdict | None:
    """Differences that rounding explains, where nothing shorter shows that they are no more than that."""
    if parity.get("chaotic"):
        why = "chaotic workload: rounding alone changes its results more than any bound; give a metric or fewer steps"
        return Verdict(Status.UNPROVEN, why)
    for distance in parity.get("distance", ()):
        verdict = _far(distance)
        if verdict is not None:
            return verdict
    if parity.get("calibrated") and not parity.get("site", {}).get("tight"):
        why = "the results differ by as much as rounding makes, and no single execution of the change could be compared"
        return Verdict(Status.UNPROVEN, f"{why}; give a metric or fewer steps")
    return None


def _far(distance: Mapping[str, Any]) -> Verdict | None:
    """With double precision as the reference: the candidate may be twice as far from it as the baseline is."""
    if "problem" in distance:
        return Verdict(Status.UNPROVEN, f"the baseline cannot run in double precision: {distance['problem']}")
    if "failure" in distance:
        failure = distance["failure"]
        return Verdict(Status.REJECTED, _parity_text(failure), test=failure["test"])
    before, after = distance["baseline"], distance["candidate"]
    if before is None or after is None or before > _COMPARABLE:
        return Verdict(Status.UNPROVEN, "in double precision the baseline computes something else: not comparable")
    if after <= 2 * max(before, _EPSILON):
        return None
    why = f"values: {after:.2g} away from double precision (relative), and the baseline is {before:.2g} away"
    return Verdict(Status.REJECTED, why, test="values")


def _too_small(job: Mapping[str, Any], explored: Mapping[str, Any]) -> Verdict | None:
    share = explored.get("wall_share")
    if job.get("neutral") or share is None or share >= job["gate"]["min_share"]:
        return None
    least = job["gate"]["min_share"]
    why = f"slower: not worth it, the changed code takes {share:.2%} of the workload's time ({least:.0%} is asked for)"
    return Verdict(Status.REJECTED, why, test="slower")


def _unseen(job: Mapping[str, Any], explored: Mapping[str, Any]) -> Verdict | None:
    """Parity that proves nothing: the new code did not run, or its results do not reach the output."""
    execution = explored["candidate_execution"]
    missed = execution["missed"] if job["new_functions"] else []
    if missed or not execution["entered"]:
        what = ", ".join(missed) or "the changed lines"
        return Verdict(Status.UNPROVEN, f"the workload never runs {what} of the candidate")
    unreached = execution.get("unreached", [])
    if unreached and not job.get("partial"):
        named = ", ".join(unreached[:3]) + (f" and {len(unreached) - 3} more" if unreached[3:] else "")
        return Verdict(Status.UNPROVEN, f"the workload never runs {named}, and that is changed as well")
    sabotage = explored["sabotage"]
    if "seen" in sabotage.values():
        return None
    if "unseen" in sabotage.values():
        return Verdict(Status.UNPROVEN, "workload is blind to this site: spoiled results pass the comparison as well")
    return Verdict(Status.UNPROVEN, "the sabotage control raised, so nothing shows that the workload sees this site")


def _failure(failure: Mapping[str, str], not_by_the_patch: Status) -> Verdict:
    stage, how = failure["stage"], failure["how"]
    tail = f"; it said last: {failure['tail']}" if failure["tail"] else ""
    if stage.startswith(_NOT_THE_CANDIDATES):
        if how.startswith("did not finish"):
            return Verdict(not_by_the_patch, f"the workload is too slow for the budget: the child {how} ({stage})")
        if "SIGKILL" in how:
            return Verdict(not_by_the_patch, f"no room for the trial of this workload: the child {how} ({stage})")
    if stage.startswith("baseline"):
        return Verdict(not_by_the_patch, f"the workload ends its process in the baseline: the child {how}{tail}")
    return Verdict(Status.CRASHED, f"the child {how} ({stage}){tail}")


def _parity_text(failure: Mapping[str, Any]) -> str:
    where = f" at {failure['path']}" if "path" in failure else ""
    where += f" line {failure['line']}" if "line" in failure else ""
    where += f" of {failure['function']}" if "function" in failure else ""
    where += f" {failure['how']}" if "how" in failure else ""
    if failure["test"] == "exception" and "type" in failure:
        return f"exception: the candidate raises {failure['type']}: {failure['text']} ({failure['at']})"
    if failure["test"] == "values" and "shape" in failure:
        where += f"{failure['index']}" if failure.get("index") else ""
        where += f" ({failure['dtype']}{failure['shape']})"
    return f"{failure['test']}{where}: expected {failure['expected']}, got {failure['got']}"


def _judge_measurements(
    job: Mapping[str, Any], explored: Mapping[str, Any], judges: Sequence[Mapping[str, Any]]
) -> Verdict:
    for measured in judges:
        if "error" in measured:
            error = measured["error"]
            if error["arm"] == "candidate":
                return _different({"test": "exception", **error})
            return Verdict(Status.UNPROVEN, f"the workload raises in the baseline: {error['type']}: {error['text']}")
        if "failure" in measured:
            return _failure(measured["failure"], Status.INCONCLUSIVE)
    pairs = [len(measured["warm"]["seconds"]["candidate"]) for measured in judges]
    if len(pairs) < _JUDGES or min(pairs) < stats.FIRST_LOOK:
        why = f"the budget is too short: {pairs} warm pairs, and {_JUDGES} processes of {stats.FIRST_LOOK} are needed"
        return Verdict(Status.INCONCLUSIVE, why)
    times = Times(job, judges)
    verdict = (None if job.get("guard") else _late(explored, judges)) or _retraces(judges) or times.verdict()
    return replace(
        verdict, speedup=times.speedup, speedup_ci=times.interval, cold=times.cold, compiles=_compiles(explored, judges)
    )


def _late(explored: Mapping[str, Any], judges: Sequence[Mapping[str, Any]]) -> Verdict | None:
    """What the candidate gives after many calls, where every process shows the same kind of failure.

    Results that rounding alone moves beyond all bounds say nothing there.
    """
    failures = [measured.get("late", {}).get("failure") for measured in judges]
    if not all(failures) or explored["parity"].get("calibrated") or explored["parity"].get("distance"):
        return None
    calls = judges[0]["warm"]["calls"]["candidate"]
    text = _parity_text({"how": f"after {calls} calls", **failures[0]})
    return Verdict(Status.REJECTED, text, test=failures[0]["test"])


def _compiles(explored: Mapping[str, Any], judges: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    summary: dict[str, Any] = {"retraces": "compared" if explored["takes_rep"] else "untested"}
    for arm, warm in warm_calls(judges).items():
        cold = statistics.median(c["compilations"] for m in judges for c in m["cold"][arm])
        summary[arm] = {
            "warm": warm.compilations,
            "warm_shared": warm.shared,
            "warm_calls": warm.calls,
            "cold": cold,
        }
    return summary


def _retraces(judges: Sequence[Mapping[str, Any]]) -> Verdict | None:
    before, after = warm_calls(judges).values()
    # A script that a call runs anew defines its functions anew: each is compiled once a run, whoever wrote it.
    scripts = sum(m["warm"].get("scripts", {}).get("candidate", 0) for m in judges)
    fresh = max(m.get("fresh_functions", 0) for m in judges)
    allowed = fresh * scripts / after.calls
    if after.rate <= before.rate + allowed or after.own_rate <= before.own_rate + allowed:
        return None
    most = ", ".join(f"{name} {count}" for name, count in Counter(after.own).most_common(3))
    why = f"retraces: {after.own_rate:.3g} compilations a warm call, against {before.own_rate:.3g} in the baseline"
    why += f" ({most})" if most else ""
    return Verdict(Status.REJECTED, why, test="retraces")
