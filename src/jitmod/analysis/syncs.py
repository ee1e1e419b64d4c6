"""What a loop reads back from the device in every round although nobody looks at it before the loop ends.

`losses.append(float(loss))` and `total += loss.item()`: each waits until the device is done, so that the host cannot
hand it the next step meanwhile.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from jitmod.analysis import library
from jitmod.analysis.boundaries import function_around, loop_around
from jitmod.analysis.channels import calling
from jitmod.analysis.donated import check_donation
from jitmod.analysis.effects import Effects
from jitmod.analysis.heap import touches
from jitmod.analysis.infer import Inference
from jitmod.analysis.jits import is_heavy, jitted_target
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.managers import may_swallow
from jitmod.analysis.stable import block_of
from jitmod.analysis.syntax import between, calls_outside_functions
from jitmod.analysis.trackers import wrapped
from jitmod.analysis.values import Array, Device, Kind, Mapping, NdArray, Range, Record, Routine, Sequence
from jitmod.source.nodes import walk
from jitmod.source.project import SourceModule
from jitmod.source.scopes import Scope

_CONVERTING = frozenset({"float", "int"})
_WAITING = frozenset({"float", "int", "bool", "complex", "print", "str", "repr", "format", "round"})
_WAITING_METHODS = frozenset({"item", "tolist", "block_until_ready"})
_PASSING = frozenset({"enumerate", "reversed", "sorted", "list", "tuple"})
_SCOPES = frozenset({"locals", "vars", "eval", "exec"})
LoopStatement = ast.For | ast.While


@dataclass(frozen=True, eq=False)
class Sync:
    """`statement` puts `pull`, a number that is read from `device`, into the list `name`, or adds it to the number.

    `init` is where that begins; `outer` is the statement behind it that holds the loop.
    """

    statement: ast.stmt
    pull: ast.Call
    device: ast.expr
    name: str
    init: ast.stmt
    outer: ast.stmt

    @property
    def is_sum(self) -> bool:
        return isinstance(self.statement, ast.AugAssign)


def waiting_loops(module: SourceModule, effects: Effects) -> Iterator[tuple[LoopStatement, list[ast.stmt]]]:
    """The loops of functions that run compiled code, with the statements that keep what they read of its results."""
    found: dict[ast.AST, list[ast.stmt]] = {}
    for node in module.document.nodes:
        if isinstance(node, ast.Expr | ast.AugAssign) and _kept(node, module, effects.inference) is not None:
            loop = loop_around(node, module)
            if isinstance(loop, LoopStatement) and function_around(node, module) is not None:
                found.setdefault(loop, []).append(node)
    for loop, statements in found.items():
        assert isinstance(loop, LoopStatement)
        infer = effects.inference
        if any(is_heavy(infer.kind(call.func, module), effects) for call in _calls_in(loop, module)):
            yield loop, statements


def _kept(statement: ast.stmt, module: SourceModule, infer: Inference) -> tuple[ast.Name, ast.Call, ast.expr] | None:
    """The name, the call that reads from the device, and what is read."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name() as name, attr="append"), args=[value],
                                     keywords=[])):  # fmt: skip
            pass
        case ast.AugAssign(target=ast.Name() as name, op=ast.Add(), value=value):
            pass
        case _:
            return None
    match value:
        case ast.Call(func=ast.Name(id=converter) as func, args=[device], keywords=[]) if converter in _CONVERTING:
            if infer.dotted(func, module) != converter:
                return None
        case ast.Call(func=ast.Attribute(value=device, attr="item"), args=[], keywords=[]):
            pass
        case _:
            return None
    return (name, value, device) if _on_device(infer.kind(device, module)) else None


def _on_device(kind: Kind) -> bool:
    return isinstance(kind, Device) or (isinstance(kind, Array) and not kind.is_key)


def _calls_in(loop: LoopStatement, module: SourceModule) -> Iterator[ast.Call]:
    """The calls of one round, none of those in a loop inside of it."""
    for statement in loop.body:
        yield from (c for c in calls_outside_functions(statement) if loop_around(c, module) is loop)


def syncs_of(loop: LoopStatement, statements: list[ast.stmt], module: SourceModule, effects: Effects) -> list[Sync]:
    """All of a loop. Raises `Unplannable` where one has to stay, or where the loop waits for the device anyway."""
    found = [_sync(statement, module, effects.inference) for statement in statements]
    _check_waits(loop, {s.pull for s in found}, module, effects)
    for outer in dict.fromkeys(sync.outer for sync in found):
        _check_effects(outer, module, effects)
        _check_buffers(outer, {sync.name for sync in found}, module, effects)
    for sync in found:
        check_donation(sync.device, sync.statement, sync.outer, module, effects.inference)
    return found


