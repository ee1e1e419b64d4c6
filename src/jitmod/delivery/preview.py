"""The untried diff: every patch with its default knobs, composed in memory. Nothing runs and nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jitmod.delivery.diff import file_diff
from jitmod.delivery.queue import Entry, Found, FoundPatch, Preview, Waiting, name, patches
from jitmod.model import Edit, Outcome, Patch
from jitmod.rewrite.codemod import Codemod, scan
from jitmod.rewrite.edits import EditConflict, compose
from jitmod.source.document import Document, UnreadableSource
from jitmod.source.notebook import changes
from jitmod.source.project import Project


@dataclass(frozen=True)
class Wanted:
    """What is asked for: the codemods, the files, and whether patches with assumptions count.

    `ignored` are patterns of files, each with the codemods and reasons that are not for them.
    """

    codemods: tuple[Codemod, ...]
    paths: tuple[str, ...]
    only_safe: bool = False
    ignored: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def admits(self, patch: Patch) -> bool:
        return not (self.only_safe and patch.assumptions)


def find(wanted: Wanted, project: Project) -> Preview:
    """Scan: the entries without the cumulative diff."""
    scanned = scan(wanted.codemods, project, wanted.paths, wanted.ignored)
    return Preview(_entries(wanted, project, name(scanned.findings, project)), scanned.errors)


def preview(wanted: Wanted, project: Project) -> Preview:
    """Scan, and apply everything in memory."""
    scanned = scan(wanted.codemods, project, wanted.paths, wanted.ignored)
    found = name(scanned.findings, project)
    queues: dict[str, list[FoundPatch]] = {}
    for one in patches(found):
        if wanted.admits(one.finding):
            queues.setdefault(one.finding.site.path, []).append(one)
    diffs = []
    for path, queue in sorted(queues.items()):
        diffs.append((path, document_diff(project.documents[path], _apply_all(wanted, project, path, queue))))
    return Preview(_entries(wanted, project, found), scanned.errors, tuple(diffs))


def patch_diff(patch: Patch, document: Document) -> str:
    """The diff of one patch alone, its first form with default knobs; empty where its edits do not compose."""
    edits = patch.variants[0].realise({})
    try:
        if document.notebook is not None:
            return document_diff(document, realised(document, edits))
        return file_diff(document.path, document.encode(document.source), compose(document, edits))
    except (EditConflict, UnicodeEncodeError):
        return ""


def document_diff(before: Document, after: Document) -> str:
    """The diff of a file. A notebook's begins with how its cells change, in lines that `git apply` passes over."""
    diff = file_diff(before.path, before.encode(before.source), after.encode(after.source))
    if not diff or before.notebook is None or after.notebook is None:
        return diff
    lines = "".join(f"# {line}\n" for line in changes(before.notebook, after.notebook))
    return f"# {before.path}, for the reader:\n{lines}{diff}"


def realised(document: Document, edits: Iterable[Edit]) -> Document:
    """The document after `edits`. Raises `EditConflict`, also where its bytes could not be read back as Python."""
    try:
        return Document.parse(document.path, compose(document, edits))
    except (UnreadableSource, UnicodeEncodeError) as error:
        raise EditConflict(f"{document.path}: the edited file cannot be read back: {error}") from None


def rescan(wanted: Wanted, project: Project, path: str) -> list[FoundPatch]:
    """The admitted patches of one file as it is now."""
    found = scan(wanted.codemods, project, [path], wanted.ignored)
    return [one for one in patches(name(found.findings, project)) if wanted.admits(one.finding)]


def edited(project: Project, document: Document) -> Project:
    """The project with another text of one file."""
    changed = Project.of({**project.documents, document.path: document}, project.errors)
    return changed.with_recorded(project.recorded)  # what was seen of the code holds for its rewrite too


def _entries(wanted: Wanted, project: Project, found: Iterable[Found]) -> tuple[Entry, ...]:
    entries = []
    for one in found:
        document = project.documents[one.finding.site.path]
        excerpt = document.line(one.finding.site.line)
        if not isinstance(one, FoundPatch):
            entries.append(Entry(one.id, Outcome(one.finding), excerpt))
        elif wanted.admits(one.finding):
            entries.append(Entry(one.id, Outcome(one.finding, patch_diff(one.finding, document)), excerpt))
    return tuple(entries)


def _apply_all(wanted: Wanted, project: Project, path: str, queue: Sequence[FoundPatch]) -> Document:
    """Rounds of the patches that do not touch each other; what is left is found again in the edited text."""
    waiting = Waiting.of(queue)
    while True:
        edits, left = _apart(waiting.queue, project.documents[path])
        if edits:
            project = edited(project, realised(project.documents[path], edits))
        if not edits or not left:
            return project.documents[path]
        waiting, _ = Waiting(left, waiting.met).refound(rescan(wanted, project, path))


def _apart(queue: Sequence[FoundPatch], document: Document) -> tuple[list[Edit], tuple[FoundPatch, ...]]:
    """The edits of as many patches, in order, as can be made at once, and the patches that must wait."""
    edits: list[Edit] = []
    functions: set[str] = set()
    left: list[FoundPatch] = []
    for one in queue:
        mine = one.finding.variants[0].realise({})
        new = set(one.finding.new_functions)
        if _touch(edits, mine) or functions & new or not _composes(document, [*edits, *mine]):
            left.append(one)
        else:
            edits += mine
            functions |= new
    return edits, tuple(left)


def _touch(some: Iterable[Edit], others: Sequence[Edit]) -> bool:
    """Edits that meet at a byte count as well: two patches may both insert one import there."""
    return any(a.start <= b.end and b.start <= a.end for a in some for b in others)


def _composes(document: Document, edits: Sequence[Edit]) -> bool:
    try:
        realised(document, edits)
    except EditConflict:
        return False
    return True
