"""The text of the one issue that tells how jitmod stands in a repository. It has no dates: as long as nothing changes,
neither does it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from jitmod.delivery.bot import Done, Result
from jitmod.delivery.bundle import Bundle, Listed
from jitmod.report.pull import plain

TITLE = "jitmod: what could be faster, and what became of it"
LIMIT = 60_000  # characters
_SAID = {
    Done.OPENED: "open", Done.UPDATED: "open", Done.UNCHANGED: "open", Done.WAITING: "waits",
    Done.MOVED: "waits for the next run", Done.UNWANTED: "closed by a person, and left at that",
    Done.TOUCHED: "open, and a person works on its branch: left alone", Done.UNPROVEN: "open, not proven again",
    Done.CLOSED: "closed: its code is gone", Done.FAILED: "refused, and tried again by the next run",
}  # fmt: skip
_FOOT = (
    "jitmod keeps this up to date for as long as it is open; close it, and there will be none. To have no more "
    "requests of one kind, close the one that is open. To keep a place as it is, write `# jitmod: ignore` on its line."
)


def dashboard(bundle: Bundle, results: Sequence[Result]) -> str:
    """Markdown. What does not fit is left out, from the end of each list."""
    requests = [f"| {plain(one.branch)} | {_SAID[one.done]} | {_said(one)} |" for one in results]
    lost = [_patch(one) for one in bundle.patches if one.status != "accepted"]
    by_reason = sorted(bundle.refused.items(), key=lambda pair: (-pair[1], pair[0]))
    refused = [f"| `{plain_code(code)}` | {number} |" for code, number in by_reason]
    parts = [
        *_table("Pull requests", ("branch", "state", "where, or why"), requests, "none"),
        *_table("Patches that earned no commit", ("where", "codemod", "why"), sorted(lost), "none"),
        *_table("Left alone, by reason (`jitmod explain REASON`)", ("reason", "places"), refused, "nothing"),
        _FOOT,
    ]
    return "\n".join(parts) + "\n"


def _said(one: Result) -> str:
    if one.done is Done.FAILED:  # it may be about the machine that delivers
        return "as the log of the run says"
    return one.said if one.said.startswith("https://") else plain(one.said)


def _patch(one: Listed) -> str:
    return f"| {plain(f'{one.path}:{one.line}')} | {plain(one.codemod)} | {plain(one.why)} |"


def plain_code(text: str) -> str:
    """A reason's code inside of backticks."""
    return "".join(letter for letter in text if letter.isalnum() or letter in "-_")


def _table(heading: str, columns: Sequence[str], rows: Iterable[str], none: str) -> Iterator[str]:
    yield f"### {heading}\n"
    shown, room = [], LIMIT // 3
    rows = list(rows)
    for row in rows:
        room -= len(row) + 1
        if room < 0:
            break
        shown.append(row)
    if not rows:
        yield f"{none}\n"
        return
    yield f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}"
    yield from shown
    yield f"\n{len(rows) - len(shown)} more.\n" if len(shown) < len(rows) else ""
