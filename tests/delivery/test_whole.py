"""The branch as a whole: tried once more where several patches went in, and cut back where it is rejected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from toy import Toy, TrialLog, WholeTrial

from jitmod.delivery.attempt import Terms
from jitmod.delivery.job import Delivered, Request, onto_branch
from jitmod.delivery.repository import Repository, scrubbed_environment
from jitmod.delivery.tell import Silent
from jitmod.model import Status
from jitmod.source.config import GateSettings, Workload

Git = Callable[..., str]
WORK = Workload("work", "bench/work.py:run")


def deliver(repository: Repository, whole: WholeTrial, workloads: tuple[Workload, ...] = (WORK,)) -> Delivered:
    terms = Terms(TrialLog(), repository.root, workloads, GateSettings(), Path("python"), 60.0, whole=whole)
    with scrubbed_environment():
        return onto_branch(Request((Toy(),), (".",)), repository, "jitmod/toy", None, terms, Silent())


def test_base_and_tip_are_tried_by_the_workloads_that_accepted(repository: Repository, git: Git) -> None:
    whole = WholeTrial()
    done = deliver(repository, whole, (Workload("elsewhere", "bench/work.py:run"), WORK))
    assert [(call["count"], call["workload"]) for call in whole.calls] == [(3, "work")]
    assert whole.calls[0]["base"] == git("show", "main:src/app.py")
    assert [(one.workload, one.verdict.status) for one in done.whole] == [("bench/work.py:run", Status.ACCEPTED)]
    assert done.whole[0].verdict.evidence_digest is not None


def test_a_resumed_branch_is_tried_from_where_it_began(repository: Repository, git: Git) -> None:
    deliver(repository, WholeTrial())
    git("worktree", "add", "-q", "../other", "jitmod/toy")
    other = Path(repository.root).parent / "other"
    (other / "src" / "app.py").write_text(
        (other / "src" / "app.py").read_text() + "\n\ndef more(x):\n    return slow(x)\n"
    )
    git("-C", str(other), "commit", "-qam", "more")
    git("worktree", "remove", "--force", "../other")
    whole = WholeTrial()
    done = deliver(repository, whole)
    assert done.start.resumed
    assert [(call["count"], "slow" in call["base"], "fast" in call["base"]) for call in whole.calls] == [
        (4, True, False)
    ]


@pytest.mark.parametrize(("most", "left"), [(3, 2), (2, 1), (1, 0)])
def test_a_rejected_branch_is_cut_back(repository: Repository, git: Git, most: int, left: int) -> None:
    done = deliver(repository, WholeTrial(most))
    outcomes = [e.outcome for e in done.entries if e.outcome.verdict is not None and e.outcome.verdict.test != "slower"]
    statuses = [str(o.verdict.status) for o in outcomes if o.verdict is not None]
    assert statuses == ["accepted"] * left + ["rejected"] * (3 - left)
    commits = [o.commit for o in outcomes if o.commit is not None]
    found = git("rev-list", "--reverse", "main..jitmod/toy").split() if left else []
    assert commits == found and len(found) == left
    assert bool(git("branch", "--list", "jitmod/toy").strip()) == (left > 0)
    (whole,) = done.whole
    assert whole.verdict.status is Status.REJECTED and "the branch was cut back to" in whole.verdict.why
    assert {o.verdict.test for o in outcomes[left:] if o.verdict is not None} == {"whole"}
