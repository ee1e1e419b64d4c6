"""Byte-range edits, composed into new text and checked."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from jitmod.model import Edit
from jitmod.source.document import Document


class EditConflict(Exception):
    """Two edits of one document overlap, or what they make is not Python."""


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
        raise EditConflict(f"{document.path}: the edited text does not parse: {error}") from None
    return document.encode(source)
