"""What must hold around a loop for its map piece to run first: context, names, heap, exceptions, live-outs."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable
from dataclasses import dataclass

from jitmod.analysis import library
from jitmod.analysis.effects import Effects
from jitmod.analysis.heap import Read, Touch, path_of, touches
from jitmod.analysis.infer import Inference
from jitmod.analysis.jits import Contexts
from jitmod.analysis.liveness import live_after
from jitmod.analysis.loops import COLLECTING, Loop, Stream, Unplannable, header, is_range
from jitmod.analysis.managers import may_swallow
from jitmod.analysis.reads import may_be_alias
from jitmod.analysis.ssa import Body, Node, Value
from jitmod.analysis.values import UNKNOWN, Array, Instance, Record, Routine, length_of
from jitmod.source.nodes import walk
from jitmod.source.project import Class
from jitmod.source.scopes import Scope


def check_compiled(loop: Loop, contexts: Contexts) -> None:
    if loop.function is not None and contexts.of(loop.function) == {"traced"}:
        message = f"`{loop.symbol}` runs inside a compiled function already"
        raise Unplannable("already-compiled", loop.node, message)


def check_context(loop: Loop) -> None:
    parent = loop.module.scope_of(loop.node)
    if isinstance(parent.node, ast.ClassDef | ast.Lambda):
        raise Unplannable("local-callable", loop.node, "the loop stands in a class body or lambda")
    if loop.function is not None:
        for node in walk(loop.function.node):
            match node:
                case ast.Call(func=ast.Name(id="locals" | "globals" | "exec" | "eval" | "vars" as name)):
                    raise Unplannable("dynamic-scope", node, f"`{name}()` in the function sees the loop's names")
                case ast.Attribute(attr="__dict__" | "__setattr__" | "__delattr__" as name):
                    raise Unplannable("dynamic-scope", node, f"`{name}` is another way to change attributes")
    if isinstance(loop.node, COLLECTING):
        for ancestor in loop.module.ancestors(loop.node):
            if isinstance(ancestor, ast.GeneratorExp | ast.Lambda):
                message = "the comprehension stands inside a generator or lambda, which runs nobody knows when"
                raise Unplannable("local-callable", loop.node, message)
            if isinstance(ancestor, ast.stmt):
                break


def check_names(loop: Loop, body: Body, infer: Inference) -> None:
    """Names that the map piece reads from outside must mean the same whenever the compiled function is called."""
    for node in body.device_nodes():
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
            if is_rebound_elsewhere(scope, name.id) and (hows & {"def", "class", "import"} or body.host_nodes()):
                message = f"`{name.id}` is rebound by a `global` or `nonlocal` statement"
                raise Unplannable("rebound-global", name, message)


def is_rebound_elsewhere(scope: Scope, name: str) -> bool:
    return any(name in other.rebinds for other in scope.module.scopes.values())


def check_header(loop: Loop, body: Body, found: tuple[Stream, ...], effects: Effects) -> None:
    """What is iterated over must not be changed by the body: the items would be taken before."""
    nodes = [n for n in body.nodes if n.op != "device" or n.blocker is not None]
    # a loop over a list to which every iteration appends never ends, so the list that is appended to is another one
    alone = isinstance(loop.node, ast.For) and isinstance(loop.node.iter, ast.Name | ast.Attribute)
    for stream in found:
        if stream.source is None or isinstance(stream.kind, Array) or not path_of(stream.source):
            continue
        read = Read(path_of(stream.source), True, may_be_alias(stream.source, loop, effects))
        by_bar = touches(header(loop)[1], loop.module, effects) if stream.tracked else ()
        for touch in by_bar:
            if touch.hits(read):
                raise clash_refusal(read, touch)
        for node in nodes:
            apart = {expr for expr in node.uses if not isinstance(expr, ast.Name)}
            for touch in touches(node.root, loop.module, effects, apart) if node.root is not None else ():
                if touch.hits(read) and not (alone and touch.how == "append" and not node.guards):
                    raise clash_refusal(read, touch)


_COUNTING = frozenset({"len", "int", "min", "max", "abs", "round", "math.ceil", "math.floor"})


def check_bounds(loop: Loop, infer: Inference) -> None:
    """The bounds of a range are written more than once, and that of a `while` is read once: nothing may tell that."""
    if loop.counter is not None:
        stop = loop.counter.stop
        scope = infer.scope_binding(stop.id, stop, loop.module) if isinstance(stop, ast.Name) else None
        if scope is not None and isinstance(stop, ast.Name) and is_rebound_elsewhere(scope, stop.id):
            raise Unplannable("carried-state", loop.node, f"`{stop.id}` may be bound anew while the loop runs")
    iterable = header(loop)[1]
    if not is_range(iterable):
        return
    for node in walk(iterable):
        pure = not isinstance(node, ast.Call | ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom)
        if isinstance(node, ast.Call):
            name = infer.dotted(node.func, loop.module) or ""
            known = library.role(name) in (library.Role.PURE, library.Role.NUMPY) and name not in library.IN_PLACE
            pure = name in _COUNTING or known
        getter = isinstance(node, ast.Attribute) and infer.classes.is_property(node, loop.module)
        if node is not iterable and (getter or not pure):
            message = f"`{ast.unparse(node)}` may have an effect or change; give the bound a name before the loop"
            raise Unplannable("unknown-iterable", loop.node, message)


def clash_refusal(read: Read, touch: Touch) -> Unplannable:
    """Why what the computation reads cannot be read before the host work that may change it."""
    written = ".".join(read.path)
    reason = "mutable-self" if len(read.path) > 1 and read.path[0] == "self" else "may-alias"
    return Unplannable(reason, touch.node, f"`{written}` is read by the computation while {touch.what}")


_MESSAGE = "a `try` around it could observe which items were done when an error came"


def check_try_around(loop: Loop, infer: Inference) -> None:
    """A try around the loop could see how far it came."""
    inside = {n.id for n in walk(loop.node) if isinstance(n, ast.Name)}
    for node in loop.module.ancestors(loop.node):
        if node is loop.module.scope_of(loop.node).node:
            return
        match node:
            case ast.Try(handlers=[_, *_]):
                raise Unplannable("exception-order", node, _MESSAGE)
            case ast.Try(finalbody=final):
                read = {n.id for s in final for n in walk(s) if isinstance(n, ast.Name)}
                if read & inside:
                    raise Unplannable("exception-order", node, _MESSAGE)
            case ast.With(items=items):
                if any(may_swallow(item.context_expr, loop.module, infer) for item in items):
                    raise Unplannable("exception-order", node, f"{_MESSAGE} (a with statement may swallow errors)")


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
        for call in walk(node.root) if node.root is not None else ():
            name = infer.dotted(call.func, loop.module) if isinstance(call, ast.Call) else None
            if name is not None and name.startswith(("time.", "timeit.", "datetime.")):
                raise Unplannable("timing-loop", call, "the loop reads the clock: it measures single items")


def check_late_readers(loop: Loop, body: Body, scanned: frozenset[str], infer: Inference) -> None:
    """A function that reads a name of the loop's scope may be called between two bindings of it."""
    scope = loop.module.scope_of(loop.node)
    made = {name: node.statement for node in body.device_nodes() for name in node.makes if name}
    wanted = set(made) | scanned
    if body.host_nodes() and wanted & scope.rebinds:  # an error may come first, and be caught far away
        outer = min(wanted & scope.rebinds)
        message = f"`{outer}` is a name of an outer scope, and host work that comes later may read it, or fail"
        raise Unplannable("rebound-global", made.get(outer, loop.node), message)
    if not any(_may_call_anything(node, loop, infer) for node in body.host_nodes()):
        return
    for inner in loop.module.scopes.values():
        if inner is scope or not inner.is_function:
            continue
        for name in walk(inner.node):
            if isinstance(name, ast.Name) and name.id in wanted and inner.find(name.id) is scope:
                message = f"`{name.id}` is read by `{inner.qualname}`, which may be called before it is bound anew"
                raise Unplannable("late-binding", made.get(name.id, loop.node), message)


