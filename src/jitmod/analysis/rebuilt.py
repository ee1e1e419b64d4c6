"""Modules that every round of a loop builds anew, from what stays the same."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from jitmod.analysis import library
from jitmod.analysis.blocks import in_try
from jitmod.analysis.boundaries import function_around
from jitmod.analysis.effects import Effects
from jitmod.analysis.jits import Contexts
from jitmod.analysis.library import Role
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.stable import block_of
from jitmod.analysis.syntax import names_of_target
from jitmod.analysis.values import Array, ClassRef, Constant, Instance, Number, Routine, Transformed
from jitmod.source.nodes import walk
from jitmod.source.project import Class, SourceModule

_Loop = ast.For | ast.While
_PARTING = frozenset({"equinox.partition", "equinox.filter", "equinox.combine"})
_HOOKS = ("__post_init__", "__check_init__", "__new__", "__init_subclass__")


@dataclass(frozen=True, eq=False)
class Rebuilt:
    """`net = Net(w, b)` directly in the body of a loop; `loop` is the outermost one that it may stand before."""

    module: SourceModule
    statement: ast.Assign
    call: ast.Call
    names: tuple[str, ...]
    loop: _Loop


def rebuilt_modules(module: SourceModule, effects: Effects, contexts: Contexts) -> Iterator[Rebuilt]:
    """Those of a file whose parts are the same in every round."""
    for statement in module.document.of(ast.Assign):
        loop = module.parents[statement]
        call = statement.value
        if not isinstance(loop, ast.For | ast.While) or statement not in loop.body or not isinstance(call, ast.Call):
            continue
        around = function_around(statement, module)
        if around is not None and contexts.of(around) == {"traced"}:
            continue
        names = names_of_target(statement.targets[0]) if len(statement.targets) == 1 else None
        if names is None or not _makes_module(call, module, effects):
            continue
        outermost = None
        current: ast.AST = loop
        while isinstance(current, ast.For | ast.While) and _is_invariant(call, current, module, effects):
            outermost = current
            outer = module.parents[current]
            if not isinstance(outer, ast.For | ast.While) or current not in outer.body:
                break
            current = outer
        if outermost is not None:
            yield Rebuilt(module, statement, call, names, outermost)


def _makes_module(call: ast.Call, module: SourceModule, effects: Effects) -> bool:
    infer = effects.inference
    if infer.dotted(call.func, module) in _PARTING:
        return True
    kind = infer.kind(call.func, module)
    return isinstance(kind, ClassRef) and infer.classes.is_module(kind.cls)


def _is_invariant(expr: ast.expr, loop: _Loop, module: SourceModule, effects: Effects) -> bool:
    """Whether an expression means the same in every round, and before the loop; a call of a Module's class included."""
    infer = effects.inference
    match expr:
        case ast.Constant():
            return True
        case ast.Name():
            return _is_stable(expr, loop, module, effects)
        case ast.Attribute():
            dotted = infer.dotted(expr, module)
            known = dotted is not None and (
                dotted.startswith(("jax.", "equinox.", "numpy.", "math."))
                or not isinstance(infer.project.lookup(dotted), str)
            )
            return known and not any(True for _ in effects.frozen.of_attribute(expr, module))
        case ast.Tuple(elts=elts):
            return all(_is_invariant(e, loop, module, effects) for e in elts)
        case ast.BinOp(left=left, right=right):
            return all(_is_invariant(e, loop, module, effects) for e in (left, right))
        case ast.UnaryOp(operand=operand):
            return _is_invariant(operand, loop, module, effects)
        case ast.Call(func=func, args=args, keywords=keywords):
            values = [*args, *[k.value for k in keywords]]
            name = infer.dotted(func, module) or ""
            known = name.startswith(("jax.", "equinox.")) and library.role(name) is Role.PURE
            if not known and not _makes_module(expr, module, effects):
                return False
            return all(_is_invariant(v, loop, module, effects) for v in values)
    return False


def _is_stable(name: ast.Name, loop: _Loop, module: SourceModule, effects: Effects) -> bool:
    infer = effects.inference
    scope = infer.scope_binding(name.id, name, module)
    if infer.dotted(name, module) is not None:
        return scope is None or not any(True for _ in effects.frozen.of_variable(scope, name.id))
    if scope is None or infer.comprehension_binding(name.id, name, module) is not None:
        return False
    if any(name.id in s.rebinds for s in module.scopes.values()):
        return False
    outside = scope.parent is None and module.scope_of(name) is not scope
    bindings = scope.bindings[name.id]
    if outside and not all(b.how in ("def", "class", "import") for b in bindings):
        if effects.frozen.is_rebound(scope, name.id):
            return False
    elif not outside and any(getattr(b.node, "lineno", 0) >= loop.lineno for b in bindings):
        return False
    kind = infer.kind(name, module)
    if isinstance(kind, Instance):
        return kind.cls == library.OPTIMISER or infer.classes.is_module(kind.cls)
    return isinstance(kind, Array | Number | Constant | Routine | ClassRef)


