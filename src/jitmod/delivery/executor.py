"""Many jobs in turn, here or on other machines. What has evidence already is not run again, and what a job brings is
written as soon as it is there: a run that is cut off goes on where it was."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jitmod import __version__
from jitmod.delivery.evidence import document, parse_evidence
from jitmod.delivery.figures import describe
from jitmod.delivery.plan import write_whole
from jitmod.delivery.repository import DeliveryError
from jitmod.delivery.worker import Missing, is_done, run_job

_LEAST = 1 << 18  # bytes that evidence may well have


@dataclass(frozen=True)
class Task:
    """A job under its name, and the file that its evidence goes to."""

    name: str
    job: Mapping[str, Any]
    output: Path


@dataclass(frozen=True)
class Finished:
    """The text of a task's evidence; without one, `missing` says why it could not be run."""

    task: Task
    evidence: str = ""
    missing: str = ""


Runner = Callable[[Sequence[Task]], Iterable[Finished]]
"""Runs tasks somewhere, and hands over each as it ends."""


def here(folder: Path, python: Path) -> Runner:
    """One after the other, in the clone around `folder`."""

    def run(tasks: Sequence[Task]) -> Iterator[Finished]:
        for task in tasks:
            try:
                yield Finished(task, evidence_of(task.job, folder, python))
            except Missing as missing:
                yield Finished(task, missing=str(missing))

    return run


def evidence_of(job: Mapping[str, Any], folder: Path, python: Path) -> str:
    """Run a job here; the text of its evidence. Raises `Missing`."""
    ran = run_job(job, folder, python)
    found = document(ran.trial.verdict, ran.trial.evidence, __version__, job, ran.workload)
    return json.dumps(found, indent=1, allow_nan=False) + "\n"


def run_all(
    tasks: Sequence[Task], runner: Runner, tell: Callable[[str, str], None], *, fresh: bool = False
) -> list[str]:
    """Run what has no evidence yet, and write it; what could not be run, and why. Raises `DeliveryError`.

    `fresh` runs everything. `tell` hears of every task how it has ended.
    """
    todo = [task for task in tasks if fresh or not is_done(task.job, task.output)]
    for task in tasks:
        if task not in todo:
            tell(task.name, f"has its evidence in {task.output}")
    _check_room(todo)
    missing = []
    for done in runner(todo) if todo else ():
        if done.missing:
            missing.append(f"{done.task.name}: {done.missing}")
            continue
        try:
            write_whole(done.task.output, done.evidence)
        except OSError as error:
            raise _unwritable(done.task.output, error) from None
        tell(done.task.name, describe(parse_evidence(done.task.output.name, done.evidence).verdict))
    return missing


def _check_room(tasks: Sequence[Task]) -> None:
    """Find out before anything runs that its evidence could not be written. Raises `DeliveryError`."""
    for folder in {task.output.parent for task in tasks}:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(bytes(_LEAST))
        except OSError as error:
            raise _unwritable(folder, error) from None


def _unwritable(place: Path, error: OSError) -> DeliveryError:
    return DeliveryError(f"{place}: the evidence cannot be written: {error.strerror}")
