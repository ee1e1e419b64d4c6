"""The main job: try every patch against the tip, and keep those that the trial accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import pathspec

from jitmod.delivery.branch import Branch, CommitRefused, store_evidence
from jitmod.delivery.figures import describe, one_line
from jitmod.delivery.message import commit_message
from jitmod.delivery.preview import Wanted, document_diff, edited, realised, rescan
from jitmod.delivery.queue import Entry, FoundPatch, Waiting, name
from jitmod.delivery.regression import NoTest, guard_for
from jitmod.delivery.write import FileChanged
from jitmod.model import Outcome, Patch, SourceError, Status, Variant, Verdict
from jitmod.rewrite.codemod import scan
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


@dataclass(frozen=True)
class Terms:
    """How patches are tried. `budget` is the seconds that one trial may take; `with_test`: add a regression test."""

    trial: TryPatch
    user_root: Path
    workloads: tuple[Workload, ...]
    settings: GateSettings
    python: Path
    budget: float
    require_gpu: bool = False
    choose: Choose = lambda patch, document, recorded, named: named
    with_test: bool = False


class Place(Protocol):
    """Where the tip lies as files, and where accepted text goes."""

    @property
    def root(self) -> Path: ...
    @property
    def tip(self) -> str: ...
    def keep(
        self, patch: Patch, content: bytes, verdict: Verdict, evidence: Mapping[str, Any], added: Mapping[str, bytes]
    ) -> str | None:
        """Accept the new bytes of the patch's file, and new files beside it; the commit, where one is made.

        Raises `CommitRefused`.
        """

    def file_evidence(self, result: TrialResult) -> str | None:
        """Store a trial's documents; their digest."""


class BranchPlace:
    """Accepted patches become commits of a branch."""

    def __init__(self, branch: Branch, codemods: Mapping[str, type]) -> None:
        self.branch, self.codemods = branch, codemods
        self.root = branch.root

    @property
    def tip(self) -> str:
        return self.branch.tip

    def keep(
        self, patch: Patch, content: bytes, verdict: Verdict, evidence: Mapping[str, Any], added: Mapping[str, bytes]
    ) -> str | None:
        message = commit_message(patch, verdict, evidence, self.codemods[patch.codemod])
        return self.branch.keep({patch.site.path: content, **added}, message)

    def file_evidence(self, result: TrialResult) -> str | None:
        verdict = result.verdict
        judged = {"status": verdict.status, "test": verdict.test, "why": verdict.why}
        document = {"verdict": judged, "job": result.job, "evidence": result.evidence}
        return store_evidence(self.branch.repository, document, verdict.evidence_digest)


class FolderPlace:
    """Accepted patches change a scratch copy of the sources: nothing of the user's is written, nothing committed."""

    def __init__(self, root: Path, tip: str) -> None:
        self.root, self.tip = root, tip

    def keep(
        self, patch: Patch, content: bytes, verdict: Verdict, evidence: Mapping[str, Any], added: Mapping[str, bytes]
    ) -> str | None:
        for path, text in {patch.site.path: content, **added}.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_bytes(text)
        return None

    def file_evidence(self, result: TrialResult) -> str | None:
        return result.verdict.evidence_digest


def try_patches(
    wanted: Wanted, project: Project, place: Place, terms: Terms, tell: Callable[[str], None]
) -> tuple[tuple[Entry, ...], tuple[SourceError, ...]]:
    """Try every patch of the project at `place.root`, in order; `tell` hears how it goes."""
    scanned = scan(wanted.codemods, project, wanted.paths)
    entries: list[Entry] = []
    queues: dict[str, list[FoundPatch]] = {}
    for one in name(scanned.findings, project):
        if not isinstance(one, FoundPatch):
            entries.append(Entry(one.id, Outcome(one.finding)))
        elif wanted.admits(one.finding):
            queues.setdefault(one.finding.site.path, []).append(one)
    for path, queue in sorted(queues.items()):
        waiting = Waiting.of(queue)
        while waiting.queue:
            one, waiting = waiting.pop()
            outcome = _try_one(one, project, place, terms, tell)
            entries.append(Entry(one.id, outcome))
            if outcome.verdict is not None and outcome.verdict.status is Status.ACCEPTED:
                # Read it back: a hook may have had its own say about the text.
                project = edited(project, Document.read(place.root, path))
                if waiting.queue:  # the bytes have moved under the patches that wait
                    waiting, gone = waiting.refound(rescan(wanted, project, path))
                    entries += [Entry(lost.id, _superseded(lost)) for lost in gone]
    entries.sort(key=_position)
    return tuple(entries), scanned.errors


