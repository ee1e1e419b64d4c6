"""The gate as a pure function: evidence in, verdict out."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest

from jitmod.model import Site, Status
from jitmod.source.config import GateSettings, Workload
from jitmod.trial import gate
from jitmod.trial.job import candidate_of, digest, make_job

JOB = make_job(
    [candidate_of({"a.py": "x = 1\n"})], baseline={}, base_commit="c", workload=Workload("w", "w.py:run"),
    settings=GateSettings(), seed=0, budget=60.0, require_gpu=False, site=Site("a.py", 1, 1, 2), new_functions=("_f",),
    fingerprint="f",
)  # fmt: skip


def judged(
    baseline: float, candidate: float, *, pairs: int = 24, spread: float = 0.01,
    cold: tuple[float, float] = (0.1, 0.1), compiled: tuple[int, int] = (0, 0), seed: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """One measuring process, with times around these seconds."""
    chance = random.Random(seed)

    def times(middle: float) -> list[float]:
        return [middle * chance.gauss(1, spread) for _ in range(pairs)]

    def colds(seconds: float) -> list[dict[str, float]]:
        return [{"seconds": seconds, "trace": 0.0, "lower": 0.0, "compile": seconds, "compilations": 1}] * 3

    steps = [{"step": count} if count else {} for count in compiled]
    return {
        "cold": {"baseline": colds(cold[0]), "candidate": colds(cold[1])},
        "warm": {
            "seconds": {"baseline": times(baseline), "candidate": times(candidate)},
            "calls": {"baseline": pairs, "candidate": pairs},
            "functions": {"baseline": steps[0].copy(), "candidate": steps[1].copy()},
            "functions_behind": {"baseline": steps[0], "candidate": steps[1]},
        },
    }


def shapes(measured: dict[str, Any], baseline: int, candidate: int, behind: int = 0) -> dict[str, Any]:
    """A library's function is compiled so often too; so often by the candidate where the baseline was ahead."""
    found = measured["warm"]
    for arm, count in (("baseline", baseline), ("candidate", candidate)):
        found["functions"][arm] |= {"jit(unstack)": count} if count else {}
    found["functions_behind"]["candidate"] |= {"jit(unstack)": behind} if behind else {}
    return measured


def alternating(odd: float, even: float, candidate: float) -> dict[str, Any]:
    """A baseline whose every other sample is slower, as on a machine that does something else now and then."""
    measured = judged(even, candidate)
    times = measured["warm"]["seconds"]["baseline"]
    times[::2] = [value * odd / even for value in times[::2]]
    return measured


def remembering(
    measured: dict[str, Any], baseline: tuple[float, float], candidate: tuple[float, float]
) -> dict[str, Any]:
    """Seconds of calls with known and with new values, in each arm."""
    arms = {"baseline": baseline, "candidate": candidate}
    return measured | {"novelty": {arm: {"known": k, "new": n} for arm, (k, n) in arms.items()}}


def loading(measured: dict[str, Any], seconds: float, compiling: float) -> dict[str, Any]:
    """The candidate takes so long to be imported."""
    spent = {"seconds": seconds, "trace": 0.0, "lower": 0.0, "compile": compiling}
    return measured | {"loading": {"baseline": dict.fromkeys(spent, 0.0), "candidate": spent}}


def scripted(measured: dict[str, Any]) -> dict[str, Any]:
    """Each call runs a script that defines one new function."""
    measured["fresh_functions"] = 1
    measured["warm"]["scripts"] = {"baseline": 0, "candidate": measured["warm"]["calls"]["candidate"]}
    return measured


def evidence(*judges: dict[str, Any], **explored: Any) -> dict[str, Any]:
    explore = {
        "device": {"platform": "cpu"}, "takes_rep": True, "chosen": 0, "noise": {"factor": 1.0},
        "baseline_execution": {"placed": 1, "entered": 3, "trips": 5},
        "candidate_execution": {"entered": {"_f": 2}, "missed": []},
        "parity": {"failure": None, "calls": 2}, "sabotage": {"scaled": "seen"},
    } | explored  # fmt: skip
    return {"schema_version": 1, "job": digest(JOB), "explore": explore, "judges": list(judges)}


LATE = {"test": "values", "path": "output", "dtype": "float32", "shape": [2], "expected": "1.0", "got": "0.0"}
FAST = judged(0.02, 0.01), judged(0.02, 0.01, seed=1)

