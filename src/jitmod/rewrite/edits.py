"""Byte-range edits, composed into new text and checked."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

from jitmod.model import Edit
from jitmod.source.document import Document
from jitmod.source.notebook import CellConflict, Notebook
from jitmod.source.notebook_json import NotANotebook


class EditConflict(Exception):
    """Two edits of one document overlap, what they make is not Python, or they do not fit into a notebook's cells."""


def compose(document: Document, edits: Iterable[Edit]) -> bytes:
    """The bytes of the document's file after `edits`; line ends follow the document's. Raises `EditConflict`."""
    ordered = sorted(edits, key=lambda e: (e.start, e.end))
    for one, following in pairwise(ordered):
        if following.start < one.end:
            raise EditConflict(f"{document.path}: two edits overlap at byte {following.start}")
    source = _spliced(document, ordered, 0, len(document.source))
    try:
        _check(document, ordered, source)
    except (SyntaxError, ValueError) as error:
        what = error.msg if isinstance(error, SyntaxError) else error
        raise EditConflict(f"{document.path}: the edited text does not parse: {what}") from None
    try:
        return document.encode(source)
    except CellConflict as conflict:
        raise EditConflict(f"{document.path}: {conflict}") from None


def _spliced(document: Document, edits: Iterable[Edit], start: int, end: int) -> bytes:
    """The bytes of a stretch of the source after the edits in it."""
    pieces: list[bytes] = []
    for edit in edits:
        text = edit.text.replace("\r\n", "\n").replace("\n", document.newline)
        pieces += [document.source[start : edit.start], text.encode()]
        start = edit.end
    return b"".join([*pieces, document.source[start:end]])


def _check(document: Document, edits: Sequence[Edit], source: bytes) -> None:
    """Raises what `ast.parse` raises for `source`. Statements of the top level that no edit touches are not read again.

    A text is Python where its stretches are that end with the line before a statement of the top level.
    """
    starts = document.statement_starts
    held: dict[tuple[int, int], list[Edit]] = {}
    for edit in edits:
        at, behind = bisect_right(starts, edit.start), bisect_right(starts, edit.end)
        first = starts[at - 1] if at else 0
        last = starts[behind] if behind < len(starts) else len(document.source)
        if held and first < (before := next(reversed(held)))[1]:
            first, last, others = before[0], max(last, before[1]), held.pop(before)
        else:
            others = []
        held[first, last] = [*others, edit]
    try:
        for (first, last), inside in held.items():
            ast.parse(_spliced(document, inside, first, last))
    except (SyntaxError, ValueError):
        ast.parse(source)  # a line may go on into the next statement: the whole decides


def code_after(document: Document, edits: Iterable[Edit]) -> str:
    """The code of the document's file after `edits`, as it is run. Raises `EditConflict`."""
    text = compose(document, edits).decode(document.encoding).removeprefix("\ufeff")
    if document.notebook is None:
        return text
    try:
        return Notebook.read(text).module
    except NotANotebook as error:
        raise EditConflict(f"{document.path}: cell {error.cell} does not parse after the edit") from None
