"""From the statements of a loop to nodes.

Every expression that computes on the device becomes a node, however deep it stands in its statement; the plan joins
those again that end up on one side. `if` is followed into both of its arms, `continue` guards what comes after it.
Other compound statements (nested loops, with, match) are single nodes: they are planned on their own, if at all.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from jitmod.analysis import library
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.ssa import Body, Environment, Guard, Node, Value
from jitmod.analysis.syntax import between, names_of_target, stored, strict_children, target_of, unconditional
from jitmod.analysis.traceable import Traceable
from jitmod.analysis.unrolled import pulled_in
from jitmod.analysis.values import UNKNOWN, Array, Device, Kind, Number, Record, join
from jitmod.source.nodes import walk

_COMPOUND = (ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Match)
_Guards = tuple[Guard, ...]


def build(env: Environment, live: frozenset[str], judge: type[Traceable] = Traceable) -> Body:
    """The body of the loop of `env` in SSA form; `live` are the names that are read after the loop.

    `judge` says which expressions may be traced. Raises `Unplannable` where the body cannot be followed.
    """
    _check_late_reads(env)
    builder = Builder(env, judge(env))
    builder.block(env.loop.body, (), outermost=True)
    builder.join_skipped()
    _drop_unread(env.body, live)
    return env.body


@dataclass(frozen=True, eq=False)
class _Skipped:
    """What the names are where `continue` cuts an iteration short."""

    statement: ast.If
    guards: _Guards
    taken: Guard
    env: dict[str, Value]


@dataclass(frozen=True, eq=False)
class Builder:
    """Reads the statements of one iteration in order."""

    env: Environment
    traceable: Traceable
    skipped: list[_Skipped] = field(default_factory=list)

    def block(self, statements: list[ast.stmt], guards: _Guards, outermost: bool = False) -> None:
        """The statements of a block, in order, under `guards`; `outermost`: of the loop's own block."""
        for statement in statements:
            match statement:
                case ast.Pass() | ast.Expr(value=ast.Constant()):
                    continue
                case ast.If():
                    guards += self._branch(statement, guards, outermost)
                case _ if self._stays(statement):
                    self._host_statement(statement, guards)
                case ast.Assign(targets=[target], value=value) if (
                    self.traceable.on_device(value) and names_of_target(target) is not None
                ):
                    self._device_statement(statement, value, names_of_target(target) or (), guards)
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if self.traceable.on_device(
                    value
                ):
                    self._device_statement(statement, value, (name,), guards)
                case ast.AugAssign(target=ast.Name(id=name) as target, value=value) if self.traceable.on_device(
                    target
                ) and (self.traceable.on_device(value) or isinstance(self.env.kind(value), Number)):
                    self._device_statement(statement, value, (name,), guards)
                case _:
                    self._host_statement(statement, guards)

    def _stays(self, statement: ast.stmt) -> bool:
        """Whether a statement binds what only the host may bind."""
        return any(isinstance(n, ast.NamedExpr) for n in walk(statement)) or bool(
            self.env.on_host & set(stored(statement))
        )

    # -- statements --------------------------------------------------------------------------------------------------

    def _device_statement(
        self, statement: ast.stmt, value: ast.expr, targets: tuple[str, ...], guards: _Guards
    ) -> None:
        node = Node("device", statement, value, targets, whole=True, guards=guards)
        if isinstance(value, ast.Name):
            self.env.use_names(value, node)
        else:
            self._describe(node, value)
        if isinstance(statement, ast.AugAssign):
            node.uses[target_of(statement)] = self.env.read(targets[0], statement)
        self.env.body.nodes.append(node)
        kind = self.env.kind(value)
        for index, name in enumerate(targets):
            self.env.define(name, kind if len(targets) == 1 else _part(kind, index), node)

    def _host_statement(self, statement: ast.stmt, guards: _Guards) -> None:
        self._forbid(statement)
        node = Node("host", statement, guards=guards)
        for expr in unconditional(statement):
            self._flatten(expr, node)
        if isinstance(statement, ast.For) and self.traceable.unrolls:
            self._unroll(statement, node)
        self.env.use_names(statement, node)
        self.env.body.nodes.append(node)
        names = stored(statement)
        conditional = any(isinstance(n, ast.NamedExpr) for n in walk(statement))
        if isinstance(statement, _COMPOUND) or conditional:
            for name in names:  # where it is not bound here, the name keeps what it had
                node.flows[name] = (self.env.read(name, statement),)
        twin = self._twin(statement)
        for name in names:
            self.env.define(name, Number("int") if twin else self._stored_kind(statement), node, twin)

    def _stored_kind(self, statement: ast.stmt) -> Kind:
        value = getattr(statement, "value", None)
        return self.env.kind(value) if isinstance(value, ast.expr) and isinstance(statement, ast.Assign) else UNKNOWN

    def _twin(self, statement: ast.stmt) -> Value | None:
        """The device value behind `name = int(<device value>)`."""
        match statement:
            case ast.Assign(
                targets=[ast.Name()], value=ast.Call(func=ast.Name(id="int"), args=[ast.Call() as argument])
            ) if self.traceable.is_index(argument) and argument in self.env.by_expr:
                return self.env.by_expr[argument].makes[""]
        return None

    # -- expressions -------------------------------------------------------------------------------------------------

    def _unroll(self, loop: ast.For, parent: Node) -> None:
        """Make nodes of what an inner loop brings to the host: each computes it for all rounds at once."""
        found = pulled_in(loop, self.env.module, self.env.effects.inference)
        self.env.unrolled |= {loop: ast.unparse(loop.target)} if found else {}
        for expr in found:
            if self._stands_alone(expr, loop):
                node = Node("device", loop, expr, parent=parent, over=loop, guards=parent.guards)
                node.blocker = self.traceable.blocker(expr, top=expr)
                self.env.use_names(expr, node)
                self.env.body.nodes.append(node)
                parent.uses[expr] = self.env.define("", Array(), node)

    def _flatten(self, expr: ast.expr, parent: Node) -> None:
        """Make nodes of the device computations of an expression that `parent` evaluates in every case."""
        if isinstance(expr, ast.Name | ast.Constant):
            return
        if self._stands_alone(expr, parent.statement):
            node = Node("device", parent.statement, expr, parent=parent, guards=parent.guards)
            self._describe(node, expr)
            self.env.body.nodes.append(node)
            parent.uses[expr] = self.env.define("", self.env.kind(expr), node)
            return
        for inner in strict_children(expr):
            self._flatten(inner, parent)

    def _describe(self, node: Node, expr: ast.expr) -> None:
        """What a device expression reads, why it might not be traced, and whether it is worth it."""
        is_item = isinstance(expr, ast.Subscript) and self.traceable.item_read(expr) is not None
        for inner in strict_children(expr) if not is_item else ():
            self._flatten(inner, node)
        self.env.by_expr[expr] = node
        node.blocker = self.traceable.blocker(expr, top=expr)
        apart = {n for inner in node.uses for n in walk(inner)}
        node.heavy = any(
            self.traceable.is_heavy_call(n) for n in walk(expr) if isinstance(n, ast.Call) and n not in apart
        )
        window = self.env.body.windows.get(expr) if isinstance(expr, ast.Subscript) else None
        self.env.use_names(expr, node)
        if window is not None:
            node.uses |= {name: self.env.read(name.id, name) for name in window.names}
        for name, value in list(node.uses.items()):
            if value.twin is not None and self._is_position_of_array(name):
                node.uses[name] = value.twin

    def _is_position_of_array(self, name: ast.expr) -> bool:
        holder = self.env.module.parents.get(name)
        is_index = isinstance(holder, ast.Subscript) and holder.slice is name
        return is_index and isinstance(holder, ast.Subscript) and isinstance(self.env.kind(holder.value), Array)

    def _stands_alone(self, expr: ast.expr, statement: ast.stmt) -> bool:
        """Whether an expression may be computed before the rest of its statement, and comes back as it is."""
        bound = {n.target.id for n in walk(statement) if isinstance(n, ast.NamedExpr)}
        reads = {n.id for n in walk(expr) if isinstance(n, ast.Name)}
        flat = not isinstance(expr, ast.Tuple) or self._is_flat(expr)
        return flat and not bound & reads and self.traceable.on_device(expr)

    def _is_flat(self, expr: ast.Tuple) -> bool:
        """Whether a tuple holds arrays and nothing else, so that it can come back item by item."""
        return all(isinstance(self.env.kind(element), Array) for element in expr.elts)

    # -- branches ----------------------------------------------------------------------------------------------------

    def _branch(self, statement: ast.If, guards: _Guards, outermost: bool) -> _Guards:
        """An `if`: its test, its arms, and merges. The guards of what follows, where an arm ends with `continue`."""
        test = Node("test", statement, statement.test, guards=guards)
        self._flatten(statement.test, test)
        self.env.use_names(statement.test, test)
        self.env.body.nodes.append(test)
        condition = self.env.define("", Number("bool"), test)
        for name in stored(ast.copy_location(ast.Expr(statement.test), statement)):
            test.flows[name] = (self.env.read(name, statement),)
            self.env.define(name, UNKNOWN, test)
        before = dict(self.env.body.env)
        ends: list[dict[str, Value]] = []
        more: _Guards = ()
        for arm, expected in ((statement.body, True), (statement.orelse, False)):
            self.env.body.env = dict(before)
            skips = bool(arm) and isinstance(arm[-1], ast.Continue) and outermost
            self.block(arm[:-1] if skips else arm, (*guards, Guard(condition, expected)))
            if skips:
                self.skipped.append(_Skipped(statement, guards, Guard(condition, expected), dict(self.env.body.env)))
                more = (*more, Guard(condition, not expected))
            else:
                ends.append(dict(self.env.body.env))
        if len(ends) == 2:
            self.env.body.env = self._merged(statement, condition, ends[0], ends[1], guards)
        else:
            self.env.body.env = ends[0] if ends else before
        return more

    def _merged(
        self, statement: ast.stmt, condition: Value, then: dict[str, Value], other: dict[str, Value], guards: _Guards
    ) -> dict[str, Value]:
        """The names after two branches have met: a merge node for each that they leave differently."""
        result = dict(other)
        self.env.body.env = result
        for name in sorted(set(then) | set(other)):
            if then.get(name) is other.get(name):
                continue
            result.pop(name, None)  # bound in one arm only: in the other it keeps what it had
            arms = tuple(arm.get(name) or self.env.read(name, statement) for arm in (then, other))
            node = Node("merge", statement, guards=guards, condition=condition)
            node.flows[name] = arms
            self.env.body.nodes.append(node)
            self.env.define(name, join(arms[0].kind, arms[1].kind), node)
        return result

    def join_skipped(self) -> None:
        """At the end of an iteration: what the names are where `continue` has cut it short."""
        for skip in reversed(self.skipped):
            arms = (skip.env, self.env.body.env) if skip.taken.expected else (self.env.body.env, skip.env)
            self.env.body.env = self._merged(skip.statement, skip.taken.condition, *arms, guards=skip.guards)

    def _forbid(self, statement: ast.stmt) -> None:
        for node in walk(statement):
            match node:
                case ast.Break() | ast.Continue() | ast.Return() | ast.Raise():
                    if self._leaves_iteration(node, statement):
                        word = type(node).__name__.lower()
                        message = f"`{word}` ends an iteration early; batching would run every item first"
                        raise Unplannable("data-dependent-exit", node, message)
                case ast.Yield() | ast.YieldFrom() | ast.Await():
                    raise Unplannable("lazy-iterator", node, "the body hands items out one by one (`yield` or `await`)")
                case ast.Try():
                    raise Unplannable("exception-order", node, "a `try` in the body could observe a changed order")
                case ast.Delete() | ast.Global() | ast.Nonlocal():
                    raise Unplannable("dynamic-scope", node, "the body changes names that the plan cannot follow")

    def _leaves_iteration(self, node: ast.AST, statement: ast.stmt) -> bool:
        parents = list(between(node, statement, self.env.module))
        if any(isinstance(p, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) for p in parents):
            return False
        inner = any(isinstance(p, ast.For | ast.While | ast.AsyncFor) for p in parents)
        return not (inner and isinstance(node, ast.Break | ast.Continue))


