"""Proof of execution: calls that the loader puts into the syntax tree (about 1 % of run time; tracing costs 3x)."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from typing import Any

from . import reached
from .changes import changed_statements, first_statement, functions, is_docstring

_HIT, _STEP = "__jitmod_hit__", "__jitmod_step__"
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Probes:
    """Counts what ran. `entered` counts marks, `trips` has the largest number of iterations of one pass of a loop.

    `loaded` counts the marks that ran before `forget`, while the modules were loaded. `functions` are marks at the
    beginning of functions.
    """

    def __init__(self) -> None:
        self.loaded: Counter[str] = Counter()
        self.placed: set[str] = set()
        self.functions: set[str] = set()
        self.entered: Counter[str] = Counter()
        self.trips: dict[str, int] = {}
        self._running: dict[str, int] = {}

    def injected(self) -> dict[str, Any]:
        return {_HIT: self._hit, _STEP: self._step}

    def forget(self) -> None:
        """Start anew after loading: what runs at import is not what the trial times."""
        self.loaded += self.entered
        self.entered.clear()
        self._running.clear()
        self.trips = dict.fromkeys(self.trips, 0)

    def _hit(self, mark: str) -> None:
        self.entered[mark] += 1
        self._running[mark] = 0

    def _step(self, mark: str) -> None:
        self._running[mark] = self._running.get(mark, 0) + 1
        self.trips[mark] = max(self.trips.get(mark, 0), self._running[mark])

    def watch_functions(self, tree: ast.Module, names: Iterable[str]) -> ast.Module:
        """Mark the first statement of these functions; the mark is the function's name."""
        for name, function in functions(tree, names):
            self._mark(tree, first_statement(function), name)
        return tree

    def watch_lines(self, tree: ast.Module, path: str, lines: Iterable[int]) -> ast.Module:
        """Mark the changed statements on `lines`."""
        for statement in changed_statements(tree, lines):
            self._mark(tree, statement, f"{path}:{statement.lineno}")
        return tree

    def watch_entries(self, tree: ast.Module, path: str, names: Iterable[str]) -> ast.Module:
        """Mark the beginning of these functions, by qualified name; the mark is the file and the name."""
        wanted = frozenset(names)
        for name, function in [entry for entry in reached.functions(tree) if entry[0] in wanted]:
            mark = f"{path}:{name}"
            self.functions.add(mark)
            hit = ast.copy_location(ast.Expr(_call(_HIT, mark)), function.body[0])
            function.body.insert(int(is_docstring(function.body[0])), hit)
        return tree

    def watch_site(self, tree: ast.Module, site: dict[str, Any]) -> ast.Module:
        """Mark the site's statement, and count its iterations where it is a loop or a comprehension."""
        mark = f"{site['path']}:{site['line']}"
        node = _site_node(tree, site)
        if node is not None:
            self._count(node, mark)
        if isinstance(node, ast.expr):
            self.placed.add(mark)
            return _Replace(node, _before(_call(_HIT, mark), node)).visit(tree)  # type: ignore[no-any-return]
        if node is not None:
            self._mark(tree, node, mark)
        return tree

    def watch_loops(self, tree: ast.Module, path: str) -> ast.Module:
        """Count the iterations of every loop and comprehension; a mark is the place of the loop."""
        for node in list(ast.walk(tree)):
            if isinstance(node, (*_LOOPS, *_COMPREHENSIONS)):
                self._count(node, f"{path}:{node.lineno}:{node.col_offset}")
        return tree

    def _count(self, node: ast.AST, mark: str) -> None:
        """The iterations of `node`; `_hit` starts a new pass where something marks its beginning."""
        if isinstance(node, _LOOPS):
            node.body.insert(0, ast.copy_location(ast.Expr(_call(_STEP, mark)), node.body[0]))
        elif isinstance(node, ast.DictComp):
            node.key = _before(_call(_STEP, mark), node.key)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            node.elt = _before(_call(_STEP, mark), node.elt)
        else:
            return
        self.trips.setdefault(mark, 0)

    def _mark(self, tree: ast.Module, statement: ast.stmt, mark: str) -> None:
        self.placed.add(mark)
        hit = ast.copy_location(ast.Expr(_call(_HIT, mark)), statement)
        for node in ast.walk(tree):
            for field in ("body", "orelse", "finalbody"):
                block = getattr(node, field, None)
                if isinstance(block, list):
                    at = next((i for i, item in enumerate(block) if item is statement), None)
                    if at is not None:
                        block.insert(at, hit)
                        return


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self._new if node is self._old else self.generic_visit(node)


def _site_node(tree: ast.Module, site: dict[str, Any]) -> ast.stmt | ast.expr | None:
    """The loop at the site, else the comprehension, else the first statement."""
    inside = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt | ast.expr)
        and site["line"] <= node.lineno
        and (node.end_lineno or node.lineno) <= site["end_line"]
    ]
    for kinds in (_LOOPS, _COMPREHENSIONS, ast.stmt):
        of_kind = [node for node in inside if isinstance(node, kinds)]
        if of_kind:
            return min(of_kind, key=lambda n: (n.lineno != site["line"], abs(n.col_offset + 1 - site["column"])))
    around = (n for n in ast.walk(tree) if isinstance(n, ast.stmt) and n.lineno <= site["line"] <= (n.end_lineno or 0))
    return max(around, key=lambda n: n.lineno, default=None)


def _call(function: str, mark: str) -> ast.Call:
    return ast.Call(ast.Name(function, ast.Load()), [ast.Constant(mark)], [])


def _before(first: ast.expr, value: ast.expr) -> ast.expr:
    """`(first, value)[1]`: evaluates both, is the second."""
    pair = ast.Tuple([first, value], ast.Load())
    return ast.copy_location(ast.Subscript(pair, ast.Constant(1), ast.Load()), value)
