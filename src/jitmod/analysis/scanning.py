"""Scanning: the view of a plan in which one scan runs first, for all iterations of a block, and host work afterwards.

The scan takes every device computation that depends on items, on the scan itself one iteration earlier, and on what the
loop does not change. What is left is one *host* piece, on values that the scan hands out: of every iteration, or the
last ones of a block where the host has work only at the end of one.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, replace

from jitmod.analysis.appends import Append, appends_of
from jitmod.analysis.batching import BatchPlan, Emit, all_pulled, used_streams
from jitmod.analysis.carries import begins_weakly, check_carry, check_likely_bugs, is_added_to
from jitmod.analysis.effects import Effects
from jitmod.analysis.fold import fold
from jitmod.analysis.graph import Graph
from jitmod.analysis.keys import check_nodes
from jitmod.analysis.legality import (
    LiveOuts,
    check_bounds,
    check_clock,
    check_context,
    check_header,
    check_late_readers,
    check_lengths,
    check_names,
    check_try_around,
    check_try_at_calls,
    is_rebound_elsewhere,
    live_names,
)
from jitmod.analysis.loops import Loop, Stream, Unplannable, check_stackable, header, trip_of
from jitmod.analysis.numeric import FLOATS, Numeric
from jitmod.analysis.periods import WHOLE, Block, periods
from jitmod.analysis.plan import Carry, Piece
from jitmod.analysis.scan_checks import (
    check_beginnings,
    check_count,
    check_ends,
    check_exits,
    check_outputs,
    check_range,
    check_sources,
)
from jitmod.analysis.scannable import Scannable, stepwise, written_before
from jitmod.analysis.ssa import Body, Node, Value
from jitmod.analysis.values import Array, Instance, Number, Sequence, item_of
from jitmod.model import Assumption
from jitmod.source.nodes import walk

# where these do not appear, a weakly typed number and an array of its type give the same
_PRECISIONS = (b"float16", b"float64", b"float8", b"half", b"bf16", b"fp16", b"x64", b"double")
FEWEST = 8  # steps below which a scan is not worth it


@dataclass(frozen=True, eq=False)
class ScanPlan(BatchPlan):
    """A plan whose scan comes before its host piece.

    `carry` goes from step to step, in the order in which the body first reads it; `handed` are the names of it that are
    read outside of the scan, `lasts` the other values of which the last is. `due` is the host work at the end of a
    block, `steady` that of every iteration, and `appends` the lists that the scan's results fill. `strict` are carried
    names that begin as Python numbers and meet other values than those that are added to them. `feeds` are the numbers
    that the `feeders`, host arithmetic that runs first, make for every step. `leads`: the host work of a block comes
    before its steps. `opens`: it is that of the first step of a block, and needs nothing of the state, so that it may
    come after all of them.
    """

    carry: tuple[Carry, ...]
    handed: tuple[str, ...]
    lasts: tuple[Value, ...]
    due: tuple[Node, ...]
    steady: tuple[Node, ...]
    appends: tuple[Append, ...]
    strict: tuple[str, ...]
    feeds: tuple[Value, ...]
    feeders: tuple[Node, ...]
    leads: bool
    opens: bool


def scanned(loop: Loop, effects: Effects) -> ScanPlan | None:
    """Decide a loop with a carried state; None where its heavy calls need none of it, so that batching is better.

    Raises `Unplannable` with the reason where it cannot be scanned safely.
    """
    infer = effects.inference
    check_context(loop)
    check_exits(loop)
    graph = stepwise(loop, effects)
    body, found, live = graph.body, graph.streams, live_names(loop)
    check_likely_bugs(loop, effects)
    block = _block(graph)
    scannable = _take_sides(graph, block)
    if _is_batched(body.device_nodes(), scannable):
        return None
    fold(body)
    device = body.device_nodes()
    carry = _carry(body, device)
    if not any(v is c.entry for n in device for v in n.reads() for c in carry):
        raise Unplannable("host-effect", loop.node, "what one step hands to the next is made on the host")
    check_header(loop, body, found, effects)
    check_bounds(loop, effects.inference)
    check_count(loop)
    check_ends(found, used_streams(graph.body.device_nodes(), body, found), loop)
    if any(s.tracked for s in found):
        raise Unplannable("host-effect", loop.node, "the progress bar would stand still while a scan runs")
    used = used_streams(device, body, found)
    for stream in used:
        check_stackable(stream, infer)
    check_lengths(used)
    item_names = {n for read in body.item_reads for n in walk(read)}
    counted = {v.stream for n in device for e, v in n.uses.items() if v.is_position and e not in item_names}
    if counted:
        check_range(loop)
    names = frozenset(c.name for c in carry)
    check_names(loop, body, infer)
    check_late_readers(loop, body, names, infer)
    check_carry(carry, device, loop, effects)
    check_nodes(device, loop.module, effects)
    feeds, feeders = _feeds(device, scannable, block, loop)
    entries = frozenset(c.entry for c in carry)
    due, steady, appends = _host_work(loop, graph, block, feeders, entries)
    leads = _leads(body, block, due, steady, entries)
    if block.kind != "whole":
        check_sources(used, loop)
    alive = {body.env[n] for n in live if n in body.env}
    kept = alive & {c.following for c in carry}
    opens = not leads and not steady and _opens(body, block, due, appends, used, entries | kept)
    emits = _emits(body, appends, (*steady, *due) if steady or opens else (), kept, entries, loop)
    outside = alive | {v for n in (() if steady else due) for v in n.reads() if v.is_device}
    check_beginnings(emits, loop, effects)
    lasts = _lasts(body, names, outside, due)
    lasts = tuple(v for v in lasts if v in alive) if opens else lasts
    handed = tuple(c.name for c in carry if block.kind != "whole" or c.following in outside)
    check_outputs(emits, lasts, appends, loop)
    check_clock(loop, body, infer)
    check_try_around(loop, infer)
    if body.host_nodes():
        check_try_at_calls(loop, infer)
    if trip_of(found).count is not None and (trip_of(found).count or 0) < FEWEST:
        raise Unplannable("too-few-steps", loop.node, f"the loop has {trip_of(found).count} steps; a scan costs more")
    targets = frozenset(n for n in live if n in body.env and body.env[n].origin == "item")
    pieces = (Piece("scan", tuple(device)), Piece("host", tuple(body.host_nodes())))
    return ScanPlan(
        loop, found, body, graph, pieces, block, live,
        used, tuple(s for s in found if s in counted), emits, (), LiveOuts(targets=targets), False, (),
        _assumptions(used), _anchor(device), carry, handed, lasts, due, steady, appends,
        _strict(carry, device, loop, effects), feeds, feeders, leads, opens,
    )  # fmt: skip


def _block(graph: Graph) -> Block:
    """The period at whose end host work is due, with every other one whose work is due at ends of it too; or WHOLE."""
    found = [p for p in periods(graph.body, _count(graph))
             if (not isinstance(p.size, int) or p.phase >= 0) and not _may_move(p, graph)]  # fmt: skip
    if not found:
        return WHOLE
    fixed = [p for p in found if isinstance(p.size, int) and p.size > 1]
    if not fixed:
        return found[0]
    least = min(fixed, key=lambda p: int(str(p.size)))
    size = int(str(least.size))
    due, steady, at_last = set(least.due), set(least.steady), least.at_last
    for other in fixed:
        if int(str(other.size)) % size == 0 and other.phase % size == least.phase % size:
            due |= other.due
            steady |= other.steady
            at_last = at_last or other.at_last
    return replace(least, due=frozenset(due), steady=frozenset(steady), at_last=at_last)


def _may_move(block: Block, graph: Graph) -> bool:
    """Whether the condition of a period reads a name that other code may bind anew while the loop runs."""
    infer, module = graph.effects.inference, graph.loop.module
    names = [n for n in walk(block.test.expr) if isinstance(n, ast.Name)] if block.test and block.test.expr else []
    scopes = [(infer.scope_binding(n.id, n, module), n.id) for n in names]
    return any(scope is not None and is_rebound_elsewhere(scope, name) for scope, name in scopes)


def _count(graph: Graph) -> str | None:
    """The text of the number of iterations, where the header tells it."""
    match header(graph.loop)[1]:
        case ast.Call(func=ast.Name(id="range"), args=[stop]):
            return ast.unparse(stop)
    sources = {ast.unparse(s.source) for s in graph.streams if s.source is not None and s.limits}
    return f"len({sources.pop()})" if len(sources) == 1 else None


def _take_sides(graph: Graph, block: Block) -> Scannable:
    """Put every node into the scan or on the host. Raises `Unplannable` where a step stays on the host."""
    scannable = Scannable(graph, block=block)
    body = graph.body
    following = {body.env[name].maker for name in body.carried if name in body.env}
    for node in body.nodes:
        wanted = node.op == "device" and (node.heavy or node in following) and node not in block.due
        cause = scannable.root(node) if wanted and node not in scannable.nodes else None
        if cause is not None:
            raise Unplannable(cause.reason, cause.node, cause.message)
    for node in body.nodes:
        node.side = "scan" if node in scannable.nodes else "host"
    return scannable


def _is_batched(device: list[Node], scannable: Scannable) -> bool:
    """Whether there are heavy calls, and none depends on the step before, PRNG keys aside."""
    depends: set[Node] = set()
    for node in device:
        carried = any(v.origin == "carried" and v.name not in scannable.chains for v in node.reads())
        if carried or any(v.maker in depends for v in node.reads()):
            depends.add(node)
    heavy = [n for n in device if n.heavy]
    return bool(heavy) and not depends & set(heavy)


def _carry(body: Body, device: list[Node]) -> tuple[Carry, ...]:
    """What the scan takes from the step before, and what the host reads of that. A name that is only read after the
    loop is none.
    """
    read = [v.name for n in (*device, *body.host_nodes()) for v in n.reads() if v.origin == "carried"]
    return tuple(
        Carry(name, body.entry[name], body.env[name])
        for name in dict.fromkeys(read)
        if body.env[name].is_device or body.env[name].origin == "item"
    )


def _feeds(
    device: list[Node], scannable: Scannable, block: Block, loop: Loop
) -> tuple[tuple[Value, ...], tuple[Node, ...]]:
    """The numbers of every step that the scan takes from host arithmetic, and the nodes that make them."""
    found = tuple(dict.fromkeys(v for n in device for v in n.uses.values() if scannable.is_fed(v)))
    if not found:
        return (), ()
    if block.kind != "whole" or len({v.name for v in found}) < len(found):
        at = next(n.statement for n in device if set(n.uses.values()) & set(found))
        raise Unplannable("host-arithmetic", at, f"`{found[0].name}` feeds the computation and is computed on the host")
    numeric, effects = Numeric(scannable.graph.effects.inference, types=FLOATS), scannable.graph.effects
    for node in device:
        for expr, value in node.uses.items():
            begun = written_before(value.name, loop, effects) if value.origin == "carried" else Number("float")
            if value in found and not (begun == Number("float") and numeric.holds(expr, loop.module)):
                what = f"`{value.name}` is computed on the host and may be an integer, which an array of floats is not"
                raise Unplannable("host-arithmetic", expr, what)
    body, needed = scannable.graph.body, set[Node]()
    todo = list(found)
    while todo:
        maker, _ = scannable.graph.source(todo.pop())
        if maker is not None and maker not in needed:
            needed.add(maker)
            todo += maker.reads()
    return found, tuple(n for n in body.nodes if n in needed)


def _host_work(
    loop: Loop, graph: Graph, block: Block, feeders: tuple[Node, ...], entries: frozenset[Value]
) -> tuple[tuple[Node, ...], tuple[Node, ...], tuple[Append, ...]]:
    """The host work at the end of a block, that of every iteration, and the lists that are filled."""
    hosts = graph.body.host_nodes()
    due = [n for n in hosts if n in block.due]
    tests = {g.condition.maker for n in due for g in n.guards}
    appends = appends_of(loop, graph.body, entries, graph.effects.inference)
    others = {*due, *tests, *feeders}
    if any(n not in others and all(n is not a.node for a in appends) for n in hosts) or due:
        appends = tuple(a for a in appends if a.fresh)  # host work may know another one by another name
    if block.kind != "whole":
        appends = tuple(replace(a, folds=()) for a in appends)  # every block adds to the list
    steady = tuple(n for n in hosts if n not in others and all(n is not a.node for a in appends))
    read = Counter(v for n in (*steady, *due) for v in n.reads()) + Counter(a.value for a in appends)
    appends = tuple(replace(a, folds=()) if a.seeded and read[a.value] > 1 else a for a in appends)
    for node in steady:
        for value in node.reads():
            if graph.source(value)[0] in feeders:
                message = f"`{value.name}` is read by the computation and by other host work"
                raise Unplannable("host-arithmetic", node.statement, message)
    return tuple(due), steady, appends


def _emits(
    body: Body,
    appends: tuple[Append, ...],
    hosts: tuple[Node, ...],
    alive: set[Value],
    entries: frozenset[Value],
    loop: Loop,
) -> tuple[Emit, ...]:
    """The values of every step that leave the scan, in the order in which they are made.

    What is also read as it is, or `alive` after the loop, stays on the device.
    """
    readers: dict[Value, list[ast.expr]] = {a.value: [] for a in appends}
    kept = set(alive)
    for node in hosts:
        for expr, value in node.uses.items():
            if value.is_device or value in entries:
                readers.setdefault(value, []).append(expr)
        for value in (v for values in node.flows.values() for v in values if v.is_device or v in entries):
            readers.setdefault(value, [])
            kept.add(value)
    order = [v for v in body.entry.values() if v in readers]
    order += [v for n in body.device_nodes() for v in n.makes.values() if v in readers]
    return tuple(Emit(v, v not in kept and all_pulled(readers[v], loop), tuple(readers[v])) for v in order)


def _lasts(body: Body, carried: frozenset[str], outside: set[Value], due: tuple[Node, ...]) -> tuple[Value, ...]:
    """The values that are read after the last step of a block, but are no carry."""
    found = [v for n in body.device_nodes() for v in n.makes.values() if v in outside]
    for value in found:
        if body.env.get(value.name) is not value:
            at = next((n.statement for n in due if value in n.reads()), body.nodes[0].statement)
            message = f"`{value.name or ast.unparse(at)}` is bound anew before the step ends"
            raise Unplannable("unknown-result", at, message)
    return tuple(v for v in found if v.name not in carried)


def _leads(
    body: Body, block: Block, due: tuple[Node, ...], steady: tuple[Node, ...], entries: frozenset[Value]
) -> bool:
    """Whether the host work of a block comes before its steps, since it reads what they begin with.

    Raises `Unplannable` where it reads both.
    """
    read = [(n, v) for n in due for v in n.reads()]
    first = next((n for n, v in read if v in entries), None)
    if first is None:
        return False
    changed = {v.name for n in body.device_nodes() for v in n.reads() if v.origin == "carried"} & block.steady
    if steady or changed or block.at_last or any(v.is_device for _, v in read):
        message = "host work reads what a step begins with, and other work what it makes"
        raise Unplannable("carried-state", first.statement, message)
    return True


def _opens(
    body: Body, block: Block, due: tuple[Node, ...], appends: tuple[Append, ...], used: tuple[Stream, ...],
    states: Set[Value],
) -> bool:  # fmt: skip
    """Whether host work that is due after the first step of a block reads nothing that later steps change."""
    if not due or not isinstance(block.size, int) or block.size < FEWEST or block.phase % block.size != 0:
        return False
    if block.at_last:
        return False
    read = {v for n in due for v in n.reads()}
    changed = {v.name for n in body.device_nodes() for v in n.reads() if v.origin == "carried"} & block.steady
    mentioned = {e.id for n in due for e in walk(n.statement) if isinstance(e, ast.Name)}
    following = {body.env[name] for name in body.carried if name in body.env and body.env[name].is_device}
    items = {v.stream for v in read if v.origin == "item"}
    return (
        not read & (states | following)
        and not changed
        and not mentioned & {a.name for a in appends}
        and all(s is not None and s.source is None for s in items)
    )


def _strict(carry: tuple[Carry, ...], device: list[Node], loop: Loop, effects: Effects) -> tuple[str, ...]:
    if not any(word in d.source for d in effects.inference.project.documents.values() for word in _PRECISIONS):
        return ()
    begun = [(c, written_before(c.name, loop, effects)) for c in carry]
    numbers = [c for c, kind in begun if isinstance(kind, Number) and kind.type != "bool"]
    numbers += [c for c, _ in begun if begins_weakly(c, loop, effects)]
    return tuple(c.name for c in numbers if not is_added_to(c, device, loop))


def _assumptions(used: tuple[Stream, ...]) -> tuple[Assumption, ...]:
    found = [Assumption("carry-type", "what a step hands on has the structure, shapes and dtypes that it was given")]
    for stream in used:
        written = ast.unparse(stream.source) if stream.source is not None else stream.name
        if isinstance(item_of(stream.kind), Instance):
            found.append(Assumption("modules-alike", f"the Modules in `{written}` differ in their arrays alone"))
        elif not isinstance(stream.kind, Array) and not (isinstance(stream.kind, Sequence) and stream.kind.uniform):
            found.append(Assumption("items-alike", f"the items of `{written}` have one shape and dtype"))
    if len(used) > 1:
        names = ", ".join(f"`{ast.unparse(s.source)}`" for s in used if s.source is not None)
        found.append(Assumption("same-length", f"{names} have the same length"))
    return tuple(found)


def _anchor(device: list[Node]) -> ast.Call:
    """The call that names the scan: the first heavy one, or any."""
    nodes = sorted(device, key=lambda n: not n.heavy)
    calls = [c for n in nodes if n.expr is not None for c in walk(n.expr) if isinstance(c, ast.Call)]
    nothing = ast.Call(ast.Name("step", ast.Load()), [], [])
    return calls[0] if calls else nothing
