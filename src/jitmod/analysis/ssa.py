"""The body of a loop in SSA form: one value per version of a name, one node per computation.

Expressions that compute on the device are nodes of their own (A-normal form), the rest of a statement is one host node.
Conditions are nodes that the statements below them are guarded by; where branches meet, a merge node chooses.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from jitmod.analysis.effects import Effects
from jitmod.analysis.loops import Loop, Stream
from jitmod.analysis.syntax import loads, stored
from jitmod.analysis.values import Device, Kind, element, item_of
from jitmod.source.nodes import walk
from jitmod.source.project import SourceModule

if TYPE_CHECKING:
    from jitmod.analysis.windows import Window


@dataclass(frozen=True)
class Blocker:
    """Why an expression cannot be traced: a reason code, the node that decides, and a sentence a user can act on."""

    reason: str
    node: ast.AST
    message: str


@dataclass(frozen=True, eq=False)
class Value:
    """One version of a name. `origin`: item, invariant, node (of `maker`), or carried (from the iteration before)."""

    name: str
    origin: str
    kind: Kind
    maker: Node | None = None
    stream: Stream | None = None
    twin: Value | None = None  # the device value that a host number was read from

    @property
    def is_position(self) -> bool:
        """A Python number that counts the items."""
        return self.origin == "item" and self.stream is not None and self.stream.source is None

    @property
    def is_device(self) -> bool:
        """Made by a part of the body that is traced."""
        return self.maker is not None and self.maker.side != "host"


@dataclass(frozen=True)
class Guard:
    """The node that holds it runs only where `condition` is `expected`."""

    condition: Value
    expected: bool


@dataclass(eq=False)
class Node:
    """One computation.

    `expr` is what it evaluates, or None for the rest of `statement`; `whole`: the statement is nothing but `expr`.
    `uses` maps what it reads, by the syntax nodes, to values; `flows` holds what names keep where they are not bound,
    and the two arms between which a merge chooses by `condition`. `parent` is the node in whose expression this one's
    stands. `over`: the inner loop for all rounds of which it evaluates `expr`, and stacks the results. `blocker`: why
    it is never traced. `side` is where the plan puts it: scan, map or host.
    """

    op: str  # device, host, test, or merge
    statement: ast.stmt
    expr: ast.expr | None = None
    targets: tuple[str, ...] = ()
    whole: bool = False
    heavy: bool = False
    parent: Node | None = None
    over: ast.For | None = None
    guards: tuple[Guard, ...] = ()
    condition: Value | None = None
    blocker: Blocker | None = None
    side: str = "host"
    uses: dict[ast.expr, Value] = field(default_factory=dict)
    makes: dict[str, Value] = field(default_factory=dict)
    flows: dict[str, tuple[Value, ...]] = field(default_factory=dict)

    @property
    def root(self) -> ast.AST | None:
        """The syntax that this node evaluates, parts that are nodes of their own included; None for a merge."""
        if self.op == "merge":
            return None
        if self.expr is not None and not self.whole:
            return self.expr
        return self.statement

    def reads(self) -> Iterator[Value]:
        """Every value that the node depends on."""
        yield from self.uses.values()
        for values in self.flows.values():
            yield from values
        for guard in self.guards:
            yield guard.condition
        if self.condition is not None:
            yield self.condition


@dataclass(eq=False)
class Body:
    """A loop body in SSA form.

    `env` holds the last version of every name that is bound; `carried` the values that names have from the iteration
    before, where they are read before they are bound.
    """

    nodes: list[Node] = field(default_factory=list)
    env: dict[str, Value] = field(default_factory=dict)
    entry: dict[str, Value] = field(default_factory=dict)  # carried and invariant values
    item_reads: dict[ast.Subscript, Value] = field(default_factory=dict)  # `xs[i]` → the item of xs
    windows: dict[ast.Subscript, Window] = field(default_factory=dict)  # `xs[i : i + w]`
    spent: list[ast.stmt] = field(default_factory=list)  # host arithmetic whose readers were all windows

    @property
    def carried(self) -> dict[str, Value]:
        return {name: value for name, value in self.entry.items() if value.origin == "carried"}

    def host_nodes(self) -> list[Node]:
        return [n for n in self.nodes if n.side == "host"]

    def device_nodes(self) -> list[Node]:
        return [n for n in self.nodes if n.side != "host"]


@dataclass(eq=False)
class Environment:
    """The names of one iteration while its statements are read in order."""

    loop: Loop
    streams: tuple[Stream, ...]
    effects: Effects
    on_host: frozenset[str] = frozenset()  # names whose statements stay on the host: they feed the next iteration
    becoming: Mapping[str, Kind] = field(default_factory=dict)  # what carried names are after the first iteration
    body: Body = field(default_factory=Body)
    by_expr: dict[ast.expr, Node] = field(default_factory=dict)  # the device expressions seen so far
    unrolled: dict[ast.AST, str] = field(default_factory=dict)  # inner loops that nodes are computed over

    def __post_init__(self) -> None:
        for stream in self.streams:
            self.body.env[stream.name] = Value(stream.name, "item", self.kind_of_item(stream), stream=stream)

    @cached_property
    def written(self) -> frozenset[str]:
        """The names that one iteration binds."""
        names = {name for statement in self.loop.body for name in stored(statement)}
        deleted = [
            n for s in self.loop.body for n in walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Del)
        ]
        return frozenset(names | {n.id for n in deleted})

    @property
    def module(self) -> SourceModule:
        return self.loop.module

    def kind(self, expr: ast.expr) -> Kind:
        return self.effects.inference.kind(expr, self.module)

    def kind_of_item(self, stream: Stream) -> Kind:
        kind = item_of(stream.kind)
        for index in stream.path:
            kind = element(kind, index)
        return kind

    def define(self, name: str, kind: Kind, node: Node, twin: Value | None = None) -> Value:
        value = Value(name, "node", kind, node, twin=twin)
        node.makes[name] = value
        if name:
            self.body.env[name] = value
        return value

    def read(self, name: str, at: ast.AST) -> Value:
        """The value that `name` has here. A name that is written later in the body comes from the item before."""
        if name in self.body.env:
            return self.body.env[name]
        if name not in self.body.entry:
            kind = self.kind(at) if isinstance(at, ast.expr) else Device()
            origin = "carried" if name in self.written else "invariant"
            kind = self.becoming.get(name, kind) if origin == "carried" else kind
            self.body.entry[name] = Value(name, origin, kind)
        return self.body.entry[name]

    def use_names(self, root: ast.AST, node: Node) -> None:
        """Note what `node` reads below `root`, parts that are nodes of their own aside."""
        apart = {n for expr in node.uses for n in walk(expr)}
        for name in loads(root):
            if name not in apart and not self.is_local(name):
                node.uses[name] = self.read(name.id, name)

    def is_local(self, name: ast.Name) -> bool:
        """Bound by a comprehension or lambda inside of the body, or by an inner loop that is unrolled."""
        inner: ast.AST = name
        in_iterable = False
        for parent in self.module.ancestors(name):
            if parent is self.loop.node:
                return False
            is_function = isinstance(parent, ast.Lambda | ast.FunctionDef) and inner is not parent.args  # not a default
            if is_function and name.id in self.module.scopes[parent].bindings:
                return True
            if self.unrolled.get(parent) == name.id and inner is not getattr(parent, "iter", None):
                return True
            if isinstance(parent, ast.comprehension):
                in_iterable = inner is parent.iter
            if isinstance(parent, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
                bound = {n.id for g in parent.generators for n in walk(g.target) if isinstance(n, ast.Name)}
                if name.id in bound and not (in_iterable and inner is parent.generators[0]):
                    return True
                in_iterable = False
            inner = parent
        return False
