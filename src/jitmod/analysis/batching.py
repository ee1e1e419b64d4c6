"""Batching: the view of a plan in which a map piece runs first, for all items at once, and host work afterwards.

PRNG key chains are a *scan* piece, pure computation that carries nothing is the *map* piece, the rest is one *host*
piece: the loop that stays, in its old order, on the values that the map piece emits.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from functools import cached_property

from jitmod.analysis.causes import Batchable
from jitmod.analysis.collect import Collector, collectors_of
from jitmod.analysis.effects import Effects
from jitmod.analysis.fold import fold
from jitmod.analysis.graph import Graph
from jitmod.analysis.infer import Inference
from jitmod.analysis.jits import Contexts, is_heavy, jitted_target
from jitmod.analysis.keys import check_nodes
from jitmod.analysis.legality import (
    LiveOuts,
    check_bounds,
    check_clock,
    check_compiled,
    check_context,
    check_header,
    check_keys,
    check_late_readers,
    check_lengths,
    check_names,
    check_results,
    check_try_around,
    check_try_at_calls,
    live_outs,
)
from jitmod.analysis.loops import LOOPS, Loop, Stream, Unplannable, check_stackable, header, is_range
from jitmod.analysis.periods import WHOLE
from jitmod.analysis.plan import LoopPlan, Piece, dependences
from jitmod.analysis.ssa import Body, Node, Value
from jitmod.analysis.syntax import below, between
from jitmod.analysis.values import Array, Instance, Sequence, item_of
from jitmod.analysis.windows import Window, drop_spent
from jitmod.model import Assumption
from jitmod.source.nodes import walk


@dataclass(frozen=True, eq=False)
class Emit:
    """A value of the map piece that is read outside of it. `pulled`: every reader brings it to the host at once."""

    value: Value
    pulled: bool
    readers: tuple[ast.expr, ...]


@dataclass(frozen=True, eq=False)
class BatchPlan(LoopPlan):
    """A plan whose device pieces come before its host piece.

    `items` are the streams that the map piece reads, `positions` those that count the items for it;
    `bounded_elsewhere`: another one, in a zip, may end the loop earlier. `sources` are the iterables of all streams.
    """

    items: tuple[Stream, ...]
    positions: tuple[Stream, ...]
    emits: tuple[Emit, ...]
    collectors: tuple[Collector, ...]
    live_outs: LiveOuts
    bounded_elsewhere: bool
    sources: tuple[ast.expr, ...]
    assumptions: tuple[Assumption, ...]
    heavy: ast.Call

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """The windows of arrays that the map piece reads."""
        inside = {n for node in self.body.device_nodes() if node.expr is not None for n in walk(node.expr)}
        return tuple(w for expr, w in self.body.windows.items() if expr in inside)

    @property
    def keeps_iterable(self) -> bool:
        """Whether the loop over results has to iterate over what the loop iterated over, too."""
        return self.bounded_elsewhere or any(s.tracked for s in self.streams)


def heavy_calls(loop: Loop, effects: Effects) -> list[ast.Call]:
    """The calls of Modules and compiled functions that one iteration makes itself, not in a loop inside of it."""
    module = loop.module
    found = []
    for statement in loop.body:
        for node in walk(statement):
            if isinstance(node, ast.Call) and is_heavy(effects.inference.kind(node.func, module), effects):
                inner = next((p for p in module.ancestors(node) if _is_barrier(p)), None)
                found += [node] if inner is loop.node else []
    return sorted(found, key=lambda n: (n.lineno, n.col_offset))


def is_in_chunks(loop: Loop, heavy: list[ast.Call], effects: Effects) -> bool:
    """Whether a loop hands compiled functions chunks of its items already: `xs[start : start + size]`."""
    try:
        target, iterable = header(loop)
    except Unplannable:
        return False
    match target, iterable:
        case ast.Name(id=start), ast.Call(func=ast.Name(id="range"), args=[_, _, size]):
            step = f"{start} + {ast.unparse(size)}"
            cut = [n for s in loop.body for n in walk(s) if isinstance(n, ast.Subscript)
                   and isinstance(n.slice, ast.Slice) and n.slice.lower is not None and n.slice.upper is not None
                   and (ast.unparse(n.slice.lower), ast.unparse(n.slice.upper)) == (start, step)]  # fmt: skip
            named = {t.id for n in cut if isinstance(p := loop.module.parents[n], ast.Assign)
                     for t in p.targets if isinstance(t, ast.Name)}  # fmt: skip
            given = [v for call in heavy for v in (*call.args, *[k.value for k in call.keywords])]
            handed = any(v in cut or (isinstance(v, ast.Name) and v.id in named) for v in given)
            kinds = [effects.inference.kind(call.func, loop.module) for call in heavy]
            return handed and all(jitted_target(kind, effects.inference)[0] is not None for kind in kinds)
    return False


def _is_barrier(node: ast.AST) -> bool:
    return isinstance(node, (*LOOPS, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef))


def batch(loop: Loop, effects: Effects, contexts: Contexts, heavy: ast.Call) -> BatchPlan:
    """Decide a loop. Raises `Unplannable` with the reason where it cannot be batched safely."""
    infer = effects.inference
    check_compiled(loop, contexts)
    check_context(loop)
    graph, found, live = dependences(loop, effects)
    on_host = frozenset(graph.body.carried) - set(Batchable(graph).chains)
    if on_host:  # what feeds the next iteration on the host is bound there; its computation may still leave
        graph, found, live = dependences(loop, effects, on_host)
    body = graph.body
    chains = _take_sides(graph, loop, infer)
    drop_spent(body, live)
    check_header(loop, body, found, effects)
    check_bounds(loop, effects.inference)
    mapped = body.device_nodes()
    used = used_streams(mapped, body, found)
    for stream in used:
        check_stackable(stream, infer)
    check_lengths(used)
    counted = {v.stream for n in mapped for e, v in n.uses.items() if v.is_position and e not in _item_names(body)}
    positions = tuple(s for s in found if s in counted)
    if not used and not (positions and is_range(header(loop)[1])):
        raise Unplannable("unknown-iterable", heavy, "the call takes nothing from the loop's items")
    scan = tuple(n for n in mapped if n.side == "scan")
    check_keys(loop, body, scan, chains, infer)
    pieces = (Piece("scan", scan), Piece("map", tuple(n for n in mapped if n.side == "map")),
              Piece("host", tuple(body.host_nodes())))  # fmt: skip
    check_names(loop, body, infer)
    check_late_readers(loop, body, chains, infer)
    sources = {ast.unparse(s.source) for s in used if s.source is not None}
    bounded = any(
        s.limits and s not in positions and (s.source is None or ast.unparse(s.source) not in sources) for s in found
    )
    outs = live_outs(body, live, chains, loop)
    stays = bounded or bool(outs.names or outs.targets) or any(s.tracked for s in found)
    collectors = () if stays else collectors_of(loop, body, infer)
    emits = _emits(body, collectors, loop)
    if outs.keys and bounded:
        what = f"`{outs.keys[0]}` is read after a loop that may end before its items do"
        raise Unplannable("prng-order", loop.node, what)
    for name in outs.names:
        if any(name in n.makes for n in body.host_nodes()) or not (emits or collectors):
            message = f"`{name}` is read after the loop, and " + (
                "the loop binds it in two ways"
                if emits or collectors
                else "nothing else is: compute the last one alone"
            )
            raise Unplannable("live-out-unbound", loop.node, message)
    if not emits and not collectors:
        what = f"nothing reads what `{ast.unparse(heavy.func)}` returns: a warm-up or a benchmark"
        raise Unplannable("timing-loop", heavy, what)
    emits = _with_last(emits, body, outs)
    check_results((e.value for e in emits), heavy)
    check_nodes(mapped, loop.module, effects)
    check_clock(loop, body, infer)
    check_try_around(loop, infer)
    if not collectors or any(c.init is None for c in collectors):
        check_try_at_calls(loop, infer)
    iterables = tuple(dict.fromkeys(s.source for s in found if s.source is not None))
    assumed = _assumptions(used, body)
    return BatchPlan(
        loop, found, body, graph, pieces, WHOLE, live,
        used, positions, emits, collectors, outs, bounded, iterables, assumed, heavy,
    )  # fmt: skip


def _take_sides(graph: Graph, loop: Loop, infer: Inference) -> frozenset[str]:
    """Put every node on its side; the names of the scanned keys. Raises `Unplannable` where a heavy call stays."""
    batchable = Batchable(graph)
    heavy = [n for n in graph.body.nodes if n.heavy]
    for node in heavy:
        cause = batchable.cause(node) if node not in batchable.nodes else None
        if cause is not None:
            if cause.reason in ("host-effect", "host-arithmetic"):  # a try would see how far the host work came
                check_try_around(loop, infer)
                check_try_at_calls(loop, infer)
            raise Unplannable(cause.reason, cause.node, cause.message)
    for node in graph.body.nodes:
        for call in _calls_on_host(node, graph):
            message = f"`{ast.unparse(call.func)}` runs only under a condition; batching would run it always"
            raise Unplannable("guarded-work", call, message)
    scanned = {n for chain in batchable.chains.values() for n in chain}
    for node in graph.body.nodes:
        node.side = "host" if node not in batchable.nodes else "scan" if node in scanned else "map"
    fold(graph.body)
    return frozenset(batchable.chains)


def _calls_on_host(node: Node, graph: Graph) -> list[ast.Call]:
    """Heavy calls of a host statement that are no nodes, since they may not be reached in every iteration."""
    if node.op not in ("host", "test") or node.root is None:
        return []
    apart = {expr for expr in node.uses if not isinstance(expr, ast.Name)}
    root = node.root.value if isinstance(node.root, ast.Expr) else node.root
    found = [n for n in below(root, apart) if isinstance(n, ast.Call)]
    infer, module = graph.effects.inference, graph.loop.module
    return [c for c in found if is_heavy(infer.kind(c.func, module), graph.effects)
            and not any(isinstance(p, LOOPS) for p in between(c, root, module))]  # fmt: skip


def _item_names(body: Body) -> set[ast.AST]:
    """The names inside of `xs[i]` that is an item."""
    return {n for read in body.item_reads for n in walk(read)}


def used_streams(mapped: list[Node], body: Body, found: tuple[Stream, ...]) -> tuple[Stream, ...]:
    """The streams that bring items to the nodes in `mapped`, in the loop's order."""
    used: list[Stream] = []
    inside = _item_names(body) - set(body.item_reads)
    for node in mapped:
        for name, value in node.uses.items():
            if value.stream is not None and value.stream.source is not None and name not in inside:
                used += [value.stream] if value.stream not in used else []
        if node.expr is not None:
            for inner in walk(node.expr):
                if isinstance(inner, ast.Subscript) and inner in body.item_reads:
                    stream = body.item_reads[inner].stream
                    if stream is not None and not any(s.name == stream.name for s in used):
                        used.append(stream)
    return tuple(sorted(used, key=lambda s: found.index(s) if s in found else len(found)))


