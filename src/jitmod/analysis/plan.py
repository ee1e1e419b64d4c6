"""The plan of a loop: which part runs for all items at once, which part stays a Python loop, and what joins them.

Loop distribution after Allen and Kennedy: PRNG key chains are a *scan* piece, pure computation that carries nothing a
*map* piece, the rest a *host* piece that runs afterwards, in its old order, on the values that the map piece emits.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from jitmod.analysis.build import build
from jitmod.analysis.collect import Collector, collectors_of
from jitmod.analysis.effects import Effects
from jitmod.analysis.infer import Inference
from jitmod.analysis.jits import Contexts, is_heavy
from jitmod.analysis.legality import (
    check_clock,
    check_context,
    check_heap,
    check_keys,
    check_lengths,
    check_live_outs,
    check_names,
    check_results,
    check_try_around,
    check_try_at_calls,
)
from jitmod.analysis.loops import LOOPS, Loop, Stream, Unplannable, check_stackable, streams
from jitmod.analysis.ssa import Body, Environment, Node, Value
from jitmod.analysis.syntax import calls, stored
from jitmod.analysis.values import Array, Sequence
from jitmod.model import Assumption


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
class LoopPlan:
    """What becomes of a loop.

    `streams` are those that the map piece reads; `bounded_elsewhere`: another one, in a zip, may end the loop earlier.
    `sources` are the iterables of all streams, as written.
    """

    loop: Loop
    body: Body
    pieces: tuple[Piece, ...]
    streams: tuple[Stream, ...]
    emits: tuple[Emit, ...]
    collectors: tuple[Collector, ...]
    live_keys: tuple[str, ...]
    bounded_elsewhere: bool
    sources: tuple[ast.expr, ...]
    assumptions: tuple[Assumption, ...]
    heavy: ast.Call

    def piece(self, kind: str) -> tuple[Node, ...]:
        return next((p.nodes for p in self.pieces if p.kind == kind), ())


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
    check_context(loop, contexts)
    found = streams(loop, infer)
    try:
        body, scanned = _build(loop, found, effects)
    except Unplannable as why:
        if why.reason in ("host-effect", "host-arithmetic"):  # a try would see how far the host work came
            check_try_around(loop, infer)
            check_try_at_calls(loop, infer)
        raise
    mapped = body.mapped_nodes()
    if not any(node.heavy for node in mapped):
        raise Unplannable("guarded-work", heavy, f"`{ast.unparse(heavy.func)}` is not reached in every iteration")
    used = _used_streams(mapped, body)
    for stream in used:
        check_stackable(stream)
    check_heap(loop, body, found, used, effects)
    if not used:
        raise Unplannable("unknown-iterable", heavy, "the call takes nothing from the loop's items")
    check_lengths(used)
    chains = [_key_chain(body, name, scanned) or set() for name in scanned]
    scan = tuple(n for n in mapped if any(n in chain for chain in chains))
    check_keys(loop, body, scan, scanned, infer)
    pieces = (
        Piece("scan", scan),
        Piece("map", tuple(n for n in mapped if n not in scan)),
        Piece("host", tuple(body.host_nodes())),
    )
    check_names(loop, body, infer)
    sources = {ast.unparse(s.source) for s in used if s.source is not None}
    bounded = any(s.limits and (s.source is None or ast.unparse(s.source) not in sources) for s in found)
    collectors = () if bounded else collectors_of(loop, body, infer)
    emits = _emits(body, collectors, loop)
    check_results((e.value for e in emits), heavy)
    live = check_live_outs(loop, body, scanned, infer)
    if live and bounded:
        raise Unplannable("prng-order", loop.node, f"`{live[0]}` is read after a loop that may end before its items do")
    if not emits and not collectors:
        what = f"nothing reads what `{ast.unparse(heavy.func)}` returns: a warm-up or a benchmark"
        raise Unplannable("timing-loop", heavy, what)
    check_clock(loop, body, infer)
    check_try_around(loop, infer)
    if not collectors or any(c.init is None for c in collectors):
        check_try_at_calls(loop, infer)
    iterables = tuple(dict.fromkeys(s.source for s in found if s.source is not None))
    return LoopPlan(
        loop, body, pieces, used, emits, collectors, live, bounded, iterables, _assumptions(used, body), heavy
    )


def _build(loop: Loop, found: tuple[Stream, ...], effects: Effects) -> tuple[Body, frozenset[str]]:
    """SSA form; PRNG keys that are only split from iteration to iteration are scanned beforehand."""
    keys = _key_chains(loop, effects.inference)
    if keys:
        try:
            body = _build_twice(loop, found, effects, keys)
            if all(_key_chain(body, name, keys) for name in body.carried if name in keys):
                return body, keys & frozenset(body.carried)
        except Unplannable:
            pass  # said again below, in terms of the carry
    return _build_twice(loop, found, effects, frozenset()), frozenset()


def _build_twice(loop: Loop, found: tuple[Stream, ...], effects: Effects, keys: frozenset[str]) -> Body:
    """What feeds the next iteration is known only at the end; the second time its statements stay on the host."""
    first = build(Environment(loop, found, effects, keys))
    carried = frozenset(first.carried) - keys
    return build(Environment(loop, found, effects, keys, carried)) if carried else first


def _key_chains(loop: Loop, infer: Inference) -> frozenset[str]:
    """Names that go into a `split` or `fold_in` of the body and are bound by it, or by what it makes."""
    split: set[str] = set()
    bound: set[str] = set()
    for statement in loop.body:
        bound |= set(stored(statement))
        for call in calls(statement):
            if infer.dotted(call.func, loop.module) in ("jax.random.split", "jax.random.fold_in") and call.args:
                split |= {n.id for n in ast.walk(call.args[0]) if isinstance(n, ast.Name)}
    return frozenset(split & bound)


def _key_chain(body: Body, name: str, keys: frozenset[str]) -> set[Node] | None:
    """The statements that make the next key, where they read nothing but keys and what does not change."""
    chain: set[Node] = set()
    todo = [body.env[name]]
    while todo:
        value = todo.pop()
        if value.origin == "invariant" or (value.origin == "carried" and value.name in keys):
            continue
        if value.maker is None or not value.mappable or not value.maker.whole or value.maker.heavy:
            return None
        if value.maker not in chain:
            chain.add(value.maker)
            todo += value.maker.uses.values()
    return chain or None


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
        for value in node.flows.values():
            if value.origin == "node" and value.mappable:
                readers.setdefault(value, [])
    order = [v for n in body.mapped_nodes() for v in n.makes.values() if v in readers]
    return tuple(Emit(v, _all_pulled(readers[v], loop), tuple(readers[v])) for v in order)


def _all_pulled(readers: list[ast.expr], loop: Loop) -> bool:
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
        case ast.FormattedValue(format_spec=ast.JoinedStr(), conversion=-1):
            return True
    return False


def _assumptions(used: tuple[Stream, ...], body: Body) -> tuple[Assumption, ...]:
    found: list[Assumption] = []
    for stream in used:
        assert stream.source is not None
        written = ast.unparse(stream.source)
        if not isinstance(stream.kind, Array) and not (isinstance(stream.kind, Sequence) and stream.kind.uniform):
            found.append(Assumption("items-alike", f"the items of `{written}` have one shape and dtype"))
    for node in body.mapped_nodes():
        for part in ast.walk(node.expr) if node.expr is not None else ():
            if isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Name) and part not in body.item_reads:
                index = node.uses.get(part.slice)
                if index is not None and index.twin is None and isinstance(index.kind, Array):
                    found.append(Assumption("integer-index", f"`{part.slice.id}` holds integers, and is no mask"))
    if len(used) > 1:
        names = ", ".join(f"`{ast.unparse(s.source)}`" for s in used if s.source is not None)
        found.append(Assumption("same-length", f"{names} have the same length"))
    return tuple(found)


