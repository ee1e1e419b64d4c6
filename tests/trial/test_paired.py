"""A process for each arm, where the project takes something from the whole process: chosen and said by the trial."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from jitmod.model import Status
from jitmod.source.config import GateSettings
from jitmod.trial import apart
from jitmod.trial.job import candidate_of, make_job
from jitmod.trial.process import run_child
from jitmod.trial.trial import Trial

from .conftest import MAPPED, NET, WORKLOAD, Try, one_of_each_kind, write

REGISTERS = """\
import types

import jax


def _flatten(space):
    return tuple(vars(space).values()), tuple(vars(space))


def _unflatten(names, values):
    return types.SimpleNamespace(**dict(zip(names, values)))


jax.tree_util.register_pytree_node(types.SimpleNamespace, _flatten, _unflatten)


"""
_REGISTER = "jax.tree_util.register_pytree_node(types.SimpleNamespace, _flatten, _unflatten)"
GUARDED = REGISTERS.replace(_REGISTER, f"try:\n    {_REGISTER}\nexcept ValueError:\n    pass")
ONCE = "import sys\n\nassert not hasattr(sys, 'loaded_once')\nsys.loaded_once = True\n\n"
THREADS = """\
import threading

_STOP = threading.Event()
threading.Thread(target=_STOP.wait, daemon=True, name="feeder").start()

"""
WORKERS = "import subprocess\nimport sys\n\n_WORKER = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=-1)\n\n"

CLAIMS = {
    "registration": (REGISTERS, "registers types.SimpleNamespace as a pytree"),
    "registration: a second time is caught": (GUARDED, "registers types.SimpleNamespace as a pytree"),
    "loaded once only": (ONCE, "cannot be loaded twice in one process: AssertionError"),
    "thread that stays": (THREADS, "starts threads (feeder)"),
    "process that stays": (WORKERS, "starts worker processes"),
}


def arms(trial: Trial) -> list[dict[str, Any]]:
    return [trial.evidence["explore"]["arms"], *(judge["arms"] for judge in trial.evidence["judges"])]


@pytest.mark.slow
def test_right_candidate_is_accepted_in_two_processes(project: Path, try_text: Try) -> None:
    write(project, {"app/layers.py": REGISTERS + (project / "app/layers.py").read_text()})
    trial = try_text(MAPPED, new_functions=["_layers"], budget=240.0)
    assert trial.verdict.status is Status.ACCEPTED, trial.verdict.why
    assert [said["processes"] for said in arms(trial)] == [2, 2, 2]
    assert trial.verdict.parity["sabotage"] == {"scaled": "seen"}
    assert trial.verdict.parity["site"]["compared"] > 0
    assert trial.verdict.compiles["candidate"]["warm"] == 0
    assert trial.verdict.device == trial.evidence["explore"]["device"]["platform"]


@pytest.mark.parametrize("name", CLAIMS)
def test_claim_is_noticed_and_said(name: str, project: Path) -> None:
    planted, said = CLAIMS[name]
    write(project, {"app/layers.py": planted + (project / "app/layers.py").read_text()})
    job = make_job(
        [candidate_of({"app/net.py": MAPPED})], baseline={}, base_commit="", workload=WORKLOAD, settings=GateSettings(),
        seed=0, budget=60.0, require_gpu=False, site=None, new_functions=(), fingerprint="",
    )  # fmt: skip
    request = {"role": "explore", "job": job, "code_root": str(project), "user_root": str(project)}
    found = run_child(request, python=Path(sys.executable), folder=project, seconds=60.0, environ=os.environ)
    assert said in found["apart"] and apart.reason(found) == found["apart"]


REJECTED = [pytest.param(n, marks=[] if n == "registration" else pytest.mark.slow) for n in CLAIMS]


@pytest.mark.parametrize("name", REJECTED)
def test_wrong_candidate_is_rejected_in_two_processes(name: str, project: Path, try_text: Try) -> None:
    planted, said = CLAIMS[name]
    write(project, {"app/layers.py": planted + (project / "app/layers.py").read_text()})
    trial = try_text(NET.replace("jnp.stack(out)", "jnp.stack(out, axis=1)"), budget=180.0)
    assert (trial.verdict.status, trial.verdict.test) == (Status.REJECTED, "values"), trial.verdict.why
    assert said in arms(trial)[0]["why"]


def test_ordinary_project_stays_in_one_process(project: Path, try_text: Try) -> None:
    used = "import concurrent.futures\n\nwith concurrent.futures.ThreadPoolExecutor(2) as _pool:\n"
    used += "    assert list(_pool.map(abs, [-1])) == [1]\n\n"  # over when the module is loaded
    write(project, {"app/layers.py": used + (project / "app/layers.py").read_text()})
    trial = try_text(NET.replace("out[-1]", "out[-2]"))
    assert (trial.verdict.status, trial.verdict.test) == (Status.REJECTED, "values"), trial.verdict.why
    assert arms(trial) == [{"processes": 1, "why": ""}]


DYING = {
    "ends: segfault": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)\n", "SIGSEGV"),
    "ends: exit": ("import os; os._exit(3)\n", "exit status 3"),
    "ends: raises": ("raise RuntimeError('planted')\n", "RuntimeError: planted"),
}


@pytest.mark.parametrize("name", one_of_each_kind(DYING))
def test_crash_of_one_of_two_processes_is_a_verdict(name: str, project: Path, try_text: Try) -> None:
    planted, said = DYING[name]
    write(project, {"app/layers.py": ONCE + (project / "app/layers.py").read_text()})
    verdict = try_text(planted + NET, budget=180.0).verdict
    assert verdict.status is Status.CRASHED, verdict.why
    assert said in verdict.why and "candidate" in verdict.why


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_no_process_of_a_pair_stays(project: Path, try_text: Try, tmp_path_factory: pytest.TempPathFactory) -> None:
    note = tmp_path_factory.mktemp("notes") / "pid"
    write(project, {"app/layers.py": ONCE + (project / "app/layers.py").read_text()})
    hanging = f"import os, time\nopen({str(note)!r}, 'a').write(f'{{os.getpid()}} ')\ntime.sleep(600)\n"
    verdict = try_text(hanging + NET, budget=120.0).verdict
    assert verdict.status is Status.CRASHED and "did not finish" in verdict.why, verdict.why
    for process in note.read_text().split():
        status = Path(f"/proc/{process}/stat")
        assert not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"


PAIRED = {"arms": {"processes": 2, "why": "x"}}
OOM = {"type": "jaxlib._jax.XlaRuntimeError", "text": "RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes."}
FOUND = {
    "nothing": ({}, False),
    "said by the child": ({"apart": "y"}, True),
    "killed with one arm loaded": ({"failure": {"how": "was ended by SIGKILL", "stage": "baseline: loading"}}, False),
    "killed with two arms": ({"failure": {"how": "was ended by SIGKILL", "stage": "candidate: loading"}}, True),
    "crashed with two arms": ({"failure": {"how": "was ended by SIGSEGV", "stage": "candidate: loading"}}, False),
    "no memory on the device": ({"error": {"arm": "candidate", **OOM}}, True),
    "another error": ({"error": {"arm": "candidate", "type": "ValueError", "text": "no"}}, False),
}


@pytest.mark.parametrize("name", FOUND)
def test_reasons(name: str) -> None:
    found, is_reason = FOUND[name]
    assert (apart.reason(found) is not None) is is_reason
    assert apart.reason({**found, **PAIRED}) is None, "it is so already"
