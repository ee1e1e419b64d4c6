"""A unified diff as rows for a page: line numbers of both sides, and the pieces of Python by their kind."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_NOTEBOOK = re.compile(r"# .*, for the reader:")
_CELL = re.compile(r"cell \d+:")
_UNENDED = "\\ No newline at end of file"
_HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]"
)
# The kinds of pygments that a diff of a few lines can bear.
_KINDS = (
    ("Comment", "c"), ("Keyword.Constant", "n"), ("Keyword", "k"), ("Operator.Word", "k"), ("Literal.String", "s"),
    ("Literal.Number", "n"), ("Name.Decorator", "d"), ("Name.Function", "f"), ("Name.Class", "f"),
)  # fmt: skip


@dataclass(frozen=True)
class Piece:
    """Text of one kind: a class of the style sheet, "" for plain text, "hidden" for the name of what has no sign."""

    kind: str
    text: str


@dataclass(frozen=True)
class Row:
    """A line. `mark` is "+", "-" or " "; "@" for what stands between hunks. Numbers are None where a side has none."""

    mark: str
    old: int | None
    new: int | None
    pieces: tuple[Piece, ...]


def rows(diff: str, *, is_python: bool = True) -> tuple[Row, ...]:
    """The rows of the diff of one file. Of a notebook they are how its cells change, line by line of a cell."""
    lines = [line.removesuffix("\n").removesuffix("\r") for line in re.findall(r"[^\n]*\n|[^\n]+", diff)]
    if lines and _NOTEBOOK.match(lines[0]):
        return tuple(_of_cells(lines[1:]))
    return tuple(_rows(lines, is_python=is_python))


def _of_cells(lines: Iterable[str]) -> Iterator[Row]:
    """How the cells change. What follows, the JSON of the file, is not for readers."""
    told = [line[2:] for line in itertools.takewhile(lambda line: line.startswith("#"), lines)]
    starts = [number for number, line in enumerate(told) if _CELL.fullmatch(line)]
    for start, end in itertools.pairwise([*starts, len(told)]):
        yield Row("@", None, None, (Piece("", told[start].rstrip(":")),))
        yield from _rows(told[start + 1 : end], is_python=True)


def _rows(lines: Sequence[str], *, is_python: bool) -> Iterator[Row]:
    old = new = 0
    hunk: list[tuple[str, int | None, int | None, str]] = []
    for line in lines:
        found = _HUNK.match(line)
        if found is not None:
            yield from _highlighted(hunk, is_python=is_python)
            hunk = []
            if old:
                yield Row("@", None, None, ())
            old, new = int(found[1]), int(found[2])
        elif line == _UNENDED:
            hunk.append(("@", None, None, "no newline at the end of the file"))
        elif not old and not new:
            continue  # the header: the page names the file
        elif line[:1] == "-":
            hunk.append(("-", old, None, line[1:]))
            old += 1
        elif line[:1] == "+":
            hunk.append(("+", None, new, line[1:]))
            new += 1
        else:
            hunk.append((" ", old, new, line[1:]))
            old, new = old + 1, new + 1
    yield from _highlighted(hunk, is_python=is_python)


def _highlighted(hunk: Sequence[tuple[str, int | None, int | None, str]], *, is_python: bool) -> Iterator[Row]:
    """Each side of a hunk is read as a text of its own, so that strings over several lines stay strings."""
    sides = {side: [text for mark, _, _, text in hunk if mark in (" ", side)] for side in ("-", "+")}
    read = {side: iter(_lexed(texts) if is_python else [[Piece("", text)] for text in texts])
            for side, texts in sides.items()}  # fmt: skip
    for mark, old, new, text in hunk:
        pieces = [Piece("", text)]
        if mark in (" ", "-"):
            pieces = next(read["-"])
        if mark in (" ", "+"):
            pieces = next(read["+"])
        yield Row(mark, old, new, tuple(_joined(part for piece in pieces for part in visible(piece.text, piece.kind))))


def _lexed(lines: Sequence[str]) -> list[list[Piece]]:
    """Python by its pieces, a list for each of `lines`."""
    from pygments.lexers.python import PythonLexer

    found: list[list[Piece]] = [[]]
    lexer = PythonLexer(stripnl=False, ensurenl=False)
    # The lexer makes line ends of "\r"; here only "\n" ends a line.
    for token, text in lexer.get_tokens("\n".join(lines).replace("\r", "\0")):
        kind = next((short for name, short in _KINDS if str(token).removeprefix("Token.").startswith(name)), "")
        for number, part in enumerate(text.replace("\0", "\r").split("\n")):
            if number:
                found.append([])
            if part:
                found[-1].append(Piece(kind, part))
    return found if len(found) == len(lines) else [[Piece("", line)] for line in lines]


def _joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Neighbours of one kind as one; names of characters stay apart."""
    for kind, group in itertools.groupby(pieces, key=lambda piece: piece.kind):
        if kind == "hidden":
            yield from group
        else:
            yield Piece(kind, "".join(piece.text for piece in group))


def visible(text: str, kind: str = "") -> Iterator[Piece]:
    """The text, in which the name of each character stands that has no sign, or turns the others around."""
    at = 0
    for found in _HIDDEN.finditer(text):
        if found.start() > at:
            yield Piece(kind, text[at : found.start()])
        yield Piece("hidden", f"U+{ord(found[0]):04X}")
        at = found.end()
    if at < len(text):
        yield Piece(kind, text[at:])
