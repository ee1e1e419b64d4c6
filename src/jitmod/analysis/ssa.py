"""The body of a loop in SSA form: one value per version of a name, one node per statement or device computation.

A value is *mappable* if it depends only on items, on what the loop does not change, and on traceable computation.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property

from jitmod.analysis.effects import Effects
from jitmod.analysis.loops import Loop, Stream
from jitmod.analysis.syntax import loads
from jitmod.analysis.values import Device, Kind, element, item_of
from jitmod.source.project import SourceModule


@dataclass(frozen=True, eq=False)
class Value:
    """One version of a name. `origin`: item, invariant, node (of `maker`), or carried (from the iteration before)."""

    name: str
    origin: str
    kind: Kind
    mappable: bool
    maker: Node | None = None
    stream: Stream | None = None
    twin: Value | None = None  # the device value that a host number was read from


@dataclass(eq=False)
class Node:
    """One computation. `expr` is a device expression, or None for a statement that stays on the host.

    `uses` maps the names that it reads, by their syntax nodes, to values. `whole`: the statement is nothing but `expr`.
    """

    statement: ast.stmt
    expr: ast.expr | None
    targets: tuple[str, ...] = ()
    whole: bool = False
    mappable: bool = False
    heavy: bool = False
    uses: dict[ast.expr, Value] = field(default_factory=dict)
    makes: dict[str, Value] = field(default_factory=dict)
    flows: dict[str, Value] = field(default_factory=dict)  # what names keep where the statement does not bind them


@dataclass(eq=False)
class Body:
    """A loop body in SSA form. `env` holds the last version of every name; `carried` the names that feed themselves."""

    nodes: list[Node] = field(default_factory=list)
    env: dict[str, Value] = field(default_factory=dict)
    carried: dict[str, Value] = field(default_factory=dict)
    item_reads: dict[ast.Subscript, Value] = field(default_factory=dict)  # `xs[i]` → the item of xs

    def host_nodes(self) -> list[Node]:
        return [n for n in self.nodes if not n.mappable]

    def mapped_nodes(self) -> list[Node]:
        return [n for n in self.nodes if n.mappable]


@dataclass(eq=False)
class Environment:
    """The names of one iteration while its statements are read in order."""

    loop: Loop
    streams: tuple[Stream, ...]
    effects: Effects
    scanned: frozenset[str] = frozenset()  # carried names that a scan computes beforehand (PRNG keys)
    on_host: frozenset[str] = frozenset()  # names whose statements stay on the host: they feed the next iteration
    body: Body = field(default_factory=Body)

    def __post_init__(self) -> None:
        for stream in self.streams:
            kind = self.kind_of_item(stream)
            self.body.env[stream.name] = Value(stream.name, "item", kind, stream.source is not None, stream=stream)

    @cached_property
    def written(self) -> frozenset[str]:
        """The names that one iteration binds."""
        nodes = [n for s in self.loop.body for n in ast.walk(s) if isinstance(n, ast.Name)]
        return frozenset(n.id for n in nodes if not isinstance(n.ctx, ast.Load))

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

    def define(self, name: str, kind: Kind, node: Node, twin: Value | None = None) -> None:
        value = Value(name, "node", kind, node.mappable, node, twin=twin)
        node.makes[name] = value
        self.body.env[name] = value

    def read(self, name: str, at: ast.AST) -> Value:
        """The value that `name` has here. A name that is written later in the body comes from the item before."""
        if name in self.body.env:
            return self.body.env[name]
        kind = self.kind(at) if isinstance(at, ast.expr) else Device()
        if name in self.written:
            value = Value(name, "carried", kind, name in self.scanned)
            self.body.carried[name] = value
        else:
            value = Value(name, "invariant", kind, True)
        self.body.env[name] = value
        return value

    def use_names(self, root: ast.AST, node: Node) -> None:
        apart = {n for expr in node.uses for n in ast.walk(expr)}  # inside of parts that are nodes of their own
        for name in loads(root):
            if name not in apart and not self.is_local(name):
                node.uses[name] = self.read(name.id, name)

    def is_local(self, name: ast.Name) -> bool:
        """Bound by a comprehension or lambda inside of the body."""
        inner: ast.AST = name
        for parent in self.module.ancestors(name):
            if parent is self.loop.node:
                return False
            is_function = isinstance(parent, ast.Lambda | ast.FunctionDef) and inner is not parent.args  # not a default
            if is_function and name.id in self.module.scopes[parent].bindings:
                return True
            if isinstance(parent, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
                bound = {n.id for g in parent.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
                if name.id in bound and inner is not parent.generators[0].iter:
                    return True
            inner = parent
        return False
