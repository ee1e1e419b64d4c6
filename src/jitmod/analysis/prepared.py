"""What a compiled function computes from captured arrays alone: the same in every call, so once is enough."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from jitmod.analysis import library
from jitmod.analysis.effects import Effects
from jitmod.analysis.library import Role
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.syntax import names_of_target
from jitmod.analysis.values import Array, Constant, Device, Number, Routine
from jitmod.source.nodes import children, walk
from jitmod.source.project import Function, SourceModule

_STATIC = frozenset({"shape", "ndim", "size", "dtype"})
_VIEWS = frozenset({"T", "mT", "real", "imag", "at"})
# functions that cost nothing inside a compiled function: what they make is not worth to be kept
_CHEAP = frozenset({"asarray", "reshape", "transpose", "expand_dims", "squeeze", "ravel", "broadcast_to", "swapaxes",
                    "moveaxis", "take"})  # fmt: skip
_CONSTANT = ("jax.", "numpy.", "math.", "equinox.")
_PACKAGES = ("jax.numpy.", "jax.nn.", "jax.lax.", "jax.scipy.", "jax.ops.")


class Time(IntEnum):
    """When the value of an expression is known."""

    FIXED = 0  # a Python value, or something that is as small as one
    PREPARED = 1  # computed from captured arrays, and what is fixed
    CALLED = 2  # needs what a call passes, or what cannot be told


@dataclass(frozen=True, eq=False)
class Prepared:
    """What may be computed once: whole statements, in order, and expressions within others."""

    statements: tuple[ast.Assign, ...]
    expressions: tuple[ast.expr, ...]
    names: Mapping[str, Time]  # what the statements bind


@dataclass(eq=False)
class Preparing:
    """Finds it in `function`, which captures the arrays `arrays`; `fixed` are other names that stay the same."""

    function: Function
    arrays: frozenset[str]
    fixed: frozenset[str]
    effects: Effects
    above: int  # only what is defined above this line of the module level may be called
    _times: dict[str, Time] = field(default_factory=dict)

    @property
    def _module(self) -> SourceModule:
        return self.function.module

    def find(self) -> Prepared:
        """Raises `Unplannable` where something is prepared on some condition, or in a nested function."""
        node = self.function.node
        assert isinstance(node, ast.FunctionDef)
        statements: list[ast.Assign] = []
        expressions: list[ast.expr] = []
        certain = True  # so far, no statement may have left the function
        for statement in node.body:
            if certain and isinstance(statement, ast.Assign) and self._is_prepared(statement):
                statements.append(statement)
                continue
            simple = isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return | ast.Expr)
            for expr in self._maximal(statement, simple and certain):
                if not certain or not simple or not self._is_unconditional(expr, statement):
                    text = ast.unparse(expr)[:60]
                    what = f"`{text}` is the same in every call, but computed on a condition, or in a nested function"
                    raise Unplannable("guarded-work", expr, f"{what}; compute it once outside")
                expressions.append(expr)
            left = (ast.Return, ast.Raise, ast.Break, ast.Continue)
            certain = certain and (simple or not any(isinstance(n, left) for n in walk(statement)))
        return self._needed(statements, expressions)

    def _needed(self, statements: list[ast.Assign], expressions: list[ast.expr]) -> Prepared:
        """Without statements that cost nothing and are not needed for what does."""
        wanted = [s for s in statements if self._times[_bound(s)[0]] is Time.PREPARED and self._is_heavy(s.value)]
        while True:
            parts = [*expressions, *[s.value for s in wanted]]
            names = {n.id for part in parts for n in walk(part) if isinstance(n, ast.Name)}
            more = [s for s in statements if s not in wanted and names & set(_bound(s))]
            if not more:
                break
            wanted += more
        kept = tuple(s for s in statements if s in wanted)
        return Prepared(kept, tuple(expressions), {n: self._times[n] for s in kept for n in _bound(s)})

    def _is_prepared(self, statement: ast.Assign) -> bool:
        """Whether a statement computes the same in every call; its names are known from then on."""
        names = names_of_target(statement.targets[0]) if len(statement.targets) == 1 else None
        time = self.time(statement.value)
        if names is None or time is Time.CALLED:
            return False
        scope = self.function.scope
        rebound = {n for s in self._module.scopes.values() for n in s.rebinds}
        if any(len(scope.bindings[n]) != 1 or n in rebound for n in names):
            return False
        if time is Time.FIXED and not self._is_plain(statement.value):
            return False
        self._times |= dict.fromkeys(names, time)
        return True

    def _is_plain(self, expr: ast.expr) -> bool:
        """A Python value, such as a length."""
        kind = self.effects.inference.kind(expr, self._module)
        return isinstance(kind, Number | Constant)

    def time(self, expr: ast.expr) -> Time:
        """When an expression of the function is known."""
        infer, module = self.effects.inference, self._module
        match expr:
            case ast.Constant():
                return Time.FIXED
            case ast.Name(id=name, ctx=ast.Load()):
                return self._of_name(expr, name)
            case ast.Attribute(value=value, attr=attr):
                dotted = infer.dotted(expr, module)
                if dotted is not None:
                    changes = any(True for _ in self.effects.frozen.of_attribute(expr, module))
                    known = dotted.startswith(_CONSTANT) or not isinstance(infer.project.lookup(dotted), str)
                    return Time.FIXED if known and not changes else Time.CALLED
                base = self.time(value)
                if base is Time.PREPARED and attr in _STATIC:
                    return Time.FIXED
                return base if base is Time.PREPARED and attr in _VIEWS else Time.CALLED
            case ast.Call():
                return self._of_call(expr)
            case ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.Subscript() | ast.Slice() | ast.Tuple() | ast.List():
                parts = [c for c in children(expr) if isinstance(c, ast.expr)]
                return max((self.time(part) for part in parts), default=Time.FIXED)
        return Time.CALLED

    def _of_name(self, node: ast.Name, name: str) -> Time:
        infer, module = self.effects.inference, self._module
        if infer.comprehension_binding(name, node, module) is not None:
            return Time.CALLED
        scope = infer.scope_binding(name, node, module)
        if scope is None:
            return Time.FIXED if name in ("slice", "None", "Ellipsis") else Time.CALLED
        if scope is self.function.scope:
            return self._times.get(name, Time.CALLED)
        if name in self.arrays and not self._is_inner(scope.node):
            return Time.PREPARED
        imported = infer.dotted(node, module) is not None and not any(
            True for _ in self.effects.frozen.of_variable(scope, name)
        )
        fixed = imported or name in self.fixed
        return Time.FIXED if fixed and not self._is_inner(scope.node) else Time.CALLED

    def _is_inner(self, node: ast.AST) -> bool:
        return self.function.node in self._module.ancestors(node)

    def _of_call(self, call: ast.Call) -> Time:
        infer, module = self.effects.inference, self._module
        values = [*call.args, *[k.value for k in call.keywords]]
        if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
            return Time.CALLED
        given = max((self.time(v) for v in values), default=Time.FIXED)
        name = infer.dotted(call.func, module)
        if name == "len" and len(call.args) == 1 and given is not Time.CALLED:
            return Time.FIXED
        if name is not None and name.startswith(_PACKAGES) and library.role(name) is Role.PURE:
            return given if self.effects.times.needs_static(name, call, module) is None else Time.CALLED
        kind = infer.kind(call.func, module)
        if isinstance(call.func, ast.Attribute) and isinstance(kind, Routine) and isinstance(kind.target, str):
            receiver = self.time(call.func.value)
            pure = isinstance(kind.receiver, Array | Device) and not self.effects.of_call(call, module)
            return max(receiver, given) if pure and receiver is Time.PREPARED else Time.CALLED
        if given is Time.PREPARED:
            if isinstance(kind, Routine) and kind.receiver is None and self._is_pure(kind.target):
                return Time.PREPARED
            what = f"`{ast.unparse(call)[:60]}` gets captured arrays alone, and it cannot be told whether it is pure"
            raise Unplannable("unresolved-callee", call, what)
        return Time.CALLED

    def _is_pure(self, target: Function | str) -> bool:
        own = isinstance(target, Function) and self._is_known_above(target, set())
        return own and isinstance(target, Function) and not self.effects.of_function(target)

    def _is_known_above(self, function: Function, seen: set[Function]) -> bool:
        """Whether a function of this file, with all that it reads, is there when the line `above` runs."""
        if function in seen:
            return True
        seen.add(function)
        module = self._module
        own = function.module is module and function.scope.parent is module.scope and not function.decorators
        if not own or function.node.lineno >= self.above:
            return False
        for node in walk(function.node):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                scope = module.scope_of(node).find(node.id)
                if scope is module.scope:
                    bindings = scope.bindings[node.id]
                    if not all(getattr(b.node, "lineno", self.above) < self.above for b in bindings):
                        return False
                    for binding in bindings:
                        if binding.how == "def" and not self._is_known_above(module.functions[binding.node], seen):
                            return False
        return True

    # -- parts of other expressions ----------------------------------------------------------------------------------

    def _maximal(self, root: ast.AST, certain: bool) -> Iterator[ast.expr]:
        """The largest prepared expressions below `root` that cost something."""
        for child in children(root):
            inner = isinstance(child, ast.expr) and isinstance(getattr(child, "ctx", ast.Load()), ast.Load)
            if inner and isinstance(child, ast.expr) and self.time(child) is Time.PREPARED:
                if self._is_heavy(child):
                    yield child
                continue
            yield from self._maximal(child, certain)

    def _is_heavy(self, expr: ast.expr) -> bool:
        """Whether an expression computes something, and does not only look at an array in another way."""
        for node in walk(expr):
            if isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare):
                parts = [c for c in children(node) if isinstance(c, ast.expr)]
                if any(self.time(part) is Time.PREPARED for part in parts):
                    return True
            elif isinstance(node, ast.Call) and self.time(node) is Time.PREPARED:
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name not in _CHEAP:
                    return True
        return False

    def _is_unconditional(self, expr: ast.expr, statement: ast.stmt) -> bool:
        """Whether a part of a simple statement is evaluated whenever the statement is."""
        inner: ast.AST = expr
        for parent in self._module.ancestors(expr):
            match parent:
                case ast.IfExp(test=test) if inner is not test:
                    return False
                case ast.BoolOp(values=[first, *_]) if inner is not first:
                    return False
                case ast.Compare(ops=ops) if len(ops) > 1:
                    return False
                case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                    return False
            if parent is statement:
                return True
            inner = parent
        return False


def _bound(statement: ast.Assign) -> tuple[str, ...]:
    return names_of_target(statement.targets[0]) or ()