def _sync(statement: ast.stmt, module: SourceModule, infer: Inference) -> Sync:
    kept = _kept(statement, module, infer)
    assert kept is not None
    read, pull, device = kept
    name, scope = read.id, infer.scope_binding(read.id, read, module)
    rebound = any(name in other.rebinds for other in module.scopes.values())
    if scope is None or scope is not module.scope_of(statement) or rebound:
        raise Unplannable("results-escape", statement, f"`{name}` is known outside of this function")
    init = _init(statement, name, scope)
    outer = _beside(statement, init, module)
    if outer is None:
        raise Unplannable("results-escape", statement, f"`{name}` does not begin right before the loop")
    if isinstance(statement, ast.Expr):
        _check_known(name, init, outer, module)
    _check_errors(statement, outer, module, infer)
    _check_reads(statement, name, outer, scope)
    _check_guards(outer, name, scope, infer)
    return Sync(statement, pull, device, name, init, outer)


def _init(statement: ast.stmt, name: str, scope: Scope) -> ast.stmt:
    """The one statement that binds the name, to an empty list or to a number."""
    others = [b for b in scope.bindings[name] if b.node is not statement]
    begun = [b for b in others if isinstance(b.node, ast.Assign | ast.AnnAssign)]
    value = begun[0].value if len(begun) == len(others) == 1 else None
    for index in begun[0].path if begun else ():
        value = value.elts[index] if isinstance(value, ast.Tuple | ast.List) and index < len(value.elts) else None
    match value:
        case ast.List(elts=[]) | ast.Call(func=ast.Name(id="list"), args=[], keywords=[]):
            plain = isinstance(statement, ast.Expr)
        case ast.Constant(value=int() | float()):
            plain = isinstance(statement, ast.AugAssign)
        case _:
            plain = False
    if not plain or (isinstance(begun[0].node, ast.Assign) and len(begun[0].node.targets) > 1):
        raise Unplannable("results-escape", statement, f"it cannot be told that `{name}` is new, and known here alone")
    assert isinstance(begun[0].node, ast.stmt)
    return begun[0].node


def _beside(statement: ast.stmt, init: ast.stmt, module: SourceModule) -> ast.stmt | None:
    """The statement around `statement`, or itself, that stands in the block of `init` behind it."""
    block = block_of(init, module)
    for node in (statement, *module.ancestors(statement)):
        if isinstance(node, ast.stmt) and node in block:
            inside = loop_around(statement, module) in (node, *between(statement, node, module))
            return node if inside and block.index(node) > block.index(init) else None
    return None


def _check_known(name: str, init: ast.stmt, outer: ast.stmt, module: SourceModule) -> None:
    """A list has to be empty when the loop begins, and nobody may know it by another name."""
    block = block_of(init, module)
    for statement in block[block.index(init) + 1 : block.index(outer)]:
        for node in walk(statement):
            if isinstance(node, ast.Name) and node.id == name:
                raise Unplannable("results-escape", node, f"`{name}` is filled, or handed on, before the loop")


def _check_errors(statement: ast.stmt, outer: ast.stmt, module: SourceModule, infer: Inference) -> None:
    """An error of the device is raised where a result is read: nothing in the loop may be there to catch it."""
    for parent in between(statement, outer, module):
        catches = isinstance(parent, ast.Try | ast.TryStar)
        if isinstance(parent, ast.With | ast.AsyncWith):
            catches = any(may_swallow(item.context_expr, module, infer) for item in parent.items)
        if catches:
            assert isinstance(parent, ast.stmt)
            raise Unplannable("exception-order", parent, "an error of the computation might be caught in the loop")


def _check_reads(statement: ast.stmt, name: str, outer: ast.stmt, scope: Scope) -> None:
    """Nothing but the statement reads the name while the loop runs; no function reads it at a time of its own."""
    module = scope.module
    for node in walk(scope.node):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SCOPES:
            raise Unplannable("dynamic-scope", node, f"`{node.func.id}()` may read `{name}`")
        if not isinstance(node, ast.Name) or node.id != name or isinstance(node.ctx, ast.Store):
            continue
        if module.scope_of(node) is not scope or isinstance(node.ctx, ast.Del):
            raise Unplannable("late-binding", node, f"`{name}` is read by a function of its own, or deleted")
        around = set(between(node, outer, module))
        if outer in around and statement not in around:
            raise Unplannable("results-escape", node, f"`{name}` is read while the loop runs")