def _may_call_anything(node: Node, loop: Loop, infer: Inference) -> bool:
    """Whether host work calls more than functions and methods of libraries, operators of objects included."""
    for call in walk(node.root) if node.root is not None else ():
        if isinstance(call, ast.Name) and isinstance(call.ctx, ast.Load) and call not in node.uses:
            continue  # bound in the expression itself
        if isinstance(call, ast.Name | ast.Attribute) and isinstance(call.ctx, ast.Load):
            used, kind = node.uses.get(call), infer.kind(call, loop.module)
            plain = used is not None and (used.is_device or used.origin in ("carried", "item"))
            if not plain and isinstance(kind, Instance) and isinstance(kind.cls, Class):
                return True
            if not plain and used is not None and kind == UNKNOWN and not hasattr(builtins, ast.unparse(call)):
                return True
        if isinstance(call, ast.Call):
            kind = infer.kind(call.func, loop.module)
            of_container = isinstance(call.func, ast.Attribute) and call.func.attr in library.MUTATING_METHODS
            of_library = isinstance(kind, Routine) and isinstance(kind.target, str)
            if not of_library and not (of_container and kind == UNKNOWN):
                return True
    return False


@dataclass(frozen=True)
class LiveOuts:
    """What is read after a loop: keys that a scan hands on, names of the map piece, and targets of the loop."""

    keys: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    targets: frozenset[str] = frozenset()


