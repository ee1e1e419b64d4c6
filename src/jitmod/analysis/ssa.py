"""The body of a loop in SSA form: one value per version of a name, one node per statement or device computation.

Statements on the host are split (A-normal form): the largest device computation inside `float(jnp.max(y))` becomes a
node of its own, and the statement reads its value. What may run for all items at once is decided while reading forward:
a value is *mappable* if it depends only on items, on what the loop does not change, and on traceable computation.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from jitmod.analysis import library
from jitmod.analysis.effects import Effects, Hazard
from jitmod.analysis.jits import is_heavy
from jitmod.analysis.library import Role
from jitmod.analysis.loops import LOOPS, Loop, Stream, Unplannable, header
from jitmod.analysis.values import (
    UNKNOWN,
    Array,
    Device,
    Kind,
    NdArray,
    Number,
    Record,
    Routine,
    element,
    is_device,
    item_of,
)
from jitmod.source.project import SourceModule

_NEVER_DEVICE = (ast.Constant, ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.Dict, ast.IfExp, ast.BoolOp)


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


@dataclass(frozen=True)
class Blocker:
    """Why an expression cannot be computed for all items at once."""

    reason: str
    node: ast.AST
    message: str


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
class Builder:
    """Reads the statements of one iteration in order."""

    loop: Loop
    streams: tuple[Stream, ...]
    effects: Effects
    scanned: frozenset[str] = frozenset()  # carried names that a scan computes beforehand (PRNG keys)
    body: Body = field(default_factory=Body)

    def build(self) -> Body:
        self._written = {n.id for s in self.loop.body for n in ast.walk(s)
                         if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}  # fmt: skip
        for stream in self.streams:
            kind = self._kind_of_item(stream)
            self.body.env[stream.name] = Value(stream.name, "item", kind, stream.source is not None, stream=stream)
        self._statements(self.loop.body)
        return self.body

    @property
    def module(self) -> SourceModule:
        return self.loop.module

    def kind(self, expr: ast.expr) -> Kind:
        return self.effects.inference.kind(expr, self.module)

    def _kind_of_item(self, stream: Stream) -> Kind:
        kind = item_of(stream.kind)
        for index in stream.path:
            kind = element(kind, index)
        return Array() if kind == UNKNOWN and stream.assumed else kind

    # -- statements --------------------------------------------------------------------------------------------------

    def _statements(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            match statement:
                case ast.Pass() | ast.Expr(value=ast.Constant()):
                    continue
                case ast.Assign(targets=[target], value=value) if self._is_device(value) and _names(target) is not None:
                    self._device_statement(statement, value, _names(target) or ())
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if self._is_device(value):
                    self._device_statement(statement, value, (name,))
                case ast.AugAssign(target=ast.Name(id=name) as target, value=value) if self._is_device(
                    target
                ) and self._is_device(value):
                    self._device_statement(statement, value, (name,), also_reads=name)
                case _:
                    self._host_statement(statement)

    def _device_statement(
        self, statement: ast.stmt, value: ast.expr, targets: tuple[str, ...], also_reads: str = ""
    ) -> None:
        node = Node(statement, value, targets, whole=True, heavy=self.is_heavy(value))
        blocker = self.blocker(value)
        self._use_names(value, node)
        if also_reads:
            before = self.read(also_reads, statement)
            node.uses[_target_of(statement)] = before
            blocker = blocker or self._unmappable(before, statement)
        if blocker is not None:
            self._host_statement(statement)  # perhaps a part of it can be mapped
            return
        node.mappable = True
        self.body.nodes.append(node)
        kind = self.kind(value)
        for index, name in enumerate(targets):
            part = kind if len(targets) == 1 else _part(kind, index)
            self._define(name, part, node)

    def _host_statement(self, statement: ast.stmt) -> None:
        self._forbid(statement)
        node = Node(statement, None)
        for expr in _unconditional(statement):
            self._extract(expr, statement, node)
        guarded = [e for e in _calls(statement) if self.is_heavy_call(e) and not _inside_extracted(e, self.body)]
        for call in guarded:
            if not any(isinstance(p, LOOPS) for p in _between(call, self._root(statement), self.module)):
                message = f"`{ast.unparse(call.func)}` runs only under a condition; batching would run it always"
                raise Unplannable("guarded-work", call, message)
        self._use_names(statement, node)
        self.body.nodes.append(node)
        twin = self._twin(statement)
        for name in _stored(statement):
            self._define(name, Number("int") if twin else self._stored_kind(statement), node, twin)

    def _root(self, statement: ast.stmt) -> ast.AST:
        """The node of the file behind a statement: a comprehension's statement is only a frame around its element."""
        return statement.value if isinstance(statement, ast.Expr) else statement

    def _stored_kind(self, statement: ast.stmt) -> Kind:
        value = getattr(statement, "value", None)
        return self.kind(value) if isinstance(value, ast.expr) and isinstance(statement, ast.Assign) else UNKNOWN

    def _twin(self, statement: ast.stmt) -> Value | None:
        """The device value behind `name = int(<device value>)`."""
        match statement:
            case ast.Assign(targets=[ast.Name()], value=ast.Call(func=ast.Name(id="int"), args=[argument])):
                for node in self.body.nodes:
                    if node.expr is argument and node.mappable:
                        return next(iter(node.makes.values()))
                if isinstance(argument, ast.Name):
                    value = self.read(argument.id, argument)
                    return value if value.mappable and value.origin == "node" else None
        return None

    def _forbid(self, statement: ast.stmt) -> None:
        for node in ast.walk(statement):
            match node:
                case ast.Break() | ast.Continue() | ast.Return() | ast.Raise():
                    if self._leaves_iteration(node, statement):
                        word = type(node).__name__.lower()
                        message = f"`{word}` ends an iteration early; batching would run every item first"
                        raise Unplannable("data-dependent-exit", node, message)
                case ast.Yield() | ast.YieldFrom() | ast.Await():
                    raise Unplannable("lazy-iterator", node, "the body hands items out one by one (yield or await)")
                case ast.Try():
                    raise Unplannable("exception-order", node, "a try in the body could observe a changed order")
                case ast.Delete() | ast.Global() | ast.Nonlocal():
                    raise Unplannable("dynamic-scope", node, "the body changes names that the plan cannot follow")

    def _leaves_iteration(self, node: ast.AST, statement: ast.stmt) -> bool:
        between = list(_between(node, statement, self.module))
        if any(isinstance(p, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) for p in between):
            return False
        inner = any(isinstance(p, ast.For | ast.While | ast.AsyncFor) for p in between)
        return not (inner and isinstance(node, ast.Break | ast.Continue))

    def _define(self, name: str, kind: Kind, node: Node, twin: Value | None = None) -> None:
        value = Value(name, "node", kind, node.mappable, node, twin=twin)
        node.makes[name] = value
        self.body.env[name] = value

    # -- names -------------------------------------------------------------------------------------------------------

    def read(self, name: str, at: ast.AST) -> Value:
        """The value that `name` has here. A name that is written later in the body comes from the item before."""
        if name in self.body.env:
            return self.body.env[name]
        kind = self.kind(at) if isinstance(at, ast.expr) else Device()
        if name in self._written:
            value = Value(name, "carried", kind, name in self.scanned)
            self.body.carried[name] = value
        else:
            value = Value(name, "invariant", kind, True)
        self.body.env[name] = value
        return value

    def _use_names(self, root: ast.AST, node: Node) -> None:
        apart = {n for expr in node.uses for n in ast.walk(expr)}  # inside of parts that are nodes of their own
        for name in _loads(root):
            if name not in apart and not self._is_local_to_expression(name):
                node.uses[name] = self.read(name.id, name)

    def _is_local_to_expression(self, name: ast.Name) -> bool:
        """Bound by a comprehension or lambda inside of the body."""
        inner: ast.AST = name
        for parent in self.module.ancestors(name):
            if parent is self.loop.node:
                return False
            if isinstance(parent, ast.Lambda | ast.FunctionDef) and name.id in self.module.scopes[parent].bindings:
                return True
            if isinstance(parent, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
                bound = {n.id for g in parent.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
                if name.id in bound and inner is not parent.generators[0].iter:
                    return True
            inner = parent
        return False

    # -- device expressions ------------------------------------------------------------------------------------------

    def is_heavy_call(self, call: ast.Call) -> bool:
        return is_heavy(self.kind(call.func), self.effects)

    def is_heavy(self, expr: ast.AST) -> bool:
        return any(self.is_heavy_call(call) for call in _calls(expr))

    def _is_device(self, expr: ast.expr) -> bool:
        """Whether an expression computes on the device: its result lives there, or it runs a Module."""
        if isinstance(expr, ast.Name):
            return self._is_device_name(expr)
        if isinstance(expr, _NEVER_DEVICE):
            return False
        if isinstance(expr, ast.Tuple | ast.List):
            return bool(expr.elts) and isinstance(expr, ast.Tuple) and all(self._is_device(e) for e in expr.elts)
        if is_device(self.kind(expr)):
            return True
        operands = [expr.left, expr.right] if isinstance(expr, ast.BinOp) else []
        if isinstance(expr, ast.Compare) and _is_simple_comparison(expr):
            operands = [expr.left, *expr.comparators]
        if isinstance(expr, ast.UnaryOp) and not isinstance(expr.op, ast.Not):
            operands = [expr.operand]
        if isinstance(expr, ast.Subscript):
            operands = [expr.value]
        if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute):
            attr = expr.func.attr
            return (attr in library.ARRAY_METHODS and self._is_device(expr.func.value)) or self.is_heavy_call(expr)
        return any(self._is_device(o) for o in operands) or (isinstance(expr, ast.Call) and self.is_heavy_call(expr))

    def _is_device_name(self, name: ast.Name) -> bool:
        if self._is_local_to_expression(name):
            return False
        return is_device(self.read(name.id, name).kind)

    def _extract(self, expr: ast.expr, statement: ast.stmt, host: Node) -> None:
        """Make nodes of the largest mappable device computations inside a host expression."""
        if isinstance(expr, ast.Name | ast.Constant):
            return
        if self._is_device(expr) and not isinstance(expr, ast.Tuple):
            blocker = self.blocker(expr)
            if blocker is None:
                node = Node(statement, expr, (), heavy=self.is_heavy(expr), mappable=True)
                self._use_names(expr, node)
                value = Value("", "node", self.kind(expr), True, node)
                node.makes[""] = value
                self.body.nodes.append(node)
                host.uses[expr] = value
                return
            if self._is_heavy_itself(expr):
                raise Unplannable(blocker.reason, blocker.node, blocker.message)
        for inner in _strict_children(expr):
            self._extract(inner, statement, host)

    def _is_heavy_itself(self, expr: ast.expr) -> bool:
        return isinstance(expr, ast.Call) and self.is_heavy_call(expr)

    def _unmappable(self, value: Value, at: ast.AST) -> Blocker | None:
        if value.mappable:
            return None
        name = value.name
        if value.origin == "item":
            return Blocker("index-as-python", at, f"the loop index `{name}` is used as a Python value")
        if value.origin == "carried":
            if self._is_state(value, at):
                return Blocker("stateful-module", at, f"`{name}` is an eqx.nn.State that goes from item to item")
            if isinstance(value.kind, Array) and value.kind.is_key:
                return Blocker("prng-order", at, f"the key `{name}` goes from item to item and cannot be scanned")
            return Blocker("carried-state", at, f"`{name}` carries a value from one item to the next")
        return self._blame(value, at)

    def _is_state(self, value: Value, at: ast.AST) -> bool:
        infer = self.effects.inference
        scope = infer.scope_binding(value.name, at, self.module)
        bindings = scope.bindings[value.name] if scope else []
        return any(_is_state(infer.bound(b, self.module)) for b in bindings if b.how != "def")

    def _blame(self, value: Value, at: ast.AST) -> Blocker:
        """Why a value of a host statement is on the host, in terms of the statement that makes it."""
        maker = value.maker
        assert maker is not None
        for used in maker.uses.values():
            if used.origin == "carried":
                return Blocker("carried-state", at, f"`{value.name}` depends on `{used.name}` of the item before")
        for call in _calls(maker.statement):
            for hazard in self.effects.of_call(call, self.module):
                if hazard.reason in ("host-effect", "host-arithmetic", "unresolved-callee"):
                    message = f"`{value.name}` feeds the computation and is made on the host: {hazard.what}"
                    return Blocker(hazard.reason, at, message)
        return Blocker("host-arithmetic", at, f"`{value.name}` feeds the computation and is computed on the host")

    def blocker(self, expr: ast.expr) -> Blocker | None:
        """Why `expr` cannot be computed for all items in one trace; None where it can."""
        if isinstance(expr, ast.BinOp | ast.UnaryOp | ast.Compare | ast.Call) and isinstance(self.kind(expr), NdArray):
            return Blocker("host-arithmetic", expr, f"`{ast.unparse(expr)}` is numpy arithmetic; use jax.numpy for it")
        match expr:
            case ast.Constant():
                return None
            case ast.Name():
                if self._is_local_to_expression(expr):
                    return None
                return self._unmappable(self.read(expr.id, expr), expr)
            case ast.Attribute(value=value):
                return self.blocker(value)
            case ast.Subscript():
                return self._subscript_blocker(expr)
            case ast.BinOp(left=left, right=right):
                return self.blocker(left) or self.blocker(right)
            case ast.UnaryOp(op=op, operand=operand) if not isinstance(op, ast.Not):
                return self.blocker(operand)
            case ast.Compare(left=left, comparators=[right]) if _is_simple_comparison(expr):
                return self.blocker(left) or self.blocker(right)
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                return next((b for e in elts if (b := self.blocker(e))), None)
            case ast.Slice(lower=lower, upper=upper, step=step):
                return next((b for e in (lower, upper, step) if e is not None and (b := self.blocker(e))), None)
            case ast.Lambda(body=inner):
                return self.blocker(inner)
            case ast.Call():
                return self._call_blocker(expr)
        return Blocker("host-effect", expr, f"`{ast.unparse(expr)}` is Python control flow that a trace cannot follow")

    def _call_blocker(self, call: ast.Call) -> Blocker | None:
        if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
            return Blocker("unresolved-callee", call, f"`{ast.unparse(call)}` unpacks its arguments")
        hazards = self._hazards(call)
        if not any(h.reason == "stateful-module" for h in hazards):  # else said first: it explains the carried state
            inner = self._operand_blocker(call)
            if inner is not None:
                return inner
        if hazards:
            first = hazards[0]
            here = first.path == self.module.document.path and first.line == call.lineno
            where = "" if here else f" ({first.path}:{first.line})"
            return Blocker(first.reason, call, f"`{ast.unparse(call.func)}` cannot be batched: {first.what}{where}")
        return None

    def _operand_blocker(self, call: ast.Call) -> Blocker | None:
        for value in [*call.args, *[k.value for k in call.keywords]]:
            inner = self.blocker(value)
            if inner is not None:
                return inner
        if isinstance(call.func, ast.Attribute) and self._has_receiver(call.func):
            inner = self.blocker(call.func.value)
            if inner is not None:
                return inner
        elif isinstance(call.func, ast.Name):
            inner = self._unmappable(self.read(call.func.id, call.func), call.func)
            if inner is not None:
                return inner
        elif not isinstance(call.func, ast.Attribute):
            inner = self.blocker(call.func)
            if inner is not None:
                return inner
        holder = call.func.value if isinstance(call.func, ast.Attribute) else call.func
        own = [n for n in _loads(call.func) if not self._is_local_to_expression(n)]
        if any(self.read(n.id, n).origin == "item" for n in own) and not self._is_device(holder):
            message = f"`{ast.unparse(call.func)}` may be another Module for every item, with other static fields"
            return Blocker("static-leaves-differ", call, message)
        return None

    def _hazards(self, call: ast.Call) -> tuple[Hazard, ...]:
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.expr):
            on_device = self._is_device(call.func.value)
            unresolved = not isinstance(self.kind(call.func), Routine)
            if on_device and unresolved and call.func.attr in library.ARRAY_METHODS:
                return ()
        return self.effects.of_call(call, self.module)

    def _has_receiver(self, func: ast.Attribute) -> bool:
        return self.effects.inference.dotted(func, self.module) is None

    def _subscript_blocker(self, expr: ast.Subscript) -> Blocker | None:
        item = self._item_read(expr)
        if item is not None:
            self.body.item_reads[expr] = item
            return None
        base = self.blocker(expr.value)
        if base is not None:
            return base
        match expr.slice:
            case ast.Name(id=name):
                index = self.read(name, expr.slice)
                if index.twin is not None:
                    return None
                if index.origin == "item" and index.stream is not None and index.stream.source is None:
                    return Blocker("slice-bounds", expr, f"`{ast.unparse(expr)}` may have other items than the loop")
            case ast.Slice() | ast.BinOp():
                names = {n.id for n in ast.walk(expr.slice) if isinstance(n, ast.Name)}
                if any(self.read(n, expr).origin == "item" for n in names):
                    return Blocker("slice-bounds", expr, f"`{ast.unparse(expr)}` is a window whose bounds are computed")
        return self.blocker(expr.slice)

    def _item_read(self, expr: ast.Subscript) -> Value | None:
        """`xs[i]` with the loop's own index over `range(len(xs))` or enumerate(xs): the item of xs."""
        if not isinstance(expr.slice, ast.Name) or not isinstance(expr.value, ast.Name | ast.Attribute):
            return None
        index = self.body.env.get(expr.slice.id)
        if index is None or index.stream is None or index.stream.source is not None:
            return None
        path = ast.unparse(expr.value)
        if path not in self._counted():
            return None
        known = next((v for v in self.body.item_reads.values() if v.stream and v.name == path), None)
        if known is not None:
            return known
        kind = self.kind(expr.value)
        stream = Stream(path, expr.value, kind, assumed=kind == UNKNOWN or item_of(kind) == UNKNOWN)
        return Value(path, "item", self._kind_of_item(stream), True, stream=stream)

    def _counted(self) -> set[str]:
        """The sources whose length is the trip count by construction."""
        _, iterable = header(self.loop)
        found = {ast.unparse(s.source) for s in self.streams if s.source is not None}
        for call in ast.walk(iterable):
            match call:
                case ast.Call(func=ast.Name(id="range"), args=[ast.Call(func=ast.Name(id="len"), args=[counted])]):
                    found.add(ast.unparse(counted))
        return found


