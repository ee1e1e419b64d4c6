"""What must hold around a loop for its map piece to run first: context, names, heap, exceptions, live-outs."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import takewhile

from jitmod.analysis import library
from jitmod.analysis.effects import Effects
from jitmod.analysis.heap import Path, Read, Touch, holds_mutable, is_immutable, path_of, touches
from jitmod.analysis.infer import Inference
from jitmod.analysis.jits import Contexts
from jitmod.analysis.loops import Loop, Stream, Unplannable
from jitmod.analysis.reaching import reaching
from jitmod.analysis.ssa import Body, Node, Value
from jitmod.analysis.values import UNKNOWN, Array, Instance, Kind, Record, Routine
from jitmod.source.project import Class
from jitmod.source.scopes import Scope


def check_context(loop: Loop, contexts: Contexts) -> None:
    if loop.function is not None and contexts.of(loop.function) == {"traced"}:
        message = f"`{loop.symbol}` runs inside a compiled function already"
        raise Unplannable("already-compiled", loop.node, message)
    parent = loop.module.scope_of(loop.node)
    if isinstance(parent.node, ast.ClassDef | ast.Lambda):
        raise Unplannable("local-callable", loop.node, "the loop stands in a class body or lambda")
    if loop.function is not None:
        for node in ast.walk(loop.function.node):
            match node:
                case ast.Call(func=ast.Name(id="locals" | "globals" | "exec" | "eval" | "vars" as name)):
                    raise Unplannable("dynamic-scope", node, f"`{name}()` in the function sees the loop's names")
                case ast.Attribute(attr="__dict__" | "__setattr__" | "__delattr__" as name):
                    raise Unplannable("dynamic-scope", node, f"`{name}` is another way to change attributes")
    if isinstance(loop.node, ast.ListComp):
        for ancestor in loop.module.ancestors(loop.node):
            if isinstance(ancestor, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.Lambda):
                raise Unplannable("local-callable", loop.node, "the comprehension stands inside another one")
            if isinstance(ancestor, ast.stmt):
                break


def check_names(loop: Loop, body: Body, infer: Inference) -> None:
    """Names that the map piece reads from outside must mean the same whenever the compiled function is called."""
    for node in body.mapped_nodes():
        for name, value in node.uses.items():
            if value.origin != "invariant" or not isinstance(name, ast.Name):
                continue
            scope = infer.scope_binding(name.id, name, loop.module)
            if scope is None:
                continue
            hows = {b.how for b in scope.bindings[name.id]}
            if hows & {"def", "class"} and scope.parent is not None:
                message = f"`{name.id}` is defined inside a function; move it to module level"
                raise Unplannable("local-callable", name, message)
            if hows & {"def", "class", "import"} and len(scope.bindings[name.id]) > 1 and hows != {"import"}:
                raise Unplannable("rebound-global", name, f"`{name.id}` is bound more than once")
            if _is_rebound_elsewhere(scope, name.id) and (hows & {"def", "class", "import"} or body.host_nodes()):
                message = f"`{name.id}` is rebound by a `global` or `nonlocal` statement"
                raise Unplannable("rebound-global", name, message)


def _is_rebound_elsewhere(scope: Scope, name: str) -> bool:
    return any(name in other.rebinds for other in scope.module.scopes.values())


def check_heap(loop: Loop, body: Body, found: tuple[Stream, ...], used: tuple[Stream, ...], effects: Effects) -> None:
    """What the map piece reads must not be changed by the host piece, which will run after it instead of in between."""
    changed = list(touches([n.statement for n in body.host_nodes()], loop.module, effects))
    for stream in found:
        if stream.source is not None and stream.kind == UNKNOWN:
            what = f"iterating over `{ast.unparse(stream.source)}` may change it"
            changed.append(Touch("anything", stream.source, what))
    reads: list[tuple[Read, list[Touch]]] = []
    for node in body.mapped_nodes():
        for name, value in node.uses.items():
            if value.origin in ("invariant", "item"):
                kind, path = _object_read(name, value.kind, loop, effects)
                mutable = not is_immutable(kind, effects) or holds_mutable(kind, effects)
                alias = value.origin == "invariant" and (
                    _may_be_alias(name, loop, effects) or isinstance(kind, Instance)
                )
                reads.append((Read(path, mutable, alias), changed))
    # a loop over a list to which every iteration appends never ends, so the list that is appended to is another one
    lasting = [touch for touch in changed if touch.how != "append"]
    alone = isinstance(loop.node, ast.For) and isinstance(loop.node.iter, ast.Name | ast.Attribute)
    for stream in used:
        if stream.source is not None and not isinstance(stream.kind, Array):
            read = Read(path_of(stream.source), True, _may_be_alias(stream.source, loop, effects))
            reads.append((read, lasting if alone else changed))
    for read, touched in reads:
        for touch in touched:
            if read.path and touch.hits(read):
                raise _conflict(read, touch)


def _may_be_alias(expr: ast.expr, loop: Loop, effects: Effects) -> bool:
    """Whether a local name may stand for an object that has another name in the function."""
    while isinstance(expr, ast.Attribute | ast.Subscript):
        expr = expr.value
    if not isinstance(expr, ast.Name):
        return False
    scope = effects.inference.scope_binding(expr.id, expr, loop.module)
    if scope is None or scope.parent is None:
        return False
    made = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.Constant, ast.BinOp)
    for binding in scope.bindings[expr.id]:
        if binding.how == "param":
            continue
        value = binding.value
        called = effects.inference.dotted(value.func, loop.module) if isinstance(value, ast.Call) else None
        if not isinstance(value, made) and (called is None or library.role(called) is library.Role.UNKNOWN):
            return True
        if isinstance(binding.node, ast.Assign) and len(binding.node.targets) > 1:
            return True
    return False


def _object_read(name: ast.expr, kind: Kind, loop: Loop, effects: Effects) -> tuple[Kind, Path]:
    """The object that a read comes down to: attributes of plain objects are followed, those of immutable ones not."""
    expr: ast.expr = name
    while not is_immutable(kind, effects):
        parent = loop.module.parents.get(expr)
        if not isinstance(parent, ast.Attribute):
            break
        expr, kind = parent, effects.inference.kind(parent, loop.module)
    return kind, path_of(expr)


def _conflict(read: Read, touch: Touch) -> Unplannable:
    written = ".".join(read.path)
    reason = "mutable-self" if len(read.path) > 1 and read.path[0] == "self" else "may-alias"
    return Unplannable(reason, touch.node, f"`{written}` is read by the computation while {touch.what}")


_MESSAGE = "a try around it could observe which items were done when an error came"
_CATCHING = frozenset({"contextlib.suppress", "pytest.raises", "warnings.catch_warnings", "pytest.warns"})


def check_try_around(loop: Loop, infer: Inference) -> None:
    """A try around the loop could see how far it came."""
    inside = {n.id for n in ast.walk(loop.node) if isinstance(n, ast.Name)}
    for node in loop.module.ancestors(loop.node):
        if node is loop.module.scope_of(loop.node).node:
            return
        match node:
            case ast.Try(handlers=[_, *_]):
                raise Unplannable("exception-order", node, _MESSAGE)
            case ast.Try(finalbody=final):
                read = {n.id for s in final for n in ast.walk(s) if isinstance(n, ast.Name)}
                if read & inside:
                    raise Unplannable("exception-order", node, _MESSAGE)
            case ast.With(items=items):
                if any(_may_swallow(item.context_expr, loop, infer) for item in items):
                    raise Unplannable("exception-order", node, f"{_MESSAGE} (a with statement may swallow errors)")


def _may_swallow(manager: ast.expr, loop: Loop, infer: Inference) -> bool:
    """Whether a context manager may keep an error from leaving the with statement."""
    name = infer.dotted(manager.func, loop.module) if isinstance(manager, ast.Call) else None
    if name is not None and isinstance(infer.kind(manager.func, loop.module), Routine):  # type: ignore[attr-defined]
        return name in _CATCHING
    kind = infer.kind(manager, loop.module)
    if isinstance(kind, Instance) and isinstance(kind.cls, Class):
        leave = infer.classes.method(kind.cls, "__exit__")
        returns = [n.value for n in ast.walk(leave.node) if isinstance(n, ast.Return)] if leave else []
        return any(r is not None and not (isinstance(r, ast.Constant) and not r.value) for r in returns)
    return True


def check_try_at_calls(loop: Loop, infer: Inference) -> None:
    """A try around a call of the loop's function could see what it did before an error."""
    if loop.function is None:
        return
    for module, call in infer.call_sites(loop.function):
        inner: ast.AST = call
        for node in module.ancestors(call):
            if isinstance(node, ast.Try) and node.handlers and inner in node.body:
                where = f"{_MESSAGE} ({module.document.path}:{call.lineno})"
                raise Unplannable("exception-order", loop.node, where)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                break
            inner = node


