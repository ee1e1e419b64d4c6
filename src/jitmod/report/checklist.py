"""The pre-flight checklist of a hot path, for every function with a finding: each line as the findings decide it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from jitmod.delivery.figures import one_line
from jitmod.delivery.queue import Entry
from jitmod.model import Patch, Refusal
from jitmod.report.run import Run

_SETTLED = frozenset({"already-compiled", "cached-factory", "too-small", "too-few-steps", "timing-loop"})


@dataclass(frozen=True)
class Item:
    """A line of the list: the codemods and reasons of the findings that speak against it."""

    text: str
    against: frozenset[str]


ITEMS = (
    Item("the expensive work is inside of a compiled function", frozenset({"jitify"})),
    Item("no model is called once per item in a Python loop", frozenset({"vmapify"})),
    Item("one jit around the largest pure block, made once", frozenset({"fuse-jits", "hoist-jit"})),
    Item("arrays are computed at once, and not item by item", frozenset({"list-to-array", "ragged-items"})),
    Item("loops that hand a state on are lax.scan", frozenset({"scanify"})),
    Item("no Python number that varies crosses the boundary of a jit", frozenset({"trace-scalars", "varying-static"})),
    Item("only configuration is static, and no array is compiled in", frozenset({"fix-static", "captured-constants"})),
    Item("what is timed is warm, and waited for", frozenset({"honest-timing", "unblocked-timing", "cold-timing"})),
    Item("nothing downstream compares bit by bit", frozenset({"compared"})),
    Item("every call finds its program compiled", frozenset({"growing-shape", "frozen-by-jit", "late-binding"})),
    Item("the host waits for no value in the loop", frozenset({"host-sync"})),
    Item("buffers of a state that dies are used again", frozenset({"donate"})),
)
_SPOKEN_OF = frozenset().union(*(item.against for item in ITEMS))  # a comment of no use, say, is no matter of the list


def write(run: Run, stream: TextIO) -> None:
    """One card for each function with a finding that the list is about, in the order of files and lines."""
    functions: dict[tuple[str, str], list[Entry]] = {}
    for entry in run.entries:
        site = entry.outcome.finding.site
        if _note(entry).names & _SPOKEN_OF:
            functions.setdefault((site.shown_path, site.symbol), []).append(entry)
    for (path, symbol), entries in functions.items():
        lines = list(card(entries))
        good = sum(line.startswith("  ok") for line in lines)
        stream.write(f"{one_line(path)} {one_line(symbol)}: {good} of {len(ITEMS)}\n")
        stream.writelines(f"{line}\n" for line in lines)
        stream.write("\n")
    count = len(functions)
    what = "function" if count == 1 else "functions"
    stream.write(f"{count} {what} with something to look at; ok: nothing was found that speaks against it\n")


@dataclass(frozen=True)
class Note:
    """A finding as the list sees it: what it speaks of, whether it says `no` or `?`, and why it does not count."""

    names: frozenset[str]
    mark: str
    line: int
    kind: str
    message: str
    settled: str = ""


def card(entries: Sequence[Entry]) -> Iterator[str]:
    """The lines of one function."""
    for mark, item, said in rows([_note(entry) for entry in entries]):
        yield f"  {mark:<2}  {item.text}{said}"


def rows(notes: Sequence[Note]) -> Iterator[tuple[str, Item, str]]:
    """A mark for each line, and what is said of it: `ok` where nothing speaks against it, `no` where a patch or advice
    says what to do, `?` where a place was left alone and the reason says why."""
    for item in ITEMS:
        spoken = [note for note in notes if note.names & item.against]
        against = [note for note in spoken if not note.settled]
        if not against:
            yield "ok", item, f" ({spoken[0].settled})" if spoken else ""
        for note in against:
            yield note.mark, item, f": line {note.line}, {note.kind}: {one_line(note.message)}"


def note(codemod: str, reason: str | None, line: int, message: str, *, compares: bool, is_refused: bool) -> Note:
    """A finding by its parts; `reason` is None for a patch."""
    names = frozenset({codemod, *([reason] if reason else []), *(["compared"] if compares else [])})
    kind = f"{codemod} {reason}" if reason else codemod
    settled = reason if reason in _SETTLED else ""
    return Note(names, "?" if is_refused else "no", line, kind, message, settled or "")


def _note(entry: Entry) -> Note:
    finding = entry.outcome.finding
    reason = finding.reason if isinstance(finding, Refusal) else None
    compares = isinstance(finding, Patch) and bool(finding.compared)
    refused = isinstance(finding, Refusal) and not finding.is_advice
    line = finding.site.shown_line
    return note(finding.codemod, reason, line, finding.message, compares=compares, is_refused=refused)