def live_outs(body: Body, live: frozenset[str], scanned: frozenset[str], loop: Loop) -> LiveOuts:
    """The names of the loop that are read after it and that the host piece does not bind."""
    if isinstance(loop.node, COLLECTING):
        return LiveOuts()
    bound = [name for name in sorted(live) if name in body.env]
    values = {name: body.env[name] for name in bound if name not in scanned}
    targets = frozenset(name for name, value in values.items() if value.origin == "item")
    names = tuple(name for name, value in values.items() if value.is_device)
    return LiveOuts(tuple(sorted(scanned & live)), names, targets)


def live_names(loop: Loop) -> frozenset[str]:
    """The names that may be read after the loop; at module and class level anybody can read any name.

    But for `_`: it is not even imported by a star, and its reads would be in the file.
    """
    if not isinstance(loop.node, ast.For | ast.While | ast.AsyncFor):
        return frozenset()
    function = loop.function.node if loop.function else None
    if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return live_after(loop.statement, function)
    stored = frozenset(n.id for n in walk(loop.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    read = any(n.id == "_" and isinstance(n.ctx, ast.Load) for n in loop.module.document.of(ast.Name))
    return stored if read else stored - {"_"}


def check_results(values: Iterable[Value], at: ast.AST) -> None:
    """What leaves the map piece must be arrays or flat tuples of them: others would come back as another type."""
    for value in values:
        is_tuple = isinstance(value.kind, Record) and value.kind.is_tuple
        parts = value.kind.items if isinstance(value.kind, Record) and is_tuple else (value.kind,)
        if not parts or not all(isinstance(part, Array) for part in parts):
            made = value.maker.expr if value.maker is not None and value.maker.expr is not None else at
            what = f"`{value.name}`" if value.name else f"the result of `{ast.unparse(made)}`"
            message = f"it cannot be told that {what} is an array; annotate what the callee returns"
            raise Unplannable("unknown-result", at, message)


def check_keys(loop: Loop, body: Body, scan: tuple[Node, ...], scanned: frozenset[str], infer: Inference) -> None:
    """Keys that go from item to item are read by their split alone; rbg keys draw otherwise when batched."""
    keyed = bool(scan)
    for node in body.nodes:
        for value in node.reads():
            keyed = keyed or (node.side != "host" and isinstance(value.kind, Array) and value.kind.is_key)
            if node not in scan and value.origin == "carried" and value.name in scanned:
                message = f"the key `{value.name}` is used before it is split"
                raise Unplannable("prng-order", node.statement, message)
            if node.side == "host" and value.maker in scan and value.maker is not None:
                raise Unplannable("prng-order", node.statement, f"the key `{value.name}` is read on the host")
    if keyed and any(b"rbg" in d.source for d in infer.project.documents.values()):
        raise Unplannable("prng-order", loop.node, "the project uses rbg keys, whose draws change under vmap")


def check_lengths(used: tuple[Stream, ...]) -> None:
    """`zip(xs, xs[1:])` pairs neighbours: slices of one array have different lengths, and others may be known to."""
    known = [(s.source, n) for s in used if s.source is not None and isinstance(n := length_of(s.kind), int)]
    for source, length in known[1:]:
        if length != known[0][1]:
            counts = f"`{ast.unparse(known[0][0])}` has {known[0][1]} items and `{ast.unparse(source)}` has {length}"
            raise Unplannable("slice-bounds", source, f"{counts}; slice both to one length")
    sliced = [s.source for s in used if isinstance(s.source, ast.Subscript) and isinstance(s.source.slice, ast.Slice)]
    bases = [ast.unparse(s.source) for s in used if s.source is not None]
    for source in sliced:
        base = ast.unparse(source.value)
        if any(other != ast.unparse(source) and (other == base or other.startswith(f"{base}[")) for other in bases):
            message = f"`{ast.unparse(source)}` is shorter than what it is zipped with; slice both to one length"
            raise Unplannable("slice-bounds", source, message)
