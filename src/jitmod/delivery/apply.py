"""The main job: try every patch against the tip, and keep those that the trial accepts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from jitmod.delivery.attempt import Attempt, Terms, TrialResult, attempt
from jitmod.delivery.branch import Branch, CommitRefused, store_evidence
from jitmod.delivery.figures import describe, one_line, speedup
from jitmod.delivery.message import commit_message
from jitmod.delivery.preview import Wanted, edited, rescan
from jitmod.delivery.queue import Entry, FoundPatch, Waiting, in_turn, name
from jitmod.delivery.regression import NoTest, guard_for
from jitmod.delivery.tell import Tell
from jitmod.delivery.write import FileChanged
from jitmod.model import Outcome, Patch, SourceError, Status, Verdict
from jitmod.rewrite.codemod import scan
from jitmod.source.config import Workload
from jitmod.source.document import Document
from jitmod.source.project import Project


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


@dataclass(frozen=True)
class Tried:
    """What came of all patches; `workloads` are those by which one was accepted."""

    entries: tuple[Entry, ...]
    errors: tuple[SourceError, ...]
    workloads: tuple[Workload, ...]


def try_patches(wanted: Wanted, project: Project, place: Place, terms: Terms, tell: Tell) -> Tried:
    """Try every patch of the project at `place.root`, in order; of rivals, the one that gives most is kept.

    `tell` hears how it goes.
    """
    scanned = scan(wanted.codemods, project, wanted.paths, wanted.ignored)
    entries: list[Entry] = []
    workloads: list[Workload] = []
    queues: dict[str, list[FoundPatch]] = {}
    for one in name(scanned.findings, project):
        if not isinstance(one, FoundPatch):
            entries.append(Entry(one.id, Outcome(one.finding)))
        elif wanted.admits(one.finding):
            queues.setdefault(one.finding.site.path, []).append(one)
    last = {codemod.id for codemod in wanted.codemods if codemod.tried_last}
    turns = {path: in_turn(queue, last) for path, queue in sorted(queues.items())}
    tell.expect(sum(map(len, queues.values())))
    rewritten = False
    for path, turn in [(path, turn) for turn in (0, 1) for path in turns]:
        waiting = Waiting.of(turns[path][turn], turns[path][1 - turn])
        if turn and rewritten and waiting.queue:  # its callers may be compiled now
            waiting, gone = waiting.refound(rescan(wanted, project, path))
            entries += [Entry(lost.id, _superseded(lost)) for lost in gone]
        while waiting.queue:
            rivals, waiting = waiting.pop()
            attempts = [attempt(one, project, place.root, place.tip, terms, place.file_evidence, tell)
                        for one in rivals]  # fmt: skip
            best = _best(attempts)
            if best is not None and best.workload is not None and best.workload not in workloads:
                workloads.append(best.workload)
            outcomes = [
                _beaten(tried, best) if tried.is_accepted and best is not None and tried is not best
                else _settled(tried, place, terms, tell)
                for tried in attempts
            ]  # fmt: skip
            entries += [Entry(one.id, outcome) for one, outcome in zip(rivals, outcomes, strict=True)]
            if any(o.verdict is not None and o.verdict.status is Status.ACCEPTED for o in outcomes):
                # Read it back: a hook may have had its own say about the text.
                project = edited(project, Document.read(place.root, path))
                rewritten = True
                if waiting.queue:  # the bytes have moved under the patches that wait
                    waiting, gone = waiting.refound(rescan(wanted, project, path))
                    entries += [Entry(lost.id, _superseded(lost)) for lost in gone]
    entries.sort(key=_position)
    return Tried(tuple(entries), scanned.errors, tuple(workloads))


def _position(entry: Entry) -> tuple[str, int, int, str]:
    finding = entry.outcome.finding
    return finding.site.path, finding.site.line, finding.site.column, finding.codemod


def _superseded(lost: FoundPatch) -> Outcome:
    why = "an earlier patch of this run changed this place: run again"
    return Outcome(lost.shown, verdict=Verdict(Status.UNPROVEN, why))


def _settled(tried: Attempt, place: Place, terms: Terms, tell: Tell) -> Outcome:
    """Keep what was accepted."""
    patch, verdict = tried.one.finding, tried.verdict
    addition, unguarded, commit = None, None, None
    if tried.is_accepted and tried.after is not None:
        content = tried.after.encode(tried.after.source)
        if terms.with_test and tried.workload is not None:
            tell.begin(tried.label, "writing its test")
            try:
                addition = guard_for(patch, verdict, tried.evidence, tried.workload, root=place.root,
                                     user_root=terms.user_root, content=content, python=terms.python)  # fmt: skip
            except NoTest as none:
                unguarded = str(none)
        added = {addition.path: addition.text.encode()} if addition is not None else {}
        try:
            commit = place.keep(patch, content, verdict, tried.evidence, added)
        except FileChanged as changed:
            verdict = replace(verdict, status=Status.UNPROVEN, why=str(changed))
        except CommitRefused as refused:
            why = f"git did not make the commit: {one_line(str(refused))}"
            verdict = replace(verdict, status=Status.REJECTED, test="hook", why=why)
    tell.end(tried.label, describe(verdict))
    guard = addition.path if addition is not None and verdict.status is Status.ACCEPTED else None
    return Outcome(tried.one.shown, tried.diff, verdict, commit, guard, unguarded)


def _best(attempts: Sequence[Attempt]) -> Attempt | None:
    """The accepted attempt that gives most."""
    accepted = [tried for tried in attempts if tried.is_accepted]
    return max(accepted, key=lambda tried: tried.verdict.speedup or 0.0, default=None)


def _beaten(tried: Attempt, best: Attempt) -> Outcome:
    """An accepted patch whose place another one takes, which gives more."""
    other = best.one.finding.codemod
    why = f"{other} gives more here: {speedup(best.verdict)}, and this {speedup(tried.verdict)}"
    verdict = replace(tried.verdict, status=Status.REJECTED, test="rival", why=why)
    return Outcome(tried.one.shown, tried.diff, verdict)