def check_rebuilt(found: Rebuilt, effects: Effects) -> None:
    """Raises `Unplannable` where it cannot stand before the loop."""
    module, statement, infer = found.module, found.statement, effects.inference
    scope = module.scope_of(statement)
    for call in (n for n in walk(found.call) if isinstance(n, ast.Call)):
        for hazard in effects.of_call(call, module):
            raise Unplannable(hazard.reason, call, f"{hazard.what} ({hazard.path}:{hazard.line})")
        kind = infer.kind(call.func, module)
        if isinstance(kind, ClassRef) and isinstance(kind.cls, Class):
            hook = next((h for h in _HOOKS if infer.classes.method(kind.cls, h) is not None), None)
            if hook is not None or kind.cls.node.keywords:
                what = f"`{kind.cls.node.name}` runs code of its own when it is built (`{hook or 'its metaclass'}`)"
                raise Unplannable("host-effect", call, what)
            made = infer.classes.method(kind.cls, "__init__")
            if made is not None and any(isinstance(n, ast.Raise | ast.Assert | ast.With) for n in walk(made.node)):
                what = f"building `{kind.cls.node.name}` may fail, which it must not do where the loop has no rounds"
                raise Unplannable("exception-order", call, what)
    if in_try(statement, module):
        raise Unplannable("exception-order", statement, "a handler could catch what is raised before the loop then")
    inner: ast.AST = statement
    while inner is not found.loop:
        for before in block_of(inner, module) if isinstance(inner, ast.stmt) else []:
            if before is inner:
                break
            if any(isinstance(n, ast.Break | ast.Continue | ast.Return | ast.Raise) for n in walk(before)):
                what = f"line {before.lineno} may leave the round before `{found.names[0]}` is built"
                raise Unplannable("guarded-work", statement, what)
        inner = module.parents[inner]
    options = (k.arg or "" for m in infer.project.by_path.values() for k in m.document.of(ast.keyword))
    donated = any(option.startswith("donate") for option in options)
    for name in found.names:
        if len(scope.bindings[name]) != 1 or any(name in s.rebinds for s in module.scopes.values()):
            raise Unplannable("live-out-unbound", statement, f"`{name}` is bound elsewhere too")
        for read in scope.mentions.get(name, ()):
            if not isinstance(read.ctx, ast.Load):
                if isinstance(read.ctx, ast.Del):
                    raise Unplannable("dynamic-scope", read, f"`{name}` is deleted")
                continue
            if module.scope_of(read) is not scope or statement not in _left_of(read, module):
                raise Unplannable("live-out-unbound", read, f"`{name}` is read where no round may have built it")
            if not _is_plain(read, module, effects, donated):
                what = f"`{ast.unparse(module.parents[read]).splitlines()[0][:60]}` keeps the `{name}` of every round"
                raise Unplannable("results-escape", read, what)


def _left_of(read: ast.Name, module: SourceModule) -> list[ast.stmt]:
    """The statements that have run in the same round when `read` is reached, in all blocks around it."""
    found: list[ast.stmt] = []
    inner: ast.AST = read
    for parent in module.ancestors(read):
        if isinstance(inner, ast.stmt):
            block = block_of(inner, module)
            found += block[: block.index(inner)] if inner in block else []
        inner = parent
    return found


def _is_plain(read: ast.Name, module: SourceModule, effects: Effects, donated: bool) -> bool:
    """Whether a read only computes with a Module: it is called, or looked into, or passed to what is pure."""
    infer = effects.inference
    match module.parents[read]:
        case ast.Call(func=func) if func is read:
            return True
        case ast.Attribute(value=value, ctx=ast.Load()) as attribute if value is read:
            outer = module.parents[attribute]
            return isinstance(outer, ast.Call | ast.BinOp)
        case ast.Call(func=func) as call:
            name = infer.dotted(func, module) or ""
            kind = infer.kind(func, module)
            compiled = isinstance(kind, Transformed) and not donated
            return compiled or (name.startswith(("jax.", "equinox.")) and library.role(name) is Role.PURE) or (
                isinstance(kind, Routine) and not isinstance(kind.target, str) and not effects.of_call(call, module)
            )
    return False