def check_clock(loop: Loop, body: Body, infer: Inference) -> None:
    """A loop that reads the clock measures its items one by one."""
    for node in body.host_nodes():
        for call in ast.walk(node.statement):
            name = infer.dotted(call.func, loop.module) if isinstance(call, ast.Call) else None
            if name is not None and name.startswith(("time.", "timeit.", "datetime.")):
                raise Unplannable("timing-loop", call, "the loop reads the clock: it measures single items")


def check_live_outs(loop: Loop, body: Body, scanned: frozenset[str], infer: Inference) -> tuple[str, ...]:
    """Refuse where a name of the map piece is read after the loop; return the scanned keys that are."""
    if isinstance(loop.node, ast.ListComp):
        return ()
    live = _live_outs(loop, infer)
    if any(isinstance(node, ast.For | ast.While | ast.AsyncFor) for node in _within_function(loop)):
        live |= set(body.carried)  # the next round of the outer loop begins with them
    host = {name for n in body.host_nodes() for name in n.makes}
    overwritten = {n for n, v in body.env.items() if v.mappable and v.origin == "node"}  # not the host's in the end
    for name in sorted(live & ((live - host) | overwritten) - scanned):
        message = f"`{name}` is read after the loop, and would be unbound there"
        raise Unplannable("live-out-unbound", loop.node, message)
    return tuple(sorted(scanned & live))


