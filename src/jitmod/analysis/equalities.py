"""Comparisons for equality of what a function computes: rewriting the function may change that by rounding."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from jitmod.analysis.infer import Inference
from jitmod.analysis.values import Constant, Number
from jitmod.source.nodes import children, walk
from jitmod.source.project import Function, SourceModule
from jitmod.source.scopes import Scope

_COMPARING = frozenset({"numpy.array_equal", "numpy.array_equiv", "numpy.testing.assert_array_equal",
                        "numpy.testing.assert_equal", "jax.numpy.array_equal", "jax.numpy.array_equiv",
                        "equinox.tree_equal"})  # fmt: skip
_ASSERTING = frozenset({"assertEqual", "assertEqualAll", "assertListEqual", "assertSequenceEqual", "assertCountEqual"})
_TOLERANT = frozenset({"rtol", "atol", "decimal", "places", "delta"})
_OF_TYPE = frozenset({"shape", "dtype", "ndim", "size", "weak_type"})  # attributes that rounding does not change
_COUNTING = frozenset({"len", "type", "isinstance", "id"})
_FAR = 200  # callers, beyond which nobody looks


def exact_checks(function: Function, infer: Inference) -> tuple[str, ...]:
    """`path:line` of every place that compares exactly what a function gives, or what its callers make of that."""
    found: set[tuple[str, int]] = set()
    seen, todo = {function}, [function]
    while todo and len(seen) < _FAR:
        current = todo.pop(0)
        calls: dict[Scope, set[ast.AST]] = {}
        for module, call in infer.call_sites(current):
            calls.setdefault(module.scope_of(call), set()).add(call)
        for scope, together in calls.items():
            found |= {(scope.module.document.path, check.lineno) for check in _checks(together, scope, infer)}
            caller = scope.module.functions.get(scope.node)
            if caller is not None and caller not in seen and _returns(caller):
                seen.add(caller)
                todo.append(caller)
    return tuple(f"{path}:{line}" for path, line in sorted(found))


def _returns(function: Function) -> bool:
    return any(isinstance(n, ast.Return) and n.value is not None for n in function.own_nodes) or isinstance(
        function.node, ast.Lambda
    )


def _checks(calls: set[ast.AST], scope: Scope, infer: Inference) -> Iterator[ast.expr]:
    """The exact comparisons in a scope of what calls in it give; one with the other is none."""
    module = scope.module
    given = _named(calls, [n for n in walk(scope.node) if isinstance(n, ast.stmt) and module.scope_of(n) is scope])
    for node in walk(scope.node):
        operands = _compared(node, module, infer)
        reached = [operand for operand in operands if _reaches(operand, calls, given)]
        if reached and len(reached) < len(operands) and not any(_is_whole(o, module, infer) for o in operands):
            assert isinstance(node, ast.expr)
            yield node


def _named(calls: set[ast.AST], statements: list[ast.stmt]) -> set[str]:
    """The names of what the calls give, and of what is made of that."""
    names: set[str] = set()
    before = -1
    while len(names) > before:
        before = len(names)
        for statement in statements:
            if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign) and statement.value is not None:
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                if _reaches(statement.value, calls, names):
                    names |= {n.id for t in targets for n in walk(t) if isinstance(n, ast.Name)}
    return names


def _reaches(expr: ast.AST, calls: set[ast.AST], names: set[str]) -> bool:
    """Whether values of the calls are in a value; there are none in `y.shape`."""
    todo = [expr]
    while todo:
        node = todo.pop()
        if node in calls or (isinstance(node, ast.Name) and node.id in names):
            return True
        if isinstance(node, ast.Attribute) and node.attr in _OF_TYPE:
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _COUNTING:
            continue
        todo += children(node)
    return False


def _compared(node: ast.AST, module: SourceModule, infer: Inference) -> list[ast.expr]:
    """What a node compares exactly, where something hangs on it."""
    match node:
        case ast.Compare(left=left, ops=ops, comparators=others):
            asserted = any(isinstance(parent, ast.Assert) for parent in module.ancestors(node))
            exact = all(isinstance(op, ast.Eq | ast.NotEq) for op in ops)
            operands = [left, *others]
            return operands if asserted and exact and not any(map(_is_tolerant, operands)) else []
        case ast.Call(func=func, args=[one, other, *_], keywords=keywords):
            named = infer.dotted(func, module) in _COMPARING or getattr(func, "attr", "") in _ASSERTING
            tolerant = any(k.arg in _TOLERANT for k in keywords) or _is_tolerant(one) or _is_tolerant(other)
            return [one, other] if named and not tolerant else []
    return []


def _is_tolerant(operand: ast.expr) -> bool:
    """`pytest.approx(...)`."""
    called = operand.func if isinstance(operand, ast.Call) else operand
    return getattr(called, "attr", getattr(called, "id", "")) == "approx"


def _is_whole(operand: ast.expr, module: SourceModule, infer: Inference) -> bool:
    """Whole numbers, flags and text are the same, however it is rounded."""
    kind = infer.kind(operand, module)
    if isinstance(operand, ast.Constant):
        return isinstance(operand.value, str | bytes | bool) or operand.value is None
    return isinstance(kind, Constant) or (isinstance(kind, Number) and kind.type in ("int", "bool"))
