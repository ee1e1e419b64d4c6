"""Collectors: lists and buffers that a loop fills with one value per item, and what becomes of them later."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from jitmod.analysis.infer import Inference
from jitmod.analysis.loops import Loop
from jitmod.analysis.reaching import reaching
from jitmod.analysis.ssa import Body, Node, Value
from jitmod.analysis.values import Array
from jitmod.source.nodes import walk
from jitmod.source.scopes import Binding, Scope


@dataclass(frozen=True, eq=False)
class Collector:
    """A list filled with one device value per item and by nothing else while the loop runs.

    `update` is the method of `buffer.at[i]` where it is an array, in whose row `i` the value of item `i` goes. `init`
    is the statement `name = []` where nobody else knows the list yet; `folds` are the later `jnp.stack(name)` where
    they are all that ever reads it.
    """

    name: str
    append: Node
    value: Value
    init: ast.stmt | None
    folds: tuple[ast.Call, ...]
    update: str = ""


def collectors_of(loop: Loop, body: Body, infer: Inference) -> tuple[Collector, ...]:
    """What the loop fills, where filling lists and buffers is all that the host piece does; else nothing."""
    found: list[Collector] = []
    for node in body.host_nodes():
        collector = _collector(loop, node, infer) or _buffer(loop, node, infer)
        if collector is None or any(c.name == collector.name for c in found):
            return ()
        found.append(collector)
    return tuple(found)


def _collector(loop: Loop, node: Node, infer: Inference) -> Collector | None:
    found = appending(node)
    if found is None or not found[2].is_device:
        return None
    name, receiver, value = found
    scope = infer.scope_binding(name, receiver, loop.module)
    if scope is None or not is_list(scope.bindings[name]):
        return None
    init, uses = _fresh(loop, scope, name, receiver)
    folds = tuple(c for u in uses if (c := _fold(u, loop, infer)) is not None) if isinstance(value.kind, Array) else ()
    whole = init is not None and bool(uses) and len(folds) == len(uses)
    return Collector(name, node, value, init, folds if whole else ())


def _buffer(loop: Loop, node: Node, infer: Inference) -> Collector | None:
    """`grid = grid.at[i].set(y)` where `i` counts the items from 0, so that no row is written twice."""
    match node.statement:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(
                func=ast.Attribute(
                    value=ast.Subscript(value=ast.Attribute(value=ast.Name(id=held) as buffer, attr="at"),
                                        slice=ast.Name() as index),
                    attr="set" | "add" as update,
                ),
                args=[item],
                keywords=[],
            ),
        ) if held == name and set(node.uses) == {buffer, index, item} and not node.guards:  # fmt: skip
            before, row, value = node.uses[buffer], node.uses[index], node.uses[item]
            counts = row.is_position and row.stream is not None and row.stream.from_zero
            scope = infer.scope_binding(name, buffer, loop.module)
            if scope is None or scope is not loop.module.scope_of(loop.node) or name in scope.rebinds:
                return None
            made = [infer.bound(b, loop.module) for b in reaching(name, buffer, scope) if b.node is not node.statement]
            arrays = all(isinstance(kind, Array) for kind in [*made, value.kind]) and bool(made) and value.is_device
            if counts and arrays and before.origin == "carried":
                return Collector(name, node, value, None, (), update)
    return None


def appending(node: Node) -> tuple[str, ast.Name, Value] | None:
    """The list's name and its read, and the value, where a node does nothing but `name.append(value)`."""
    match node.statement:
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(value=ast.Name(id=name) as receiver, attr="append"), args=[item], keywords=[]
            )
        ) if node.op == "host":
            value = node.uses.get(item)
            return (name, receiver, value) if value is not None else None
    return None


def is_list(bindings: list[Binding]) -> bool:
    """Whether every binding is a list display, comprehension or `list(...)`."""
    for binding in bindings:
        if isinstance(binding.node, ast.Assign) and len(binding.node.targets) > 1:
            return False  # another name means the same list
        value = binding.value
        for index in binding.path:
            value = value.elts[index] if isinstance(value, ast.Tuple | ast.List) and index < len(value.elts) else None
        is_display = isinstance(value, ast.List | ast.ListComp)
        is_call = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "list"
        if not (is_display or is_call):
            return False
    return True


