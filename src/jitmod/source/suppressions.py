"""Comments that keep findings away: `# jitmod: ignore` and `# jitmod: ignore[vmapify, carried-state]`.

Behind a statement the comment holds for what begins on its lines; behind the head of a `def` or `class`, for all of it.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from jitmod.source.document import Document

_COMMENT = re.compile(r"#\s*jitmod:\s*ignore\b(?:\s*\[([^\]]*)\])?")


@dataclass(frozen=True)
class Suppression:
    """One comment: its place, the names of codemods and reasons (none: all), and the lines that it holds for."""

    line: int
    column: int
    text: str
    names: frozenset[str]
    first: int
    last: int

    def holds_for(self, line: int, *names: str | None) -> bool:
        return self.first <= line <= self.last and (not self.names or bool(self.names.intersection(names)))


def suppressions(document: Document) -> list[Suppression]:
    """Those of a file, in its order."""
    if b"jitmod:" not in document.source:
        return []
    try:
        found = list(_comments(document))
    except (tokenize.TokenError, SyntaxError):  # ast takes a little more than tokenize does
        return []
    return [_suppression(comment, first, last, document) for comment, first, last in found]


def _comments(document: Document) -> Iterator[tuple[tokenize.TokenInfo, int, int]]:
    """The comments, each with the first and the last line of the statement that it stands in or behind."""
    waiting: list[tokenize.TokenInfo] = []
    first = 0
    for token in tokenize.generate_tokens(io.StringIO(document.source.decode(), newline="").readline):
        match token.type:
            case tokenize.COMMENT:
                if _COMMENT.search(token.string):
                    waiting.append(token)
            case tokenize.NEWLINE | tokenize.ENDMARKER:
                yield from ((one, first or one.start[0], token.start[0]) for one in waiting)
                waiting, first = [], 0
            case tokenize.NL:
                if not first:  # a line of its own
                    yield from ((one, one.start[0], one.start[0]) for one in waiting)
                    waiting = []
            case tokenize.INDENT | tokenize.DEDENT:
                pass
            case _:
                first = first or token.start[0]


def _suppression(comment: tokenize.TokenInfo, first: int, last: int, document: Document) -> Suppression:
    found = _COMMENT.search(comment.string)
    assert found is not None
    names = frozenset(name.strip() for name in (found[1] or "").split(",") if name.strip())
    definitions = document.of(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    last = max((_end_of(node, first, last) for node in definitions), default=last)
    line, column = comment.start
    return Suppression(line, column + found.start() + 1, found[0], names, first, last)


def _end_of(node: ast.stmt, first: int, last: int) -> int:
    """The last line of a definition whose head, or one of its decorators, is on the lines given."""
    heads = {node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))}
    return max(last, node.end_lineno or last) if any(first <= head <= last for head in heads) else last
