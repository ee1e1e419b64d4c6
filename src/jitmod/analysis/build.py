"""From the statements of a loop to nodes.

Statements on the host are split (A-normal form): the largest device computation inside `float(jnp.max(y))` becomes a
node of its own, and the statement reads its value.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from jitmod.analysis.loops import LOOPS, Unplannable
from jitmod.analysis.mappable import Mappable
from jitmod.analysis.ssa import Body, Environment, Node, Value
from jitmod.analysis.syntax import between, calls, names_of_target, stored, strict_children, target_of, unconditional
from jitmod.analysis.values import UNKNOWN, Array, Device, Kind, Number, Record


def build(env: Environment) -> Body:
    """The body of the loop of `env` in SSA form. Raises `Unplannable` where it cannot be followed."""
    Builder(env, Mappable(env)).statements(env.loop.body)
    return env.body


@dataclass(frozen=True, eq=False)
class Builder:
    """Reads the statements of one iteration in order."""

    env: Environment
    mappable: Mappable

    def statements(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            match statement:
                case ast.Pass() | ast.Expr(value=ast.Constant()):
                    continue
                case ast.Assign(targets=[target], value=value) if (
                    self.mappable.on_device(value) and names_of_target(target) is not None
                ):
                    self._device_statement(statement, value, names_of_target(target) or ())
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if self.mappable.on_device(
                    value
                ):
                    self._device_statement(statement, value, (name,))
                case ast.AugAssign(target=ast.Name(id=name) as target, value=value) if self.mappable.on_device(
                    target
                ) and self.mappable.on_device(value):
                    self._device_statement(statement, value, (name,), also_reads=name)
                case _:
                    self._host_statement(statement)

    def _device_statement(
        self, statement: ast.stmt, value: ast.expr, targets: tuple[str, ...], also_reads: str = ""
    ) -> None:
        node = Node(statement, value, targets, whole=True, heavy=self.mappable.is_heavy(value))
        if self.env.on_host & set(targets):
            self._host_statement(statement)
            return
        blocker = self.mappable.blocker(value)
        self.env.use_names(value, node)
        if also_reads:
            before = self.env.read(also_reads, statement)
            node.uses[target_of(statement)] = before
            blocker = blocker or self.mappable.unmappable(before, statement)
        if blocker is not None:
            self._host_statement(statement)  # perhaps a part of it can be mapped
            return
        node.mappable = True
        self.env.body.nodes.append(node)
        kind = self.env.kind(value)
        for index, name in enumerate(targets):
            part = kind if len(targets) == 1 else _part(kind, index)
            self.env.define(name, part, node)

    def _host_statement(self, statement: ast.stmt) -> None:
        self._forbid(statement)
        node = Node(statement, None)
        for expr in unconditional(statement):
            self._extract(expr, statement, node)
        guarded = [
            e for e in calls(statement) if self.mappable.is_heavy_call(e) and not _inside_extracted(e, self.env.body)
        ]
        for call in guarded:
            if not any(isinstance(p, LOOPS) for p in between(call, self._root(statement), self.env.module)):
                message = f"`{ast.unparse(call.func)}` runs only under a condition; batching would run it always"
                raise Unplannable("guarded-work", call, message)
        self.env.use_names(statement, node)
        self.env.body.nodes.append(node)
        if isinstance(statement, ast.If | ast.For | ast.While | ast.With | ast.Match):
            for name in stored(statement):  # where it is not bound here, the name keeps what it had
                node.flows[name] = self.env.read(name, statement)
        twin = self._twin(statement)
        for name in stored(statement):
            self.env.define(name, Number("int") if twin else self._stored_kind(statement), node, twin)

    def _is_flat(self, expr: ast.Tuple) -> bool:
        """Whether a tuple holds arrays and nothing else, so that it can come back item by item."""
        return all(isinstance(self.env.kind(element), Array) for element in expr.elts)

    def _root(self, statement: ast.stmt) -> ast.AST:
        """The node of the file behind a statement: a comprehension's statement is only a frame around its element."""
        return statement.value if isinstance(statement, ast.Expr) else statement

    def _stored_kind(self, statement: ast.stmt) -> Kind:
        value = getattr(statement, "value", None)
        return self.env.kind(value) if isinstance(value, ast.expr) and isinstance(statement, ast.Assign) else UNKNOWN

    def _twin(self, statement: ast.stmt) -> Value | None:
        """The device value behind `name = int(<device value>)`."""
        match statement:
            case ast.Assign(
                targets=[ast.Name()], value=ast.Call(func=ast.Name(id="int"), args=[ast.Call() as argument])
            ) if self.mappable.is_index(argument):
                for node in self.env.body.nodes:
                    if node.expr is argument and node.mappable:
                        return next(iter(node.makes.values()))
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
        parents = list(between(node, statement, self.env.module))
        if any(isinstance(p, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) for p in parents):
            return False
        inner = any(isinstance(p, ast.For | ast.While | ast.AsyncFor) for p in parents)
        return not (inner and isinstance(node, ast.Break | ast.Continue))

    def _extract(self, expr: ast.expr, statement: ast.stmt, host: Node) -> None:
        """Make nodes of the largest mappable device computations inside a host expression."""
        if isinstance(expr, ast.Name | ast.Constant):
            return
        if self.mappable.on_device(expr) and (not isinstance(expr, ast.Tuple) or self._is_flat(expr)):
            blocker = self.mappable.blocker(expr)
            if blocker is None:
                node = Node(statement, expr, (), heavy=self.mappable.is_heavy(expr), mappable=True)
                self.env.use_names(expr, node)
                value = Value("", "node", self.env.kind(expr), True, node)
                node.makes[""] = value
                self.env.body.nodes.append(node)
                host.uses[expr] = value
                return
            if isinstance(expr, ast.Call) and self.mappable.is_heavy_call(expr):
                raise Unplannable(blocker.reason, blocker.node, blocker.message)
        for inner in strict_children(expr):
            self._extract(inner, statement, host)


def _part(kind: Kind, index: int) -> Kind:
    if isinstance(kind, Record) and index < len(kind.items):
        return kind.items[index]
    return Array(is_key=kind.is_key) if isinstance(kind, Array) else Device()


def _inside_extracted(call: ast.Call, body: Body) -> bool:
    return any(n.expr is not None and n.mappable and any(x is call for x in ast.walk(n.expr)) for n in body.nodes)
