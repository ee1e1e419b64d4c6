"""A candidate made wrong on purpose: if parity does not notice, the workload cannot see the site."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import compare
from .changes import changed_statements, functions

_SPOIL = "__jitmod_spoil__"
_SPOIL_ARRAY = "__jitmod_spoil_array__"
_draws = itertools.count()


def scaled(value: Any) -> Any:
    """Floating leaves as x * 1.01 + 0.01, in their own dtype."""

    def leaf(x: Any) -> Any:
        if type(x) is float:
            return x * 1.01 + 0.01
        if isinstance(x, jax.Array | np.ndarray) and jnp.issubdtype(x.dtype, jnp.inexact):
            return (x * 1.01 + 0.01).astype(x.dtype)
        return x

    return _mapped(leaf, value)


def moved(value: Any) -> Any:
    """As `scaled`, but only what is an array: a number may be a tolerance."""
    arrays = jax.Array | np.ndarray
    return _mapped(lambda x: scaled(x) if isinstance(x, arrays) else x, value)


def rolled(value: Any) -> Any:
    """Leaves with a leading axis, moved along it by one."""

    def leaf(x: Any) -> Any:
        if not isinstance(x, jax.Array | np.ndarray) or x.ndim == 0 or x.shape[0] < 2:
            return x
        if not (jnp.issubdtype(x.dtype, jnp.number) or x.dtype == bool):
            return x
        return jnp.roll(x, 1, axis=0) if isinstance(x, jax.Array) else np.roll(x, 1, axis=0)

    return _mapped(leaf, value)


def nudged(value: Any) -> Any:
    """Floating jax arrays moved by one unit in the last place, some up and some down: what rounding may do.

    Whole numbers that may count something stay, since counts are exact. Arrays of numpy stay: a moved one would be a
    copy, and another name may stand for the same buffer.
    """
    start = next(_draws) * 7919  # every call moves other elements up: rounding has no direction

    def leaf(x: Any) -> Any:
        if not isinstance(x, jax.Array) or not jnp.issubdtype(x.dtype, jnp.inexact):
            return x
        number = np.arange(start, start + x.size, dtype=np.uint64).reshape(x.shape)
        up = (number * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)) & np.uint64(1)
        unit = float(jnp.finfo(x.dtype).eps)  # type: ignore[no-untyped-call]
        whole = (x == jnp.round(x)) & (abs(x) < compare.COUNTS)
        return jnp.where(whole, x, x * np.where(up, 1 + unit, 1 - unit).astype(x.dtype))

    return _mapped(leaf, value)


def renewed(value: Any) -> Any:
    """Other arrays everywhere, and floating ones with other values: some units in the last place away."""
    units = 1 + next(_draws) % 64

    def leaf(x: Any) -> Any:
        if not isinstance(x, jax.Array | np.ndarray):
            return x
        if not jnp.issubdtype(x.dtype, jnp.inexact):
            return x.copy()
        unit = float(jnp.finfo(x.dtype).eps)  # type: ignore[no-untyped-call]
        return (x * (1 + units * unit)).astype(x.dtype)

    return _mapped(leaf, value)


def _mapped(leaf: Callable[[Any], Any], value: Any) -> Any:
    try:
        return jax.tree_util.tree_map(leaf, value)
    except (TypeError, ValueError):
        return value  # keys that cannot be sorted, nodes that check their children


def injected(spoil: Callable[[Any], Any]) -> dict[str, Any]:
    return {_SPOIL: spoil, _SPOIL_ARRAY: lambda value: spoil(value) if isinstance(value, jax.Array) else value}


def spoil_functions(tree: ast.Module, names: Iterable[str]) -> ast.Module:
    """Spoil what these functions return."""
    for _, function in functions(tree, names):
        for statement in _own_statements(function):
            if isinstance(statement, ast.Return):
                spoil(statement)
    return tree


def spoil_lines(tree: ast.Module, lines: Iterable[int]) -> ast.Module:
    """Spoil what the changed statements return, assign or hand on; a changed header stands for its body."""
    for statement in changed_statements(tree, lines):
        simple = [statement] if not hasattr(statement, "body") else list(_own_statements(statement))
        for inner in simple:
            spoil(inner)
    return tree


def spoil_bound(tree: ast.Module, changed: Iterable[int]) -> ast.Module:
    """Spoil what the statements of a script bind, but for those on `changed` lines."""
    lines = frozenset(changed)
    blocks = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.If))]
    for statement in [statement for block in blocks for statement in block]:
        own = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
        if isinstance(statement, ast.Assign | ast.AnnAssign) and not lines & set(own):
            spoil(statement)
    return tree


def round_whole(tree: ast.Module, names: Iterable[str] | None = None) -> ast.Module:
    """Put rounding into these functions: into what every statement computes, and into every array inside of one.

    What a statement reads on the host at once has no name, and where it is a difference of large numbers, the rounding
    of those is what counts. Inner functions are included; without names, all functions are.
    """
    named = [function for _, function in functions(tree, names)] if names is not None else tree.body
    for top in named:
        for node in ast.walk(top):
            if isinstance(node, ast.FunctionDef):
                for statement in _own_statements(node):
                    spoil(statement)
        for function in ast.walk(top):
            if isinstance(function, ast.FunctionDef | ast.Lambda):
                _Inside().within(function)
    return tree


class _Inside(ast.NodeTransformer):
    """The arrays inside of expressions: arguments, receivers of methods, operands. What is compared stays exact."""

    def within(self, function: ast.FunctionDef | ast.Lambda) -> None:
        """Its body; parameters and decorators are none of it."""
        if isinstance(function.body, list):
            function.body = [self.visit(statement) for statement in function.body]
        else:
            function.body = self.visit(function.body)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        node.left, node.right = _array(node.left), _array(node.right)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in (_SPOIL, _SPOIL_ARRAY):
            return node
        if isinstance(node.func, ast.Attribute):
            node.func.value = _array(node.func.value)
        node.args = [one if isinstance(one, ast.Starred) else _array(one) for one in node.args]
        return node


def _array(value: ast.expr) -> ast.expr:
    """With rounding, if it is an array: whatever holds some keeps its identity."""
    if isinstance(value, ast.Constant):
        return value
    return ast.copy_location(ast.Call(ast.Name(_SPOIL_ARRAY, ast.Load()), [value], []), value)


def _own_statements(node: ast.AST) -> Iterable[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(child, ast.stmt):
            yield child
        yield from _own_statements(child)


def spoil(statement: ast.stmt) -> None:
    """What the statement returns, assigns or hands on."""
    match statement:
        case ast.Return(value=ast.expr() as value) | ast.Assign(value=value) | ast.AugAssign(value=value):
            statement.value = _call(value)
        case ast.AnnAssign(value=ast.expr() as value):
            statement.value = _call(value)
        case ast.Expr(value=ast.Call() as call):
            call.args = [a if isinstance(a, ast.Starred) else _call(a) for a in call.args]


def _call(value: ast.expr) -> ast.expr:
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == _SPOIL:
        return value
    return ast.copy_location(ast.Call(ast.Name(_SPOIL, ast.Load()), [value], []), value)
