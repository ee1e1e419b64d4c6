"""`jitmod apply` and `jitmod pr`, killed at any moment: what is the user's is as it was, and the next run completes.

JITMOD_KILLS is how often each is killed (make kills: 50); CI does it a few times.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_hub import FakeHub
from fixtures_git import run_git, snapshot
from test_pull import hub, remote, tip  # noqa: F401

KILLS = int(os.environ.get("JITMOD_KILLS", "3"))
DRIVER = [sys.executable, str(Path(__file__).with_name("toy_driver.py"))]


@pytest.fixture
def state(checkout: Path) -> Callable[[], object]:
    """All that is the user's: files, index, stash, branches, worktrees. There is something of each."""
    (checkout / "src" / "app.py").write_text((checkout / "src" / "app.py").read_text() + "# stashed\n")
    run_git(checkout, "stash", "--quiet")
    (checkout / "bench" / "staged.py").write_text("x = 1\n")
    run_git(checkout, "add", "bench/staged.py")
    (checkout / "pyproject.toml").write_text((checkout / "pyproject.toml").read_text() + "# not committed\n")
    run_git(checkout, "branch", "mine")

    def look() -> object:
        branches = run_git(checkout, "rev-parse", "mine", "main")
        return snapshot(checkout), branches, run_git(checkout, "stash", "list")

    return look


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def killed(command: list[str], folder: Path, seconds: float) -> int:
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def run(command: list[str], folder: Path) -> tuple[float, subprocess.CompletedProcess[str]]:
    start = time.monotonic()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return time.monotonic() - start, done


@pytest.mark.parametrize("into", ["branch", "bundle"])
def test_apply(checkout: Path, state: Callable[[], object], tmp_path: Path, temporary: Path, into: str) -> None:
    moments = random.Random(f"apply {into}")

    def command(name: str) -> list[str]:
        place = ["--branch", f"jitmod/{name}"] if into == "branch" else ["--bundle", str(tmp_path / name)]
        return [*DRIVER, "apply", "--codemod", "toy", "--fresh", *place]

    before = state()
    took, done = run(command("whole"), checkout)
    assert done.returncode == 1, done.stderr  # one of the toy's patches is always rejected
    for number in range(KILLS):
        killed(command(f"cut{number}"), checkout, moments.uniform(0, 1.1 * took))
        assert state() == before
        assert run_git(checkout, "fsck", "--no-dangling") == ""
        name = f"cut{number}" if into == "branch" else f"again{number}"  # half a bundle is none, and stays where it is
        _, done = run(command(name), checkout)
        assert done.returncode == 1, done.stderr
        assert state() == before and run_git(checkout, "worktree", "list").count("\n") == 1
        if into == "branch":
            assert run_git(checkout, "show", f"jitmod/{name}:src/app.py").count("fast(x, 8)") == 3
        else:
            assert (tmp_path / name / "bundle.json").exists()
        assert run_git(checkout, "for-each-ref", "refs/jitmod").strip() == ""
        assert not list(temporary.iterdir()) and not (checkout / ".git" / "jitmod" / "replay").exists()


@pytest.mark.parametrize("what", ["branch", "bundle"])
def test_pr(
    checkout: Path, remote: Path, hub: FakeHub, state: Callable[[], object], tmp_path: Path, temporary: Path,  # noqa: F811
    what: str,
) -> None:  # fmt: skip
    moments = random.Random(f"pr {what}")
    if what == "bundle":
        made = run([*DRIVER, "apply", "--codemod", "toy", "--bundle", str(tmp_path / "bundle")], checkout)
        assert made[1].returncode == 1, made[1].stderr
    command = [*DRIVER, "pr", *(["jitmod/toy"] if what == "branch" else ["--from", str(tmp_path / "bundle")])]

    def anew() -> None:
        run_git(remote, "update-ref", "-d", "refs/heads/jitmod/toy")
        hub.pulls.clear()
        hub.issues.clear()

    before, theirs = state(), run_git(remote, "rev-parse", "main")
    took, done = run(command, checkout)
    assert done.returncode == 0, done.stderr
    for _ in range(KILLS):
        anew()
        killed(command, checkout, moments.uniform(0, 1.1 * took))
        assert state() == before and run_git(remote, "rev-parse", "main") == theirs
        _, done = run(command, checkout)
        assert done.returncode == 0, done.stderr
        assert [one["state"] for one in hub.pulls] == ["open"] and tip(remote)[:10] in hub.pulls[0]["body"]
        assert len(hub.issues) == (what == "bundle")
        assert state() == before and run_git(remote, "fsck", "--no-dangling") == ""
        assert run_git(checkout, "for-each-ref", "refs/jitmod").strip() == ""
        assert not list(temporary.iterdir()) and not (checkout / ".git" / "jitmod" / "replay").exists()
