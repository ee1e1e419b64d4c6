"""Loops as a recording and its reader name them alike: by file, function and text, and the names that they read."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator

from jitmod.source.document import Document
from jitmod.source.nodes import children, walk

Loop = ast.For | ast.While | ast.ListComp | ast.DictComp
_BOUND_BY_NAME = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def loops(document: Document) -> Iterator[tuple[Loop, str]]:
    """Every loop of a file, and the key that it has in recordings: lines above it may change, its text may not."""
    todo: list[tuple[ast.AST, str]] = [(document.tree, "")]
    while todo:
        node, above = todo.pop()
        if isinstance(node, Loop):
            text = hashlib.sha256(document.text(node).encode()).hexdigest()
            yield node, f"{above}:{text}"
        inner = f"{above}.{node.name}" if isinstance(node, _BOUND_BY_NAME) else above
        todo += [(child, inner) for child in children(node)]


def names_read(loop: Loop) -> list[str]:
    """The names that a loop reads and does not bind: what they hold as it begins, they hold in all of it."""
    read: set[str] = set()
    bound: set[str] = set()
    for node in walk(loop):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                read.add(name)
            case ast.Name(id=name) | ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                bound.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                bound.add(name)
            case ast.alias(name=name, asname=other):
                bound.add(other or name.partition(".")[0])
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                bound |= set(names)
    return sorted(read - bound)
