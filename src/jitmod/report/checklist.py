"""The pre-flight checklist of a hot path, for every function with a finding: each line as the findings decide it."""

from __future__ import annotations

from collections.abc import Iterator
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


def write(run: Run, stream: TextIO) -> None:
    """One card for each function with a finding, in the order of files and lines."""
    functions: dict[tuple[str, str], list[Entry]] = {}
    for entry in run.entries:
        site = entry.outcome.finding.site
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


def card(entries: list[Entry]) -> Iterator[str]:
    """The lines of one function: `ok` where nothing speaks against it, `no` where a patch or advice says what to do,
    `?` where a place was left alone and the reason says why."""
    for item in ITEMS:
        spoken = [entry for entry in entries if _names(entry) & item.against]
        open_ones = [entry for entry in spoken if not _is_settled(entry)]
        if not open_ones:
            settled = f" ({spoken[0].outcome.finding.reason})" if spoken and _is_settled(spoken[0]) else ""  # type: ignore[union-attr]
            yield f"  ok  {item.text}{settled}"
        for entry in open_ones:
            finding = entry.outcome.finding
            mark = "?" if isinstance(finding, Refusal) and not finding.is_advice else "no"
            kind = finding.codemod if isinstance(finding, Patch) else f"{finding.codemod} {finding.reason}"
            yield f"  {mark:<2}  {item.text}: line {finding.site.shown_line}, {kind}: {one_line(finding.message)}"


def _names(entry: Entry) -> set[str]:
    finding = entry.outcome.finding
    if isinstance(finding, Patch):
        return {finding.codemod, *(["compared"] if finding.compared else [])}
    return {finding.codemod, finding.reason}


def _is_settled(entry: Entry) -> bool:
    finding = entry.outcome.finding
    return isinstance(finding, Refusal) and finding.reason in _SETTLED
