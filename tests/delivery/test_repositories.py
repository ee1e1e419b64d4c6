"""Repositories of other kinds: shallow, with submodules, signing, of the other hash."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_hub import FakeHub
from fixtures_git import run_git
from test_bot import Deliver, Make, deliver, make, on_main  # noqa: F401
from test_onto_branch import deliver as onto
from test_onto_branch import statuses
from test_pull import Pr, commit, hub, pr, remote, tip  # noqa: F401
from toy import Toy, TrialLog

from jitmod.delivery.attempt import Terms
from jitmod.delivery.job import Request, onto_branch
from jitmod.delivery.repository import Repository, scrubbed_environment
from jitmod.delivery.tell import Silent
from jitmod.source.config import GateSettings, Workload

Git = Callable[..., str]


def clone(source: Path, target: Path, *options: str) -> Repository:
    run_git(source.parent, "clone", "--quiet", *options, f"file://{source}", str(target))
    run_git(target, "config", "user.name", "Ada")
    run_git(target, "config", "user.email", "ada@example.org")
    return Repository.around(target)


def test_shallow(checkout: Path, tmp_path: Path) -> None:
    (checkout / "more.py").write_text("x = 1\n")
    run_git(checkout, "add", ".")
    run_git(checkout, "commit", "--quiet", "-m", "second")
    shallow = clone(checkout, tmp_path / "shallow", "--depth", "1")
    assert sorted(statuses(onto(shallow)).values()) == ["accepted"] * 3 + ["rejected"]
    assert run_git(shallow.root, "rev-list", "--count", "HEAD..jitmod/toy").strip() == "3"
    assert run_git(shallow.root, "rev-parse", "--is-shallow-repository").strip() == "true"


def test_a_request_out_of_a_shallow_clone(
    make: Make, deliver: Deliver, hub: FakeHub, checkout: Path, remote: Path, tmp_path: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    deliver(make())
    was = tip(remote)
    source = checkout / "src" / "app.py"
    source.write_text(source.read_text() + "\n\ndef third(x):\n    return slow(x)\n")
    on_main(checkout, remote)
    bundle = make()
    shallow = clone(remote, tmp_path / "shallow", "--depth", "1", "--branch", "main")
    monkeypatch.chdir(shallow.root)
    result = deliver(bundle)
    assert "touched: jitmod/toy" in result.stdout and "git fetch --unshallow" in result.stdout and tip(remote) == was
    run_git(shallow.root, "fetch", "--quiet", "--unshallow")
    assert "updated: jitmod/toy" in deliver(bundle).stdout


def test_submodules(checkout: Path, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are others' code: nothing in them is tried or changed, and what is checked out stays so."""
    other = tmp_path / "other"
    other.mkdir()
    run_git(other, "init", "--quiet", "--initial-branch=main")
    (other / "lib.py").write_text("def deep(x):\n    return slow(x)\n")
    run_git(other, "add", ".")
    run_git(other, "-c", "user.name=a", "-c", "user.email=a@e.org", "commit", "--quiet", "-m", "start")
    allowed = ("-c", "protocol.file.allow=always")
    run_git(checkout, *allowed, "submodule", "--quiet", "add", f"file://{other}", "vendor/other")
    run_git(checkout, "commit", "--quiet", "-m", "submodule")
    log = TrialLog()
    onto(repository, log)
    assert {call["symbol"] for call in log.calls} == {"first", "bad", "second"}
    assert run_git(checkout, "ls-tree", "jitmod/toy", "vendor/other").startswith("160000 commit")
    assert run_git(checkout, "status", "--porcelain") == "" and (checkout / "vendor" / "other" / "lib.py").exists()
    assert run_git(checkout, "worktree", "list").count("\n") == 1


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="there is no ssh-keygen")
def test_commits_are_signed_as_git_is_configured(checkout: Path, repository: Repository, tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    for name, value in (("gpg.format", "ssh"), ("user.signingKey", str(key)), ("commit.gpgSign", "true")):
        run_git(checkout, "config", name, value)
    onto(repository)
    assert all("gpgsig" in run_git(checkout, "cat-file", "commit", sha)
               for sha in run_git(checkout, "rev-list", "main..jitmod/toy").split())  # fmt: skip
    run_git(checkout, "config", "user.signingKey", str(tmp_path / "none"))
    assert set(statuses(onto(repository, branch="jitmod/other")).values()) == {"rejected"}  # git refuses, and says why


@pytest.mark.parametrize("signoff", [False, True])
def test_nobody_signs_off_who_did_not_ask(checkout: Path, repository: Repository, signoff: bool) -> None:
    run_git(checkout, "config", "format.signOff", "true")
    terms = Terms(TrialLog(), checkout, (Workload("w", "bench/work.py:run"),), GateSettings(), Path("python"), 60.0)
    with scrubbed_environment():
        onto_branch(Request((Toy(),), (".",)), repository, "jitmod/toy", None, terms, Silent(), signoff)
    assert run_git(checkout, "log", "main..jitmod/toy").count("Signed-off-by: Ada") == 3 * signoff


def test_the_other_hash(checkout: Path, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    shutil.rmtree(checkout / ".git")
    run_git(checkout, "init", "--quiet", "--object-format=sha256", "--initial-branch=main")
    run_git(checkout, "config", "user.name", "Ada")
    run_git(checkout, "config", "user.email", "ada@example.org")
    run_git(checkout, "add", ".")
    run_git(checkout, "commit", "--quiet", "-m", "start")
    assert len(statuses(onto(Repository.around(checkout)))) == 4
    assert (make() / "bundle.json").exists()