def _live_outs(loop: Loop, infer: Inference) -> set[str]:
    """The names bound in the loop (targets included) that may be read after it."""
    scope = loop.module.scope_of(loop.node)
    inside = set(ast.walk(loop.node))
    bound = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound = {name for name in bound if name in scope.bindings}
    if scope.parent is None:
        return bound  # at module scope every name can be read by anyone
    everything = {n for n in ast.walk(scope.node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)}
    live = {name for name in bound if name in scope.rebinds}
    for use in everything - inside:
        if use.id not in bound or infer.comprehension_binding(use.id, use, loop.module) is not None:
            continue
        if loop.module.scope_of(use).find(use.id) is scope:
            live |= {use.id for b in reaching(use.id, use, scope) if b.node in inside}
    return live


def _within_function(loop: Loop) -> list[ast.AST]:
    """What stands around the loop in its own function."""
    scope = loop.module.scope_of(loop.node)
    return list(takewhile(lambda node: node is not scope.node, loop.module.ancestors(loop.node)))


def check_results(values: Iterable[Value], at: ast.AST) -> None:
    """What leaves the map piece must be arrays or flat tuples of them: others would come back as another type."""
    for value in values:
        is_tuple = isinstance(value.kind, Record) and value.kind.is_tuple
        parts = value.kind.items if isinstance(value.kind, Record) and is_tuple else (value.kind,)
        if not parts or not all(isinstance(part, Array) for part in parts):
            what = f"`{value.name}`" if value.name else "a result of the call"
            message = f"it cannot be told that {what} is an array; annotate what the callee returns"
            raise Unplannable("unknown-result", at, message)


def check_keys(loop: Loop, body: Body, scan: tuple[Node, ...], scanned: frozenset[str], infer: Inference) -> None:
    """Keys that go from item to item are read by their split alone; rbg keys draw otherwise when batched."""
    keyed = bool(scan)
    for node in body.nodes:
        for value in node.uses.values():
            keyed = keyed or (node.mappable and isinstance(value.kind, Array) and value.kind.is_key)
            if node not in scan and value.origin == "carried" and value.name in scanned:
                message = f"the key `{value.name}` is used before it is split"
                raise Unplannable("prng-order", node.statement, message)
            if not node.mappable and value.maker in scan and value.maker is not None:
                raise Unplannable("prng-order", node.statement, f"the key `{value.name}` is read on the host")
    if keyed and any(b"rbg" in d.source for d in infer.project.documents.values()):
        raise Unplannable("prng-order", loop.node, "the project uses rbg keys, whose draws change under vmap")


def check_lengths(used: tuple[Stream, ...]) -> None:
    """`zip(xs, xs[1:])` pairs neighbours: slices of one array have different lengths."""
    sliced = [s.source for s in used if isinstance(s.source, ast.Subscript) and isinstance(s.source.slice, ast.Slice)]
    bases = [ast.unparse(s.source) for s in used if s.source is not None]
    for source in sliced:
        base = ast.unparse(source.value)
        if any(other != ast.unparse(source) and (other == base or other.startswith(f"{base}[")) for other in bases):
            message = f"`{ast.unparse(source)}` is shorter than what it is zipped with; slice both to one length"
            raise Unplannable("slice-bounds", source, message)
