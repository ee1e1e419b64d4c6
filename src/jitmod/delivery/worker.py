"""A job that was planned elsewhere, run here: what is missing for it, and the evidence that comes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jitmod import __version__
from jitmod.delivery.attempt import has_reached
from jitmod.delivery.evidence import Refused, read_evidence
from jitmod.delivery.memory import programs, versions
from jitmod.delivery.plan import workloads_of
from jitmod.delivery.repository import DeliveryError, Repository, scrubbed_environment
from jitmod.delivery.sides import exported
from jitmod.model import Status
from jitmod.source.config import Workload, target_file

if TYPE_CHECKING:
    from jitmod.trial.trial import Trial


class Missing(DeliveryError):
    """This machine, or this clone, has not what the job needs; the message says what, and where it comes from."""


@dataclass(frozen=True)
class Ran:
    """The trial of a job and the number of the workload that it is of."""

    trial: Trial
    workload: int


def run_job(job: Mapping[str, Any], here: Path, python: Path) -> Ran:
    """Run a job in the clone around `here`. Raises `Missing`.

    Its workloads are tried in turn, until one has something to say of the patch.
    """
    from jitmod.trial.trial import try_job

    with scrubbed_environment():
        repository = Repository.around(here)
        _check(job, repository, python)
        with exported(repository, job["base_commit"]) as code_root:
            ran: list[Ran] = []
            for number, single in enumerate(workloads_of(job)):
                _check_workload(single["workload"], job["contents"]["workloads"][number], code_root, repository.root)
                trial = try_job(single, code_root=code_root, user_root=repository.root, python=python)
                ran.append(Ran(trial, number))
                if trial.verdict.status is not Status.UNPROVEN:
                    return ran[-1]
    return next((one for one in ran if has_reached(one.trial)), ran[0])


def is_done(job: Mapping[str, Any], output: Path) -> bool:
    """Whether there is whole evidence of this very job already."""
    try:
        return bool(read_evidence(output).job == json.loads(json.dumps(job)))
    except Refused:
        return False


def _check(job: Mapping[str, Any], repository: Repository, python: Path) -> None:
    if job["jitmod"] != __version__:
        raise Missing(f"the job was planned by jitmod {job['jitmod']}, and this is {__version__}: install that one")
    commit = job["base_commit"]
    if not repository.has(commit):
        todo = f"git fetch origin {commit}"
        raise Missing(f"{repository.root} does not have the commit {commit} that the job is against: {todo}")
    if "jax" not in versions(python):
        raise Missing(f"{python} has no jax: name the interpreter of the project with --python")


def _check_workload(workload: Mapping[str, Any], planned: str, code_root: Path, user_root: Path) -> None:
    """`planned` is the digest of its files where the job was planned."""
    for target in (workload["run"], workload["setup"], workload["metric"]):
        file = target_file(target) if target is not None else None
        if file is not None and not any((root / file).is_file() for root in (code_root, user_root)):
            raise Missing(f"workload {workload['name']}: no file {file}, neither in the commit nor in {user_root}")
    named = Workload(workload["name"], workload["run"], workload["setup"], workload["metric"])
    if programs([named], code_root, user_root) != planned:
        raise Missing(f"workload {workload['name']}: its files are not committed, and other ones where it was planned")
    folder = workload.get("recording", {}).get("folder")
    if folder is not None and not Path(folder).is_dir():
        raise Missing(
            f"workload {workload['name']} is a recording of another machine ({folder} is not here): plan with "
            "--workload, or on a machine that shares that folder"
        )
