"""Trials on a Ray cluster: one job a task, each in a worker process of its own, with CPUs of its own and one GPU where
the cluster has some.

See https://docs.ray.io/en/latest/ray-core/tasks.html; `max_calls=1` ends the worker after its task, so that no trial
inherits device memory from another.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jitmod.delivery.cores import pinned
from jitmod.delivery.executor import Finished, Runner, Task, evidence_of
from jitmod.delivery.plan import workloads_of
from jitmod.delivery.repository import DeliveryError
from jitmod.delivery.worker import Missing

_GRACE = 180.0  # seconds beyond its budget in which a trial has to come back
_RETRIES = 1  # of a job whose worker was lost
_IS_REACHABLE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # whether other machines can join: off, Ray keeps to the loopback


@dataclass(frozen=True)
class Share:
    """What one trial gets. `patience`: seconds to wait for machines that are on their way."""

    cpus: int | None = None
    patience: float = 60.0


Work = Callable[[dict[str, Any], str, str, int], tuple[str, str]]
"""Runs a job in a clone, with an interpreter, on so many CPUs: the evidence, or why there is none."""


def in_worker(job: dict[str, Any], folder: str, python: str, cpus: int) -> tuple[str, str]:
    """What a worker of the cluster does."""
    try:
        with pinned(cpus):
            return evidence_of(job, Path(folder), Path(python)), ""
    except Missing as missing:
        return "", str(missing)


def on_ray(
    folder: Path, python: Path, share: Share, work: Work = in_worker, declared: Mapping[str, int] | None = None
) -> Runner:
    """On the cluster at RAY_ADDRESS, else on one of this machine alone, on its loopback; both ask for a token.

    Every machine has the clone and the interpreter at the same paths. `declared` is what a cluster of this machine
    says that it has, where that is not what it has. Raises `DeliveryError` where Ray is not there.
    """
    ray = _ray()

    def run(tasks: Sequence[Task]) -> Iterator[Finished]:
        with _connected(ray, declared or {}):
            gpus, cpus = _feasible(ray, tasks, share)
            options = {"num_gpus": gpus, "num_cpus": cpus, "max_calls": 1, "max_retries": _RETRIES}
            remote = ray.remote(**options)(work)
            waiting = {remote.remote(dict(t.job), str(folder), str(python), cpus): t for t in tasks}
            while waiting:
                longest = max(t.job["budget"] * len(workloads_of(t.job)) for t in waiting.values()) + _GRACE
                ready, _ = ray.wait(list(waiting), timeout=longest)
                if not ready:
                    yield from (Finished(t, missing=f"nothing came back in {longest:.0f} s") for t in waiting.values())
                    return
                for reference in ready:
                    task = waiting.pop(reference)
                    yield _finished(ray, reference, task)

    return run


def _finished(ray: Any, reference: Any, task: Task) -> Finished:
    try:
        evidence, missing = ray.get(reference)
    except ray.exceptions.RayError as error:
        lost = isinstance(error, ray.exceptions.WorkerCrashedError)
        why = f"its worker was lost {_RETRIES + 1} times" if lost else str(error).strip().splitlines()[-1]
        return Finished(task, missing=why)
    return Finished(task, evidence, missing)


def _ray() -> Any:
    if "RAY_ADDRESS" not in os.environ:
        os.environ.setdefault(_IS_REACHABLE, "0")  # read when Ray is imported
    try:
        import ray
    except ImportError:
        raise DeliveryError("--executor ray needs Ray: pip install 'jitmod[ray]'") from None
    return ray


@contextlib.contextmanager
def _connected(ray: Any, declared: Mapping[str, int]) -> Iterator[None]:
    """The cluster, for as long as it is needed. Ray asks for its token, unless RAY_AUTH_MODE says that it shall not."""
    if "RAY_ADDRESS" in os.environ:
        ray.init(log_to_driver=False)
    else:
        ray.init(include_dashboard=False, log_to_driver=False, **declared)
    try:
        yield
    finally:
        ray.shutdown()


def _feasible(ray: Any, tasks: Sequence[Task], share: Share) -> tuple[int, int]:
    """The GPUs and CPUs of one trial. Raises `DeliveryError` where no machine could ever run it."""
    needs_gpu = any(task.job["require_gpu"] for task in tasks)
    end = time.monotonic() + share.patience
    while True:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        gpus = int(any(node.get("GPU", 0) >= 1 for node in nodes))
        able = [node for node in nodes if node.get("GPU", 0) >= gpus and node.get("CPU", 0) >= (share.cpus or 1)]
        if able and (gpus or not needs_gpu):
            whole = min(int(node["CPU"] // max(node.get("GPU", 0), 1)) for node in able)
            return gpus, share.cpus or max(whole, 1)
        if time.monotonic() > end:
            asked = " and ".join([f"{share.cpus or 1} CPUs", *(["a GPU"] if needs_gpu else [])])
            raise DeliveryError(f"no machine of the cluster has {asked} (waited {share.patience:.0f} s)")
        time.sleep(1.0)
