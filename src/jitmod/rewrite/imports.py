"""How generated code names what it needs from jax and equinox: by the file's own imports, or by a new one."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass, field
from itertools import takewhile

from jitmod.model import Edit
from jitmod.source.project import SourceModule

_USUAL = {
    "equinox": ("eqx", "import equinox as eqx"),
    "functools": ("functools", "import functools"),
    "jax": ("jax", "import jax"),
    "numpy": ("np", "import numpy as np"),
    "jax.numpy": ("jnp", "import jax.numpy as jnp"),
}


class NameTaken(Exception):
    """The usual name of a library means something else in the file."""


@dataclass(eq=False)
class Imports:
    """The imports at the top of one file, and those that generated code adds to them."""

    module: SourceModule
    added: list[str] = field(default_factory=list)

    def refer(self, dotted: str) -> str:
        """The text by which the file may write `dotted` (`jax.lax.map`). Raises `NameTaken`."""
        best: tuple[int, str] | None = None
        for name, target in self._bound().items():
            if dotted == target or dotted.startswith(f"{target}."):
                text = name + dotted[len(target) :]
                if best is None or len(target) > best[0]:
                    best = (len(target), text)
        if best is not None:
            return best[1]
        package = next(p for p in ("jax.numpy", "jax", "equinox", "functools", "numpy") if dotted.startswith(f"{p}."))
        alias, statement = _USUAL[package]
        if alias in self.module.scope.bindings:
            raise NameTaken(alias)
        if statement not in self.added:
            self.added.append(statement)
        return alias + dotted[len(package) :]

    def _bound(self) -> dict[str, str]:
        """Names that top-level imports bind for good, in the leading part of the file."""
        found: dict[str, str] = {}
        for name, bindings in self.module.scope.bindings.items():
            if all(b.how == "import" for b in bindings) and any(b.node in self._block() for b in bindings):
                found[name] = bindings[-1].target
        for statement in self.added:
            alias, package = next((a, p) for p, (a, s) in _USUAL.items() if s == statement)
            found[alias] = package
        return found

    def _block(self) -> list[ast.stmt]:
        """The leading statements of the file: docstring and top-level imports, with assignments between them."""
        body = self.module.document.tree.body
        stops = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.While)
        return list(takewhile(lambda s: not isinstance(s, stops), body))

    def edits(self) -> list[Edit]:
        """The insertion of the added imports: beside the file's own, or after its docstring."""
        if not self.added:
            return []
        document = self.module.document
        leading = self._block()
        future = [s for s in leading if isinstance(s, ast.ImportFrom) and s.module == "__future__"]
        own = [s for s in leading if isinstance(s, ast.Import | ast.ImportFrom) and s not in future]
        edits: list[Edit] = []
        for statement in sorted(self.added):
            package = statement.split()[1]
            ours = package in sys.stdlib_module_names
            before = [s for s in own if not _is_relative(s) and _sort_key(s) < (0, package)]
            stdlib = [s for s in own if not _is_relative(s) and _is_stdlib(s)]
            before = [s for s in before if s in stdlib] if ours else before or stdlib
            others = [s for s in own if not _is_relative(s) and s not in stdlib]
            if others and not ours and all(s in stdlib for s in before):
                start = document.line_starts[others[0].lineno - 1]  # the first of the group that stands there
                edits.append(Edit(start, start, f"{statement}\n"))
            elif before:
                gap = "" if edits or ours or not _is_stdlib(before[-1]) else "\n"
                edits.append(self._after(before[-1], gap + statement))
            elif own:
                start = document.line_starts[own[0].lineno - 1]
                separate = "\n" if _is_relative(own[0]) or (ours and not _is_stdlib(own[0])) else ""
                edits.append(Edit(start, start, f"{statement}\n{separate}"))
            elif leading and (future or isinstance(leading[0], ast.Expr)):
                edits.append(self._after(future[-1] if future else leading[0], f"\n{statement}"))
            else:
                start = document.line_starts[leading[0].lineno - 1] if leading else 0
                edits.append(Edit(start, start, f"{statement}\n\n"))
        merged: dict[int, str] = {}
        for edit in edits:
            merged[edit.start] = merged.get(edit.start, "") + edit.text
        return [Edit(at, at, text) for at, text in merged.items()]

    def _after(self, statement: ast.stmt, text: str) -> Edit:
        document = self.module.document
        assert statement.end_lineno is not None
        if statement.end_lineno < len(document.line_starts):
            at = document.line_starts[statement.end_lineno]
            return Edit(at, at, f"{text}\n")
        return Edit(len(document.source), len(document.source), f"\n{text}\n")


def _is_relative(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.level > 0


def _is_stdlib(statement: ast.stmt) -> bool:
    return _sort_key(statement)[1].partition(".")[0] in sys.stdlib_module_names


def _sort_key(statement: ast.stmt) -> tuple[int, str]:
    """Where an import stands in the order that formatters use: plain imports first, then by module."""
    if isinstance(statement, ast.Import):
        return (0, statement.names[0].name)
    assert isinstance(statement, ast.ImportFrom)
    return (0 if statement.level == 0 else 1, statement.module or "")
