"""The branch as a whole: what its patches come to together, tried once more against where the branch began."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from jitmod.delivery.attempt import Terms, TrialResult, TryFiles
from jitmod.delivery.branch import Branch
from jitmod.delivery.figures import describe
from jitmod.delivery.queue import Entry
from jitmod.delivery.sides import open_sides
from jitmod.delivery.tell import Tell
from jitmod.model import Status, Verdict
from jitmod.source.config import Workload

_BAD = (Status.REJECTED, Status.CRASHED)


@dataclass(frozen=True)
class Whole:
    """The trial of one workload: the commit where the branch began against its tip."""

    workload: str
    verdict: Verdict


def try_whole(
    branch: Branch, workloads: Sequence[Workload], trial: TryFiles, terms: Terms,
    file_evidence: Callable[[TrialResult], str | None], tell: Tell,
) -> tuple[Whole, ...]:  # fmt: skip
    """Try the branch with every workload that has accepted a patch of this run.

    Where the whole is rejected though each patch was accepted, the branch is cut back to the most commits that are not.
    """
    tell.expect(0)
    found = []
    for workload in workloads:
        made = list(branch.made)
        if not made or (len(made) == 1 and not branch.start.resumed):
            break
        what = f"{branch.start.branch or 'the bundle'} as a whole"
        tell.begin(what, f"trying {workload.run}")
        result = _tried(branch, branch.tip, workload, trial, terms)
        verdict = replace(result.verdict, evidence_digest=file_evidence(result))
        if verdict.status in _BAD:
            good, first = _last_good(branch, made, workload, trial, terms)
            branch.cut(good)
            why = f"{verdict.why} (from commit {first[:10]} on; the branch was cut back to {good[:10]})"
            verdict = replace(verdict, why=why)
        tell.end(what, describe(verdict))
        found.append(Whole(workload.run, verdict))
    return tuple(found)


def without_cut(entries: Sequence[Entry], branch: Branch) -> tuple[Entry, ...]:
    """The entries, of which those are rejected whose commits were cut off the branch."""
    kept = set(branch.made)
    result = []
    for entry in entries:
        outcome = entry.outcome
        if outcome.commit is not None and outcome.commit not in kept and outcome.verdict is not None:
            why = "right and faster alone, but the branch as a whole was rejected with it"
            verdict = replace(outcome.verdict, status=Status.REJECTED, test="whole", why=why)
            entry = replace(entry, outcome=replace(outcome, verdict=verdict, commit=None, guard=None))
        result.append(entry)
    return tuple(result)


def _last_good(
    branch: Branch, made: list[str], workload: Workload, trial: TryFiles, terms: Terms
) -> tuple[str, str]:
    """The last commit up to which the branch is not rejected, and the first one behind it; by bisection."""
    low, high = 0, len(made)  # the first `low` commits are good together, the first `high` are not
    while high - low > 1:
        middle = (low + high) // 2
        bad = _tried(branch, made[middle - 1], workload, trial, terms).verdict.status in _BAD
        low, high = (low, middle) if bad else (middle, high)
    return (made[low - 1] if low else branch.start.tip), made[low]


def _tried(branch: Branch, commit: str, workload: Workload, trial: TryFiles, terms: Terms) -> TrialResult:
    with open_sides(branch.start.base, commit, branch.repository.root) as sides:
        return trial(
            sides.candidate, code_root=sides.code_root, user_root=terms.user_root, workload=workload,
            settings=terms.settings, python=terms.python, base_commit=sides.base_commit, budget=terms.budget,
            require_gpu=terms.require_gpu, partial=True,
        )  # fmt: skip
