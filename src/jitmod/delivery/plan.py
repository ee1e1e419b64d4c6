"""Trials elsewhere: every patch becomes one job file, which says all of its trial but where it runs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jitmod import __version__
from jitmod.delivery.attempt import Terms, no_workload, workloads_for
from jitmod.delivery.jobfile import fault_of
from jitmod.delivery.memory import digest, programs
from jitmod.delivery.preview import Wanted
from jitmod.delivery.queue import Entry, FoundPatch, name
from jitmod.delivery.repository import DeliveryError
from jitmod.model import Outcome, SourceError, Status, Verdict
from jitmod.rewrite.codemod import scan
from jitmod.rewrite.edits import EditConflict
from jitmod.source.config import Workload
from jitmod.source.project import Project
from jitmod.trial.job import SCHEMA_VERSION, for_workload, plain


@dataclass(frozen=True)
class Planned:
    """A patch and its job, which has the workloads in the order in which they are tried. Without one, `verdict` says
    why nothing can be tried."""

    one: FoundPatch
    workloads: tuple[Workload, ...] = ()
    job: Mapping[str, Any] | None = None
    verdict: Verdict | None = None

    @property
    def file(self) -> str:
        """The name of its files, of the job and of the evidence."""
        return f"{self.one.finding.codemod}-{self.one.id}.json"


@dataclass(frozen=True)
class Plan:
    """The jobs of a project, all of them against the same commit, and what else a scan found."""

    base: str
    planned: tuple[Planned, ...]
    others: tuple[Entry, ...] = ()
    errors: tuple[SourceError, ...] = ()

    @property
    def jobs(self) -> dict[str, Mapping[str, Any]]:
        """By the name of their files."""
        return {one.file: one.job for one in self.planned if one.job is not None}

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What there is to report before anything was tried."""
        return (*(Entry(p.one.id, Outcome(p.one.shown, verdict=p.verdict)) for p in self.planned), *self.others)


def make_plan(wanted: Wanted, project: Project, root: Path, tip: str, terms: Terms) -> Plan:
    """The jobs of every patch of `project`, which lies at `root` as the commit `tip` has it. Nothing runs."""
    scanned = scan(wanted.codemods, project, wanted.paths, wanted.ignored)
    sources = digest(project)
    planned: list[Planned] = []
    others: list[Entry] = []
    for one in name(scanned.findings, project):
        if not isinstance(one, FoundPatch):
            others.append(Entry(one.id, Outcome(one.finding)))
        elif wanted.admits(one.finding):
            planned.append(_planned(one, project, root, tip, terms, sources))
    return Plan(tip, tuple(planned), tuple(others), scanned.errors)


def _planned(one: FoundPatch, project: Project, root: Path, tip: str, terms: Terms, sources: str) -> Planned:
    from jitmod.trial.trial import job_of

    workloads = tuple(workloads_for(one.finding, project, terms))
    if not workloads:
        return Planned(one, verdict=no_workload(terms.workloads, one.finding))
    document = project.documents[one.finding.site.path]
    try:
        job = job_of(
            one.finding, document, code_root=root, user_root=terms.user_root, base_commit=tip, workload=workloads[0],
            settings=terms.settings, budget=terms.budget, require_gpu=terms.require_gpu,
        )  # fmt: skip
    except EditConflict as error:
        return Planned(one, verdict=Verdict(Status.CRASHED, f"the patch cannot be composed: {error}"))
    contents = {
        "path": document.path,
        "file": hashlib.sha256(document.source).hexdigest(),
        "sources": sources,
        "workloads": [programs([workload], root, terms.user_root) for workload in workloads],
    }
    more = [{**asdict(workload), "covers": list(workload.covers)} for workload in workloads[1:]]
    names = {"id": one.id, "codemod": one.finding.codemod, "jitmod": __version__}
    return Planned(one, workloads, plain({**job, **names, "contents": contents, "otherwise": more}))


def write_jobs(plan: Plan, folder: Path) -> list[Path]:
    """One file for each job, as it is found there by a program; job files of an older plan go. Raises `DeliveryError`.

    Where a file holds the same job already, it is left as it is.
    """
    jobs = plan.jobs
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in sorted(folder.glob("*.json")):
            if file.name not in jobs and _is_job(file):
                file.unlink()
        for file_name, job in jobs.items():
            write_whole(folder / file_name, json.dumps(job, indent=1, sort_keys=True) + "\n")
    except OSError as error:
        raise DeliveryError(f"{folder}: the jobs cannot be written: {error.strerror}") from None
    return [folder / file_name for file_name in jobs]


def read_job(file: Path) -> dict[str, Any]:
    """The job in a file. Raises `DeliveryError` where it holds none, or one of a newer format."""
    try:
        job = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise DeliveryError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise DeliveryError(f"{file}: is no job, because it is not JSON: {error}") from None
    version = job.get("schema_version") if isinstance(job, dict) else None
    if isinstance(version, int) and version != SCHEMA_VERSION:
        raise DeliveryError(f"{file}: is of format {version}, and this jitmod knows {SCHEMA_VERSION}")
    fault = fault_of(job)
    if fault is not None:
        raise DeliveryError(f"{file}: is no job of jitmod plan: {fault}")
    return dict(job)


def workloads_of(job: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """The jobs of the single workloads of a planned job, in order."""
    return [for_workload(job, number) for number in range(1 + len(job.get("otherwise", ())))]


def write_whole(file: Path, text: str) -> None:
    """Write a file such that nobody ever sees a part of it, whoever else writes it. Raises `OSError`."""
    unfinished = file.with_name(f".{file.name}.{secrets.token_hex(4)}")  # machines that share a folder share numbers
    try:
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, file)
    except OSError:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise


def _is_job(file: Path) -> bool:
    try:
        read_job(file)
    except DeliveryError:
        return False
    return True
