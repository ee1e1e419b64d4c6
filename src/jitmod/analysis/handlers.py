"""Who could see how far a block came when an exception ended it: handlers, `finally`, managers that swallow errors.

One compiled function binds everything or nothing: names and attributes that an exception half-way would have left bound
keep their old values.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from jitmod.analysis.blocks import Block
from jitmod.analysis.flow import Flow
from jitmod.analysis.infer import Inference
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.managers import may_swallow
from jitmod.source.nodes import walk
from jitmod.source.project import Function, SourceModule

_SURE = frozenset({"equinox.apply_updates", "optax.apply_updates"})  # fits what `update` has just taken


def check_unseen(block: Block, flow: Flow, infer: Inference) -> None:
    """Raises `Unplannable` where code that runs after an exception in the block could see what it had bound."""
    partial = _partial(block, infer)
    if not partial & set(flow.bound):
        return
    for guard, body in _guards(block.anchor, block.module):
        seen = _seen(guard, body, block.module, infer)
        names = None if seen is None else seen & {path.partition(".")[0] for path in partial}
        if names is None or names:
            _refuse(block, guard, block.module)
    attributes = [path for path in partial if "." in path]
    if attributes:
        _check_callers(block, block.function, infer)


def _partial(block: Block, infer: Inference) -> set[str]:
    """The paths that are bound when a later part of the block raises."""
    found: set[str] = set()
    waiting: set[str] = set()
    for part in block.parts:
        value = getattr(part, "value", None) if isinstance(part, ast.stmt) else part
        if value is not None and _may_raise(value, block.module, infer):
            found |= waiting
        if isinstance(part, ast.stmt):
            waiting |= {ast.unparse(n) for n in walk(part)
                        if isinstance(n, ast.Name | ast.Attribute) and isinstance(n.ctx, ast.Store)}  # fmt: skip
    return found


def _may_raise(value: ast.AST, module: SourceModule, infer: Inference) -> bool:
    for node in walk(value):
        if isinstance(node, ast.BinOp | ast.Compare | ast.Subscript):
            return True
        if isinstance(node, ast.Call) and infer.dotted(node.func, module) not in _SURE:
            return True
    return False


def _guards(node: ast.AST, module: SourceModule) -> Iterator[tuple[ast.Try | ast.With, ast.AST]]:
    """The `try` and `with` statements around a node in the same function, with the part that holds the node."""
    inner = node
    for parent in module.ancestors(node):
        if isinstance(parent, ast.Try | ast.With) and inner in parent.body:
            yield parent, inner
        if parent in module.scopes:
            return
        inner = parent


def _seen(guard: ast.Try | ast.With, body: ast.AST, module: SourceModule, infer: Inference) -> set[str] | None:
    """The names that may be read after an exception in the body; None where the function goes on."""
    if isinstance(guard, ast.With):
        return None if any(may_swallow(item.context_expr, module, infer) for item in guard.items) else set()
    if guard.handlers:
        return None
    return {n.id for s in guard.finalbody for n in walk(s) if isinstance(n, ast.Name)}


def _check_callers(block: Block, function: Function, infer: Inference) -> None:
    """An object outlives the call: any handler around a call, however far up, could look at it."""
    todo, done = [function], {function}
    while todo:
        current = todo.pop()
        for module, call in infer.project.calls.get(current.name.rpartition(".")[2], ()):
            for guard, body in _guards(call, module):
                seen = _seen(guard, body, module, infer)
                if seen is None or seen:
                    _refuse(block, guard, module)
            caller = module.functions.get(module.scope_of(call).node)
            if caller is not None and caller not in done:
                done.add(caller)
                todo.append(caller)


def _refuse(block: Block, guard: ast.AST, module: SourceModule) -> None:
    where = f"{module.document.path}:{getattr(guard, 'lineno', 0)}"
    message = f"after an exception half-way the code at {where} could see which values were assigned before it"
    raise Unplannable("exception-order", block.anchor, message)
