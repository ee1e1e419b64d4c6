"""`jitmod trial`: revisions, the working tree, folders; what it prints and what it leaves alone."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from jitmod.cli.main import app
from jitmod.model import Status, Verdict
from jitmod.source.config import GateSettings
from jitmod.trial.job import candidate_of, make_job
from jitmod.trial.profile import profile
from jitmod.trial.scratch import scratch
from jitmod.trial.trial import Trial

from .conftest import MAPPED, NET, WORKLOAD, write

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


def test_new_test_of_the_working_tree_runs_in_both_arms(repository: Path, invoke: Invoke) -> None:
    test = "from bench import run, setup\n\n\ndef test_it():\n    found = run(*setup())\n    assert len(found) == 2\n"
    write(repository, {"app/net.py": WRONG, "tests/test_new.py": test})
    result = invoke(repository / "tests", "HEAD", "--workload", "test_new.py::test_it")
    assert result.stdout.startswith("rejected: values at output['found'][0]"), result.output


@pytest.mark.parametrize(
    ("text", "said"),
    [(WRONG, "rejected: values"), pytest.param(MAPPED, "accepted", marks=pytest.mark.slow)],
    ids=["rejected", "accepted"],
)
def test_folders_outside_git(
    text: str, said: str, tmp_path_factory: pytest.TempPathFactory, project: Path, invoke: Invoke
) -> None:
    other = tmp_path_factory.mktemp("other")
    write(other, {"app/__init__.py": "", "app/net.py": text, "app/layers.py": (project / "app/layers.py").read_text(),
                  "bench.py": (project / "bench.py").read_text()})  # fmt: skip
    result = invoke(project.parent, project.name, str(other), *RUN)
    assert result.exit_code == (said != "accepted"), result.stdout
    assert result.stdout.startswith(said) and ("warm call" in result.stdout) == (said == "accepted")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["HEAD"], "what is to be run"),
        (["HEAD", *RUN], "nothing to try"),
        (["no-such", *RUN], "neither a revision nor a folder: no-such"),
        (["HEAD", "no-such", *RUN], "no such revision: no-such"),
        (["HEAD", "--workload", "bench"], "must look like"),
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


def test_a_profile_that_cannot_be_written_does_not_lose_the_verdict(
    repository: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repository, {"app/net.py": MAPPED})
    made = Trial(Verdict(Status.UNPROVEN, "nothing was seen"), {}, {})
    monkeypatch.setattr("jitmod.trial.trial.try_workloads", lambda *given, **options: made)

    def full(*given: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("jitmod.trial.profile.profile", full)
    result = invoke(repository, "HEAD", *RUN, "--profile", "traces")
    assert result.exit_code == 2 and result.stdout.startswith("unproven: nothing was seen"), result.output
    assert "--profile traces: cannot be written: No space left on device" in result.stderr


def test_a_profile_of_each_arm(project: Path, tmp_path: Path) -> None:
    job = make_job([candidate_of({"app/net.py": MAPPED})], baseline={}, base_commit="", workload=WORKLOAD,
                   settings=GateSettings(), seed=0, budget=60.0, require_gpu=False, site=None, new_functions=(),
                   fingerprint="")  # fmt: skip
    traces = tmp_path / "traces"
    assert profile(job, 0, traces, code_root=project, user_root=project, python=Path(sys.executable)) == {}
    assert all(list((traces / arm).rglob("*.xplane.pb")) for arm in ("baseline", "candidate"))


def test_folders_of_another_machine_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ended = subprocess.Popen(["true"])
    ended.wait()
    with monkeypatch.context() as patched:
        patched.setattr("jitmod.trial.scratch.os.getpid", lambda: ended.pid)
        patched.setattr("jitmod.trial.scratch.shutil.rmtree", lambda folder, ignore_errors: None)
        with scratch() as left:
            pass
        patched.setattr("jitmod.trial.scratch.platform.node", lambda: "another")
        with scratch() as foreign:
            pass
    with scratch() as own:
        assert set(tmp_path.iterdir()) == {own, foreign} and left != foreign


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


_DROP = """\
import ctypes, os, sys
for capability in (1, 2):  # root writes and reads everything by these two
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-c", "from jitmod.cli.main import main; main()", *sys.argv[1:]])
"""


@pytest.fixture
def sealed(repository: Path) -> Iterator[Path]:
    """The repository with nothing in it that could be written, and a wrong change as its last commit."""
    write(repository, {"app/net.py": WRONG})
    git(repository, "commit", "-qam", "wrong")
    git(repository, "config", "user.name", "t")
    git(repository, "config", "user.email", "t@t")
    folders = [repository, *(path for path in repository.rglob("*") if not path.is_symlink())]
    for path in folders:
        path.chmod(path.stat().st_mode & ~0o222)
    yield repository
    for path in folders:
        path.chmod(path.stat().st_mode | 0o200)


@pytest.mark.skipif(sys.platform != "linux", reason="root gives its rights up as Linux has it")
def test_read_only_repository(sealed: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """It can be tried; only what was to be written there is missing, and that is said."""
    scratches = tmp_path_factory.mktemp("scratch")
    before = contents(sealed)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", _DROP, *arguments]
        return subprocess.run(command, cwd=sealed, env=os.environ | {"TMPDIR": str(scratches)}, text=True,
                              capture_output=True)  # fmt: skip

    ended = run("trial", "HEAD~1", "HEAD", *RUN, "-o", str(sealed / "evidence.json"))
    assert (ended.returncode, ended.stdout.startswith("rejected: values")) == (2, True), ended.stderr
    assert "evidence.json: cannot be written: Permission denied" in ended.stderr
    for command in (["apply"], ["apply", "--", "python", "bench.py"]):
        applied = run(*command)
        assert applied.returncode == 2 and "Traceback" not in applied.stderr
        assert "cannot be written (Permission denied): nothing can be committed" in applied.stderr
    assert contents(sealed) == before and not list(scratches.iterdir())


def test_evidence_is_written_whole_or_not_at_all(repository: Path, invoke: Invoke) -> None:
    write(repository, {"app/net.py": WRONG})
    nothing = ["HEAD", "--workload", "bench.py:absent"]
    full = invoke(repository, *nothing, "-o", "/dev/full")
    assert full.exit_code == 2
    assert full.stdout.startswith("unproven") and "/dev/full: cannot be written: No space left" in full.output
    kept = repository / "out" / "evidence.json"
    write(repository, {"out/evidence.json": "old"})
    assert invoke(repository, *nothing, "-o", str(kept)).exit_code == 1
    assert json.loads(kept.read_text())["verdict"] == "unproven"
    assert list(kept.parent.iterdir()) == [kept]


def test_full_disk_stops_the_run_and_blames_no_patch(
    repository: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    scratches = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr("tempfile.tempdir", str(scratches))
    monkeypatch.setattr("jitmod.trial.process.is_full", lambda folder: folder.is_relative_to(scratches))
    write(repository, {"app/net.py": "raise OSError(28, 'No space left on device')\n"})
    result = invoke(repository, "HEAD", *RUN)
    assert result.exit_code == 2
    assert "no room for temporary files" in result.output and "TMPDIR" in result.output
    assert not list(scratches.iterdir())


def test_missing_folder_for_temporary_files_is_said(
    repository: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repository, {"app/net.py": WRONG})
    monkeypatch.setattr("tempfile.tempdir", str(repository / "absent"))
    result = invoke(repository, "HEAD", *RUN)
    assert result.exit_code == 2 and "no room for temporary files" in result.output
