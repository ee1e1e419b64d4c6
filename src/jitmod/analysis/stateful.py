"""Which loops hand a device value from one iteration to the next, as far as their text says so."""

from __future__ import annotations

import ast

from jitmod.analysis.batching import heavy_calls
from jitmod.analysis.effects import Effects
from jitmod.analysis.infer import Inference
from jitmod.analysis.loops import Loop
from jitmod.analysis.scannable import holds_arrays, written_before
from jitmod.analysis.syntax import calls
from jitmod.analysis.values import UNKNOWN, Array, is_device
from jitmod.source.nodes import walk
from jitmod.source.project import Function


def stateful(loop: Loop, effects: Effects) -> ast.stmt | None:
    """The first statement that hands a device value from one iteration to the next, as far as the text says so.

    PRNG keys alone make no state: a loop whose items are independent otherwise is batched.
    """
    if not isinstance(loop.node, ast.For | ast.While):
        return None
    infer, module = effects.inference, loop.module
    own = list(own_statements(loop.node.body))
    first: dict[str, int] = {}
    for index, statement in enumerate(own):
        for name in _loaded(statement):
            first.setdefault(name, index)
    if isinstance(loop.node, ast.While):
        first |= {n.id: -1 for n in walk(loop.node.test) if isinstance(n, ast.Name)}
    heavy = {id(c) for c in heavy_calls(loop, effects)}
    bound: set[str] = set()
    for index, statement in enumerate(own):
        if not isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign) or statement.value is None:
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = {n.id for t in targets for n in walk(t) if isinstance(getattr(n, "ctx", None), ast.Store)
                 and isinstance(n, ast.Name)}  # fmt: skip
        kind = infer.kind(statement.value, module)
        runs = any(id(n) in heavy for n in walk(statement.value))
        begun = kind == UNKNOWN and any(is_device(written_before(n, loop, effects)) for n in names)
        on_device = begun or runs or (holds_arrays(kind, infer) and not (isinstance(kind, Array) and kind.is_key))
        exposed = {n for n in names - bound if first.get(n, index + 1) <= index or isinstance(statement, ast.AugAssign)}
        if on_device and exposed:
            return None if _runs_blocks(loop, statement.value, infer) else statement
        bound |= names
    return None


def _runs_blocks(loop: Loop, value: ast.expr, infer: Inference) -> bool:
    """Whether every iteration runs a scan over a block of steps, as the code written here does.

    Then the loop is one of `while`, or goes from block to block in strides.
    """
    function = infer.target(infer.kind(value.func, loop.module)) if isinstance(value, ast.Call) else None
    if not isinstance(function, Function):
        return False
    match loop.node:
        case ast.For(iter=ast.Call(func=ast.Name(id="range"), args=[_, _, _])):
            pass
        case ast.While() if loop.counter is None:
            pass
        case _:
            return False
    return any(infer.dotted(c.func, function.module) == "jax.lax.scan" for c in calls(function.node))


def own_statements(statements: list[ast.stmt]) -> list[ast.stmt]:
    """The simple statements of a loop's body, those in branches included, but for inner loops and definitions."""
    found: list[ast.stmt] = []
    for statement in statements:
        if isinstance(statement, ast.If | ast.With | ast.Try):
            parts = [statement.body, getattr(statement, "orelse", []), getattr(statement, "finalbody", [])]
            found += [s for part in parts for s in own_statements(part)]
        elif not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            found.append(statement)
    return found


def _loaded(statement: ast.stmt) -> list[str]:
    return [n.id for n in walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
