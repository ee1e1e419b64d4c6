"""Whether what a closure reads stays the same from where the closure is made to where it is called last."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from jitmod.analysis.boundaries import LOOPS
from jitmod.analysis.contents import is_immutable
from jitmod.analysis.effects import Effects
from jitmod.analysis.heap import Read, touches
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.values import Kind
from jitmod.source.project import SourceModule
from jitmod.source.scopes import Scope


def region(made: ast.stmt, uses: Sequence[ast.AST], module: SourceModule) -> list[ast.stmt]:
    """The statements behind `made`, in its block, up to the one that holds the last use. Raises `Unplannable`."""
    block = block_of(made, module)
    start = block.index(made)
    last = start
    for use in uses:
        holder = next((i for i, s in enumerate(block) if s is use or s in module.ancestors(use)), None)
        if holder is None or holder < start or (holder == start and isinstance(made, ast.FunctionDef)):
            message = f"`{ast.unparse(use)[:60]}` may run where it was made in another round, or not at all"
            raise Unplannable("local-callable", use, message)
        last = max(last, holder)
    return block[start + 1 : last + 1]


def block_of(statement: ast.stmt, module: SourceModule) -> list[ast.stmt]:
    """The list of statements that holds `statement`."""
    parent = module.parents[statement]
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and statement in block:
            return block
    return [statement]


def check_name(name: str, scope: Scope, between: Sequence[ast.stmt], at: ast.AST) -> None:
    """Raises `Unplannable` where a name may be bound anew between the closure's making and its last call."""
    module = scope.module
    if any(name in inner.rebinds for inner in module.scopes.values() if inner is not scope):
        raise Unplannable("late-binding", at, f"`{name}` is rebound by a nested function")
    for binding in scope.bindings.get(name, ()):
        holder = next((s for s in between if s is binding.node or s in module.ancestors(binding.node)), None)
        if holder is None or (holder is between[-1] and not isinstance(holder, (*LOOPS, ast.If, ast.With, ast.Try))):
            continue  # the last statement binds its names after the call
        line = getattr(binding.node, "lineno", 0)
        message = f"`{name}` is rebound in line {line}, after the compiled function that reads it was made"
        raise Unplannable("frozen-by-jit", at, message)


def check_object(
    path: tuple[str, ...], kind: Kind, between: Sequence[ast.stmt], at: ast.AST, module: SourceModule, effects: Effects
) -> None:
    """Raises `Unplannable` where an object, or the attribute that leads to it, may change in between."""
    read = Read(path, not is_immutable(kind, effects))
    if len(path) == 1 and not read.mutable:
        return
    for touch in (t for statement in between for t in touches(statement, module, effects)):
        if touch.hits(read):
            line = getattr(touch.node, "lineno", 0)
            message = f"`{'.'.join(path)}` may change after the compiled function was made: {touch.what} (line {line})"
            raise Unplannable("mutable-self" if len(path) > 1 else "frozen-by-jit", at, message)