def _fresh(loop: Loop, scope: Scope, name: str, receiver: ast.Name) -> tuple[ast.stmt | None, list[ast.Name]]:
    """The statement that makes the list empty just before the loop, and every read of it after the loop."""
    module = loop.module
    uses = [n for n in walk(scope.node) if isinstance(n, ast.Name) and n.id == name and n is not receiver
            and isinstance(n.ctx, ast.Load)]  # fmt: skip
    (first, *others) = scope.bindings[name]
    block = block_of(loop)
    init = first.node
    alone = isinstance(init, ast.AnnAssign) or (isinstance(init, ast.Assign) and len(init.targets) == 1)
    deleted = any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Del) for n in walk(scope.node))
    if others or deleted or not alone or init not in block:
        return None, uses
    start, end = block.index(init), block.index(loop.statement)
    value: ast.expr | None = first.value
    for index in first.path:
        value = value.elts[index] if isinstance(value, ast.Tuple | ast.List) else None
    is_empty = (isinstance(value, ast.List) and not value.elts) or (isinstance(value, ast.Call) and not value.args)
    between = [n for s in block[start + 1 : end] for n in walk(s)]
    early = any(isinstance(n, ast.Name) and n.id == name for n in between)
    before = any(u.lineno < loop.node.lineno for u in uses) or any(module.scope_of(u) is not scope for u in uses)
    if start > end or not is_empty or early or before:
        return None, uses
    return init, uses


def block_of(loop: Loop) -> list[ast.stmt]:
    """The list of statements in which the loop's statement stands."""
    parent = loop.module.parents[loop.statement]
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and loop.statement in block:
            return block
    return []


def array_makers(loop: Loop, infer: Inference) -> frozenset[str]:
    """`jax.numpy.stack` and its like, where a list that the loop fills is made one array by them, then or later."""
    folds, _ = _folds(loop, infer)
    return frozenset(infer.dotted(fold.func, loop.module) or "" for fold in folds)


def is_array_alone(loop: Loop, infer: Inference) -> bool:
    """Whether nothing but an array is ever made of the list that a comprehension gives."""
    folds, reads = _folds(loop, infer)
    return isinstance(loop.node, ast.ListComp) and 0 < len(folds) == reads


def _folds(loop: Loop, infer: Inference) -> tuple[list[ast.Call], int]:
    """The calls that make an array of a list that the loop fills, and how often the list is read at all."""
    module = loop.module
    if isinstance(loop.node, ast.ListComp):
        parent = module.parents[loop.node]
        if isinstance(parent, ast.Call) and parent.args == [loop.node] and is_fold(parent, loop, infer):
            return [parent], 1
    match loop.statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is loop.node:
            names = {name}
        case ast.For():
            called = (n.func for s in loop.body for n in walk(s) if isinstance(n, ast.Call))
            appends = (f.value for f in called if isinstance(f, ast.Attribute) and f.attr == "append")
            names = {holder.id for holder in appends if isinstance(holder, ast.Name)}
        case _:
            return [], 0
    mentions = module.scope_of(loop.statement).mentions
    reads = [n for name in sorted(names) for n in mentions.get(name, ()) if isinstance(n.ctx, ast.Load)]
    return [fold for n in reads if (fold := _fold(n, loop, infer)) is not None], len(reads)


def _fold(use: ast.Name, loop: Loop, infer: Inference) -> ast.Call | None:
    """`jnp.stack(name)` and its like: the call that makes the list one array again."""
    call = loop.module.parents[use]
    if not isinstance(call, ast.Call) or call.args != [use]:
        return None
    return call if is_fold(call, loop, infer) else None


def is_fold(call: ast.Call, loop: Loop, infer: Inference) -> bool:
    name = infer.dotted(call.func, loop.module)
    axis = [k.value.value for k in call.keywords if k.arg == "axis" and isinstance(k.value, ast.Constant)]
    plain = not call.keywords or (len(call.keywords) == 1 and axis == [0])
    if name == "jax.numpy.stack":
        return plain and len(call.args) == 1
    return name in ("jax.numpy.array", "jax.numpy.asarray") and not call.keywords and len(call.args) == 1