def _check_guards(outer: ast.stmt, name: str, scope: Scope, infer: Inference) -> None:
    """No exception may lead past what is put behind the loop to a read of the name."""
    module = scope.module
    reads = [n for n in walk(scope.node) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    inner: ast.AST = outer
    for parent in module.ancestors(outer):
        if parent is scope.node:
            return
        guards = isinstance(parent, ast.Try | ast.TryStar) and inner in parent.body
        if isinstance(parent, ast.With | ast.AsyncWith):
            guards = any(may_swallow(item.context_expr, module, infer) for item in parent.items)
        if guards:
            assert isinstance(parent, ast.Try | ast.TryStar | ast.With | ast.AsyncWith)
            inside = {n for s in parent.body for n in walk(s)}
            if any(read not in inside for read in reads):
                message = f"after an exception in the loop the code at line {parent.lineno} could see `{name}`"
                raise Unplannable("exception-order", outer, message)
        inner = parent


def _check_waits(loop: LoopStatement, pulls: set[ast.Call], module: SourceModule, effects: Effects) -> None:
    """Nothing else reads a result in every round: then the loop waits, whatever becomes of these."""
    infer = effects.inference
    if isinstance(loop, ast.While) and effects.times.is_computed(loop.test, module):
        raise Unplannable("data-dependent-exit", loop.test, "the loop goes on or ends by a computed value")
    for statement in loop.body:
        for node in walk(statement):
            if node in pulls or loop_around(node, module) is not loop:
                continue
            test = node.test if isinstance(node, ast.If | ast.IfExp | ast.Assert) else None
            if test is not None and effects.times.is_computed(test, module):
                what = f"`{ast.unparse(test)[:60]}` is computed, so that the loop waits for it"
                raise Unplannable("data-dependent-exit", test, what)
            if not _is_conditional(node, loop, module) and waits(node, module, infer):
                what = f"`{ast.unparse(node)[:60]}` waits for the device in every round anyway"
                raise Unplannable("too-small", node, what)


def _is_conditional(node: ast.AST, loop: LoopStatement, module: SourceModule) -> bool:
    return any(isinstance(parent, ast.If | ast.IfExp) for parent in between(node, loop, module))


def waits(node: ast.AST, module: SourceModule, infer: Inference) -> bool:
    """Whether a node reads from the device, or may."""
    match node:
        case ast.FormattedValue(value=value):
            return _on_device(infer.kind(value, module))
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in _WAITING_METHODS:
            return _on_device(infer.kind(value, module))
        case ast.Call(func=func, args=args):
            name = infer.dotted(func, module) or ""
            waiting = name in _WAITING or library.role(name) is library.Role.PULL or name.startswith("numpy.")
            return waiting and any(_on_device(infer.kind(a, module)) for a in args)
    return False


def _check_effects(outer: ast.stmt, module: SourceModule, effects: Effects) -> None:
    """Clocks, and what compiled code does beside its results, would show that the host does not wait any more.

    That is so in all of `outer`: whatever is in there runs before the results are read.
    """
    for call in calls_outside_functions(outer):
        if any(access.channel == "clock" for access in calling(call, module, effects)):
            raise Unplannable("timing-loop", call, f"`{ast.unparse(call.func)}` measures the rounds")
        kind = effects.inference.kind(call.func, module)
        if isinstance(kind, Routine) and isinstance(kind.target, str):
            continue
        if is_heavy(kind, effects):
            hazards = (h for h in effects.of_call(call, module) if h.reason == "host-effect")
            if (found := next(hazards, None)) is not None:
                raise Unplannable("host-effect", call, f"{found.what}: when that happens would change")


def _check_buffers(outer: ast.stmt, own: set[str], module: SourceModule, effects: Effects) -> None:
    """A buffer of the host that is filled anew in every round may still be read by the device, if nobody waits for it.

    On a CPU the device reads the memory of a numpy array itself. `own` are the names that the results are kept by.
    """
    for node in walk(outer):
        if isinstance(node, ast.For | ast.comprehension) and not _is_container(node.iter, module, effects.inference):
            what = f"`{ast.unparse(node.iter)[:60]}` may hand out a buffer again that the device still reads"
            raise Unplannable("may-alias", node.iter, what)
    for touch in touches(outer, module, effects):
        harmless = touch.how == "attribute" or touch.owner in own or _is_own(touch.node, own)
        harmless = harmless or (touch.how != "anything" and _fills_container(touch.node, module, effects.inference))
        if not harmless and not _is_traced(touch.node, module, effects.inference):
            what = f"{touch.what}: the device may still read it, if nobody waits for its result"
            raise Unplannable("may-alias", touch.node, what)


def _fills_container(node: ast.AST, module: SourceModule, infer: Inference) -> bool:
    """Whether a list or dict gets other items: what a compiled function was given of it stays as it is."""
    match node:
        case ast.Call(func=ast.Attribute(value=held)) | ast.Subscript(value=held) | ast.AugAssign(target=held):
            return isinstance(infer.kind(held, module), Sequence | Mapping | Record)
    return False


def _is_traced(node: ast.AST, module: SourceModule, infer: Inference) -> bool:
    """Whether a node calls a compiled function: what that is given is never changed."""
    return isinstance(node, ast.Call) and jitted_target(infer.kind(node.func, module), infer)[0] is not None


def _is_own(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id in names


def _is_container(iterable: ast.expr, module: SourceModule, infer: Inference) -> bool:
    """Whether all items are there before the loop begins, each for itself."""
    inner = wrapped(iterable, module, infer)
    if inner is not None:
        return _is_container(inner, module, infer)
    match iterable:
        case ast.Call(func=func, args=[_, *_] as args) if infer.dotted(func, module) in _PASSING:
            return all(_is_container(argument, module, infer) for argument in args[:1])
        case ast.Call(func=ast.Name(id="zip") as func, args=args) if infer.dotted(func, module) == "zip":
            return all(_is_container(argument, module, infer) for argument in args)
        case ast.Call(func=ast.Attribute(value=value, attr="items" | "keys" | "values"), args=[]):
            return isinstance(infer.kind(value, module), Mapping)
    return isinstance(infer.kind(iterable, module), Array | NdArray | Sequence | Record | Mapping | Range)
