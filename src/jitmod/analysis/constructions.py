"""Values that may be built once and for all: optimisers and schedules, immutable and made of constants."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from jitmod.analysis import library
from jitmod.analysis.effects import Effects
from jitmod.analysis.library import Role
from jitmod.analysis.values import UNKNOWN, Constant, Instance, Number, Record, Routine
from jitmod.source.nodes import walk
from jitmod.source.project import Function, SourceModule
from jitmod.source.scopes import Scope


@dataclass(frozen=True, eq=False)
class Construction:
    """A local name that is bound once, to an immutable value built from `value`."""

    name: str
    statement: ast.Assign
    value: ast.Call


@dataclass(frozen=True, eq=False)
class LocalImport:
    """A name that the function around imports. `is_left`: nothing but the moved code reads it there."""

    statement: ast.Import | ast.ImportFrom
    alias: ast.alias
    is_left: bool


def construction(name: str, scope: Scope, effects: Effects) -> Construction | None:
    """How the optimiser that a local name means is built; None where that is not plain."""
    bindings = scope.bindings.get(name, [])
    if len(bindings) != 1 or any(name in s.rebinds for s in scope.module.scopes.values()):
        return None
    match bindings[0].node:
        case ast.Assign(targets=[ast.Name()], value=ast.Call() as value) as statement:
            if is_optimiser(value, scope.module, effects) and is_pure_construction(value, scope.module, effects):
                return Construction(name, statement, value)
    return None


def is_optimiser(expr: ast.expr, module: SourceModule, effects: Effects) -> bool:
    return effects.inference.kind(expr, module) == Instance(library.OPTIMISER)


def is_pure_construction(expr: ast.expr, module: SourceModule, effects: Effects) -> bool:
    """Whether building `expr` again gives an equal value: calls of optax on plain values, whatever names they have."""
    match expr:
        case ast.Constant():
            return True
        case ast.Call(func=func, args=args, keywords=keywords):
            name = effects.inference.dotted(func, module) or ""
            parts = [*args, *[k.value for k in keywords]]
            known = name.startswith("optax.") and library.role(name) is Role.PURE
            return known and all(is_pure_construction(p, module, effects) for p in parts)
        case ast.UnaryOp(operand=operand):
            return is_pure_construction(operand, module, effects)
        case ast.BinOp(left=left, right=right):
            return all(is_pure_construction(p, module, effects) for p in (left, right))
        case ast.Tuple(elts=elts):
            return all(is_pure_construction(e, module, effects) for e in elts)
        case ast.Name() | ast.Attribute():
            kind = effects.inference.kind(expr, module)
            plain = isinstance(kind, Number | Constant) or kind == Instance(library.OPTIMISER)
            return plain or (isinstance(kind, Routine) and isinstance(kind.target, str) and kind.receiver is None)
    return False


def is_constant(expr: ast.expr, module: SourceModule, effects: Effects) -> bool:
    """Whether a construction reads nothing but literals, libraries, and constants of the module level."""
    for node in walk(expr):
        if isinstance(node, ast.Name):
            scope = module.scope_of(node).find(node.id)
            if scope is None:
                continue
            fixed = scope.parent is None and all(b.how in ("import", "def") for b in scope.bindings[node.id])
            if not fixed and not is_module_constant(node.id, scope, effects):
                return False
    return True


def is_module_constant(name: str, scope: Scope, effects: Effects) -> bool:
    """A variable of the module level that is bound once, never changed, and immutable."""
    if scope.parent is not None or effects.frozen.is_rebound(scope, name):
        return False
    kind = effects.inference.bound(scope.bindings[name][0], scope.module)
    held = isinstance(kind, Instance) and kind == Instance(library.OPTIMISER)
    return kind != UNKNOWN and (held or effects.frozen.is_constant(kind))


def is_hashable_static(kind: object) -> bool:
    """Whether a jit can hold a value static: numbers, strings, None, optimisers, functions, tuples of those."""
    match kind:
        case Number() | Constant() | Routine(Function() | str(), None):
            return True
        case Instance(cls):
            return cls == library.OPTIMISER
        case Record(items, is_tuple):
            return is_tuple and all(is_hashable_static(item) for item in items)
    return False
