"""A run that is killed in the middle of a trial leaves a repository that the next run can go on with."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

DRIVER = str(Path(__file__).with_name("toy_driver.py"))
COMMAND = [sys.executable, DRIVER, "apply", "--codemod", "toy"]


@pytest.fixture
def interrupted(
    checkout: Path, git: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[int], int]:
    """Start a run, send it a signal while it tries its last patch; its exit code."""
    app = checkout / "src" / "app.py"
    app.write_text(app.read_text() + "\n\ndef hang(x):\n    return slow(x)\n")
    git("commit", "--quiet", "-am", "hang")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)

    def start(number: int) -> int:
        with subprocess.Popen(COMMAND, cwd=checkout, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while not (checkout / "hanging").exists() and process.poll() is None:
                time.sleep(0.02)
            process.send_signal(number)
            return process.wait(60)

    return start


def test_kill_9(checkout: Path, git: Callable[..., str], interrupted: Callable[[int], int], tmp_path: Path) -> None:
    assert interrupted(signal.SIGKILL) == -signal.SIGKILL
    assert git("rev-list", "--count", "main..jitmod/toy").strip() == "3"
    assert git("fsck", "--no-dangling") == ""
    assert git("worktree", "list").count("\n") == 2 and len(list((tmp_path / "tmp").iterdir())) == 1
    again = subprocess.run(COMMAND, cwd=checkout, capture_output=True, text=True)
    assert again.returncode == 1, again.stderr  # one of the toy's patches is always rejected
    assert git("rev-list", "--count", "main..jitmod/toy").strip() == "4"
    assert git("worktree", "list").count("\n") == 1 and list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_polite_signals_clean_up_at_once(
    checkout: Path, git: Callable[..., str], interrupted: Callable[[int], int], tmp_path: Path, number: int, code: int
) -> None:
    assert interrupted(number) == code
    assert git("rev-list", "--count", "main..jitmod/toy").strip() == "3"
    assert git("worktree", "list").count("\n") == 1 and list((tmp_path / "tmp").iterdir()) == []