def _part(kind: Kind, index: int) -> Kind:
    if isinstance(kind, Record) and index < len(kind.items):
        return kind.items[index]
    return Array(is_key=kind.is_key) if isinstance(kind, Array) else Device()


def _drop_unread(body: Body, live: frozenset[str]) -> None:
    """Merges that nothing reads, not even after the loop, are no computations."""
    needed: set[Value] = set()
    todo = [v for n in body.nodes if n.op != "merge" for v in n.reads()]
    todo += [v for name, v in body.env.items() if name in live]
    while todo:
        value = todo.pop()
        if value in needed:
            continue
        needed.add(value)
        if value.origin == "carried":
            todo += [body.env[value.name]] if value.name in body.env else []
        elif value.maker is not None and value.maker.op == "merge":
            todo += value.maker.reads()
    body.nodes[:] = [n for n in body.nodes if n.op != "merge" or any(v in needed for v in n.makes.values())]
    carried = {v.name for v in needed if v.origin == "carried"}
    for name in set(body.carried) - carried:
        del body.entry[name]


def _check_late_reads(env: Environment) -> None:
    """A function or generator that outlives its expression reads names later, when they may mean something else."""
    changing = env.written | {stream.name for stream in env.streams}
    for statement in env.loop.body:
        for node in walk(statement):
            lazy = isinstance(node, ast.Lambda | ast.GeneratorExp | ast.FunctionDef | ast.AsyncFunctionDef)
            if not lazy or _is_used_at_once(node, env):
                continue
            skipped = set(walk(node.generators[0].iter)) if isinstance(node, ast.GeneratorExp) else set()
            for name in walk(node):
                reads = isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load) and name not in skipped
                if reads and isinstance(name, ast.Name) and name.id in changing and not env.is_local(name):
                    message = f"`{name.id}` is read by a function or generator that may run when it means another value"
                    raise Unplannable("late-binding", name, message)


def _is_used_at_once(node: ast.AST, env: Environment) -> bool:
    """Whether a lambda or generator is used up by the call that it is given to."""
    call = env.module.parents.get(node)
    if isinstance(call, ast.keyword):
        call = env.module.parents.get(call)
    if not isinstance(call, ast.Call) or node is call.func:
        return isinstance(call, ast.Call)
    name = env.effects.inference.dotted(call.func, env.module)
    if name is None:  # `", ".join(...)`
        return isinstance(call.func, ast.Attribute) and call.func.attr in ("join", "sort", "extend")
    if name in ("map", "filter", "zip", "enumerate", "reversed", "iter"):
        return _is_used_at_once(call, env) or isinstance(env.module.parents.get(call), ast.For | ast.comprehension)
    return library.role(name) is not library.Role.UNKNOWN and name not in library.TRANSFORMS
