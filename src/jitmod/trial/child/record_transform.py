"""Probes of a recording: put into the syntax tree when a file of the project is loaded; its text is not changed.

A function reports its arguments when it is entered, a loop what its names hold as it begins, a site its time and its
iterations. The probes are names of `builtins`, so that no namespace of the project grows. A program may store its
functions, or send them to other processes, where there are no probes: there the code does without them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

NAMES = tuple(f"__jitmod_{name}__" for name in ("enter", "see", "step", "start", "stop"))
ENTER, SEE, STEP, START, STOP = NAMES
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Wanted:
    """What to watch in one file: functions by (qualified name, line), sites by (line, character column), loops by
    (line, byte column); each has a number under which it reports."""

    functions: dict[tuple[str, int], int]
    sites: dict[tuple[int, int], int]
    loops: dict[tuple[int, int], int]


def instrumented(tree: ast.Module, source: bytes, wanted: Wanted) -> ast.Module:
    """`tree` with its probes. Tracebacks keep their lines."""
    _Sites(source, wanted).visit(tree)
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
    node.body.insert(first, _statement(at, ENTER, ast.Constant(number), values))


class _Sites(ast.NodeTransformer):
    def __init__(self, source: bytes, wanted: Wanted) -> None:
        self._lines = source.splitlines(keepends=True)
        self._sites = wanted.sites
        self._loops = wanted.loops

    def _number(self, node: ast.AST) -> int | None:
        line, offset = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
        if not any(line == known for known, _ in self._sites):
            return None
        before = self._lines[line - 1][:offset].decode(errors="replace")
        return self._sites.get((line, len(before) + 1))

    def visit(self, node: ast.AST) -> Any:
        node = self.generic_visit(node)
        seen = self._loops.get((getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))
        if isinstance(node, _LOOPS):
            loop = self._loop(node)
            if seen is None or isinstance(node, ast.AsyncFor):
                return loop
            return [_statement(node, SEE, ast.Constant(seen)), *loop]
        if isinstance(node, _COMPREHENSIONS):
            comprehension = self._comprehension(node)
            if seen is None or not isinstance(node, ast.ListComp | ast.DictComp):
                return comprehension
            return _second(_expression(SEE, seen), comprehension, node)
        return node

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> list[ast.stmt]:
        number = self._number(node)
        if number is None:
            return [node]
        mark = ast.Constant(number)
        node.body.insert(0, _statement(node.body[0], STEP, mark))
        timed = ast.Try([node], [], [], [_statement(node, STOP, mark)])
        return [_statement(node, START, mark), ast.copy_location(timed, node)]

    def _comprehension(self, node: Any) -> ast.expr:
        number = self._number(node)
        if number is None or isinstance(node, ast.GeneratorExp):  # a generator runs when someone reads it
            return node  # type: ignore[no-any-return]
        item = "key" if isinstance(node, ast.DictComp) else "elt"
        value = getattr(node, item)
        setattr(node, item, _second(_expression(STEP, number), value, value))
        return _second(_expression(START, number), node, node, _expression(STOP, number))


def _second(first: ast.expr, value: ast.expr, at: ast.expr, *last: ast.expr) -> ast.expr:
    """`(first, value, last)[1]`: evaluates all, is the second."""
    parts = ast.copy_location(ast.Tuple([first, value, *last], ast.Load()), at)
    return ast.copy_location(ast.Subscript(parts, ast.Constant(1), ast.Load()), at)


def _statement(at: ast.AST, name: str, *arguments: ast.expr) -> ast.stmt:
    """A probe as a statement; nothing where there is none of that name."""
    call = ast.Expr(ast.Call(ast.Name(name, ast.Load()), list(arguments), []))
    without = ast.ExceptHandler(ast.Name("NameError", ast.Load()), None, [ast.Pass()])
    return ast.copy_location(ast.Try([call], [without], [], []), at)


def _expression(name: str, number: int) -> ast.expr:
    """A probe as an expression; `id`, which does no harm, where there is none of that name."""
    text = f"__import__('builtins').__dict__.get({name!r}, id)({number})"
    return ast.parse(text, mode="eval").body
