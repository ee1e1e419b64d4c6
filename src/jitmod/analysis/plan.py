"""The plan of a loop: which part runs for all items at once, which part stays a Python loop, and what joins them.

Loop distribution after Allen and Kennedy: PRNG key chains are a *scan* piece, pure computation that carries nothing a
*map* piece, the rest a *host* piece that runs afterwards, in its old order, on the values that the map piece emits.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from jitmod.analysis.effects import Effects
from jitmod.analysis.heap import Path, Touch, is_immutable, path_of, touches
from jitmod.analysis.infer import Inference
from jitmod.analysis.jits import Contexts, is_heavy
from jitmod.analysis.loops import LOOPS, Loop, Stream, Trip, Unplannable, check_stackable, streams
from jitmod.analysis.reaching import reaching
from jitmod.analysis.ssa import Body, Builder, Node, Value
from jitmod.analysis.values import Array, Sequence
from jitmod.model import Assumption
from jitmod.source.project import Scope


@dataclass(frozen=True, eq=False)
class Piece:
    """A part of the body that runs on its own: `kind` is scan, map or host."""

    kind: str
    nodes: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Emit:
    """A value of the map piece that is read outside of it. `pulled`: every reader brings it to the host at once."""

    value: Value
    pulled: bool
    readers: tuple[ast.expr, ...]


@dataclass(frozen=True, eq=False)
class Collector:
    """A list filled with one device value per item and by nothing else while the loop runs.

    `init` is the statement `name = []` where nobody else knows the list yet; `folds` are the later `jnp.stack(name)`
    where they are all that ever reads it.
    """

    name: str
    append: Node
    value: Value
    init: ast.stmt | None
    folds: tuple[ast.Call, ...]


@dataclass(frozen=True, eq=False)
class LoopPlan:
    """What becomes of a loop.

    `streams` are those that the map piece reads; `bounded_elsewhere`: another one, in a zip, may end the loop earlier.
    """

    loop: Loop
    body: Body
    pieces: tuple[Piece, ...]
    streams: tuple[Stream, ...]
    trip: Trip
    emits: tuple[Emit, ...]
    collectors: tuple[Collector, ...]
    live_keys: tuple[str, ...]
    bounded_elsewhere: bool
    assumptions: tuple[Assumption, ...]
    heavy: ast.Call

    def piece(self, kind: str) -> tuple[Node, ...]:
        return next((p.nodes for p in self.pieces if p.kind == kind), ())

    @property
    def residue(self) -> tuple[Node, ...]:
        """The host statements that stay in a Python loop."""
        return () if self.collectors else self.piece("host")


def heavy_calls(loop: Loop, effects: Effects) -> list[ast.Call]:
    """The calls of Modules and compiled functions that one iteration makes itself, not in a loop inside of it."""
    module = loop.module
    found = []
    for statement in loop.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and is_heavy(effects.inference.kind(node.func, module), effects):
                inner = next((p for p in module.ancestors(node) if _is_barrier(p)), None)
                found += [node] if inner is loop.node else []
    return sorted(found, key=lambda n: (n.lineno, n.col_offset))


def _is_barrier(node: ast.AST) -> bool:
    return isinstance(node, (*LOOPS, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef))


def plan(loop: Loop, effects: Effects, contexts: Contexts, heavy: ast.Call) -> LoopPlan:
    """Decide a loop. Raises `Unplannable` with the reason where it cannot be distributed safely."""
    infer = effects.inference
    _check_context(loop, contexts)
    found = streams(loop, infer)
    body, scanned = _build(loop, found, effects)
    mapped = body.mapped_nodes()
    if not any(node.heavy for node in mapped):
        raise Unplannable("guarded-work", heavy, f"`{ast.unparse(heavy.func)}` is not reached in every iteration")
    used = _used_streams(mapped, body)
    _check_heap(loop, body, used, effects)
    if not used:
        raise Unplannable("unknown-iterable", heavy, "the call takes nothing from the loop's items")
    for stream in used:
        check_stackable(stream)
    scan = tuple(n for n in mapped if any(n in _makers(body, name) for name in scanned))
    pieces = (
        Piece("scan", scan),
        Piece("map", tuple(n for n in mapped if n not in scan)),
        Piece("host", tuple(body.host_nodes())),
    )
    _check_names(loop, body, infer)
    sources = {ast.unparse(s.source) for s in used if s.source is not None}
    bounded = any(s.limits and (s.source is None or ast.unparse(s.source) not in sources) for s in found)
    collectors = () if bounded else _collectors(loop, body, infer)
    emits = _emits(body, collectors, loop)
    live = _check_live_outs(loop, body, scanned)
    if not emits and not collectors:
        raise Unplannable("unresolved-callee", heavy, f"nothing reads what `{ast.unparse(heavy.func)}` returns")
    _check_clock(loop, body, infer)
    _check_try_around(loop, infer)
    if not collectors or any(c.init is None for c in collectors):
        _check_try_at_calls(loop, infer)
    trip = Trip(tuple(s.source for s in used if s.source is not None), next((s.length for s in used if s.length), None))
    return LoopPlan(
        loop, body, pieces, used, trip, emits, collectors, live, bounded, _assumptions(used), heavy
    )


def _check_context(loop: Loop, contexts: Contexts) -> None:
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


def _build(loop: Loop, found: tuple[Stream, ...], effects: Effects) -> tuple[Body, frozenset[str]]:
    """SSA form; PRNG keys that are only split from iteration to iteration are scanned beforehand."""
    keys = _key_chains(loop, effects.inference)
    if keys:
        try:
            body = Builder(loop, found, effects, keys).build()
            if all(_is_key_chain(body, name, keys) for name in body.carried if name in keys):
                return body, keys & frozenset(body.carried)
        except Unplannable:
            pass  # said again below, in terms of the carry
    return Builder(loop, found, effects).build(), frozenset()


def _key_chains(loop: Loop, infer: Inference) -> frozenset[str]:
    """Names that some `split` in the body both reads and writes."""
    names = set()
    for statement in loop.body:
        match statement:
            case ast.Assign(targets=[target], value=ast.Call() as call):
                if infer.dotted(call.func, loop.module) in ("jax.random.split", "jax.random.fold_in"):
                    stored = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
                    names |= stored & {n.id for n in ast.walk(call) if isinstance(n, ast.Name)}
    return frozenset(names)


def _is_key_chain(body: Body, name: str, keys: frozenset[str]) -> bool:
    """Whether the next key is made from the last one alone, by statements of the body."""
    last = body.env[name]
    if last.maker is None or not last.mappable or not last.maker.whole:
        return False
    return all(v.origin == "invariant" or (v.origin == "carried" and v.name in keys) for v in last.maker.uses.values())


def _makers(body: Body, name: str) -> list[Node]:
    maker = body.env[name].maker
    return [maker] if maker is not None else []


def _used_streams(mapped: list[Node], body: Body) -> tuple[Stream, ...]:
    used: list[Stream] = []
    for node in mapped:
        for name, value in node.uses.items():
            is_index = any(e.slice is name for e in body.item_reads)
            if value.stream is not None and value.stream.source is not None and not is_index:
                used += [value.stream] if value.stream not in used else []
        if node.expr is not None:
            for inner in ast.walk(node.expr):
                if isinstance(inner, ast.Subscript) and inner in body.item_reads:
                    stream = body.item_reads[inner].stream
                    if stream is not None and not any(s.name == stream.name for s in used):
                        used.append(stream)
    return tuple(used)


def _check_names(loop: Loop, body: Body, infer: Inference) -> None:
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


def _check_heap(loop: Loop, body: Body, used: tuple[Stream, ...], effects: Effects) -> None:
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
            if touch.path and touch.hits(read):
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


def _collectors(loop: Loop, body: Body, infer: Inference) -> tuple[Collector, ...]:
    """The lists that the loop fills, where filling lists is all that the host piece does; else nothing."""
    found: list[Collector] = []
    for node in body.host_nodes():
        collector = _collector(loop, node, infer)
        if collector is None or any(c.name == collector.name for c in found):
            return ()
        found.append(collector)
    return tuple(found)


def _collector(loop: Loop, node: Node, infer: Inference) -> Collector | None:
    match node.statement:
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(value=ast.Name(id=name) as receiver, attr="append"), args=[item], keywords=[]
            )
        ):
            value = node.uses.get(item)
            if value is None or not value.mappable or value.origin != "node":
                return None
        case _:
            return None
    scope = infer.scope_binding(name, receiver, loop.module)
    if scope is None or not _is_list(scope, name, infer):
        return None
    init, uses = _fresh(loop, scope, name, receiver)
    folds = tuple(c for u in uses if (c := _fold(u, loop, infer)) is not None)
    whole = init is not None and bool(uses) and len(folds) == len(uses)
    return Collector(name, node, value, init, folds if whole else ())


def _is_list(scope: Scope, name: str, infer: Inference) -> bool:
    """Whether every binding of the name is a list display, comprehension or `list(...)`."""
    for binding in scope.bindings[name]:
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
    uses = [n for n in ast.walk(scope.node) if isinstance(n, ast.Name) and n.id == name and n is not receiver
            and isinstance(n.ctx, ast.Load)]  # fmt: skip
    (first, *others) = scope.bindings[name]
    block = block_of(loop)
    init = first.node
    if others or not isinstance(init, ast.Assign | ast.AnnAssign) or init not in block:
        return None, uses
    start, end = block.index(init), block.index(loop.statement)
    value: ast.expr | None = first.value
    for index in first.path:
        value = value.elts[index] if isinstance(value, ast.Tuple | ast.List) else None
    is_empty = (isinstance(value, ast.List) and not value.elts) or (isinstance(value, ast.Call) and not value.args)
    between = [n for s in block[start + 1 : end] for n in ast.walk(s)]
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


def _emits(body: Body, collectors: tuple[Collector, ...], loop: Loop) -> tuple[Emit, ...]:
    """The values that leave the map piece, in the order in which they are made."""
    if collectors:
        unique = list(dict.fromkeys(c.value for c in collectors))
        return tuple(Emit(v, False, ()) for v in unique)
    readers: dict[Value, list[ast.expr]] = {}
    for node in body.host_nodes():
        for expr, value in node.uses.items():
            if value.origin == "node" and value.mappable:
                readers.setdefault(value, []).append(expr)
    order = [v for n in body.mapped_nodes() for v in n.makes.values() if v in readers]
    return tuple(Emit(v, all(_is_pulled(r, loop) for r in readers[v]), tuple(readers[v])) for v in order)


def _is_pulled(expr: ast.expr, loop: Loop) -> bool:
    """Whether a read only converts the value to a Python or numpy value, so that a host copy does as well."""
    parent = loop.module.parents.get(expr)
    match parent:
        case ast.Call(func=ast.Name(id="float" | "int" | "bool"), args=[only]) if only is expr:
            return True
        case ast.Attribute(attr="item" | "tolist"):
            return isinstance(loop.module.parents.get(parent), ast.Call)
        case ast.If(test=test) if test is expr:
            return True
        case ast.FormattedValue(format_spec=ast.JoinedStr()):
            return True
    return False


_MESSAGE = "a try around it could observe which items were done when an error came"
_CATCHING = ("contextlib.suppress", "pytest.raises", "warnings.catch_warnings", "pytest.warns")


def _check_try_around(loop: Loop, infer: Inference) -> None:
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


def _check_try_at_calls(loop: Loop, infer: Inference) -> None:
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


def _check_clock(loop: Loop, body: Body, infer: Inference) -> None:
    """A loop that reads the clock measures its items one by one."""
    for node in body.host_nodes():
        for call in ast.walk(node.statement):
            name = infer.dotted(call.func, loop.module) if isinstance(call, ast.Call) else None
            if name is not None and name.startswith(("time.", "timeit.", "datetime.")):
                raise Unplannable("timing-loop", call, "the loop reads the clock: it measures single items")


def _check_live_outs(loop: Loop, body: Body, scanned: frozenset[str]) -> tuple[str, ...]:
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


def _assumptions(used: tuple[Stream, ...]) -> tuple[Assumption, ...]:
    found = []
    for stream in used:
        assert stream.source is not None
        written = ast.unparse(stream.source)
        if stream.assumed:
            found.append(Assumption("items-are-arrays", f"`{written}` is an array, or a list or tuple of arrays"))
        if not isinstance(stream.kind, Array) and not (isinstance(stream.kind, Sequence) and stream.kind.uniform):
            found.append(Assumption("items-alike", f"the items of `{written}` have one shape and dtype"))
    if len(used) > 1:
        names = ", ".join(f"`{ast.unparse(s.source)}`" for s in used if s.source is not None)
        found.append(Assumption("same-length", f"{names} have the same length"))
    return tuple(found)


