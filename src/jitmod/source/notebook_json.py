"""The JSON text of a notebook: where the sources of its code cells stand in it, and how one is written anew.

Everything else of the text, outputs and spacing above all, is never parsed into anything that would be written back.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\r\n]*")
_CHARACTER = re.compile(r"\\u[0-9a-fA-F]{4}|\\.|[^\\]", re.DOTALL)
_ESCAPED = re.compile(r"\\u(?!00[0-7])[0-9a-fA-F]{4}")
_OLDEST = 4


class NotANotebook(Exception):
    """The file is no notebook with Python in it. `is_foreign`: it is one, but not for us: nothing is wrong with it.

    `cell` is the number of the cell with the fault, 0 where it is no single one's; `line` and `column` are the cell's,
    or the file's.
    """

    def __init__(self, message: str, cell: int = 0, line: int = 1, column: int = 1, is_foreign: bool = False) -> None:
        super().__init__(message)
        self.message, self.cell, self.line, self.column, self.is_foreign = message, cell, line, column, is_foreign


@dataclass(frozen=True)
class Piece:
    """A part of a source: its text, and the span in the file of what stands for it between quotation marks."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Source:
    """The source of code cell `number` (from 1, among all cells): the span of its JSON value, and its parts.

    In a list every string is a part, in a single string every line.
    """

    number: int
    start: int
    end: int
    is_list: bool
    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


def read(raw: str) -> tuple[Source, ...]:
    """The sources of the code cells in the text of a notebook. Raises `NotANotebook`."""
    try:
        document = json.loads(raw)
    except json.JSONDecodeError as error:
        raise NotANotebook(f"is not JSON: {error.msg}", 0, error.lineno, error.colno) from None
    except RecursionError:
        raise NotANotebook("is nested too deeply") from None
    _check(document)
    start = next(at for key, at, _ in reversed(list(_members(raw, 0))) if key == "cells")
    sources = []
    for number, (at, _) in enumerate(_items(raw, start), 1):
        cell = document["cells"][number - 1]
        if not isinstance(cell, dict):
            raise NotANotebook("is no cell, but a bare value", number)
        if cell.get("cell_type") == "code" and _is_python(cell.get("metadata")):
            spans = {key: (first, last) for key, first, last in _members(raw, at)}
            sources.append(_source(raw, number, cell.get("source"), spans.get("source", (0, 0))))
    return tuple(sources)


def _check(document: Any) -> None:
    if not isinstance(document, dict):
        raise NotANotebook("is JSON, but no notebook")
    version = document.get("nbformat")
    if "worksheets" in document or (isinstance(version, int) and version < _OLDEST):
        todo = "jupyter nbconvert --to notebook --inplace writes it anew"
        raise NotANotebook(f"is a notebook of format {version}, and only {_OLDEST} is read: {todo}", is_foreign=True)
    if not isinstance(document.get("cells"), list):
        raise NotANotebook("is no notebook: it has no list of cells")
    metadata = document.get("metadata")
    described = metadata if isinstance(metadata, dict) else {}
    info, kernel = (described.get(key) for key in ("language_info", "kernelspec"))
    named = [part.get(key) for part, key in ((info, "name"), (kernel, "language")) if isinstance(part, dict)]
    language = next((name for name in named if isinstance(name, str) and name), "python")
    if "python" not in language.lower():
        raise NotANotebook(f"is a notebook of {language}, not of Python", is_foreign=True)


def _is_python(metadata: Any) -> bool:
    """A cell may have a language of its own."""
    editor = metadata.get("vscode") if isinstance(metadata, dict) else None
    return not isinstance(editor, dict) or editor.get("languageId", "python") == "python"


def _source(raw: str, number: int, value: Any, span: tuple[int, int]) -> Source:
    start, end = span
    if isinstance(value, str):
        return Source(number, start, end, False, tuple(_lines(raw, start + 1, end - 1)))
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        places = [Piece(text, at + 1, to - 1) for text, (at, to) in zip(value, _items(raw, start), strict=True)]
        return Source(number, start, end, True, tuple(places))
    raise NotANotebook("has no source: neither a string nor a list of strings", number)


def _lines(raw: str, start: int, end: int) -> Iterator[Piece]:
    """The lines of a JSON string between its quotation marks."""
    first = start
    for character in _CHARACTER.finditer(raw, start, end):
        if character[0] in ("\\n", "\\u000a", "\\u000A"):
            yield Piece(json.loads(f'"{raw[first : character.end()]}"'), first, character.end())
            first = character.end()
    if first < end:
        yield Piece(json.loads(f'"{raw[first:end]}"'), first, end)


def _members(raw: str, at: int) -> Iterator[tuple[str, int, int]]:
    """The key of every member of the object that begins at or after `at`, and the span of its value."""
    at = _after(raw, at, "{")
    while raw[at] != "}":
        key, at = _DECODER.raw_decode(raw, at)
        start = _after(raw, at, ":")
        _, end = _DECODER.raw_decode(raw, start)
        yield key, start, end
        at = _next(raw, end)


def _items(raw: str, at: int) -> Iterator[tuple[int, int]]:
    """The span of every item of the array that begins at or after `at`."""
    at = _after(raw, at, "[")
    while raw[at] != "]":
        _, end = _DECODER.raw_decode(raw, at)
        yield at, end
        at = _next(raw, end)


def _after(raw: str, at: int, sign: str) -> int:
    at = _skip(raw, at)
    assert raw[at] == sign, "it was parsed before"
    return _skip(raw, at + 1)


def _next(raw: str, at: int) -> int:
    at = _skip(raw, at)
    return _skip(raw, at + 1) if raw[at] == "," else at


def _skip(raw: str, at: int) -> int:
    found = _BLANK.match(raw, at)
    return found.end() if found else at


def literal(raw: str, source: Source, text: str, others: tuple[Source, ...]) -> str:
    """The JSON value for `source` with another text, in the same form; parts that stay are written as they were.

    `others` show how the file writes a list, where `source` has too few parts to tell.
    """
    only_ascii = raw.isascii() and _ESCAPED.search(raw) is not None
    old = [piece.text for piece in source.pieces]
    new = [line for line in re.split(r"(?<=\n)", text) if line]
    written: list[str] = []
    for tag, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            written += [raw[piece.start : piece.end] for piece in source.pieces[i:j]]
        else:
            written += [json.dumps(line, ensure_ascii=only_ascii)[1:-1] for line in new[k:m]]
    if not source.is_list:
        return f'"{"".join(written)}"'
    first, between, last = _layout(raw, source, others)
    return "[" + first + between.join(f'"{one}"' for one in written) + last + "]" if written else "[]"


def _layout(raw: str, source: Source, others: tuple[Source, ...]) -> tuple[str, str, str]:
    """What stands before the strings of a list, between them and after them."""
    lists = [one for one in (source, *others) if one.is_list and one.pieces]
    model = next((one for one in lists if len(one.pieces) > 1), None)
    own = source if source.pieces else model or next(iter(lists), None)
    if own is None:
        return "", ", ", ""
    first = raw[own.start + 1 : own.pieces[0].start - 1]
    last = raw[own.pieces[-1].end + 1 : own.end - 1]
    if "\n" in first:
        return first, f",{first}", last
    between = raw[model.pieces[0].end + 1 : model.pieces[1].start - 1] if model is not None else ", "
    return first, between, last
