"""A Python file or a notebook: its bytes, its syntax tree, and the way from one to the other."""

from __future__ import annotations

import ast
import io
import itertools
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from jitmod.model import InCell, Site, SourceError
from jitmod.source.nodes import children
from jitmod.source.notebook import SUFFIX, Notebook
from jitmod.source.notebook_json import NotANotebook

_BOM = b"\xef\xbb\xbf"
_Node = TypeVar("_Node", bound=ast.AST)
_CONTINUED = (b"\\\n", b"\\\r\n", b"\\\r")  # the line goes on in the next one
_LINE_END = re.compile(rb"\r\n|\r|\n")


class UnreadableSource(Exception):
    """Raised where a file is not Python; `error` says where and why."""

    def __init__(self, error: SourceError) -> None:
        super().__init__(str(error))
        self.error = error


def _first_lines(data: bytes) -> list[bytes]:
    """The two lines that may say the encoding; they may end with a carriage return alone."""
    ends = [match.end() for match in itertools.islice(_LINE_END.finditer(data), 2)]
    return data[: ends[1] if len(ends) == 2 else len(data)].splitlines(keepends=True)


_DEEPEST = 1200  # levels of syntax; a sum of as many terms, say
_FRAMES = 20 * _DEEPEST


@dataclass(frozen=True)
class _Syntax:
    """The nodes of a tree level by level, what each of them is a part of, and how many levels there are."""

    nodes: list[ast.AST]
    parents: dict[ast.AST, ast.AST]
    levels: int
    line: int  # of the deepest one

    @classmethod
    def of(cls, tree: ast.Module) -> _Syntax:
        nodes: list[ast.AST] = [tree]
        parents: dict[ast.AST, ast.AST] = {}
        level, levels = 0, 0  # where the level in hand begins
        while level < len(nodes):
            above, level, levels = nodes[level:], len(nodes), levels + 1
            for node in above:
                for child in children(node):
                    parents[child] = node
                    nodes.append(child)
        line = next((node.lineno for node in above if hasattr(node, "lineno")), 1)
        return cls(nodes, parents, levels, line)


