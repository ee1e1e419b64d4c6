"""Loops inside of an iteration that a trace unrolls: over a few numbers that the text tells.

A comprehension is traced as it stands. An inner `for` stays on the host; what its statements bring to the host in every
round is computed before, for all rounds: `int(jnp.sum(y == c))` reads the element `c` of
`jnp.stack([jnp.sum(y == c) for c in range(3)])`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from jitmod.analysis import library
from jitmod.analysis.infer import Inference
from jitmod.analysis.syntax import calls, loads, stored, strict_children, unconditional
from jitmod.source.nodes import walk
from jitmod.source.project import SourceModule

_MOST = 64  # rounds: each is traced and compiled on its own
_JUMPS = (ast.Break, ast.Continue, ast.Return, ast.Raise, ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)


def is_unrolled(iterable: ast.expr, module: SourceModule, infer: Inference) -> bool:
    """`range(3)`: a builtin range of a literal number of rounds, at least one."""
    match iterable:
        case ast.Call(func=ast.Name(id="range") as name, args=[ast.Constant(value=int(count))], keywords=[]):
            return infer.scope_binding(name.id, name, module) is None and 0 < count <= _MOST
    return False


def pulled_in(loop: ast.For, module: SourceModule, infer: Inference) -> list[ast.expr]:
    """What every round of an inner loop computes by the library and its number alone, and then makes a Python number.

    The dtype of a library's result does not depend on the value of a Python int, so that all rounds can be stacked.
    """
    if not isinstance(loop.target, ast.Name) or not is_unrolled(loop.iter, module, infer):
        return []
    bound = {name for statement in (*loop.body, *loop.orelse) for name in stored(statement)}
    if loop.target.id in bound or any(isinstance(n, _JUMPS) for n in walk(loop)):
        return []
    found = [p for s in loop.body for e in unconditional(s) for p in _pulled(e)]
    return [p for p in found if _is_of_library(p, module, infer) and _reads(p, loop.target.id, bound)]


def _reads(expr: ast.expr, number: str, bound: set[str]) -> bool:
    names = {name.id for name in loads(expr)}
    return number in names and not names & bound


def _pulled(expr: ast.expr) -> Iterator[ast.expr]:
    """The arguments of `float`, `int` and `bool`, and the receivers of `item()`, that are evaluated with `expr`."""
    match expr:
        case ast.Call(func=ast.Name(id="float" | "int" | "bool"), args=[only], keywords=[]):
            yield only
            return
        case ast.Call(func=ast.Attribute(value=only, attr="item"), args=[], keywords=[]):
            yield only
            return
    for inner in strict_children(expr):
        yield from _pulled(inner)


def _is_of_library(expr: ast.expr, module: SourceModule, infer: Inference) -> bool:
    for call in calls(expr):
        dotted = infer.dotted(call.func, module)
        method = call.func.attr if isinstance(call.func, ast.Attribute) and dotted is None else ""
        if not (dotted or "").startswith("jax.") and method not in library.ARRAY_METHODS:
            return False
    return True