def _part(kind: Kind, index: int) -> Kind:
    if isinstance(kind, Record) and index < len(kind.items):
        return kind.items[index]
    return Array(is_key=kind.is_key) if isinstance(kind, Array) else Device()


def _is_state(kind: Kind) -> bool:
    cls = getattr(kind, "cls", None)
    return isinstance(cls, str) and library.role(cls) is Role.STATE


def _names(target: ast.expr) -> tuple[str, ...] | None:
    match target:
        case ast.Name(id=name):
            return (name,)
        case ast.Tuple(elts=elts) if all(isinstance(e, ast.Name) for e in elts):
            return tuple(e.id for e in elts if isinstance(e, ast.Name))
    return None


def _target_of(statement: ast.stmt) -> ast.expr:
    assert isinstance(statement, ast.AugAssign)
    return statement.target


def _loads(root: ast.AST) -> Iterator[ast.Name]:
    for node in ast.walk(root):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            yield node.target


def _stored(statement: ast.stmt) -> list[str]:
    names = [n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    defs = [n.name for n in ast.walk(statement) if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    return list(dict.fromkeys([*names, *defs]))


def _calls(root: ast.AST) -> Iterator[ast.Call]:
    return (n for n in ast.walk(root) if isinstance(n, ast.Call))


def _between(node: ast.AST, outer: ast.AST, module: SourceModule) -> Iterator[ast.AST]:
    if node is outer:
        return
    for parent in module.ancestors(node):
        yield parent
        if parent is outer:
            return


def _inside_extracted(call: ast.Call, body: Body) -> bool:
    return any(n.expr is not None and n.mappable and any(x is call for x in ast.walk(n.expr)) for n in body.nodes)


def _is_simple_comparison(expr: ast.Compare) -> bool:
    simple = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
    return len(expr.ops) == 1 and isinstance(expr.ops[0], simple)


def _unconditional(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement that are evaluated once in every iteration, in order."""
    match statement:
        case ast.Expr(value=value) | ast.Assign(value=value) | ast.AugAssign(value=value):
            yield value
        case ast.AnnAssign(value=ast.expr() as value):
            yield value
        case ast.If(test=test) | ast.Assert(test=test):
            yield test
        case ast.For(iter=iterable):
            yield iterable


def _strict_children(expr: ast.expr) -> Iterator[ast.expr]:
    """The parts of an expression that are always evaluated with it."""
    match expr:
        case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return
        case ast.BoolOp(values=[first, *_]):
            yield first
        case ast.IfExp(test=test):
            yield test
        case ast.Compare(left=left, comparators=comparators):
            yield left
            yield comparators[0]
        case ast.Call(func=func, args=args, keywords=keywords):
            if not isinstance(func, ast.Name):
                yield func
            yield from args
            yield from (k.value for k in keywords)
        case _:
            for child in ast.iter_child_nodes(expr):
                if isinstance(child, ast.expr):
                    yield child