def _position(entry: Entry) -> tuple[str, int, int, str]:
    finding = entry.outcome.finding
    return finding.site.path, finding.site.line, finding.site.column, finding.codemod


def _superseded(lost: FoundPatch) -> Outcome:
    why = "an earlier patch of this run changed this place: run again"
    return Outcome(lost.shown, verdict=Verdict(Status.UNPROVEN, why))


def _try_one(one: FoundPatch, project: Project, place: Place, terms: Terms, tell: Callable[[str], None]) -> Outcome:
    patch = one.finding
    document = project.documents[patch.site.path]
    label = f"{patch.codemod} {one.shown.site.path}:{one.shown.site.line}"
    named = covering(terms.workloads, patch.site.path)
    workloads = terms.choose(patch, document, project.recorded, named)
    verdict, evidence = _no_workload(terms.workloads, patch), {}
    addition, unguarded = None, None
    edits = patch.variants[0].realise({})
    if workloads:
        tell(f"{label}: trying")
        workload, result = _run(patch, document, workloads, place, terms)
        verdict = replace(result.verdict, evidence_digest=place.file_evidence(result))
        note = result.job.get("workload", {}).get("note")  # of a workload that nobody wrote
        if note:
            verdict = replace(verdict, why=f"{verdict.why} ({note})")
        evidence = dict(result.evidence)
        if result.variant is not None:
            edits = result.variant.realise(result.knobs or {})
    try:
        after = realised(document, edits)
    except EditConflict as conflict:
        return Outcome(one.shown, verdict=Verdict(Status.CRASHED, str(conflict)))
    diff = document_diff(document, after)
    commit = None
    if verdict.status is Status.ACCEPTED:
        content = after.encode(after.source)
        if terms.with_test:
            tell(f"{label}: writing its test")
            try:
                addition = guard_for(patch, verdict, evidence, workload, root=place.root, user_root=terms.user_root,
                                     content=content, python=terms.python)  # fmt: skip
            except NoTest as none:
                unguarded = str(none)
        added = {addition.path: addition.text.encode()} if addition is not None else {}
        try:
            commit = place.keep(patch, content, verdict, evidence, added)
        except FileChanged as changed:
            verdict = replace(verdict, status=Status.UNPROVEN, why=str(changed))
        except CommitRefused as refused:
            why = f"git did not make the commit: {one_line(str(refused))}"
            verdict = replace(verdict, status=Status.REJECTED, test="hook", why=why)
    tell(f"{label}: {describe(verdict)}")
    kept = addition is not None and verdict.status is Status.ACCEPTED
    return Outcome(one.shown, diff, verdict, commit, addition.path if addition and kept else None, unguarded)


def _run(
    patch: Patch, document: Document, workloads: Sequence[Workload], place: Place, terms: Terms
) -> tuple[Workload, TrialResult]:
    """The trial of the first workload that has something to say about the patch."""
    results = []
    for workload in workloads:
        result = terms.trial(
            patch,
            document,
            code_root=place.root,
            user_root=terms.user_root,
            base_commit=place.tip,
            workload=workload,
            settings=terms.settings,
            python=terms.python,
            budget=terms.budget,
            require_gpu=terms.require_gpu,
        )
        if result.verdict.status is not Status.UNPROVEN:
            return workload, result
        results.append((workload, result))
    return next((tried for tried in results if _reached(tried[1])), results[0])


def _reached(result: TrialResult) -> bool:
    """Whether the workload ran the place at all: then what it says is worth more than that another one does not."""
    return bool(result.evidence.get("explore", {}).get("baseline_execution", {}).get("entered"))


def covering(workloads: Iterable[Workload], path: str) -> list[Workload]:
    """The workloads that run the file at `path`: those whose `covers` match it, and those that do not say."""
    return [w for w in workloads if not w.covers or pathspec.GitIgnoreSpec.from_lines(w.covers).match_file(path)]


def _no_workload(workloads: Sequence[Workload], patch: Patch) -> Verdict:
    todo = (
        "pass --workload FILE.py:function or add a [[tool.jitmod.workloads]] table with `run` to pyproject.toml; "
        "or record a program that runs it: jitmod record -- COMMAND"
    )
    if workloads:
        todo = f"none of the {len(workloads)} configured ones covers {patch.site.path}: widen `covers`, or {todo}"
    return Verdict(Status.UNPROVEN, f"no workload ({todo})")