CASES: dict[str, tuple[dict[str, Any], Status, str | None, str]] = {
    "twice as fast": (evidence(*FAST), Status.ACCEPTED, None, "faster"),
    "equal": (evidence(judged(0.01, 0.01), judged(0.01, 0.01, seed=1)), Status.REJECTED, "slower", "slower"),
    "slower": (evidence(judged(0.01, 0.02), judged(0.01, 0.02, seed=1)), Status.REJECTED, "slower", "slower"),
    "processes disagree": (
        evidence(judged(0.02, 0.01), judged(0.01, 0.0101, seed=1)), Status.INCONCLUSIVE, None, "does not decide"),
    "noise as large as the gain": (
        evidence(judged(0.0105, 0.01, spread=0.3, pairs=8), judged(0.0105, 0.01, spread=0.3, pairs=8, seed=1)),
        Status.INCONCLUSIVE, None, "does not decide"),
    "baseline that differs from itself as much": (
        evidence(alternating(0.0115, 0.01, 0.0102), alternating(0.0115, 0.01, 0.0102)),
        Status.INCONCLUSIVE, None, "the baseline against itself shows"),
    "baseline that differs from itself, and a gain beyond that": (
        evidence(alternating(0.0115, 0.01, 0.002), alternating(0.0115, 0.01, 0.002)), Status.ACCEPTED, None, "faster"),
    "changed code that takes no time": (
        evidence(*FAST, wall_share=0.004), Status.REJECTED, "slower", "not worth it, the changed code takes 0.40%"),
    "what cannot be compared": (
        evidence(*FAST, parity={"failure": None, "not_compared": ["output[1].x", "output[2]"]}),
        Status.UNPROVEN, None, "cannot compare output[1].x and 1 more",
    ),
    "chaotic": (evidence(*FAST, parity={"failure": None, "chaotic": True}), Status.UNPROVEN, None, "chaotic"),
    "within rounding, and nothing shorter agrees": (
        evidence(*FAST, parity={"failure": None, "calibrated": True, "site": {"tight": False}}),
        Status.UNPROVEN, None, "as much as rounding makes"),
    "within rounding, and single executions agree": (
        evidence(*FAST, parity={"failure": None, "calibrated": True, "site": {"tight": True}}),
        Status.ACCEPTED, None, "faster"),
    "as far from double precision as the baseline": (
        evidence(*FAST, parity={"failure": None, "distance": [{"baseline": 1e-6, "candidate": 1.9e-6}]}),
        Status.ACCEPTED, None, "faster"),
    "three times as far from double precision": (
        evidence(*FAST, parity={"failure": None, "distance": [{"baseline": 1e-6, "candidate": 3e-6}]}),
        Status.REJECTED, "values", "away from double precision"),
    "double precision computes something else": (
        evidence(*FAST, parity={"failure": None, "distance": [{"baseline": 0.5, "candidate": 0.5}]}),
        Status.UNPROVEN, None, "not comparable"),
    "other values at the site": (
        evidence(*FAST, parity={"failure": {
            "test": "values", "path": "output", "function": "a.py:f", "how": "with 8 iterations", "dtype": "float32",
            "shape": [2], "index": [1], "expected": "1.0", "got": "2.0"}}),
        Status.REJECTED, "values", "of a.py:f with 8 iterations"),
    "compiles once a run of a script": (
        evidence(scripted(judged(0.02, 0.01, compiled=(0, 24))), scripted(judged(0.02, 0.01, seed=1))),
        Status.ACCEPTED, None, "faster"),
    "compiles twice a run of a script": (
        evidence(scripted(judged(0.02, 0.01, compiled=(0, 60))), scripted(judged(0.02, 0.01, seed=1))),
        Status.REJECTED, "retraces", "compilations"),
    "too few pairs": (evidence(judged(0.02, 0.01, pairs=3), FAST[1]), Status.INCONCLUSIVE, None, "budget"),
    "one process": (evidence(FAST[0]), Status.INCONCLUSIVE, None, "budget"),
    "compiles faster, and is slower by little of a short call": (
        evidence(judged(1e-4, 1.06e-4, cold=(2.6, 0.5)), judged(1e-4, 1.06e-4, cold=(2.6, 0.5), seed=1)),
        Status.ACCEPTED, None, "calls would cost what is saved"),
    "compiles faster, and is slower by as little of a long call": (
        evidence(judged(0.1, 0.106, cold=(2.6, 0.5)), judged(0.1, 0.106, cold=(2.6, 0.5), seed=1)),
        Status.REJECTED, "slower", "slower"),
    "compiles faster, and is slower by a fifth": (
        evidence(judged(1e-4, 1.2e-4, cold=(2.6, 0.5)), judged(1e-4, 1.2e-4, cold=(2.6, 0.5), seed=1)),
        Status.REJECTED, "slower", "slower"),
    "new shapes that a library compiles for whoever comes first": (
        evidence(shapes(judged(0.02, 0.01), 7, 17), shapes(judged(0.02, 0.01, seed=1), 11, 13)),
        Status.ACCEPTED, None, "faster"),
    "new shapes, and more that only the candidate compiles": (
        evidence(shapes(judged(0.02, 0.01, compiled=(0, 3)), 7, 17), shapes(judged(0.02, 0.01, seed=1), 11, 13)),
        Status.REJECTED, "retraces", "0.0625 compilations a warm call, against 0 in the baseline (step 3)"),
    "new shapes of a library's function in the candidate": (
        evidence(shapes(judged(0.02, 0.01), 7, 17, behind=6), shapes(judged(0.02, 0.01, seed=1), 11, 13)),
        Status.REJECTED, "retraces", "compilations"),
    "new shapes of a library's function in the candidate alone": (
        evidence(shapes(judged(0.02, 0.01), 0, 17), shapes(judged(0.02, 0.01, seed=1), 0, 13)),
        Status.REJECTED, "retraces", "compilations"),
    "compiles more often": (
        evidence(judged(0.02, 0.01, compiled=(0, 5)), FAST[1]), Status.REJECTED, "retraces", "compilations"),
    "compiles as often": (
        evidence(judged(0.02, 0.01, compiled=(5, 5)), FAST[1]), Status.ACCEPTED, None, "faster"),
    "compiles faster, runs alike": (
        evidence(judged(0.01, 0.01, cold=(3.0, 0.5)), judged(0.01, 0.01, cold=(3.0, 0.5), seed=1)),
        Status.ACCEPTED, None, "compiles in 0.50 s instead of 3.00 s"),
    "compiles faster in one process only": (
        evidence(judged(0.01, 0.01, cold=(3.0, 0.5)), judged(0.01, 0.01, cold=(3.0, 2.9), seed=1)),
        Status.REJECTED, "slower", "slower"),
    "compiles faster, runs slower": (
        evidence(judged(0.01, 0.012, cold=(3.0, 0.5)), judged(0.01, 0.012, cold=(3.0, 0.5), seed=1)),
        Status.REJECTED, "slower", "slower"),
    "compilation never paid back": (
        evidence(judged(0.02, 0.01, cold=(0.1, 60.0)), judged(0.02, 0.01, cold=(0.1, 60.0), seed=1)),
        Status.REJECTED, "cold", "paid back"),
    "wrong value": (
        evidence(*FAST, parity={"failure": {"test": "values", "path": "output[0]", "dtype": "float32", "shape": [2],
                                            "index": [1], "expected": "1.0", "got": "2.0"}}),
        Status.REJECTED, "values", "output[0][1] (float32[2]): expected 1.0, got 2.0"),
    "raises": (
        evidence(*FAST, parity={"failure": {"test": "exception", "type": "ValueError", "text": "no", "at": "a.py:3"}}),
        Status.REJECTED, "exception", "ValueError: no (a.py:3)"),
    "raises while measured": (
        evidence({"error": {"arm": "candidate", "type": "ValueError", "text": "no", "at": ""}}),
        Status.REJECTED, "exception", "ValueError"),
    "blind": (evidence(*FAST, sabotage={"scaled": "unseen", "rolled": "unseen"}), Status.UNPROVEN, None, "blind"),
    "seen when rolled": (
        evidence(*FAST, sabotage={"scaled": "unseen", "rolled": "seen"}), Status.ACCEPTED, None, "faster"),
    "sabotage raises": (
        evidence(*FAST, sabotage={"scaled": "raised", "rolled": "raised"}), Status.UNPROVEN, None, "raised"),
    "site not reached": (
        evidence(baseline_execution={"placed": 0, "entered": 0, "trips": None}), Status.UNPROVEN, None, "the site"),
    "new function not reached": (
        evidence(candidate_execution={"entered": {}, "missed": ["_f"]}), Status.UNPROVEN, None, "_f"),
    "one iteration": (
        evidence(*FAST, baseline_execution={"placed": 1, "entered": 1, "trips": 1}),
        Status.UNPROVEN, None, "1 iteration"),
    "candidate hangs": (
        evidence(failure={"how": "did not finish within 9 s", "stage": "candidate: first calls", "tail": ""}),
        Status.CRASHED, None, "did not finish"),
    "baseline too slow": (
        evidence(failure={"how": "did not finish within 9 s", "stage": "baseline: first calls", "tail": ""}),
        Status.UNPROVEN, None, "too slow"),
    "sabotage takes too long": (
        evidence(failure={"how": "did not finish within 9 s", "stage": "candidate: sabotage (scaled)", "tail": ""}),
        Status.UNPROVEN, None, "too slow"),
    "crash while measured": (
        evidence({"failure": {"how": "was ended by SIGSEGV", "stage": "candidate: cold call", "tail": "at x"}}),
        Status.CRASHED, None, "SIGSEGV"),
    "budget ends while measuring": (
        evidence({"failure": {"how": "did not finish within 9 s", "stage": "baseline: cold call", "tail": ""}}),
        Status.INCONCLUSIVE, None, "too slow"),
    "faster only with values that it knows": (
        evidence(*(remembering(m, (0.02, 0.02), (0.001, 0.02)) for m in FAST)),
        Status.REJECTED, "slower", "with values that it has had before, 1.00x with new ones"),
    "faster with new values too, if less": (
        evidence(*(remembering(m, (0.02, 0.02), (0.001, 0.012)) for m in FAST)),
        Status.ACCEPTED, None, "with values that it has not had before 1.67x"),
    "wrong after many calls": (
        evidence(*(m | {"late": {"failure": LATE}} for m in FAST)), Status.REJECTED, "values", "output after"),
    "wrong after many calls in one process": (
        evidence(FAST[0] | {"late": {"failure": LATE}}, FAST[1]), Status.ACCEPTED, None, "faster"),
    "wrong after many calls, as rounding makes it": (
        evidence(*(m | {"late": {"failure": LATE}} for m in FAST),
                 parity={"failure": None, "calibrated": True, "site": {"tight": True}}),
        Status.ACCEPTED, None, "faster"),
    "new values cost both arms the same": (
        evidence(*(remembering(m, (0.02, 0.04), (0.001, 0.021)) for m in FAST)), Status.ACCEPTED, None, "faster"),
    "new values cost more in one process only": (
        evidence(remembering(FAST[0], (0.02, 0.021), (0.001, 0.02)), FAST[1]), Status.ACCEPTED, None, "faster"),
    "compiles while it is imported": (
        evidence(*(loading(judged(0.01, 0.01, cold=(3.0, 0.5), seed=s), 2.6, 2.5) for s in (0, 1))),
        Status.REJECTED, "slower", "slower"),
    "computes while it is imported": (
        evidence(*(loading(judged(0.02, 0.01, seed=s), 60.0, 0.0) for s in (0, 1))),
        Status.REJECTED, "cold", "paid back"),
    "an import that takes a little longer": (
        evidence(*(loading(judged(2e-5, 1e-5, seed=s), 0.1, 0.0) for s in (0, 1))), Status.ACCEPTED, None, "faster"),
    "keeps results": (
        evidence(*FAST, kept=["m._memo"]), Status.UNPROVEN, None, "keeps results in m._memo"),
    "changed code that does not run": (
        evidence(*FAST, candidate_execution={"entered": {"_f": 2}, "missed": [], "unreached": ["a.py:g"]}),
        Status.UNPROVEN, None, "never runs a.py:g"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_verdict(name: str) -> None:
    given, status, test, said = CASES[name]
    verdict = gate.judge(JOB, given)
    assert (verdict.status, verdict.test) == (status, test), verdict.why
    assert said in verdict.why


def test_verdict_is_a_pure_function() -> None:
    given = evidence(*FAST)
    kept = copy.deepcopy(given)
    first, second = gate.judge(JOB, given), gate.judge(JOB, given)
    assert first == second
    assert given == kept
    assert first.evidence_digest == digest(given)
    assert first.speedup == pytest.approx(2.0, rel=0.05)
    assert first.speedup is not None and first.speedup_ci is not None
    assert first.speedup_ci[0] < first.speedup < first.speedup_ci[1]


def test_settings_move_the_gate() -> None:
    job = {**JOB, "gate": {**JOB["gate"], "min_speedup": 3.0}}
    verdict = gate.judge(job, evidence(*FAST) | {"job": digest(job)})
    assert (verdict.status, verdict.test) == (Status.REJECTED, "slower")


@pytest.mark.parametrize(("takes_rep", "status"), [(True, Status.ACCEPTED), (False, Status.UNPROVEN)])
def test_fresh_values_are_asked_for_where_only_they_show_something(takes_rep: bool, status: Status) -> None:
    job = {**JOB, "needs_fresh_values": True}
    verdict = gate.judge(job, evidence(*FAST, takes_rep=takes_rep) | {"job": digest(job)})
    assert verdict.status is status
    assert ("retraces: untested" in verdict.why) is not takes_rep


def test_evidence_of_another_job_is_refused() -> None:
    with pytest.raises(ValueError, match="another job"):
        gate.judge({**JOB, "seed": 1}, evidence(*FAST))


def test_gpu_is_required() -> None:
    job = {**JOB, "require_gpu": True}
    assert gate.judge(job, evidence(*FAST) | {"job": digest(job)}).status is Status.UNPROVEN


def test_job_says_nothing_of_the_machine(tmp_path: Path) -> None:
    assert str(Path.cwd()) not in str(JOB) and JOB["schema_version"] == 1


@pytest.mark.parametrize(
    ("partial", "entered", "status"),
    [(False, 2, Status.UNPROVEN), (True, 2, Status.ACCEPTED), (True, 0, Status.UNPROVEN)],
)
def test_part_of_a_branch_may_be_for_other_workloads(partial: bool, entered: int, status: Status) -> None:
    job = {**JOB, "partial": partial}
    ran = {"entered": {"_f": entered} if entered else {}, "missed": [], "unreached": ["a.py:g"]}
    assert gate.judge(job, evidence(*FAST, candidate_execution=ran) | {"job": digest(job)}).status is status


NEUTRAL = {
    "equal": (judged(0.01, 0.01), judged(0.01, 0.01, seed=1), Status.ACCEPTED, "as fast as before"),
    "faster": (*FAST, Status.ACCEPTED, "faster"),
    "slower": (judged(0.01, 0.012), judged(0.01, 0.012, seed=1), Status.REJECTED, "slower"),
    "perhaps slower": (
        judged(0.01, 0.0107, spread=0.3, pairs=8), judged(0.01, 0.0107, spread=0.3, pairs=8, seed=1),
        Status.INCONCLUSIVE, "does not decide about 0.95x"),
    "more compilations": (
        judged(0.01, 0.01, compiled=(0, 5)), judged(0.01, 0.01, seed=1), Status.REJECTED, "compilations"),
}  # fmt: skip


@pytest.mark.parametrize(("one", "two", "status", "said"), NEUTRAL.values(), ids=NEUTRAL)
def test_what_need_not_be_faster_must_not_be_slower(
    one: dict[str, Any], two: dict[str, Any], status: Status, said: str
) -> None:
    job = {**JOB, "neutral": True}
    verdict = gate.judge(job, {**evidence(one, two, wall_share=0.001), "job": digest(job)})
    assert verdict.status is status and said in verdict.why


GUARDED = {
    "other values": ({"parity": {"failure": {"test": "values", "path": "output"}}}, *FAST, Status.ACCEPTED, None),
    "an exception": (
        {"parity": {"failure": {"test": "exception", "type": "E", "text": "t", "at": "a.py:1"}}},
        *FAST, Status.REJECTED, "exception"),
    "slower": ({}, judged(0.01, 0.012), judged(0.01, 0.012, seed=1), Status.REJECTED, "slower"),
    "more compilations": (
        {}, judged(0.01, 0.01, compiled=(0, 5)), judged(0.01, 0.01, seed=1), Status.REJECTED, "retraces"),
    "equal": ({}, judged(0.01, 0.01), judged(0.01, 0.01, seed=1), Status.ACCEPTED, None),
    "not reached": ({"chosen": None}, *FAST, Status.UNPROVEN, None),
}  # fmt: skip


@pytest.mark.parametrize(("facts", "one", "two", "status", "test"), GUARDED.values(), ids=GUARDED)
def test_a_guard_lets_results_differ(
    facts: dict[str, Any], one: dict[str, Any], two: dict[str, Any], status: Status, test: str | None
) -> None:
    job = {**JOB, "neutral": True, "guard": True}
    given = {**evidence(one, two, **facts), "job": digest(job)}
    if facts.get("chosen", 0) is None:
        del given["explore"]["chosen"], given["explore"]["parity"]
    verdict = gate.judge(job, given)
    assert (verdict.status, verdict.test) == (status, test), verdict.why
