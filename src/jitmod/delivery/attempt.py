"""One patch and its trial: which workload tries it, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import pathspec

from jitmod.delivery.evidence import Refused
from jitmod.delivery.memory import Memory, digest, programs
from jitmod.delivery.preview import document_diff, realised
from jitmod.delivery.queue import FoundPatch
from jitmod.delivery.tell import Tell
from jitmod.model import Patch, Status, Variant, Verdict
from jitmod.rewrite.edits import EditConflict
from jitmod.source.config import GateSettings, Workload
from jitmod.source.document import Document
from jitmod.source.project import Project
from jitmod.source.recording import Recorded


class TrialResult(Protocol):
    """What a trial hands back: the verdict, the documents it rests on, and the text that was judged."""

    @property
    def verdict(self) -> Verdict: ...
    @property
    def job(self) -> Mapping[str, Any]: ...
    @property
    def evidence(self) -> Mapping[str, Any]: ...
    @property
    def variant(self) -> Variant | None: ...
    @property
    def knobs(self) -> Mapping[str, int] | None: ...


Choose = Callable[[Patch, Document, Recorded, Sequence[Workload]], Sequence[Workload]]
"""The workloads of a patch, in the order in which they are tried: from the named ones that cover it, and others."""


class TryPatch(Protocol):
    """The trial, as `jitmod.trial.trial.try_patch` offers it."""

    def __call__(
        self,
        patch: Patch,
        document: Document,
        *,
        code_root: Path,
        user_root: Path,
        base_commit: str,
        workload: Workload,
        settings: GateSettings,
        python: Path,
        budget: float,
        seed: int = 0,
        require_gpu: bool = False,
    ) -> TrialResult: ...


class TryFiles(Protocol):
    """The trial of files given as text, as `jitmod.trial.trial.try_arms` offers it."""

    def __call__(
        self,
        candidate: Mapping[str, str | None],
        *,
        code_root: Path,
        user_root: Path,
        workload: Workload,
        settings: GateSettings,
        python: Path,
        base_commit: str = "",
        budget: float = 120.0,
        require_gpu: bool = False,
        partial: bool = False,
    ) -> TrialResult: ...


class Proves(Protocol):
    """Evidence from elsewhere, as `jitmod.delivery.proofs.Proofs` has it."""

    def of(self, one: FoundPatch, document: Document) -> Proved:
        """The proof of a patch. Raises `Refused`."""


class Proved(TrialResult, Protocol):
    """What a trial handed back elsewhere, and the workload that it ran."""

    @property
    def workload(self) -> Workload: ...


@dataclass(frozen=True)
class Terms:
    """How patches are tried. `budget` is the seconds that one trial may take; `with_test`: add a regression test.

    `whole` tries the finished branch as a whole, where it is given; `memory` knows what was rejected before. Where
    there are `proofs`, they stand for every trial of a single patch; `evidence` is the folder that they come from.
    """

    trial: TryPatch
    user_root: Path
    workloads: tuple[Workload, ...]
    settings: GateSettings
    python: Path
    budget: float
    require_gpu: bool = False
    choose: Choose = lambda patch, document, recorded, named: named
    with_test: bool = False
    whole: TryFiles | None = None
    memory: Memory | None = None
    proofs: Proves | None = None
    evidence: Path | None = None


@dataclass(frozen=True)
class Attempt:
    """A patch that was tried. `after` is the text that was judged, None where its edits do not compose."""

    one: FoundPatch
    verdict: Verdict
    after: Document | None = None
    diff: str = ""
    workload: Workload | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return f"{self.one.finding.codemod} {_place(self.one)}"

    @property
    def is_accepted(self) -> bool:
        return self.verdict.status is Status.ACCEPTED


def attempt(
    one: FoundPatch, project: Project, root: Path, tip: str, terms: Terms,
    file_evidence: Callable[[TrialResult], str | None], tell: Tell,
) -> Attempt:  # fmt: skip
    """Try one patch of `project` against the tip that lies at `root`; nothing is kept yet."""
    patch, document = one.finding, project.documents[one.finding.site.path]
    edits = patch.variants[0].realise({})
    if terms.proofs is not None:
        verdict, workload, result = _proved(one, document, terms.proofs)
    else:
        verdict, workload, result = _tried(one, project, root, tip, terms, tell)
    evidence: dict[str, Any] = {}
    if result is not None:
        verdict = replace(verdict, evidence_digest=file_evidence(result))
        note = result.job.get("workload", {}).get("note")  # of a workload that nobody wrote
        if note:
            verdict = replace(verdict, why=f"{verdict.why} ({note})")
        evidence = dict(result.evidence)
        if result.variant is not None:
            edits = result.variant.realise(result.knobs or {})
    try:
        after = realised(document, edits)
    except EditConflict as conflict:
        return Attempt(one, Verdict(Status.CRASHED, str(conflict)))
    return Attempt(one, verdict, after, document_diff(document, after), workload, evidence)


Made = tuple[Verdict, Workload | None, TrialResult | None]


def _proved(one: FoundPatch, document: Document, proofs: Proves) -> Made:
    """What evidence from elsewhere says. Nothing runs."""
    try:
        proof = proofs.of(one, document)
    except Refused as refused:
        return Verdict(Status.UNPROVEN, str(refused)), None, None
    return proof.verdict, proof.workload, proof


def _tried(
    one: FoundPatch, project: Project, root: Path, tip: str, terms: Terms, tell: Tell
) -> Made:
    """A trial here, where there is something to run and the patch was not rejected before."""
    patch, document = one.finding, project.documents[one.finding.site.path]
    workloads = workloads_for(patch, project, terms)
    if not workloads:
        return no_workload(terms.workloads, patch), None, None
    key = None
    if terms.memory is not None:
        code = f"{digest(project)} {programs(workloads, root)}"
        key = terms.memory.key(patch, code, workloads, terms.settings, terms.python, terms.require_gpu)
        known = terms.memory.recall(key)
        if known is not None:
            return replace(known, why=f"{known.why} (as before; --fresh tries it again)"), None, None
    tell.begin(f"{patch.codemod} {_place(one)}")
    workload, result = _run(patch, document, workloads, root, tip, terms)
    if terms.memory is not None and key is not None:
        terms.memory.keep(key, result.verdict)
    return result.verdict, workload, result


def workloads_for(patch: Patch, project: Project, terms: Terms) -> Sequence[Workload]:
    """The workloads that may try a patch, in order."""
    named = covering(terms.workloads, patch.site.path)
    return terms.choose(patch, project.documents[patch.site.path], project.recorded, named)


def _place(one: FoundPatch) -> str:
    return f"{one.shown.site.shown_path}:{one.shown.site.shown_line}"


def _run(
    patch: Patch, document: Document, workloads: Sequence[Workload], root: Path, tip: str, terms: Terms
) -> tuple[Workload, TrialResult]:
    """The trial of the first workload that has something to say about the patch."""
    results = []
    for workload in workloads:
        result = terms.trial(
            patch,
            document,
            code_root=root,
            user_root=terms.user_root,
            base_commit=tip,
            workload=workload,
            settings=terms.settings,
            python=terms.python,
            budget=terms.budget,
            require_gpu=terms.require_gpu,
        )
        if result.verdict.status is not Status.UNPROVEN:
            return workload, result
        results.append((workload, result))
    return next((tried for tried in results if has_reached(tried[1])), results[0])


def has_reached(result: TrialResult) -> bool:
    """Whether the workload ran the place at all: then what it says is worth more than that another one does not."""
    return bool(result.evidence.get("explore", {}).get("baseline_execution", {}).get("entered"))


def covering(workloads: Iterable[Workload], path: str) -> list[Workload]:
    """The workloads that run the file at `path`: those whose `covers` match it, and those that do not say."""
    return [w for w in workloads if not w.covers or pathspec.GitIgnoreSpec.from_lines(w.covers).match_file(path)]


def no_workload(workloads: Sequence[Workload], patch: Patch) -> Verdict:
    todo = (
        "pass --workload FILE.py:function or add a [[tool.jitmod.workloads]] table with `run` to pyproject.toml; "
        "or record a program that runs it: jitmod record -- COMMAND"
    )
    if workloads:
        todo = f"none of the {len(workloads)} configured ones covers {patch.site.path}: widen `covers`, or {todo}"
    return Verdict(Status.UNPROVEN, f"no workload ({todo})")
