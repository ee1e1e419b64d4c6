"""Probes of a recording: put into the syntax tree when a file of the project is loaded; its text is not changed.

A function reports its arguments when it is entered, a loop its time and its iterations. The probes are names of
`builtins`, so that no namespace of the project grows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

ENTER, SPAN, STEP, START, STOP = (f"__jitmod_{name}__" for name in ("enter", "span", "step", "start", "stop"))
NAMES = (ENTER, SPAN, STEP, START, STOP)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Wanted:
    """What to watch in one file: functions by (qualified name, line), sites by (line, character column); each has a
    number under which it reports."""

    functions: dict[tuple[str, int], int]
    sites: dict[tuple[int, int], int]


def instrumented(tree: ast.Module, source: bytes, wanted: Wanted) -> ast.Module:
    """`tree` with its probes. Tracebacks keep their lines."""
    _Sites(source, wanted.sites).visit(tree)
    for node, qualname in functions(tree):
        number = wanted.functions.get((qualname, node.lineno))
        if number is not None:
            _watch(node, number)
    return ast.fix_missing_locations(tree)


def functions(tree: ast.AST, above: str = "") -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    """Every `def` with its qualified name, as Python makes it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _FUNCTIONS):
            yield node, above + node.name
            yield from functions(node, f"{above}{node.name}.<locals>.")
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{above}{node.name}.")
        else:
            yield from functions(node, above)


def _watch(node: ast.FunctionDef | ast.AsyncFunctionDef, number: int) -> None:
    a = node.args
    names = [x.arg for x in (*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs, a.kwarg) if x is not None]
    values = ast.Tuple([ast.Name(name, ast.Load()) for name in names], ast.Load())
    first = 1 if ast.get_docstring(node, clean=False) is not None else 0
    while first < len(node.body) and isinstance(node.body[first], ast.Global | ast.Nonlocal):
        first += 1
    at = node.body[min(first, len(node.body) - 1)]
    node.body.insert(first, ast.copy_location(ast.Expr(_call(ENTER, ast.Constant(number), values)), at))


class _Sites(ast.NodeTransformer):
    def __init__(self, source: bytes, sites: dict[tuple[int, int], int]) -> None:
        self._lines = source.splitlines(keepends=True)
        self._sites = sites

    def _number(self, node: ast.AST) -> int | None:
        line, offset = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
        if not any(line == known for known, _ in self._sites):
            return None
        before = self._lines[line - 1][:offset].decode(errors="replace")
        return self._sites.get((line, len(before) + 1))

    def visit(self, node: ast.AST) -> Any:
        node = self.generic_visit(node)
        if isinstance(node, _LOOPS):
            return self._loop(node)
        return self._comprehension(node) if isinstance(node, _COMPREHENSIONS) else node

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> ast.stmt:
        number = self._number(node)
        if number is None:
            return node
        step = ast.copy_location(ast.Expr(_call(STEP, ast.Constant(number))), node.body[0])
        node.body.insert(0, step)
        span = ast.With([ast.withitem(_call(SPAN, ast.Constant(number)))], [node])
        return ast.copy_location(span, node)

    def _comprehension(self, node: Any) -> ast.expr:
        number = self._number(node)
        if number is None or isinstance(node, ast.GeneratorExp):  # a generator runs when someone reads it
            return node  # type: ignore[no-any-return]
        step = _call(STEP, ast.Constant(number))
        item = "key" if isinstance(node, ast.DictComp) else "elt"
        value = getattr(node, item)
        pair = ast.copy_location(ast.Tuple([step, value], ast.Load()), value)
        setattr(node, item, ast.copy_location(ast.Subscript(pair, ast.Constant(1), ast.Load()), value))
        timed = _call(STOP, _call(START, ast.Constant(number)), node)
        return ast.copy_location(timed, node)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])
