"""Memory: what does not fit is not run, what runs out of it is learnt from, what each arm needs is known."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jitmod.delivery import figures
from jitmod.model import Status, Verdict
from jitmod.trial import needs
from jitmod.trial.child.predict import Predictions, TooLarge
from jitmod.trial.child.room import _of_groups

from .conftest import write

MODEL = """\
import jax
import jax.numpy as jnp


def score(w, x):
    return w.T @ jnp.tanh(w @ x)


def run(w, xs):
    return jnp.stack([score(w, x) for x in xs])


def setup():
    one, two = jax.random.split(jax.random.key(0))
    return jax.random.normal(one, (1 << 21, 4)) / 1000, jax.random.normal(two, (64, 4))
"""
LOOP = "    return jnp.stack([score(w, x) for x in xs])\n"
CHUNKED = MODEL.replace(LOOP, "    return scores(w, xs)\n").replace("def run", """\
@jax.jit
def scores(w, xs):
    return jax.lax.map(lambda x: score(w, x), xs, batch_size=BATCH)


def run""")  # fmt: skip
LIMITED = """\
import json, resource, sys
from pathlib import Path

from jitmod.model import Site
from jitmod.source.config import GateSettings, Workload
from jitmod.trial.job import make_job
from jitmod.trial.trial import try_job