def _emits(body: Body, collectors: tuple[Collector, ...], loop: Loop) -> tuple[Emit, ...]:
    """The values that leave the map piece, in the order in which they are made."""
    if collectors:
        unique = list(dict.fromkeys(c.value for c in collectors))
        return tuple(Emit(v, False, ()) for v in unique)
    readers: dict[Value, list[ast.expr]] = {}
    kept: set[Value] = set()  # read on as they are, where a branch or an inner loop does not bind the name anew
    for node in body.host_nodes():
        for expr, value in node.uses.items():
            if value.is_device:
                readers.setdefault(value, []).append(expr)
        for value in (v for values in node.flows.values() for v in values):
            if value.is_device:
                readers.setdefault(value, [])
                kept.add(value)
    order = [v for n in body.device_nodes() for v in n.makes.values() if v in readers]
    return tuple(Emit(v, v not in kept and all_pulled(readers[v], loop), tuple(readers[v])) for v in order)


def _with_last(emits: tuple[Emit, ...], body: Body, outs: LiveOuts) -> tuple[Emit, ...]:
    """Names of the map piece that are read after the loop leave it too: the loop that stays binds them."""
    last = {body.env[name] for name in outs.names}
    found = [replace(e, pulled=e.pulled and e.value not in last) for e in emits]
    found += [Emit(v, False, ()) for v in last - {e.value for e in emits}]
    order = {v: k for k, v in enumerate(v for n in body.device_nodes() for v in n.makes.values())}
    return tuple(sorted(found, key=lambda e: order[e.value]))


