"""A notebook as one Python module: its code cells in order, a line between each two, and the way back into the cells.

The module's text is what is analysed, edited and run. A magic is a line of it that no edit may touch (`magics.py`).
What comes back from an edit is put into the cells that it changed; everything else of the file stays as it is, byte by
byte. An edit that touches a magic, or a border between cells, raises `CellConflict`.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from jitmod.source import notebook_json
from jitmod.source.magics import Translation, translate
from jitmod.source.notebook_json import NotANotebook, Source

SUFFIX = ".ipynb"
_BLANK_LINES = 2  # after a border, so that what is put before a cell's first statement needs none
_BORDER = re.compile(r'"%% cell (\d+)"')
_LINE = re.compile(r"\blines? (\d+)(?! of cell)")


class CellConflict(Exception):
    """An edit does not fit into the cells; the message says which cell it is about."""


@dataclass(frozen=True)
class Cell:
    """A code cell: its source, and the same as Python."""

    source: Source
    translation: Translation

    @property
    def number(self) -> int:
        return self.source.number

    @cached_property
    def python(self) -> str:
        return "\n".join(self.translation.lines) + "\n"


@dataclass(frozen=True)
class Notebook:
    """`raw` is the file's text; `cells` are its code cells."""

    raw: str
    cells: tuple[Cell, ...]

    @classmethod
    def read(cls, raw: str) -> Notebook:
        """Raises `NotANotebook`, also where the code of a cell is not Python."""
        cells: list[Cell] = []
        for source in notebook_json.read(raw):
            translation = translate(source.text, f"cell {source.number}")
            try:
                tree = ast.parse("\n".join(translation.lines))
            except SyntaxError as error:
                where = max(1, min(error.lineno or 1, len(translation.lines)))
                raise NotANotebook(error.msg, source.number, where, error.offset or 1) from None
            except (ValueError, RecursionError, MemoryError) as error:
                raise NotANotebook(str(error), source.number) from None
            cells.append(Cell(source, _without_late_futures(tree, translation, source.number, is_first=not cells)))
        return cls(raw, tuple(cells))

    @cached_property
    def module(self) -> str:
        """The text of the module."""
        return "".join(_border(cell) * bool(i) + cell.python for i, cell in enumerate(self.cells))

    def place(self, line: int, module: str = "") -> tuple[int, int]:
        """The number of the cell that holds a line of the module, and the line in the cell.

        `module` is the text of the module where that was edited.
        """
        lines = (module or self.module).split("\n")
        for at in range(min(line, len(lines)) - 1, -1, -1):
            border = _BORDER.fullmatch(lines[at].rstrip("\r"))
            if border is not None:
                return int(border[1]), max(1, line - at - 1 - _BLANK_LINES)
        return self.cells[0].number, line

    def is_timed(self, line: int) -> bool:
        """Whether a line of the module belongs to a cell that is a benchmark."""
        number, _ = self.place(line)
        return any(cell.translation.is_timed for cell in self.cells if cell.number == number)

    def file_line(self, cell: int, line: int) -> int:
        """The line of the file that holds a line of a cell."""
        source = next(one.source for one in self.cells if one.number == cell)
        at, before = source.start, 0
        for piece in source.pieces:
            if before >= line:
                break
            at = piece.start
            before += piece.text.count("\n") or 1
        return self.raw.count("\n", 0, at) + 1

    def in_words(self, message: str) -> str:
        """A message about lines of the module in terms of cells; what is quoted from code stays."""
        parts = message.split("`")
        last = self.module.count("\n")

        def named(found: re.Match[str]) -> str:
            if not 1 <= int(found[1]) <= last:
                return found[0]
            cell, line = self.place(int(found[1]))
            return f"cell {cell}, line {line}"

        return "`".join(_LINE.sub(named, part) if i % 2 == 0 else part for i, part in enumerate(parts))

    def spliced(self, module: str) -> str:
        """The file's text after an edit of the module. Raises `CellConflict`."""
        texts = self._apart(module)
        sources = tuple(cell.source for cell in self.cells)
        pieces: list[str] = []
        done = 0
        for cell, text in zip(self.cells, texts, strict=True):
            if text != cell.python:
                restored = _restored(cell, text.removesuffix("\n").removesuffix("\r"))
                value = notebook_json.literal(self.raw, cell.source, restored, sources)
                pieces += [self.raw[done : cell.source.start], value]
                done = cell.source.end
        return "".join([*pieces, self.raw[done:]])

    def _apart(self, module: str) -> list[str]:
        """The text of each cell in the text of a module."""
        if not self.cells:
            if module:
                raise CellConflict("the notebook has no code cell to put code into")
            return []
        texts = []
        for cell in self.cells[1:]:
            parts = re.split(rf"(?m)^{re.escape(_border(cell).rstrip())}\r?\n", module)
            if len(parts) != 2:
                raise CellConflict(f"the change goes across the border above cell {cell.number}")
            texts.append(parts[0])
            module = re.sub(rf"\A(\r?\n){{1,{_BLANK_LINES}}}", "", parts[1])
        return [*texts, module]


def changes(before: Notebook, after: Notebook) -> Iterator[str]:
    """How the source of every changed cell differs, line by line."""
    for old, new in zip(before.cells, after.cells, strict=True):
        if old.source.text != new.source.text:
            yield f"cell {old.number}:"
            lines = difflib.unified_diff(old.source.text.splitlines(), new.source.text.splitlines(), lineterm="")
            yield from list(lines)[2:]


def _border(cell: Cell) -> str:
    return f'"%% cell {cell.number}"\n' + "\n" * _BLANK_LINES


def _without_late_futures(tree: ast.Module, translation: Translation, number: int, is_first: bool) -> Translation:
    """A module has its `from __future__` at its very beginning. Those of later cells asked for what is now the rule."""
    lines, fixed = list(translation.lines), set(translation.fixed)
    early = is_first
    for index, statement in enumerate(tree.body):
        is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        end = statement.end_lineno or statement.lineno
        if is_future and not early and lines[statement.lineno - 1].startswith("from"):
            for line in range(statement.lineno - 1, end):
                lines[line] = f"{'pass' if line == statement.lineno - 1 else ''}  # cell {number}: future {line}"
            fixed |= set(range(statement.lineno - 1, end))
        early = early and (is_future or (index == 0 and ast.get_docstring(tree) is not None))
    return replace(translation, lines=tuple(lines), fixed=tuple(sorted(fixed)))


def _restored(cell: Cell, text: str) -> str:
    """The source of a cell from the text that an edit has made of its Python."""
    translation, own = cell.translation, cell.source.text
    if translation.whole:
        raise CellConflict(f"cell {cell.number} is not run as it stands: it belongs to a magic, or is indented")
    lines, old = text.split("\n"), own.split("\n")
    at = -1
    for index in translation.fixed:
        found = [number for number, line in enumerate(lines) if line.rstrip("\r") == translation.lines[index]]
        if len(found) != 1 or found[0] < at:
            raise CellConflict(f"the change touches line {index + 1} of cell {cell.number}: `{old[index].strip()}`")
        at = found[0]
        if translation.has_head and index == translation.fixed[0] and any(line.strip() for line in lines[:at]):
            raise CellConflict(f"the change would stand above `{old[index].strip()}` of cell {cell.number}")
        lines[at] = old[index]
    end = "\r" if "\r\n" in own else ""
    return f"{end}\n".join(line.removesuffix("\r") for line in lines) if end or "\r" not in own else "\n".join(lines)
