"""Byte-range edits, composed into new text and checked."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from jitmod.model import Edit
from jitmod.source.document import Document
from jitmod.source.notebook import CellConflict, Notebook
from jitmod.source.notebook_json import NotANotebook


class EditConflict(Exception):
    """Two edits of one document overlap, what they make is not Python, or they do not fit into a notebook's cells."""


def compose(document: Document, edits: Iterable[Edit]) -> bytes:
    """The bytes of the document's file after `edits`; line ends follow the document's. Raises `EditConflict`."""
    pieces: list[bytes] = []
    done = 0
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        if edit.start < done:
            raise EditConflict(f"{document.path}: two edits overlap at byte {edit.start}")
        text = edit.text.replace("\r\n", "\n").replace("\n", document.newline)
        pieces += [document.source[done : edit.start], text.encode()]
        done = edit.end
    source = b"".join([*pieces, document.source[done:]])
    try:
        ast.parse(source)
    except (SyntaxError, ValueError) as error:
        what = error.msg if isinstance(error, SyntaxError) else error
        raise EditConflict(f"{document.path}: the edited text does not parse: {what}") from None
    try:
        return document.encode(source)
    except CellConflict as conflict:
        raise EditConflict(f"{document.path}: {conflict}") from None


def code_after(document: Document, edits: Iterable[Edit]) -> str:
    """The code of the document's file after `edits`, as it is run. Raises `EditConflict`."""
    text = compose(document, edits).decode(document.encoding).removeprefix("\ufeff")
    if document.notebook is None:
        return text
    try:
        return Notebook.read(text).module
    except NotANotebook as error:
        raise EditConflict(f"{document.path}: cell {error.cell} does not parse after the edit") from None
