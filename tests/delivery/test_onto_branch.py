"""A run onto a branch, with a toy codemod and a toy trial, against real git repositories."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixtures_git import snapshot
from toy import Toy, ToyTrial, TrialLog

from jitmod.delivery.attempt import Terms
from jitmod.delivery.job import Delivered, Request, onto_branch
from jitmod.delivery.repository import DeliveryError, Repository, scrubbed_environment
from jitmod.delivery.tell import Silent
from jitmod.model import Finding, Patch, Status
from jitmod.source.config import GateSettings, Workload
from jitmod.source.document import Document
from jitmod.source.project import Project

Git = Callable[..., str]
WORK = Workload("work", "bench/work.py:run")


def deliver(
    repository: Repository,
    trial: TrialLog | None = None,
    *,
    paths: tuple[str, ...] = (".",),
    branch: str = "jitmod/toy",
    revision: str | None = None,
    workloads: tuple[Workload, ...] = (WORK,),
    only_safe: bool = False,
    codemods: tuple[Toy, ...] = (Toy(),),
) -> Delivered:
    terms = Terms(trial or TrialLog(), repository.root, workloads, GateSettings(), Path("python"), 60.0)
    request = Request(codemods, paths, only_safe=only_safe)
    with scrubbed_environment():
        return onto_branch(request, repository, branch, revision, terms, Silent())


def statuses(done: Delivered) -> dict[int, str]:
    """Verdicts by the line of their site."""
    tried = [entry.outcome for entry in done.entries if entry.outcome.verdict is not None]
    return {outcome.finding.site.line: str(outcome.verdict.status) for outcome in tried if outcome.verdict}


def test_one_commit_for_each_accepted_patch(repository: Repository, git: Git) -> None:
    done = deliver(repository)
    assert statuses(done) == {5: "accepted", 9: "rejected", 14: "accepted", 15: "accepted"}
    assert git("rev-list", "--count", "main..jitmod/toy").strip() == "3"
    commits = [entry.outcome.commit for entry in done.entries if entry.outcome.commit]
    assert git("rev-list", "--reverse", "main..jitmod/toy").split() == commits
    assert git("show", "jitmod/toy:src/app.py").startswith("from speed import fast\nfrom speed import slow\n")
    assert git("show", "jitmod/toy:src/app.py").count("fast(x, 8)") == 3
    assert "return slow(x)" in git("show", "jitmod/toy:src/app.py").split("def bad")[1]
    assert git("worktree", "list").count("\n") == 1


def test_trial_sees_the_tip_with_the_patches_before_it(repository: Repository, checkout: Path) -> None:
    trial = TrialLog()
    deliver(repository, trial)
    assert [call["text"].count(b"fast(x, 8)") for call in trial.calls] == [0, 1, 1, 2]
    assert all(call["same"] for call in trial.calls)
    assert all(call["user_root"] == checkout and call["code_root"] != checkout for call in trial.calls)
    assert len({call["base_commit"] for call in trial.calls}) == 3


def test_commit_message_says_what_why_and_how_much(repository: Repository, git: Git) -> None:
    deliver(repository)
    first = git("rev-list", "--reverse", "main..jitmod/toy").split()[0]
    message = git("show", "--no-patch", "--format=%B", first)
    assert message.splitlines()[0] == "toy: hurry the call in first (src/app.py)"
    assert "slow() thinks too much." in message
    table = [" ".join(line.split()) for line in message.splitlines() if line.startswith("    ")]
    assert table == [
        "baseline candidate",
        "warm call 50 ms 24 ms 2.04x (1.9 to 2.2)",
        "cold 500 ms 750 ms paid back after 12 calls",
        "compiles 3 1 in the first call",
        "retraces 20 0 in all warm calls",
        "parity 2 calls agree, largest difference 0.012 of what is allowed, spoiled results are noticed",
        "device cpu",
    ]
    trailers = dict(
        line.split(": ") for line in git("show", "-s", "--format=%(trailers:unfold)", first).split("\n") if line
    )
    digest = trailers.pop("Jitmod-Evidence")
    assert trailers == {"Jitmod-Codemod": "toy", "Jitmod-Speedup": "2.04", "Jitmod-Device": "cpu"}
    stored = json.loads((repository.common / "jitmod" / "evidence" / f"{digest}.json").read_text())
    assert stored["job"] == {"symbol": "first"} and stored["evidence"]["workload"] == "work"
    assert git("show", "-s", "--format=%an <%ae>", first).strip() == "Ada <ada@example.org>"


def test_second_run_resumes_and_finds_only_what_was_not_accepted(repository: Repository, git: Git) -> None:
    deliver(repository)
    tip = git("rev-parse", "jitmod/toy")
    done = deliver(repository)
    assert done.start.resumed and statuses(done) == {10: "rejected"}
    assert git("rev-parse", "jitmod/toy") == tip


def test_no_branch_where_nothing_is_accepted(repository: Repository, git: Git) -> None:
    done = deliver(repository, workloads=(Workload("elsewhere", "bench/work.py:run"),))
    assert set(statuses(done).values()) <= {"unproven", "rejected"}
    assert git("branch", "--list", "jitmod/*") == ""


def test_dirty_tree_index_and_stash_are_untouched_and_not_tried(
    repository: Repository, checkout: Path, git: Git
) -> None:
    app = checkout / "src" / "app.py"
    app.write_text(app.read_text() + "# stashed\n")
    git("stash")
    app.write_text(app.read_text() + "# staged\n")
    git("add", "src/app.py")
    app.write_text(app.read_text() + "def third(x):\n    return slow(x)\n")
    (checkout / "src" / "new.py").write_text("def fourth(x):\n    return slow(x)\n")
    os.utime(checkout / "bench" / "work.py", (1e9, 1e9))  # git status would refresh the index for this one
    before = snapshot(checkout)
    trial = TrialLog()
    assert repository.dirty_files() == ["src/app.py", "src/new.py"]
    deliver(repository, trial)
    assert snapshot(checkout) == before
    assert {call["symbol"] for call in trial.calls} == {"first", "bad", "second"}
    assert "staged" not in git("show", "jitmod/toy:src/app.py")


@pytest.mark.parametrize("paths", [("src",), ("src/app.py",), ("bench", "src")])
def test_paths_below_the_root(repository: Repository, git: Git, paths: tuple[str, ...]) -> None:
    deliver(repository, paths=paths)
    assert git("diff", "--name-only", "main", "jitmod/toy") == "src/app.py\n"


def test_path_that_is_not_committed(repository: Repository, checkout: Path) -> None:
    (checkout / "src" / "new.py").write_text("")
    with pytest.raises(DeliveryError, match=r"src/new\.py is not in commit .* commit it first"):
        deliver(repository, paths=("src/new.py",))


def test_failing_hook_rejects_and_leaves_the_branch_consistent(
    repository: Repository, checkout: Path, git: Git
) -> None:
    hook = checkout / ".git" / "hooks" / "commit-msg"
    hook.write_text('#!/bin/sh\nif grep -q "in second" "$1"; then echo "not \033[1mthat\033[0m one" >&2; exit 1; fi\n')
    hook.chmod(0o755)
    done = deliver(repository)
    assert statuses(done) == {5: "accepted", 9: "rejected", 14: "rejected", 15: "rejected"}
    verdict = done.entries[2].outcome.verdict
    assert verdict is not None and verdict.test == "hook" and "not that one" in verdict.why
    assert git("show", "jitmod/toy:src/app.py").count("fast(x, 8)") == 1


def test_text_of_a_refused_commit_is_not_in_the_next_one(repository: Repository, checkout: Path, git: Git) -> None:
    (checkout / "src" / "zebra.py").write_text("def zebra(x):\n    return slow(x)\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "zebra")
    hook = checkout / ".git" / "hooks" / "commit-msg"
    hook.write_text('#!/bin/sh\ntouch left-behind && grep -q "in zebra" "$1"\n')
    hook.chmod(0o755)
    deliver(repository)
    assert git("diff", "--name-only", "main", "jitmod/toy") == "src/zebra.py\n"


def test_hook_that_rewrites_the_file_is_followed(repository: Repository, checkout: Path, git: Git) -> None:
    hook = checkout / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\nsed -i '1i # formatted' src/app.py && git add src/app.py && touch left-behind\n")
    hook.chmod(0o755)
    done = deliver(repository)
    assert list(statuses(done).values()).count("accepted") == 3
    assert git("show", "jitmod/toy:src/app.py").count("# formatted") == 3
    assert "left-behind" not in git("ls-tree", "-r", "--name-only", "jitmod/toy")


def test_unknown_identity_is_told_before_any_trial(repository: Repository, git: Git) -> None:
    git("config", "--unset", "user.email")
    trial = TrialLog()
    with pytest.raises(DeliveryError, match=r"user\.email"):
        deliver(repository, trial)
    assert trial.calls == []


def test_diverged_branch_is_refused(repository: Repository, git: Git) -> None:
    git("branch", "jitmod/toy")
    git("commit", "--allow-empty", "-m", "on")
    with pytest.raises(DeliveryError, match=r"does not contain HEAD .*git branch -D jitmod/toy"):
        deliver(repository)


def test_checked_out_branch_is_refused(repository: Repository, git: Git) -> None:
    git("switch", "--quiet", "-c", "jitmod/toy")
    with pytest.raises(DeliveryError, match="is checked out in"):
        deliver(repository)


@pytest.mark.parametrize(
    ("existing", "branch", "message"),
    [
        ("jitmod", "jitmod/toy", "cannot be made beside branch jitmod:"),
        ("jitmod/toy/old", "jitmod/toy", "cannot be made beside branch jitmod/toy/old:"),
        ("other", "two..dots", "not a branch name"),
        ("other", "-f", "not a branch name"),
    ],
)
def test_branch_that_cannot_be_made(repository: Repository, git: Git, existing: str, branch: str, message: str) -> None:
    git("branch", existing)
    with pytest.raises(DeliveryError, match=message):
        deliver(repository, branch=branch)


def test_base_revision(repository: Repository, checkout: Path, git: Git) -> None:
    (checkout / "src" / "app.py").write_text("def first(x):\n    return slow(x)\n")
    git("commit", "--quiet", "-am", "less")
    done = deliver(repository, revision="HEAD~1")
    assert done.start.base == git("rev-parse", "HEAD~1").strip()
    assert git("rev-list", "--count", "HEAD~1..jitmod/toy").strip() == "3"


@pytest.mark.parametrize("revision", ["nonsense", "--all", "HEAD:src"])
def test_revision_that_is_none(repository: Repository, revision: str) -> None:
    with pytest.raises(DeliveryError, match="no such revision"):
        deliver(repository, revision=revision)


def test_detached_head(repository: Repository, git: Git) -> None:
    git("checkout", "--quiet", "--detach")
    deliver(repository)
    assert git("rev-list", "--count", "main..jitmod/toy").strip() == "3"


def test_environment_of_a_hook_is_kept_out(repository: Repository, git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody Else")
    deliver(repository)
    assert os.environ["GIT_DIR"] == "/nowhere"
    monkeypatch.delenv("GIT_INDEX_FILE")
    monkeypatch.delenv("GIT_DIR")
    assert git("show", "-s", "--format=%an", "jitmod/toy").strip() == "Ada"


def test_interrupt_removes_the_worktree_and_keeps_what_was_committed(
    repository: Repository, checkout: Path, git: Git
) -> None:
    app = checkout / "src" / "app.py"
    app.write_text(app.read_text() + "\n\ndef interrupt(x):\n    return slow(x)\n")
    git("commit", "--quiet", "-am", "more")
    trial = TrialLog()
    with pytest.raises(KeyboardInterrupt):
        deliver(repository, trial)
    assert git("rev-list", "--count", "main..jitmod/toy").strip() == "3"
    assert git("worktree", "list").count("\n") == 1
    assert not trial.calls[0]["code_root"].exists()


def test_two_runs_at_once_are_refused(repository: Repository) -> None:
    with repository.locked(), pytest.raises(DeliveryError, match="another jitmod is at work"):
        deliver(repository)


def test_branch_moved_during_the_run_is_not_overwritten(repository: Repository, git: Git) -> None:
    class Meddler(TrialLog):
        def __call__(self, *arguments, **keywords):  # type: ignore[no-untyped-def]
            git("branch", "--force", "jitmod/toy", "main")
            return super().__call__(*arguments, **keywords)

    with pytest.raises(DeliveryError, match="was moved by someone else"):
        deliver(repository, Meddler())
    assert git("rev-parse", "jitmod/toy") == git("rev-parse", "main")


def test_workload_that_covers_the_file_is_used(repository: Repository) -> None:
    trial = TrialLog()
    other = Workload("other", "bench/work.py:run", covers=("lib/**",))
    deliver(repository, trial, workloads=(other, WORK))
    assert {call["workload"].name for call in trial.calls} == {"work"}


def test_next_workload_is_tried_where_one_proves_nothing(repository: Repository) -> None:
    done = deliver(repository, workloads=(Workload("elsewhere", "bench/work.py:run"), WORK))
    assert statuses(done) == {5: "accepted", 9: "rejected", 14: "accepted", 15: "accepted"}


@pytest.mark.parametrize(
    ("workloads", "why"),
    [((), "no workload"), ((Workload("w", "w.py:run", covers=("lib/**",)),), "covers src/app.py")],
)
def test_without_a_workload_patches_are_unproven(
    repository: Repository, workloads: tuple[Workload, ...], why: str
) -> None:
    trial = TrialLog()
    done = deliver(repository, trial, workloads=workloads)
    verdicts = [entry.outcome.verdict for entry in done.entries if entry.outcome.verdict]
    assert trial.calls == [] and len(verdicts) == 4
    assert all(
        v.status is Status.UNPROVEN and why in v.why and "--workload FILE.py:function" in v.why for v in verdicts
    )
    assert all("+    return fast(x, 4)" in entry.outcome.diff for entry in done.entries[:2])


def test_only_safe_patches(repository: Repository, checkout: Path, git: Git) -> None:
    (checkout / "src" / "app.py").write_text(
        "def risky(x):\n    return slow(x)\n\n\ndef fine(x):\n    return slow(x)\n"
    )
    git("commit", "--quiet", "-am", "risk")
    trial = TrialLog()
    deliver(repository, trial, only_safe=True)
    assert [call["symbol"] for call in trial.calls] == ["fine"]


def test_unreadable_file_does_not_stop_the_rest(repository: Repository, checkout: Path, git: Git) -> None:
    (checkout / "src" / "broken.py").write_text("def f(:\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "broken")
    done = deliver(repository)
    assert [(error.path, error.line, error.column) for error in done.errors] == [("src/broken.py", 1, 7)]
    assert git("rev-list", "--count", "main..jitmod/toy").strip() == "3"


def test_crlf_line_ends_survive_the_commit(repository: Repository, checkout: Path, git: Git) -> None:
    app = checkout / "src" / "app.py"
    app.write_bytes(app.read_bytes().replace(b"\n", b"\r\n"))
    git("commit", "--quiet", "-am", "crlf")
    deliver(repository)
    lines = git("cat-file", "blob", "jitmod/toy:src/app.py")
    assert git("diff", "--numstat", "main", "jitmod/toy").split()[:2] == ["4", "3"]
    assert "fast(x, 8)" in lines


class Rival(Toy):
    """Finds what the toy finds."""

    id = "rival"

    def find(self, document: Document, project: Project) -> Iterator[Finding]:
        for finding in super().find(document, project):
            yield replace(finding, codemod=self.id)


class Faster(TrialLog):
    """Of two rivals the one that is named gives more."""

    def __init__(self, codemod: str) -> None:
        super().__init__()
        self.codemod = codemod

    def __call__(self, patch: Patch, document: Document, **keywords: Any) -> ToyTrial:
        result = super().__call__(patch, document, **keywords)
        speedup = 9.0 if patch.codemod == self.codemod else result.verdict.speedup
        return replace(result, verdict=replace(result.verdict, speedup=speedup))


@pytest.mark.parametrize("best", ["toy", "rival"])
def test_of_two_patches_for_one_place_the_better_one_is_kept(repository: Repository, git: Git, best: str) -> None:
    done = deliver(repository, Faster(best), codemods=(Toy(), Rival()))
    kept = [entry.outcome for entry in done.entries if entry.outcome.commit]
    assert {outcome.finding.codemod for outcome in kept} == {best}
    assert [outcome.finding.site.line for outcome in kept] == [5, 14, 15]
    beaten = [o.verdict for e in done.entries if (o := e.outcome).verdict is not None and o.verdict.test == "rival"]
    assert len(beaten) == 3 and all(str(verdict.status) == "rejected" for verdict in beaten)
    assert beaten[0].why == f"{best} gives more here: 9x (1.9 to 2.2), and this 2.04x (1.9 to 2.2)"
    assert git("rev-list", "--count", "main..jitmod/toy").strip() == "3"
