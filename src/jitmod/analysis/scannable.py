"""Which nodes of a loop body one scan can run, step by step, before any host work: the judgements that a scan needs."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from jitmod.analysis import library
from jitmod.analysis.arguments import Arguments
from jitmod.analysis.build import build
from jitmod.analysis.causes import Batchable
from jitmod.analysis.effects import Effects
from jitmod.analysis.graph import Graph
from jitmod.analysis.hazards import Hazard
from jitmod.analysis.infer import Inference
from jitmod.analysis.legality import live_names
from jitmod.analysis.loops import Loop, header, is_range, rows_of, streams
from jitmod.analysis.periods import WHOLE, Block
from jitmod.analysis.reaching import reaching
from jitmod.analysis.scalars import Need, Scalars
from jitmod.analysis.ssa import Blocker, Environment, Node, Value
from jitmod.analysis.traceable import Traceable
from jitmod.analysis.values import (
    UNKNOWN,
    Array,
    Instance,
    Kind,
    NdArray,
    Number,
    Record,
    Transformed,
    is_device,
    joined,
)
from jitmod.source.nodes import walk
from jitmod.source.scopes import Binding

# a function that is compiled already is traced as it is: only what it would freeze, or do besides, counts
_OF_COMPILED = frozenset({"host-effect", "rebound-global", "late-binding", "mutable-self"})


class Stepwise(Traceable):
    """Judges expressions that run under a trace, one iteration after another."""

    unrolls: ClassVar[bool] = False

    def hazards(self, call: ast.Call) -> tuple[Hazard, ...]:
        """Why what a call calls must not be traced; what only batching would change is none."""
        found = tuple(h for h in super().hazards(call) if h.when == "traced")
        if is_compiled(self.env.kind(call.func)):
            return tuple(h for h in found if h.reason in _OF_COMPILED)
        return found

    def on_device(self, expr: ast.expr) -> bool:
        """Whether an expression computes on the device: also one whose result holds arrays, whatever holds them."""
        made = isinstance(expr, ast.Call) and holds_arrays(self.env.kind(expr), self.env.effects.inference)
        return made or super().on_device(expr)

    def item_read(self, expr: ast.Subscript) -> Value | None:
        """`xs[t]` over `range(xs.shape[0])`; in a Module what has a shape is an array."""
        found = super().item_read(expr)
        if found is None or found.stream is None or found.stream.kind != UNKNOWN:
            return found
        stream = replace(found.stream, kind=Array())
        return replace(found, kind=Array(), stream=stream)

    def counted(self) -> set[str]:
        """The sources whose length is the trip count by construction."""
        found = super().counted()
        function, classes = self.env.loop.function, self.env.effects.inference.classes
        if function is not None and function.owner is not None and classes.is_module(function.owner):
            match header(self.env.loop)[1]:
                case ast.Call(func=ast.Name(id="range"), args=[length]) if (array := rows_of(length)) is not None:
                    found |= {ast.unparse(array)} if self.env.kind(array) == UNKNOWN else set()
        return found

    def window(self, expr: ast.Subscript) -> None:
        """A scan has no way to write windows."""

    def subscript_blocker(self, expr: ast.Subscript) -> Blocker | None:
        """Why an element cannot be taken under a trace: rows of an array by the loop's position can."""
        if self.item_read(expr) is None and isinstance(self.env.kind(expr.value), Array) and self._is_position(expr):
            return self.blocker(expr.value)
        return super().subscript_blocker(expr)

    def _is_position(self, expr: ast.Subscript) -> bool:
        return is_row(expr) and any(
            self.env.read(n.id, n).is_position
            for n in walk(expr.slice)
            if isinstance(n, ast.Name) and not self.env.is_local(n)
        )


def is_compiled(kind: Kind) -> bool:
    """Whether a callable is the result of a jit, with other transforms around it or not."""
    while isinstance(kind, Transformed):
        if kind.transform in library.JITS:
            return True
        kind = kind.base
    return False


def holds_arrays(kind: Kind, infer: Inference) -> bool:
    """Whether a value is a tree with arrays in it, as far as it is known: an array, a tuple with one, a named tuple."""
    match kind:
        case Record(items):
            return any(holds_arrays(item, infer) for item in items)
        case Instance(cls):
            return infer.classes.is_tree(cls) and not infer.classes.is_module(cls)
    return is_device(kind)


