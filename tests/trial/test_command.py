"""`jitmod trial`: revisions, the working tree, folders; what it prints and what it leaves alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from jitmod.cli.main import app
from jitmod.trial.scratch import scratch

from .conftest import MAPPED, NET, write

WRONG = NET.replace("jnp.stack(out)", "jnp.stack(out, axis=1)")
RUN = ["--workload", "bench.py:run", "--setup", "bench.py:setup"]
Invoke = Callable[..., Result]


def git(folder: Path, *arguments: str) -> str:
    who = {f"GIT_{role}_{what}": "t@t" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    command = ["git", *arguments]
    return subprocess.run(command, cwd=folder, env=os.environ | who, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(project: Path) -> Path:
    git(project, "init", "-q", "-b", "main")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "start")
    return project


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch) -> Invoke:
    def run(folder: Path, *arguments: str) -> Result:
        monkeypatch.chdir(folder)
        return CliRunner().invoke(app, ["trial", *arguments])

    return run


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in files}


def test_two_revisions(repository: Path, invoke: Invoke) -> None:
    write(repository, {"app/net.py": WRONG})
    git(repository, "commit", "-qam", "wrong")
    git(repository, "commit", "-q", "--allow-empty", "-m", "later")
    before = contents(repository)
    result = invoke(repository, "HEAD~2", "HEAD~1", *RUN, "--format", "json")
    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (document["verdict"], document["test"]) == ("rejected", "values")
    assert "output[0]" in document["why"]
    assert contents(repository) == before, "nothing of the repository is written, not even git's own files"


def test_working_tree_against_a_revision(
    repository: Path, invoke: Invoke, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = NET.replace("from .layers import layer", "from .other import layer")
    other = "import jax.numpy as jnp\n\n\ndef layer(w, x):\n    return jnp.tanh(x @ w)\n"
    write(repository, {"app/net.py": text, "app/other.py": other})  # the second is not known to git
    output = tmp_path_factory.mktemp("out") / "evidence.json"
    result = invoke(repository, "HEAD", *RUN, "-o", str(output))
    assert result.exit_code == 1
    assert result.stdout.startswith("rejected: values")
    assert json.loads(output.read_text())["verdict"] == "rejected"


def test_folders_outside_git_and_an_accepted_change(
    tmp_path_factory: pytest.TempPathFactory, project: Path, invoke: Invoke
) -> None:
    other = tmp_path_factory.mktemp("other")
    write(other, {"app/__init__.py": "", "app/net.py": MAPPED, "app/layers.py": (project / "app/layers.py").read_text(),
                  "bench.py": (project / "bench.py").read_text()})  # fmt: skip
    result = invoke(project.parent, project.name, str(other), *RUN)
    assert result.exit_code == 0, result.stdout
    assert result.stdout.startswith("accepted") and "warm call" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["HEAD"], "what is to be run"),
        (["HEAD", *RUN], "nothing to try"),
        (["no-such", *RUN], "neither a revision nor a folder: no-such"),
        (["HEAD", "no-such", *RUN], "no such revision: no-such"),
        (["HEAD", "--workload", "bench.py"], "must look like"),
        (["HEAD", "--setup", "bench.py:setup"], "go with --workload"),
        (["HEAD", *RUN, "--python", "no-such-python"], "no such program"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: list[str], said: str, repository: Path, invoke: Invoke) -> None:
    result = invoke(repository, *arguments)
    assert result.exit_code == 2
    assert said in result.output


def start(repository: Path, scratches: Path) -> subprocess.Popen[str]:
    """A trial whose baseline hangs, in a process of its own."""
    command = [sys.executable, "-c", "from jitmod.cli.main import main; main()", "trial", "HEAD", *RUN]
    return subprocess.Popen(command, cwd=repository, env=os.environ | {"TMPDIR": str(scratches)}, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip


def running(scratches: Path) -> list[str]:
    """The command lines of processes that work in these scratch folders."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(scratches) in line:
            found.append(line)
    return found


def wait_for(condition: Callable[[], bool]) -> bool:
    for _ in range(300):
        if condition():
            return True
        time.sleep(0.1)
    return False


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", range(int(os.environ.get("JITMOD_KILLS", "2"))))
def test_killed_run_leaves_nothing_that_the_next_one_does_not_remove(
    number: int, repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratches = tmp_path_factory.mktemp("scratch")
    write(repository, {"app/net.py": MAPPED})
    before = contents(repository)
    process = start(repository, scratches)
    time.sleep(0.3 + 0.37 * number % 6.0)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert wait_for(lambda: not running(scratches)), running(scratches)
    assert contents(repository) == before
    assert git(repository, "worktree", "list").count("\n") == 1
    monkeypatch.setattr("tempfile.tempdir", str(scratches))
    with scratch() as own:
        assert list(scratches.iterdir()) == [own]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_interrupted_run_cleans_up_itself(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    scratches = tmp_path_factory.mktemp("scratch")
    write(repository, {"app/net.py": "import time\ntime.sleep(600)\n"})
    process = start(repository, scratches)
    assert wait_for(lambda: bool(running(scratches)))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in said
    assert wait_for(lambda: not running(scratches)) and not list(scratches.iterdir())
