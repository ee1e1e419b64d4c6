"""Whatever the child does, the parent goes on with a verdict."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from jitmod.model import Status
from jitmod.source.config import Workload
from jitmod.trial.environment import child_environment

from .conftest import MAPPED, NET, WORKLOAD, Try, write

PLANTED = {
    "raises at import": ("raise RuntimeError('planted')\n", "RuntimeError: planted"),
    "exits": ("import os; os._exit(0)\n", "ended early with exit status 0"),
    "segfault": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)\n", "SIGSEGV"),
    "killed": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n", "out of memory"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_crash_while_the_candidate_loads_is_a_verdict(name: str, try_text: Try) -> None:
    planted, said = PLANTED[name]
    verdict = try_text(planted + NET).verdict
    assert verdict.status is Status.CRASHED
    assert said in verdict.why and "candidate" in verdict.why


def test_crash_inside_the_call_shows_where(try_text: Try) -> None:
    dying = NET.replace("    out = []\n", "    out = []\n    __import__('os').abort()\n")
    verdict = try_text(dying).verdict
    assert verdict.status is Status.CRASHED
    assert "SIGABRT" in verdict.why and "candidate: first calls" in verdict.why and "net.py" in verdict.why


def test_hang_is_ended_with_its_process_group(tmp_path_factory: pytest.TempPathFactory, try_text: Try) -> None:
    note = tmp_path_factory.mktemp("notes") / "pid"
    hanging = (
        f"import subprocess, time\np = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(note)!r}, 'w').write(str(p.pid))\ntime.sleep(600)\n"
    )
    verdict = try_text(hanging + NET, budget=20.0).verdict
    assert verdict.status is Status.CRASHED
    assert "did not finish" in verdict.why and "time.sleep" not in note.read_text()
    child = int(note.read_text())
    for _ in range(100):
        if not _is_running(child):
            break
        time.sleep(0.1)
    assert not _is_running(child)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_slow_baseline_is_no_crash_of_the_patch(project: Path, try_text: Try) -> None:
    write(project, {"slow.py": "import time\n\ndef run():\n    time.sleep(600)\n"})
    verdict = try_text(MAPPED, Workload("slow", "slow.py:run"), budget=8.0).verdict
    assert verdict.status is Status.UNPROVEN
    assert "too slow" in verdict.why


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import os\nos.kill(os.getpid(), 9)", "no room for the trial of this workload: the child was ended"),
        ("import os\nos._exit(7)", "ends its process in the baseline: the child ended early with exit status 7"),
    ],
)
def test_a_baseline_that_ends_its_process_is_no_crash_of_the_patch(
    program: str, said: str, project: Path, try_text: Try
) -> None:
    body = program.replace("\n", "\n    ")
    write(project, {"ends.py": f"def run():\n    {body}\n"})
    verdict = try_text(MAPPED, Workload("ends", "ends.py:run"), budget=60.0).verdict
    assert verdict.status is Status.UNPROVEN and said in verdict.why, verdict.why


def test_missing_interpreter_is_a_verdict(project: Path) -> None:
    from jitmod.source.config import GateSettings
    from jitmod.trial.trial import try_arms

    trial = try_arms({"app/net.py": MAPPED}, code_root=project, user_root=project, workload=WORKLOAD,
                     settings=GateSettings(), python=project / "no-such-python", budget=10.0)  # fmt: skip
    assert trial.verdict.status is Status.CRASHED
    assert "cannot start" in trial.verdict.why


def test_no_secret_reaches_the_child(
    tmp_path_factory: pytest.TempPathFactory, try_text: Try, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path_factory.mktemp("notes") / "seen"
    secrets = {"GITHUB_TOKEN": "s", "HF_TOKEN": "s", "JAX_API_KEY": "s", "XLA_SECRET": "s", "SSH_AUTH_SOCK": "s",
               "ACTIONS_RUNTIME_URL": "s", "GIT_INDEX_FILE": "s", "AWS_PROFILE": "s"}  # fmt: skip
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    spy = f"import os\nopen({str(note)!r}, 'w').write('\\n'.join(os.environ))\nos._exit(3)\n"
    try_text(spy + NET)
    seen = set(note.read_text().splitlines())
    assert {"PATH", "MALLOC_TRIM_THRESHOLD_", "PYTHONHASHSEED"} <= seen
    assert not seen & set(secrets)


@pytest.mark.parametrize(
    ("name", "passes"),
    [("LC_ALL", True), ("XLA_FLAGS", True), ("CUDA_VISIBLE_DEVICES", True), ("PYTHONPATH", True),
     ("OMP_NUM_THREADS", True), ("PYTHONSTARTUP", False), ("XLA_AUTH", False),
     ("TF_CPP_MIN_LOG_LEVEL", True), ("TF_VAR_database", False), ("jax_token", False),
     ("JAX_COMPILATION_CACHE_DIR", False)],
)  # fmt: skip
def test_environment_is_an_allowlist(name: str, passes: bool) -> None:
    assert (name in child_environment({name: "x"})) is passes
    assert name not in child_environment({name: "https://me:secret@host/x"})