def all_pulled(readers: list[ast.expr], loop: Loop) -> bool:
    """Whether every read brings a value to the host at once, so that a copy on the host does as well."""
    return bool(readers) and all(_is_pulled(r, loop) for r in readers)


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
        case ast.UnaryOp(op=ast.Not()):
            return True
        case ast.BoolOp():
            return _is_pulled(parent, loop)
        case ast.FormattedValue(format_spec=ast.JoinedStr(), conversion=-1):
            return True
    return False


def _assumptions(used: tuple[Stream, ...], body: Body) -> tuple[Assumption, ...]:
    found: list[Assumption] = []
    for stream in used:
        assert stream.source is not None
        written = ast.unparse(stream.source)
        if isinstance(item_of(stream.kind), Instance):
            found.append(Assumption("modules-alike", f"the Modules in `{written}` differ in their arrays alone"))
        elif not isinstance(stream.kind, Array) and not (isinstance(stream.kind, Sequence) and stream.kind.uniform):
            found.append(Assumption("items-alike", f"the items of `{written}` have one shape and dtype"))
    for node in body.device_nodes():
        for part in walk(node.expr) if node.expr is not None else ():
            if isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Name) and part not in body.item_reads:
                index = node.uses.get(part.slice)
                if index is not None and index.twin is None and isinstance(index.kind, Array):
                    found.append(Assumption("integer-index", f"`{part.slice.id}` holds integers, and is no mask"))
    if len(used) > 1:
        names = ", ".join(f"`{ast.unparse(s.source)}`" for s in used if s.source is not None)
        found.append(Assumption("same-length", f"{names} have the same length"))
    return tuple(found)
