"""Lists to which a loop with a carried state appends, whatever else the loop does."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from jitmod.analysis.collect import appending, block_of, is_fold, is_list
from jitmod.analysis.infer import Inference
from jitmod.analysis.loops import Loop
from jitmod.analysis.reaching import reaching
from jitmod.analysis.ssa import Body, Node, Value
from jitmod.source.nodes import walk
from jitmod.source.scopes import Binding, Scope


@dataclass(frozen=True, eq=False)
class Append:
    """A list that gets one device value in every iteration, and that nothing else of the loop touches.

    `fresh`: a statement just before the loop makes it, and nobody else knows it then. `seeded`: it holds something
    before. `folds`: the later `jnp.stack(name)`, where they are all that ever reads it, so
    that the name can mean an array from the loop on.
    """

    name: str
    node: Node
    value: Value
    fresh: bool = False
    seeded: bool = False
    folds: tuple[ast.Call, ...] = ()


def appends_of(loop: Loop, body: Body, entries: frozenset[Value], infer: Inference) -> tuple[Append, ...]:
    """The lists that the loop fills step by step with what a step makes, or (`entries`) begins with."""
    hosts = body.host_nodes()
    candidates = [(n, found) for n in hosts if not n.guards and (found := appending(n)) is not None
                  and (found[2].is_device or found[2] in entries)]  # fmt: skip
    kept = []
    for node, (name, receiver, value) in candidates:
        others = [o for o in hosts if o is not node and name in _mentions(o)]
        scope = infer.scope_binding(name, receiver, loop.module)
        before = reaching(name, receiver, scope) if scope is not None else []
        if scope is not None and not others and before and is_list(before):
            kept.append(_with_folds(Append(name, node, value), loop, scope, before, infer))
    return tuple(kept)


def _mentions(node: Node) -> Iterable[str]:
    return {n.id for n in walk(node.root) if isinstance(n, ast.Name)} if node.root is not None else set()


def _with_folds(append: Append, loop: Loop, scope: Scope, before: list[Binding], infer: Inference) -> Append:
    """With what becomes of the list, where a statement just before the loop makes it and nobody else knows it."""
    name, block = append.name, block_of(loop)
    init = before[0].node
    alone = isinstance(init, ast.AnnAssign) or (isinstance(init, ast.Assign) and len(init.targets) == 1)
    if scope.parent is None or len(before) > 1 or not alone or init not in block:
        return append
    start, end = block.index(init), block.index(loop.statement)
    between = {n.id for s in block[start + 1 : end] for n in walk(s) if isinstance(n, ast.Name)}
    reads = [n for n in walk(scope.node) if isinstance(n, ast.Name) and n.id == name
             and isinstance(n.ctx, ast.Load)]  # fmt: skip
    inside = {n for s in loop.body for n in walk(s)}
    later = [n for n in reads if n not in inside and any(b.node is init for b in reaching(name, n, scope))]
    nested = any(loop.module.scope_of(n) is not scope for n in reads)
    folds = [c for n in later if isinstance(c := loop.module.parents[n], ast.Call) and c.args == [n]]
    if start > end or name in between or nested or any(n.lineno < loop.node.lineno for n in later):
        return append
    value = before[0].value
    for index in before[0].path:
        value = value.elts[index] if isinstance(value, ast.Tuple | ast.List) else None
    empty = (isinstance(value, ast.List) and not value.elts) or (isinstance(value, ast.Call) and not value.args)
    if not isinstance(value, ast.List | ast.Call) or (isinstance(value, ast.Call) and value.args):
        return append
    whole = bool(later) and len(folds) == len(later) and all(is_fold(c, loop, infer) for c in folds)
    return Append(name, append.node, append.value, True, not empty, tuple(folds) if whole else ())
