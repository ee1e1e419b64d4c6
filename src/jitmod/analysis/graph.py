"""The dependence graph of a loop body, and what it says may run apart.

An edge leads from what must come first. It is carried where it leads into the next iteration. Two nodes whose effects
do not commute depend on each other, within an iteration and from one to the next, so they stay together.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from jitmod.analysis.channels import Access, accesses, conflict
from jitmod.analysis.effects import Effects
from jitmod.analysis.heap import Read, Touch, touches
from jitmod.analysis.loops import Loop, Stream, header
from jitmod.analysis.reads import reads_of
from jitmod.analysis.ssa import Body, Node, Value
from jitmod.analysis.values import UNKNOWN


@dataclass(frozen=True, eq=False)
class Edge:
    """`first` must run before `then`; `carried`: before `then` of the next iteration."""

    first: Node
    then: Node
    carried: bool = False


@dataclass(frozen=True, eq=False)
class Clash:
    """A device node reads what a host node may change."""

    device: Node
    host: Node
    read: Read
    touch: Touch


@dataclass(eq=False)
class Graph:
    """What the nodes of one body have to do with each other."""

    loop: Loop
    body: Body
    streams: tuple[Stream, ...]
    effects: Effects
    _accesses: dict[Node, frozenset[Access]] = field(default_factory=dict)

    @cached_property
    def candidates(self) -> frozenset[Node]:
        """The nodes that could be traced, for what they do."""
        return frozenset(n for n in self.body.nodes if n.op == "device" and n.blocker is None)

    def source(self, value: Value) -> tuple[Node | None, bool]:
        """The node that makes a value, and whether it does so one iteration earlier."""
        if value.origin == "carried":
            following = self.body.env.get(value.name)
            return (following.maker if following is not None else None), True
        return value.maker, False

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        found = [Edge(maker, node, carried) for node in self.body.nodes for value in node.reads()
                 for maker, carried in [self.source(value)] if maker is not None]  # fmt: skip
        hosts = [n for n in self.body.nodes if n not in self.candidates and n.op != "merge"]
        for index, first in enumerate(hosts):
            if conflict(self.accesses(first), self.accesses(first)):
                found.append(Edge(first, first, carried=True))
            for then in hosts[index + 1 :]:
                if conflict(self.accesses(first), self.accesses(then)):
                    found += [Edge(first, then), Edge(then, first, carried=True)]
        order = {node: index for index, node in enumerate(self.body.nodes)}
        for clash in self.clashes:
            if clash.host is self.header:
                continue  # no node of the body: a plan that runs the items' iterator elsewhere must ask itself
            first, then = sorted((clash.device, clash.host), key=order.__getitem__)
            found += [Edge(first, then), Edge(then, first, carried=True)]
        return tuple(found)

    def accesses(self, node: Node) -> frozenset[Access]:
        if node not in self._accesses:
            apart = {expr for expr in node.uses if not isinstance(expr, ast.Name)}
            root = node.root
            found = accesses(root, apart, self.loop.module, self.effects) if root is not None else frozenset()
            self._accesses[node] = found
        return self._accesses[node]

    @cached_property
    def clashes(self) -> tuple[Clash, ...]:
        """Device nodes that read what host nodes may change: names say little about identity, so the rule is broad."""
        changed = list(self._touched())
        return tuple(
            Clash(node, host, read, touch)
            for node in self.body.nodes
            if node in self.candidates
            for read in reads_of(node, self.loop, self.effects)
            for host, touch in changed
            if read.path and touch.hits(read)
        )

    @cached_property
    def header(self) -> Node:
        """What takes the next item."""
        return Node("host", self.loop.statement)

    def _touched(self) -> Iterator[tuple[Node, Touch]]:
        for stream in self.streams:
            if stream.source is not None and stream.kind == UNKNOWN:
                what = f"iterating over `{ast.unparse(stream.source)}` may change it"
                yield self.header, Touch("anything", stream.source, what)
        if any(stream.tracked for stream in self.streams):  # a progress bar of the project's own counts, at the least
            for touch in touches(header(self.loop)[1], self.loop.module, self.effects):
                yield self.header, touch
        for node in self.body.nodes:
            root = node.root
            if node not in self.candidates and root is not None:
                apart = {expr for expr in node.uses if not isinstance(expr, ast.Name)}
                for touch in touches(root, self.loop.module, self.effects, apart):
                    yield node, touch

    def components(self, dropped: frozenset[Edge] = frozenset()) -> list[list[Node]]:
        """The strongly connected components without the edges in `dropped`, in topological order."""
        following: dict[Node, list[Node]] = defaultdict(list)
        for edge in self.edges:
            if edge not in dropped:
                following[edge.first].append(edge.then)
        return _strong_components(self.body.nodes, following)


def _strong_components(nodes: Iterable[Node], following: dict[Node, list[Node]]) -> list[list[Node]]:
    """Tarjan's algorithm without recursion; components come in topological order, their nodes in the body's."""
    order = {node: index for index, node in enumerate(nodes)}
    number: dict[Node, int] = {}
    low: dict[Node, int] = {}
    stack: list[Node] = []
    found: list[list[Node]] = []
    for start in order:
        if start in number:
            continue
        work: list[tuple[Node, Iterator[Node]]] = [(start, iter(following[start]))]
        number[start] = low[start] = len(number)
        stack.append(start)
        while work:
            node, successors = work[-1]
            descended = False
            for then in successors:
                if then not in number:
                    number[then] = low[then] = len(number)
                    stack.append(then)
                    work.append((then, iter(following[then])))
                    descended = True
                    break
                if then in stack:
                    low[node] = min(low[node], number[then])
            if descended:
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == number[node]:
                cut = stack.index(node)
                found.append(sorted(stack[cut:], key=order.__getitem__))
                del stack[cut:]
    return found[::-1]