def is_row(expr: ast.Subscript) -> bool:
    """`xs[i]`, `xs[i % len(xs)]`, `xs[i - 1]`: an index of integer arithmetic that cannot overflow."""
    return _is_index(expr.slice)


def _is_index(expr: ast.expr) -> bool:
    match expr:
        case ast.Name():
            return True
        case ast.Constant(value=int(number)):
            return not isinstance(number, bool) and abs(number) < 2**30
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant() as operand):
            return _is_index(operand)
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name() | ast.Attribute()]):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant()):
            return True
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            return _is_index(left) and _is_index(right)
        case ast.BinOp(left=left, op=ast.Mod() | ast.FloorDiv(), right=by) if not isinstance(by, ast.Name):
            nonzero = not isinstance(by, ast.Constant) or bool(by.value)  # a name may be zero, and raise
            return nonzero and _is_index(left) and _is_index(by)
    return False


@dataclass(eq=False)
class Scannable(Batchable):
    """The largest set of nodes that depend on nothing but items, each other, and themselves one iteration earlier.

    `block`: names that only host work at the end of a block changes are as good as invariant inside of it.
    """

    block: Block = field(default=WHOLE)

    def root(self, node: Node) -> Blocker | None:
        """Why a node is out, as far back as that goes: the first cause of what it depends on, one step earlier too."""
        seen, todo = {node}, [node]
        while todo:
            for value in todo.pop().reads():
                maker, _ = self.graph.source(value)
                if maker is not None and maker not in seen:
                    seen.add(maker)
                    todo.append(maker)
        blocked = [n for n in seen if n.op == "device" and n.blocker is not None]
        order = {n: k for k, n in enumerate(self.causes)}
        out = sorted((n for n in seen if n in self.causes), key=order.__getitem__)
        if blocked:
            return min(blocked, key=self.graph.body.nodes.index).blocker
        return self.causes[out[0]] if out else self.cause(node)

    @cached_property
    def feeders(self) -> frozenset[Node]:
        """Host nodes that compute numbers of nothing but numbers: all their steps can run before the scan does."""
        carried, body = self.graph.body.carried, self.graph.body
        found = {n for n in body.nodes if self._is_arithmetic(n)}
        while True:
            out = {n for n in found for v in n.reads()
                   if v.maker not in found and not v.is_position and v.origin != "invariant"
                   and not (v.name in carried and body.env[v.name].maker in found)}  # fmt: skip
            if not out:
                return frozenset(found)
            found -= out

    def _is_arithmetic(self, node: Node) -> bool:
        """`t += dt`, `lr = base * 0.9**epoch`: floats of numbers, without an effect."""
        infer, module = self.graph.effects.inference, self.graph.loop.module
        match node.statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AugAssign(
                target=ast.Name(id=name), value=value
            ) if node.op == "host" and not node.guards:
                simple = (ast.BinOp, ast.UnaryOp, ast.Name, ast.Constant)
                plain = all(isinstance(n, simple) for n in walk(value))
                steps = [n for n in walk(value) if isinstance(n, ast.BinOp)]
                total = all(isinstance(n.op, ast.Add | ast.Sub | ast.Mult) for n in steps)
                before = written_before(name, self.graph.loop, self.graph.effects)
                first = isinstance(node.statement, ast.Assign) or isinstance(before, Number)
                numbers = all(isinstance(infer.kind(n, module), Number) or self._counts(n)
                              for n in walk(value) if isinstance(n, ast.Name) and n.id != name)  # fmt: skip
                return plain and first and numbers and (total or not self.graph.accesses(node))
        return False

    def _counts(self, name: ast.Name) -> bool:
        return any(name.id in node.makes for node in self.graph.body.nodes if node.op == "host")

    def is_fed(self, value: Value) -> bool:
        """Whether a value of every step is known before the scan begins, since host arithmetic alone makes it."""
        following = self.graph.body.env.get(value.name) if value.origin == "carried" else None
        return (value.maker if following is None else following.maker) in self.feeders

    def _unavailable(self, value: Value, at: ast.AST) -> Blocker | None:
        if value.is_position:
            serves = self._is_row_index(value, at) or self._serves_as_array(value, at)
            return None if serves else super()._unavailable(value, at)
        if self.is_fed(value) and isinstance(at, ast.expr):
            needs = self._needs(at, "float")
            return Blocker(needs[0].reason, needs[0].node, needs[0].where) if needs else None
        if value.origin != "carried":
            return super()._unavailable(value, at)
        if value.name in self.block.steady:
            return None
        following = self.graph.body.env.get(value.name)
        if following is None or following.origin == "item" or following.maker in self.nodes:
            return None
        if following.origin == "invariant" or following.maker is None:
            return Blocker("carried-state", at, f"`{value.name}` is another value in the first iteration")
        return self._made_on_host(following, at)

    def _serves_as_array(self, value: Value, at: ast.AST) -> bool:
        """Whether the positions of a range do as an array of integers."""
        known = value.stream is not None and (value.stream.from_zero or is_range(header(self.graph.loop)[1]))
        return known and isinstance(at, ast.expr) and (self._is_traced_there(at) or not self._needs(at, "int"))

    def _is_traced_there(self, at: ast.expr) -> bool:
        """Whether a number is handed to a function that `jax.jit` compiles, and traced by it as well."""
        module, infer = self.graph.loop.module, self.graph.effects.inference
        parent = module.parents.get(at)
        call = module.parents.get(parent) if isinstance(parent, ast.keyword) and parent.arg is not None else parent
        if not isinstance(call, ast.Call) or at is call.func:
            return False
        kind = infer.kind(call.func, module)
        direct = isinstance(kind, Transformed) and kind.transform == "jax.jit"
        return direct and not Arguments(self.graph.effects).static_use(kind, call, at)

    def _needs(self, at: ast.expr, kind: str) -> list[Need]:
        """Why the number read at `at` must stay one."""
        return Scalars(self.graph.effects).needs([at], self.graph.loop.module, None, Number(kind))

    def _is_row_index(self, value: Value, at: ast.AST) -> bool:
        """Whether a position stands in the index of an array's row."""
        module, infer = self.graph.loop.module, self.graph.effects.inference
        node: ast.AST = at
        for parent in module.ancestors(at):
            if isinstance(parent, ast.Subscript) and parent.slice is node:
                known = value.stream is not None and (value.stream.from_zero or is_range(header(self.graph.loop)[1]))
                return known and is_row(parent) and isinstance(infer.kind(parent.value, module), Array)
            if not isinstance(parent, ast.BinOp | ast.UnaryOp):
                return False
            node = parent
        return False