root, limit = Path(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
sizes = json.loads(sys.argv[3])
text = (root / "chunked.txt").read_text()
candidates = [{"variant": 0, "form": "lax.map", "knobs": {"batch_size": size}, "default": size == 64,
               "files": {"model.py": text.replace("BATCH", str(size))}} for size in sizes]
job = make_job(candidates, baseline={}, base_commit="", workload=Workload("w", "model.py:run", "model.py:setup"),
               settings=GateSettings(memory_share=float(sys.argv[4])), seed=0, budget=400.0, require_gpu=False,
               site=Site("model.py", 10, 12, 10, "run"), new_functions=("scores",), fingerprint="f")
trial = try_job(job, code_root=root, user_root=root, python=Path(sys.executable))
print(json.dumps({"status": trial.verdict.status, "why": trial.verdict.why, "knobs": trial.verdict.knobs,
                  "memory": trial.verdict.memory, "evidence": trial.evidence}))
"""


def limited(project: Path, gibibytes: float, sizes: list[int], share: float = 0.7) -> dict[str, Any]:
    """A trial in a process with so much address space."""
    write(project, {"model.py": MODEL, "chunked.txt": CHUNKED})
    words = [sys.executable, "-c", LIMITED, str(project), str(int(gibibytes * 2**30)), json.dumps(sizes), str(share)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr  # whatever happens to its children
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def alone(baseline: int | None, candidate: int | None, room: int = 1000 << 20, **more: Any) -> dict[str, Any]:
    """Evidence of two processes, in bytes."""
    size = {"size": room, "what": "free memory"}
    return {"baseline": {"needs": baseline, "room": size}, "candidate": {"needs": candidate, "room": size, **more}}


JOB = {"gate": {"memory_share": 0.7}}
FULL = {"type": "jaxlib.XlaRuntimeError", "text": "RESOURCE_EXHAUSTED: Out of memory allocating 8589934592 bytes."}


@pytest.mark.parametrize(
    ("found", "why"),
    [
        pytest.param(alone(10 << 20, 600 << 20), None, id="fits"),
        pytest.param(alone(10 << 20, 800 << 20),
                     "memory: a call needs 800 MiB, against 10 MiB in the baseline, and 70% of 1000 MiB of free",
                     id="does not fit"),
        pytest.param(alone(790 << 20, 800 << 20), None, id="as much as the baseline"),
        pytest.param(alone(None, 800 << 20), None, id="nothing to compare with"),
        pytest.param(alone(10 << 20, None, error=FULL), "memory: alone, the candidate runs out of it", id="runs out"),
        pytest.param(alone(10 << 20, None, error={"type": "ValueError", "text": "no"}), None, id="another error"),
        pytest.param({}, None, id="not looked at"),
    ],
)  # fmt: skip
def test_what_an_arm_needs_is_judged(found: dict[str, Any], why: str | None) -> None:
    verdict = needs.judge(JOB, found)
    assert (verdict is None) == (why is None)
    if verdict is not None and why is not None:
        assert verdict.status is Status.REJECTED and verdict.test == "memory" and verdict.why.startswith(why)


def test_a_candidate_that_ended_its_process_while_it_was_tuned_is_known() -> None:
    failure = {"stage": "candidate 3: tuning", "how": "was ended by SIGKILL (out of memory?)", "tail": ""}
    assert needs.victim({"failure": failure}) == 2
    assert needs.victim({"failure": failure | {"how": "did not finish within 9 s"}}) is None
    assert needs.victim({"failure": failure | {"stage": "baseline: first calls"}}) is None
    assert needs.victim({}) is None


def test_a_chosen_number_says_that_memory_decided() -> None:
    memory = {"room": 139 << 30, "limit": round(0.7 * (139 << 30)), "what": "device memory"}
    verdict = Verdict(Status.ACCEPTED, "", knobs={"batch_size": 64}, memory=memory)
    assert figures.knobs(verdict) == "batch_size 64"
    without = Verdict(Status.ACCEPTED, "", knobs={"batch_size": 64},
                      memory={**memory, "ruled_out": [{"form": "lax.map", "batch_size": 256}]})  # fmt: skip
    assert figures.knobs(without) == "batch_size 64 (the fastest that fits 70 % of 139 GiB of device memory)"


def test_what_the_compiler_says_needs_too_much_does_not_run() -> None:
    ran: list[int] = []

    def probe(x: Any) -> Any:
        ran.append(1)
        return x

    function = jax.jit(lambda x: jax.pure_callback(probe, x, x) + jnp.ones((1 << 20,)))
    large = Predictions(1 << 20)
    with pytest.raises(TooLarge, match="a call needs 4194304 bytes, and there are 1048576"):
        large.ask(function, (jnp.zeros((1 << 20,)),), {})
    assert large.is_exceeded and ran == []
    asked = Predictions(None)
    asked.ask(function, (jnp.zeros((1 << 20,)),), {})
    assert asked.largest == 4194304 and not asked.is_exceeded
    asked.ask(lambda x: x, (1.0,), {})  # nothing compiled


def group(folder: Path, version: int, limit: str, used: int, spare: int) -> None:
    names = ("memory.max", "memory.current", "inactive_file")
    if version == 1:
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    write(folder, {names[0]: f"{limit}\n", names[1]: f"{used}\n", "memory.stat": f"cache 7\n{names[2]} {spare}\n"})


def test_the_nearest_limit_of_all_control_groups_counts(tmp_path: Path) -> None:
    own, mounted = tmp_path / "own", tmp_path / "groups"
    own.write_text("9:name=systemd:/\n4:cpu,memory:/slurm/job_7/step\n0::/user.slice/run-1.scope\n")
    assert list(_of_groups(own, mounted)) == []
    group(mounted / "memory", 1, "9223372036854771712", 10**12, 0)
    group(mounted / "memory" / "slurm" / "job_7", 1, "1000", 700, 200)
    group(mounted / "user.slice" / "run-1.scope", 2, "900", 500, 0)
    group(mounted / "user.slice", 2, "max", 500, 0)
    assert sorted(one.size for one in _of_groups(own, mounted)) == [400, 500]
    own.write_text("0::/system.slice/docker-8.scope\n")  # in a container that sees the names of its machine
    group(mounted, 2, "50", 100, 0)
    assert [one.size for one in _of_groups(own, mounted)] == [0]


ALONE = """\
from jitmod.trial.child.room import Peak

peak = Peak()
first = bytearray(64 << 20)
first[:: 4096] = b"1" * len(first[:: 4096])
del first
peak.restart()
second = bytearray(16 << 20)
second[:: 4096] = b"1" * len(second[:: 4096])
print(peak.growth)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are read from /proc")
def test_peak_is_of_the_time_since_the_restart() -> None:
    # In a process of its own: what the threads of jax give back meanwhile would count here.
    growth = subprocess.run([sys.executable, "-c", ALONE], check=True, capture_output=True, text=True).stdout
    assert 8 << 20 < int(growth) < 40 << 20