@dataclass(frozen=True)
class Document:
    """One file. `source` is its text in UTF-8 without a byte-order mark: the coordinates of `Edit` and of ast.

    That of a notebook is the text of its code cells seen as one module (`notebook.py`).
    """

    path: str
    source: bytes
    encoding: str
    has_bom: bool
    tree: ast.Module
    _syntax: _Syntax
    notebook: Notebook | None = None

    @classmethod
    def parse(cls, path: str, data: bytes) -> Document:
        """Parse `data`, the bytes of the file at the relative `path`. Raises `UnreadableSource`."""
        notebook, encoding = None, "utf-8"
        try:
            if path.endswith(SUFFIX):
                notebook = Notebook.read(data.removeprefix(_BOM).decode())
                text = notebook.module
            else:
                encoding, _ = tokenize.detect_encoding(iter(_first_lines(data)).__next__)
                text = data.removeprefix(_BOM).decode(encoding.removesuffix("-sig"))
            tree = ast.parse(text)
        except NotANotebook as error:
            message = f"cannot be parsed: {error.message}" if error.cell else error.message
            raise UnreadableSource(
                SourceError(path, error.line, error.column, message, error.cell, error.is_foreign)
            ) from None
        except SyntaxError as error:
            raise UnreadableSource(
                SourceError(path, error.lineno or 1, error.offset or 1, f"cannot be parsed: {error.msg}")
            ) from None
        except (ValueError, LookupError, RecursionError, MemoryError) as error:
            raise UnreadableSource(SourceError(path, 1, 1, f"cannot be read as Python: {error}")) from None
        syntax = _Syntax.of(tree)
        if syntax.levels > _DEEPEST:
            message = f"the code is nested {syntax.levels} levels deep here; more than {_DEEPEST} are not followed"
            raise UnreadableSource(SourceError(path, syntax.line, 1, message))
        sys.setrecursionlimit(max(sys.getrecursionlimit(), _FRAMES))  # the analyses go down level by level
        has_bom = data.startswith(_BOM)
        return cls(path, text.encode(), encoding.removesuffix("-sig"), has_bom, tree, syntax, notebook)

    @property
    def nodes(self) -> Sequence[ast.AST]:
        """The nodes of the file as `walk` goes through them."""
        return self._syntax.nodes

    @property
    def parents(self) -> Mapping[ast.AST, ast.AST]:
        """The parent of every node of the file."""
        return self._syntax.parents

    def of(self, kind: type[_Node], *others: type[_Node]) -> Iterator[_Node]:
        """The nodes of the file that are exactly of these kinds, kind by kind."""
        for one in (kind, *others):
            yield from self._by_kind.get(one, ())  # type: ignore[misc]

    @cached_property
    def _by_kind(self) -> Mapping[type, list[ast.AST]]:
        found: dict[type, list[ast.AST]] = {}
        for node in self.nodes:
            found.setdefault(node.__class__, []).append(node)
        return found

    @classmethod
    def read(cls, root: Path, path: str) -> Document:
        """Parse the file at `root / path`. Raises `UnreadableSource`, also where it cannot be opened."""
        try:
            data = (root / path).read_bytes()
        except OSError as error:
            raise UnreadableSource(SourceError(path, 1, 1, f"cannot be opened: {error.strerror}")) from None
        return cls.parse(path, data)

    def encode(self, source: bytes) -> bytes:
        """The bytes of the file whose text is `source`: encoding and byte-order mark as they were.

        Raises `CellConflict` where the text does not fit into the cells of the notebook.
        """
        text = source.decode()
        written = self.notebook.spliced(text) if self.notebook is not None else text
        return (_BOM if self.has_bom else b"") + written.encode(self.encoding)

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        return (0, *(match.end() for match in _LINE_END.finditer(self.source)))

    @cached_property
    def comments(self) -> tuple[tuple[int, str], ...]:
        """Every comment of the file with its line."""
        tokens = tokenize.generate_tokens(io.StringIO(self.source.decode()).readline)
        return tuple((token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT)

    @cached_property
    def newline(self) -> str:
        match = _LINE_END.search(self.source)
        return match.group().decode() if match else "\n"

    @cached_property
    def statement_starts(self) -> tuple[int, ...]:
        """Where lines begin anew with a statement of the top level, its decorators included."""
        firsts = (min([s, *getattr(s, "decorator_list", ())], key=lambda node: node.lineno) for s in self.tree.body)
        lines = [node.lineno for node in firsts if node.col_offset == (isinstance(node, ast.expr))]
        starts = dict.fromkeys(self.line_starts[line - 1] for line in lines)
        return tuple(start for start in starts if not self.source.endswith(_CONTINUED, 0, start))

    def offset(self, line: int, column: int) -> int:
        """Byte offset of ast's 1-based `line` and 0-based UTF-8 `column`."""
        return self.line_starts[line - 1] + column

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def text(self, node: ast.expr | ast.stmt) -> str:
        """The source text of `node`, exactly as written."""
        start, end = self.span(node)
        return self.source[start:end].decode()

    def line(self, number: int) -> str:
        """The text of a 1-based line, without its line end."""
        start = self.line_starts[number - 1]
        end = self.line_starts[number] if number < len(self.line_starts) else len(self.source)
        return self.source[start:end].decode().rstrip("\r\n")

    def indent(self, node: ast.stmt) -> str | None:
        """The white space before a statement; None where something else stands before it on its line."""
        before = self.source[self.line_starts[node.lineno - 1] : self.offset(node.lineno, node.col_offset)].decode()
        return None if before.strip(" \t") else before

    def site(self, node: ast.expr | ast.stmt, symbol: str) -> Site:
        start, _ = self.span(node)
        column = len(self.source[self.line_starts[node.lineno - 1] : start].decode()) + 1
        assert node.end_lineno is not None
        return Site(self.path, node.lineno, column, node.end_lineno, symbol, self._seen(node.lineno, node.end_lineno))

    def place(self, line: int, column: int) -> Site:
        """A place that is no statement; both count from 1."""
        return Site(self.path, line, column, line, seen=self._seen(line, line))

    def _seen(self, first: int, last: int) -> InCell | None:
        if self.notebook is None:
            return None
        cell, line = self.notebook.place(first)
        return InCell(cell, line, line + last - first, self.notebook.file_line(cell, line))
