"""Findings with names that outlive edits: what is still to be done in a file after one of its patches went in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jitmod.model import Finding, Outcome, Patch, Refusal, SourceError, fingerprint

if TYPE_CHECKING:
    from jitmod.source.project import Project


@dataclass(frozen=True)
class Found:
    """A finding and its names: `mark` is the fingerprint, `id` the same made unique among equal sites of one file."""

    id: str
    mark: str
    finding: Finding


@dataclass(frozen=True)
class FoundPatch(Found):
    """A patch. `shown` is the patch as it was found first: its lines are those of the code the user looks at."""

    finding: Patch
    shown: Patch


@dataclass(frozen=True)
class Entry:
    """The end of one finding's way, under its stable name. `excerpt` is the line where it begins, if it is known."""

    id: str
    outcome: Outcome
    excerpt: str = ""


@dataclass(frozen=True)
class Preview:
    """What a scan found, each patch with its own diff, and the cumulative diff of each file that changes."""

    entries: tuple[Entry, ...]
    errors: tuple[SourceError, ...]
    diffs: tuple[tuple[str, str], ...] = ()

    @property
    def diff(self) -> str:
        return "".join(text for _, text in self.diffs)


def name(findings: Iterable[Finding], project: Project) -> list[Found]:
    """Give every finding its names. `findings` come in the order of a scan."""
    named: list[Found] = []
    seen: Counter[str] = Counter()
    for finding in findings:
        site = finding.site
        document = project.documents[site.path]
        text = "\n".join(document.line(number) for number in range(site.line, site.end_line + 1))
        mark = fingerprint(finding, text)
        unique = f"{mark}-{seen[mark]}" if seen[mark] else mark
        seen[mark] += 1
        match finding:
            case Patch():
                named.append(FoundPatch(unique, mark, finding, finding))
            case Refusal():
                named.append(Found(unique, mark, finding))
    return named


def patches(found: Iterable[Found]) -> list[FoundPatch]:
    return [one for one in found if isinstance(one, FoundPatch)]


@dataclass(frozen=True)
class Waiting:
    """The patches of one file that are still to be done, in order, and the marks of all that ever waited there."""

    queue: tuple[FoundPatch, ...]
    met: frozenset[str]

    @classmethod
    def of(cls, found: Sequence[FoundPatch], elsewhere: Iterable[FoundPatch] = ()) -> Waiting:
        """`elsewhere`: patches of the file that wait in another queue."""
        return cls(tuple(found), frozenset(one.mark for one in (*found, *elsewhere)))

    def pop(self) -> tuple[tuple[FoundPatch, ...], Waiting]:
        """The next patch, with its rivals: those of other codemods that change a part of the same lines."""
        first, *others = self.queue
        rivals = tuple(one for one in others if _are_rivals(first.finding, one.finding))
        return (first, *rivals), Waiting(tuple(one for one in others if one not in rivals), self.met)

    def refound(self, again: Sequence[FoundPatch]) -> tuple[Waiting, tuple[FoundPatch, ...]]:
        """After an edit of the file: the waiting patches as `again`, a new scan, has them, and those it has not.

        Of equal sites the last ones are those still waiting, because work goes from top to bottom. A patch that nobody
        met before takes the place of one that is lost, so work ends: the queue never grows.
        """
        places: dict[str, list[FoundPatch]] = {}
        for one in again:
            places.setdefault(one.mark, []).append(one)
        kept: list[FoundPatch] = []
        lost: list[FoundPatch] = []
        for one in reversed(self.queue):
            found = places.get(one.mark)
            if found:
                kept.append(FoundPatch(one.id, one.mark, found.pop().finding, one.shown))
            else:
                lost.append(one)
        fresh = [one for one in again if one.mark not in self.met][: len(lost)]
        queue = sorted([*kept, *fresh], key=lambda one: (one.finding.site.line, one.finding.site.column))
        gone = tuple(reversed(lost))[len(fresh) :]
        return Waiting(tuple(queue), self.met | {one.mark for one in fresh}), gone


def in_turn(queue: Sequence[FoundPatch], last: Collection[str]) -> tuple[list[FoundPatch], list[FoundPatch]]:
    """The patches of one file that are tried first, and those that are tried when all others have been.

    The latter are of the codemods in `last`, and have no rivals among the former.
    """
    others = [one.finding for one in queue if one.finding.codemod not in last]
    late = [one for one in queue if one.finding.codemod in last
            and not any(_are_rivals(one.finding, other) for other in others)]  # fmt: skip
    return [one for one in queue if one not in late], late


def _are_rivals(a: Patch, b: Patch) -> bool:
    overlap = a.site.line <= b.site.end_line and b.site.line <= a.site.end_line
    return a.codemod != b.codemod and overlap
