"""Names and attributes of a block: what it binds, which reads see what it has bound, and what is read afterwards."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from jitmod.analysis.blocks import Block, is_selection
from jitmod.analysis.boundaries import loop_around
from jitmod.analysis.captures import Captures, How
from jitmod.analysis.infer import Inference
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.values import UNKNOWN, Instance, is_device, unpacked
from jitmod.source.nodes import children, walk
from jitmod.source.project import Class, SourceModule

_DYNAMIC = ("locals", "exec", "eval", "vars")


@dataclass(frozen=True, eq=False)
class Flow:
    """`bound`: paths (`loss`, `self.params`) that the block binds, in order; `internal`: names whose value is its own.

    `accesses`: every mention of an attribute that it binds; `whole`: items that are taken outside; `live`: what is
    read after it.
    """

    bound: tuple[str, ...]
    internal: frozenset[ast.AST]
    accesses: dict[str, list[ast.Attribute]]
    whole: frozenset[ast.AST]
    live: tuple[str, ...]


def flow_of(block: Block, infer: Inference) -> Flow:
    """Raises `Unplannable` where a name cannot be followed."""
    bound: list[str] = []
    internal: set[ast.AST] = set()
    accesses: dict[str, list[ast.Attribute]] = {}
    for statement in block.statements:
        value = getattr(statement, "value", None)
        _note_reads(value, bound, internal, accesses)
        if isinstance(statement, ast.AugAssign):
            _note_reads(ast.Name(id=getattr(statement.target, "id", ""), ctx=ast.Load()), bound, internal, accesses)
            if getattr(statement.target, "id", "") in bound:
                internal.add(statement.target)
        for target in _targets(statement):
            path = ast.unparse(target)
            if isinstance(target, ast.Attribute):
                accesses.setdefault(path, []).append(target)
                internal |= {n for n in walk(target) if isinstance(n, ast.Name)}
                _check_plain(target, block.module, infer)
            if path not in bound:
                bound.append(path)
    for tail in block.tails:
        _note_reads(tail, bound, internal, accesses)
    whole = frozenset(_items(block, internal, infer))
    return Flow(tuple(bound), frozenset(internal), accesses, whole, tuple(_live(block, bound)))


def _check_plain(target: ast.Attribute, module: SourceModule, infer: Inference) -> None:
    """Assigning the attribute must do nothing else. Raises `Unplannable`."""
    holder = infer.kind(target.value, module)
    if not isinstance(holder, Instance) or not isinstance(holder.cls, Class):
        raise Unplannable("mutable-self", target, f"it cannot be told what assigning `{ast.unparse(target)}` does")
    for name in (target.attr, "__setattr__"):
        if infer.classes.method(holder.cls, name) is not None:
            raise Unplannable("mutable-self", target, f"assigning `{ast.unparse(target)}` runs a method")


def _targets(statement: ast.stmt) -> list[ast.Name | ast.Attribute]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return [n for t in targets if t is not None for n in walk(t)
            if isinstance(n, ast.Name | ast.Attribute) and isinstance(n.ctx, ast.Store)]  # fmt: skip


def _note_reads(
    root: ast.AST | None, bound: list[str], internal: set[ast.AST], accesses: dict[str, list[ast.Attribute]]
) -> None:
    for node in walk(root) if root is not None else ():
        if isinstance(node, ast.Name) and node.id in bound:
            internal.add(node)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            path = ast.unparse(node)
            accesses.setdefault(path, []).append(node)
            if path in bound:
                internal |= {n for n in walk(node) if isinstance(n, ast.Name)}


def _items(block: Block, internal: set[ast.AST], infer: Inference) -> list[ast.AST]:
    """Subscripts that read nothing of the block's own: they are evaluated before, as the user's code did.

    A length of an array is read inside, of the array.
    """
    found: list[ast.AST] = []
    for part in block.parts:
        todo: list[ast.AST] = [part]
        while todo:
            node = todo.pop()
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
                sized = isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
                of_array = sized and is_device(infer.kind(node.value.value, block.module))  # type: ignore[attr-defined]
                if is_selection(node) and not of_array and not any(n in internal for n in walk(node)):
                    found.append(node)
                    continue
            if not isinstance(node, ast.Lambda):
                todo += children(node)
    return found


def _live(block: Block, bound: list[str]) -> list[str]:
    """What the block binds and something else reads: after it, in the next round of a loop, or from outside."""
    module, function = block.module, block.function
    own = {n for part in block.parts for n in walk(part)}
    live: list[str] = []
    for path in bound:
        if "." in path:
            live.append(path)  # an attribute outlives the call
            continue
        if any(path in s.rebinds for s in module.scopes.values()):
            raise Unplannable("dynamic-scope", block.anchor, f"`{path}` is global or nonlocal")
        reads = [n for n in walk(function.node) if isinstance(n, ast.Name) and n.id == path]
        outside = [n for n in reads if n not in own and not isinstance(n.ctx, ast.Store)]
        outside += [n for n in reads if n not in own and isinstance(module.parents[n], ast.AugAssign)]
        carried = loop_around(block.anchor, module) is not None and _is_read_first(path, block)
        if outside or carried:
            live.append(path)
    return live


def _is_read_first(path: str, block: Block) -> bool:
    """Whether the block reads a name before it binds it: the next round sees what this one leaves."""
    for statement in block.statements:
        value = getattr(statement, "value", None)
        reads = {n.id for n in walk(value) if isinstance(n, ast.Name)} if value is not None else set()
        if path in reads or (isinstance(statement, ast.AugAssign) and ast.unparse(statement.target) == path):
            return True
        if path in {ast.unparse(t) for t in _targets(statement)}:
            return False
    return False


def own_scope_only(block: Block, module: SourceModule) -> None:
    """Raises where the function looks its own names up in ways that cannot be followed."""
    for node in walk(block.function.node):
        if isinstance(node, ast.Name) and node.id in _DYNAMIC and isinstance(node.ctx, ast.Load):
            raise Unplannable("dynamic-scope", node, f"`{node.id}` sees every name of the function")


def needs_filter(block: Block, flow: Flow, captures: Captures, infer: Inference) -> bool:
    """Whether only `eqx.filter_jit` can compile a block: `jax.jit` takes and gives back nothing but trees of arrays."""
    if any(capture.how is How.MODULE for capture in captures.values):
        return True
    given = [infer.kind(tail, block.module) for tail in block.tails]
    for statement in block.statements:
        value = getattr(statement, "value", None)
        for target in statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]:
            for name, path in _paths(target) if isinstance(target, ast.expr) else ():
                if ast.unparse(name) in flow.live:
                    kind = infer.kind(value, block.module) if isinstance(value, ast.expr) else UNKNOWN
                    given.append(unpacked(kind, path) if not isinstance(statement, ast.AugAssign) else UNKNOWN)
    return not all(is_device(kind) for kind in given)


def _paths(target: ast.expr, path: tuple[int, ...] = ()) -> Iterator[tuple[ast.expr, tuple[int, ...]]]:
    """What a target binds, each with its way into nested tuples."""
    if isinstance(target, ast.Tuple | ast.List):
        for index, inner in enumerate(target.elts):
            yield from _paths(inner, (*path, index))
    else:
        yield target, path
