"""What is asked of a Ray cluster, and what comes of it, with a Ray that is made up; make cluster runs a real one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from jitmod.delivery.cluster import Share, on_ray
from jitmod.delivery.cores import pinned
from jitmod.delivery.executor import Task
from jitmod.delivery.repository import DeliveryError


class RayError(Exception):
    pass


class WorkerCrashedError(RayError):
    pass


class Ray(ModuleType):
    """A cluster of such machines, which runs a task when it is waited for; `lost` are jobs whose workers die."""

    exceptions = SimpleNamespace(RayError=RayError, WorkerCrashedError=WorkerCrashedError)

    def __init__(self, *machines: dict[str, float], lost: Sequence[str] = (), hangs: bool = False) -> None:
        super().__init__("ray")
        self.machines, self.lost, self.hangs = machines, lost, hangs
        self.asked: dict[str, Any] = {}
        self.began: dict[str, Any] = {}
        self.ended = False

    def init(self, **options: Any) -> None:
        self.began = options

    def shutdown(self) -> None:
        self.ended = True

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": machine} for machine in self.machines]

    def remote(self, **options: Any) -> Any:
        self.asked = options

        def decorate(function: Any) -> Any:
            return SimpleNamespace(remote=lambda *arguments: (function, arguments[0]["id"], arguments[3]))

        return decorate

    def wait(self, waiting: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        self.asked["timeout"] = timeout
        return ([], waiting) if self.hangs else (waiting[:1], waiting[1:])

    def get(self, reference: Any) -> tuple[str, str]:
        _, identity, cpus = reference
        if identity in self.lost:
            raise WorkerCrashedError("gone")
        return f"evidence of {identity} on {cpus}", ""


def run(ray: Ray, monkeypatch: pytest.MonkeyPatch, share: Share, *, needs_gpu: bool = False) -> dict[str, str]:
    """What came of two jobs."""
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", raising=False)
    jobs = [{"id": name, "budget": 60.0, "workload": {}, "otherwise": [{}], "require_gpu": needs_gpu} for name in "ab"]
    tasks = [Task(job["id"], job, Path(f"{job['id']}.json")) for job in jobs]
    done = on_ray(Path("clone"), Path("python"), share)(tasks)
    return {one.task.name: one.evidence or one.missing for one in done}


@pytest.mark.parametrize(
    ("machines", "asked", "gpus", "cpus"),
    [
        pytest.param([{"CPU": 8.0}], None, 0, 8, id="a machine without a GPU does one trial at a time"),
        pytest.param([{"CPU": 8.0, "GPU": 2.0}], None, 1, 4, id="a trial for each GPU"),
        pytest.param([{"CPU": 64.0}, {"CPU": 8.0, "GPU": 4.0}], None, 1, 2, id="where there are GPUs they are used"),
        pytest.param([{"CPU": 8.0}], 2, 0, 2, id="as asked for"),
    ],
)
def test_a_trial_has_its_share_alone(
    machines: list[dict[str, float]], asked: int | None, gpus: int, cpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = Ray(*machines)
    found = run(ray, monkeypatch, Share(asked))
    assert found == {name: f"evidence of {name} on {cpus}" for name in "ab"}
    options = {"num_gpus": gpus, "num_cpus": cpus, "max_calls": 1, "max_retries": 1}
    assert ray.asked == {**options, "timeout": 2 * 60.0 + 180.0} and ray.ended
    assert ray.began == {"include_dashboard": False, "log_to_driver": False}


@pytest.mark.parametrize("address", [None, "10.0.0.1:6379"])
def test_a_cluster_of_its_own_is_reached_from_this_machine_alone(
    address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the name that Ray knows it by; `make cluster` looks at the addresses that a real one listens on."""
    run(Ray({"CPU": 2.0}), monkeypatch, Share(1))
    monkeypatch.delenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")
    if address:
        monkeypatch.setenv("RAY_ADDRESS", address)
    on_ray(Path("clone"), Path("python"), Share(1))
    assert os.environ.get("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER") == (None if address else "0")


def test_a_lost_worker_costs_one_job(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(Ray({"CPU": 2.0}, lost=["a"]), monkeypatch, Share(1))
    assert found == {"a": "its worker was lost 2 times", "b": "evidence of b on 1"}


def test_what_never_comes_back_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = Ray({"CPU": 2.0}, hangs=True)
    assert run(ray, monkeypatch, Share(1)) == dict.fromkeys("ab", "nothing came back in 300 s") and ray.ended


@pytest.mark.parametrize(
    ("share", "needs_gpu", "why"),
    [(Share(4, 0.0), False, "has 4 CPUs"), (Share(1, 0.0), True, "has 1 CPUs and a GPU")],
)
def test_what_no_machine_can_run_is_told_at_once(
    share: Share, needs_gpu: bool, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = Ray({"CPU": 2.0})
    with pytest.raises(DeliveryError, match=f"no machine of the cluster {why}"):
        run(ray, monkeypatch, share, needs_gpu=needs_gpu)
    assert ray.ended


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DeliveryError, match=r"pip install 'jitmod\[ray\]'"):
        on_ray(Path("clone"), Path("python"), Share())


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2, reason="two CPUs")
def test_trials_of_one_machine_do_not_share_cpus(tmp_path: Path) -> None:
    everything = os.sched_getaffinity(0)
    other = (
        "import os; from pathlib import Path; from jitmod.delivery.cores import pinned\n"
        f"with pinned(1, Path({str(tmp_path)!r})) as mine: print(*mine, len(os.sched_getaffinity(0)))"
    )
    with pinned(1, tmp_path) as mine:
        assert os.sched_getaffinity(0) == set(mine) and len(mine) == 1
        os.sched_setaffinity(0, everything)  # the other one is a child here, and would have no choice
        done = subprocess.run([sys.executable, "-c", other], capture_output=True, text=True, check=True)
        theirs, count = done.stdout.split()
        assert int(theirs) not in mine and count == "1"
    assert os.sched_getaffinity(0) == everything
