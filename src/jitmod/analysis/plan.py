"""The plan of a loop: loop distribution after Allen and Kennedy, inside of blocks of iterations.

The strongly connected components of the dependence graph are what must stay together. A traced one without a carried
dependence is a *map* piece, a traced one with it a *scan*, everything else a *host* piece that stays a Python loop.
Pieces run one after another, each for all iterations of a block; a block is the whole loop, a period at whose end host
work is due (`if i % 100 == 0: print(loss)`), or a chunk of fixed size.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from jitmod.analysis.build import build
from jitmod.analysis.effects import Effects
from jitmod.analysis.graph import Graph
from jitmod.analysis.legality import check_header, live_names
from jitmod.analysis.loops import Loop, Stream, Trip, Unplannable, streams, trip_of
from jitmod.analysis.periods import WHOLE, Block, periods
from jitmod.analysis.ssa import Body, Environment, Node, Value


@dataclass(frozen=True, eq=False)
class Piece:
    """A part of the body that runs on its own for all iterations of a block: `kind` is scan, map or host."""

    kind: str
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Carry:
    """A name that an iteration takes from the one before: its value at the start, and the one handed on."""

    name: str
    entry: Value
    following: Value


@dataclass(frozen=True, eq=False)
class LoopPlan:
    """What becomes of a loop. `live`: the names that may be read after it."""

    loop: Loop
    streams: tuple[Stream, ...]
    body: Body
    graph: Graph
    pieces: tuple[Piece, ...]
    block: Block
    live: frozenset[str]

    def piece(self, kind: str) -> tuple[Node, ...]:
        """The nodes of every piece of one kind, in the order in which they run."""
        return tuple(n for p in self.pieces if p.kind == kind for n in p.nodes)

    @property
    def trip(self) -> Trip:
        return trip_of(self.streams)

    @property
    def traced(self) -> tuple[Node, ...]:
        """The heavy computations between whose iterations no host work stands."""
        return tuple(n for p in self.pieces if p.kind != "host" for n in p.nodes if n.heavy)

    @property
    def owner(self) -> str | None:
        """The codemod whose loop this is: by the piece in which the first heavy computation sits."""
        kinds = [p.kind for p in self.pieces for n in p.nodes if n.heavy and p.kind != "host"]
        return {"map": "vmapify", "scan": "scanify"}[kinds[0]] if kinds else None


def dependences(
    loop: Loop, effects: Effects, on_host: frozenset[str] = frozenset()
) -> tuple[Graph, tuple[Stream, ...], frozenset[str]]:
    """The body in SSA form and its dependence graph; what binds the names in `on_host` is left to the host.

    Raises `Unplannable` where the loop cannot be followed.
    """
    if isinstance(loop.node, ast.While):
        raise Unplannable("unknown-iterable", loop.node, "a while loop has no items that could be batched")
    found = streams(loop, effects.inference)
    live = live_names(loop)
    body = build(Environment(loop, found, effects, on_host), live)
    return Graph(loop, body, found, effects), found, live


def plan(loop: Loop, effects: Effects) -> LoopPlan:
    """Distribute a loop, over a period where that sets more heavy computations free. Raises `Unplannable`."""
    graph, found, live = dependences(loop, effects)
    blocks = [WHOLE, *periods(graph.body)]
    check_header(loop, graph.body, found, effects)
    plans = [LoopPlan(loop, found, graph.body, graph, _pieces(graph, block), block, live) for block in blocks]
    return max(plans, key=lambda p: len(p.traced))


def _pieces(graph: Graph, block: Block) -> tuple[Piece, ...]:
    components = graph.components(block.dropped(graph.edges))
    kinds = _kinds(graph, components, block)
    return _scheduled(graph, components, kinds, block)


def _kinds(graph: Graph, components: list[list[Node]], block: Block) -> list[str]:
    """Scan, map or host for each component, given in topological order."""
    index = {node: k for k, nodes in enumerate(components) for node in nodes}
    dropped = block.dropped(graph.edges)
    edges = [(index[e.first], index[e.then], e) for e in graph.edges if e not in dropped]
    inner = {k for k, then, edge in edges if k == then and edge.carried}
    traced = [all(node in graph.candidates for node in nodes) for nodes in components]
    before: list[set[int]] = [set() for _ in components]
    after: list[set[int]] = [set() for _ in components]
    for first, then, _ in edges:
        if first != then:
            before[then].add(first)
            after[first].add(then)
    late = [False] * len(components)  # depends on host work: worth tracing only where something heavy comes of it
    for k in range(len(components)):
        late[k] = any(not traced[b] or late[b] for b in before[k])
    wanted = [traced[k] and any(n.heavy for n in nodes) for k, nodes in enumerate(components)]
    for k in reversed(range(len(components))):
        wanted[k] = wanted[k] or (traced[k] and any(wanted[a] for a in after[k]))
    stays = [traced[k] and (wanted[k] or not late[k]) for k in range(len(components))]
    return [("scan" if k in inner else "map") if stays[k] else "host" for k in range(len(components))]


def _scheduled(graph: Graph, components: list[list[Node]], kinds: list[str], block: Block) -> tuple[Piece, ...]:
    """Components in an order that keeps every dependence, traced ones first, neighbours of one kind as one piece.

    A map reads nothing of its own from the iteration before: what does so comes after it. Light maps fed by a scan join
    its body.
    """
    index = {node: k for k, nodes in enumerate(components) for node in nodes}
    dropped = block.dropped(graph.edges)
    waits: list[set[int]] = [set() for _ in components]
    delayed: list[set[int]] = [set() for _ in components]
    for edge in graph.edges:
        first, then = index[edge.first], index[edge.then]
        if edge not in dropped and first != then:
            waits[then].add(first)
            if edge.carried:
                delayed[then].add(first)
    order = {node: k for k, node in enumerate(graph.body.nodes)}
    left, done = set(range(len(components))), set[int]()
    groups: list[tuple[str, list[int]]] = []
    while left:
        last, members = groups[-1] if groups else ("", [])

        def joins(k: int, last: str = last, members: list[int] = members) -> bool:
            light = kinds[k] == "map" and last == "scan" and not any(n.heavy for n in components[k])
            return light or (kinds[k] == last and not (last == "map" and delayed[k] & set(members)))

        ready = [k for k in left if waits[k] <= done]
        pick = min(ready, key=lambda k: (kinds[k] == "host", not joins(k), kinds[k] == "map", k))
        if joins(pick):
            members.append(pick)
        else:
            groups.append((kinds[pick], [pick]))
        done.add(pick)
        left.discard(pick)
    return tuple(
        Piece(kind, tuple(sorted((n for k in members for n in components[k]), key=order.__getitem__)))
        for kind, members in groups
    )
