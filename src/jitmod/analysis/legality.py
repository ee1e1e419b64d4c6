"""What must hold around a loop for its map piece to run first: context, names, heap, exceptions, live-outs."""

from __future__ import annotations

import ast

from jitmod.analysis.effects import Effects
from jitmod.analysis.heap import Path, Touch, is_immutable, path_of, touches
from jitmod.analysis.infer import Inference
from jitmod.analysis.jits import Contexts
from jitmod.analysis.loops import Loop, Stream, Unplannable
from jitmod.analysis.reaching import reaching
from jitmod.analysis.ssa import Body
from jitmod.analysis.values import Array
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


def check_heap(loop: Loop, body: Body, used: tuple[Stream, ...], effects: Effects) -> None:
    """What the map piece reads must not be changed by the host piece, which will run after it instead of in between."""
    host = [n.statement for n in body.host_nodes()]
    changed = list(touches(host, loop.module, effects))
    reads: list[tuple[Path, ast.AST]] = []
    for node in body.mapped_nodes():
        for name, value in node.uses.items():
            if value.origin == "invariant" and not is_immutable(value.kind, effects):
                reads.append((_longest_path(name, loop), name))
    for stream in used:
        if stream.source is not None and not isinstance(stream.kind, Array):
            reads.append((path_of(stream.source), stream.source))
    for read, _ in reads:
        for touch in changed:
            if read and touch.path and touch.hits(read):
                raise _conflict(read, touch)


def _longest_path(name: ast.expr, loop: Loop) -> Path:
    expr: ast.expr = name
    for parent in loop.module.ancestors(name):
        if not isinstance(parent, ast.Attribute):
            break
        expr = parent
    return path_of(expr)


def _conflict(read: Path, touch: Touch) -> Unplannable:
    written = ".".join(read)
    if len(read) > 1 and read[0] == "self":
        return Unplannable("mutable-self", touch.node, f"`{written}` is read by the computation and {touch.what}")
    return Unplannable("may-alias", touch.node, f"`{written}` is read by the computation while {touch.what}")


_MESSAGE = "a try around it could observe which items were done when an error came"
_CATCHING = ("contextlib.suppress", "pytest.raises", "warnings.catch_warnings", "pytest.warns")


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
                for item in items:
                    call = item.context_expr
                    if isinstance(call, ast.Call) and infer.dotted(call.func, loop.module) in _CATCHING:
                        raise Unplannable("exception-order", node, _MESSAGE)


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


def check_live_outs(loop: Loop, body: Body, scanned: frozenset[str]) -> tuple[str, ...]:
    """Refuse where a name of the map piece is read after the loop; return the scanned keys that are."""
    if isinstance(loop.node, ast.ListComp):
        return ()
    live = _live_outs(loop)
    host = {name for n in body.host_nodes() for name in n.makes}
    for name in sorted(live - host - scanned):
        message = f"`{name}` is read after the loop, and would be unbound there"
        raise Unplannable("live-out-unbound", loop.node, message)
    return tuple(sorted(scanned & live))


def _live_outs(loop: Loop) -> set[str]:
    """The names bound in the loop (targets included) that may be read after it."""
    scope = loop.module.scope_of(loop.node)
    inside = set(ast.walk(loop.node))
    bound = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound = {name for name in bound if name in scope.bindings}
    if scope.parent is None:
        return bound  # at module scope every name can be read by anyone
    everything = {n for n in ast.walk(scope.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    live = {name for name in bound if name in scope.rebinds}
    for use in everything - inside:
        if use.id in bound and loop.module.scope_of(use).find(use.id) is scope:
            live |= {use.id for b in reaching(use.id, use, scope) if b.node in inside}
    return live
