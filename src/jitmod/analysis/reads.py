"""Which objects a device node reads, and whether somebody could change them meanwhile."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from jitmod.analysis import library
from jitmod.analysis.contents import is_immutable
from jitmod.analysis.effects import Effects
from jitmod.analysis.heap import Path, Read, holds_mutable, holds_objects, path_of
from jitmod.analysis.loops import Loop
from jitmod.analysis.ssa import Node
from jitmod.analysis.values import Instance, Kind


def reads_of(node: Node, loop: Loop, effects: Effects) -> Iterator[Read]:
    """The objects from outside of the iteration that a node reads."""
    for name, value in node.uses.items():
        if value.origin in ("invariant", "item"):
            kind, path = _object_read(name, value.kind, loop, effects)
            mutable = not is_immutable(kind, effects) or holds_mutable(kind, effects)
            shared = isinstance(kind, Instance) or holds_objects(kind, effects)
            alias = value.origin == "invariant" and (shared or may_be_alias(name, loop, effects))
            yield Read(path, mutable, alias)


def may_be_alias(expr: ast.expr, loop: Loop, effects: Effects) -> bool:
    """Whether a local name may stand for an object that has another name in the function."""
    while isinstance(expr, ast.Attribute | ast.Subscript):
        expr = expr.value
    if not isinstance(expr, ast.Name):
        return False
    if effects.inference.comprehension_binding(expr.id, expr, loop.module) is not None:
        return True
    scope = effects.inference.scope_binding(expr.id, expr, loop.module)
    if scope is None or scope.parent is None:
        return False
    made = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.Constant, ast.BinOp)
    for binding in scope.bindings[expr.id]:
        if binding.how == "param":
            continue
        value = binding.value
        called = effects.inference.dotted(value.func, loop.module) if isinstance(value, ast.Call) else None
        if not isinstance(value, made) and (called is None or library.role(called) is library.Role.UNKNOWN):
            return True
        if isinstance(binding.node, ast.Assign) and len(binding.node.targets) > 1:
            return True
    return False


def _object_read(name: ast.expr, kind: Kind, loop: Loop, effects: Effects) -> tuple[Kind, Path]:
    """The object that a read comes down to: attributes of plain objects are followed, those of immutable ones not."""
    expr: ast.expr = name
    while not is_immutable(kind, effects):
        parent = loop.module.parents.get(expr)
        if not isinstance(parent, ast.Attribute):
            break
        expr, kind = parent, effects.inference.kind(parent, loop.module)
    return kind, path_of(expr)