def stepwise(loop: Loop, effects: Effects) -> Graph:
    """The dependence graph of a loop for a scan, in which carried Python numbers become arrays.

    Raises `Unplannable` where the loop cannot be followed.
    """
    found = streams(loop, effects.inference)
    live = live_names(loop)
    becoming: dict[str, Kind] = {}
    while True:
        body = build(Environment(loop, found, effects, becoming=becoming), live, Stepwise)
        graph = Graph(loop, body, found, effects)
        more = {n: k for n, k in _becoming(graph).items() if n not in becoming}
        if not more:
            return graph
        becoming |= more


def _becoming(graph: Graph) -> Mapping[str, Kind]:
    """The carried names that are not known to be arrays when the loop begins, and are when an iteration ends."""
    infer, module = graph.effects.inference, graph.loop.module
    found: dict[str, Kind] = {}
    for name, value in graph.body.carried.items():
        if is_device(value.kind) or isinstance(value.kind, NdArray):
            continue
        following = graph.body.env.get(name)
        before = written_before(name, graph.loop, graph.effects)
        if is_device(before) or (following is not None and is_device(following.kind)):
            found[name] = before if following is None or not is_device(following.kind) else following.kind
            continue
        for statement in graph.loop.body:
            match statement:
                case ast.AugAssign(target=ast.Name(id=target), value=added) if target == name:
                    if isinstance(infer.kind(added, module), Array):
                        found[name] = Array()
    return found


def bindings_before(name: str, loop: Loop, effects: Effects) -> list[Binding]:
    """The bindings that may give `name` its value when the loop begins."""
    scope = effects.inference.scope_binding(name, loop.node, loop.module)
    inside = {n for s in loop.body for n in walk(s)}
    return [b for b in reaching(name, loop.statement, scope) if b.node not in inside] if scope is not None else []


def written_before(name: str, loop: Loop, effects: Effects) -> Kind:
    """What `name` is when the loop begins."""
    return joined(effects.inference.bound(b, loop.module) for b in bindings_before(name, loop, effects))
