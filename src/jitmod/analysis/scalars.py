"""What traced code does with a Python number: whether a weakly typed array would serve as well.

Each read of the number is followed upwards, through host arithmetic, assignments and calls, to where it meets a device
value, or to what cannot do without a Python number.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from jitmod.analysis import library
from jitmod.analysis.arguments import Arguments
from jitmod.analysis.effects import Effects
from jitmod.analysis.library import Role
from jitmod.analysis.numeric import FLOATS, Numeric
from jitmod.analysis.reaching import reads_of_binding, reads_of_parameter
from jitmod.analysis.signs import needed_positive, number
from jitmod.analysis.values import UNKNOWN, Array, Device, Instance, Kind, Number, Routine, Transformed
from jitmod.source.project import Class, Function, SourceModule
from jitmod.source.signatures import argument

_DEPTH = 6  # calls inside of calls
_ELEMENTWISE = frozenset(
    {
        "add", "subtract", "multiply", "divide", "true_divide", "maximum", "minimum", "where", "clip", "append",
        "logaddexp", "arctan2", "hypot", "mod", "remainder", "fmod", "fmax", "fmin", "equal", "not_equal", "less",
        "less_equal", "greater", "greater_equal", "exp", "log", "sin", "cos", "tan", "tanh", "sinh", "cosh", "sqrt",
        "square", "abs", "sign", "negative", "log1p", "expm1", "floor", "ceil", "isnan", "isfinite",
    }
)  # fmt: skip
_STEPPED = frozenset(
    {"mod", "remainder", "fmod", "floor", "ceil", "sign", "equal", "not_equal", "less", "less_equal", "greater",
     "greater_equal"}
)  # fmt: skip
_MODERATE = 1e9  # literal factors beyond may take a number out of the range of float32 and back
_JOINT = frozenset({"dot", "matmul", "vdot", "inner", "outer", "tensordot", "kron", "cross", "take", "interp", "einsum",
                    "searchsorted", "polyval", "convolve", "select", "allclose", "power", "float_power"})  # fmt: skip
_BY_SHAPE = frozenset({"zeros", "ones", "empty", "full", "arange", "eye", "identity", "tri", "linspace", "logspace",
                       "indices", "nonzero", "flatnonzero", "argwhere", "unique", "bincount"})  # fmt: skip
_FILLS = {"jax.numpy.full": 1, "jax.numpy.full_like": 1, "jax.numpy.asarray": 0, "jax.random.fold_in": 1}
_UPDATES = frozenset({"set", "add", "multiply", "mul", "divide", "min", "max"})
_MAPPERS = ("jax.tree.map", "jax.tree_util.tree_map", "jax.tree_map")


@dataclass(frozen=True)
class Need:
    """Why a number must stay one: a reason code, where, and a few words.

    `positive`: it need not, where these parameters of the compiled function are not negative; None where it must.
    """

    reason: str
    node: ast.AST
    module: SourceModule
    what: str
    positive: frozenset[str] | None = None

    @property
    def where(self) -> str:
        return f"{self.what} ({self.module.document.path}:{getattr(self.node, 'lineno', 0)})"


@dataclass(frozen=True)
class _Trail:
    """How a value came to be where it is: the calls and assignments that led here, and its type where it is known.

    `computed`: host arithmetic in floating point has made it, so that float32 may give it another last digit.
    """

    entry: Function | None
    calls: tuple[tuple[ast.Call, SourceModule], ...] = ()
    type: str = ""
    traced: frozenset[ast.arg] = frozenset()
    computed: bool = False
    assigned: frozenset[ast.AST] = frozenset()
    assumed: frozenset[ast.AST] = frozenset()  # parameters whose later values are being judged

    def entered(self, call: ast.Call, module: SourceModule) -> _Trail:
        return replace(self, calls=(*self.calls, (call, module)))

    def left(self) -> _Trail:
        return replace(self, calls=self.calls[:-1])

    def as_float(self) -> _Trail:
        return replace(self, type="float", computed=True)


@dataclass(frozen=True, eq=False)
class Scalars:
    """Answers for one project. Needs come worst first: Python, then the host's precision, then what is unknown."""

    effects: Effects

    def needs(
        self, reads: Iterable[ast.expr], module: SourceModule, entry: Function | None, kind: Kind,
        traced: frozenset[ast.arg] = frozenset(),
    ) -> list[Need]:  # fmt: skip
        """What the traced code around `reads` needs of a number of this kind.

        `entry` is the compiled function; the parameters `traced` are known to get device values.
        """
        trail = _Trail(entry, type=kind.type if isinstance(kind, Number) else "", traced=traced)
        found = [n for read in reads for n in self._climb(read, module, trail)]
        order = ("scalar-needed-as-python", "host-arithmetic", "unresolved-callee")
        return sorted(dict.fromkeys(found), key=lambda n: (n.positive is not None, order.index(n.reason)))

    def needs_of_parameter(
        self, function: Function, name: str, kind: Kind, traced: frozenset[ast.arg] = frozenset()
    ) -> list[Need]:
        """What the compiled function `function` needs of its parameter `name`."""
        grown = list(self._augmented(name, function))
        return grown or self.needs(reads_of_parameter(function, name), function.module, function, kind, traced)

    def _augmented(self, name: str, function: Function) -> Iterator[Need]:
        """`t += 1`: the reads behind it see another value, made of this one."""
        for binding in function.scope.bindings[name]:
            if binding.how == "augment":
                yield self._unknown(binding.node, function.module)

    def _climb(self, expr: ast.expr, module: SourceModule, trail: _Trail) -> Iterator[Need]:
        parent = module.parents[expr]
        match parent:
            case ast.BinOp():
                yield from self._arithmetic(expr, parent, module, trail)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                yield from self._climb(parent, module, trail)
            case ast.Compare(left=left, comparators=others, ops=ops):
                if all(isinstance(op, ast.Is | ast.IsNot) for op in ops):
                    return
                rest = [e for e in (left, *others) if e is not expr]
                plain = not any(isinstance(op, ast.In | ast.NotIn | ast.Is | ast.IsNot) for op in ops)
                if not (plain and len(rest) == 1 and self._is_traced(rest[0], module, trail)):
                    yield self._python(parent, module)
                elif trail.computed:
                    yield self._stepped(parent, module)
            case ast.IfExp(test=test):
                yield from [self._python(parent, module)] if test is expr else self._climb(parent, module, trail)
            case ast.Subscript(value=value) if value is not expr:
                if getattr(value, "attr", "") == "at":
                    return
                if isinstance(self.effects.inference.kind(value, module), Device):
                    yield self._unknown(parent, module)  # an array, or a list of them
                elif not self._is_traced(value, module, trail):
                    yield self._python(parent, module)
            case ast.keyword() | ast.Call():
                yield from self._passed(expr, parent, module, trail)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                function = module.functions.get(module.scope_of(parent).node)
                if function is None:
                    yield self._unknown(parent, module)
                    return
                yield from self._augmented(name, function)
                if parent in trail.assigned:
                    return  # a loop hands it to itself
                inner = replace(trail, assigned=trail.assigned | {parent})
                for read in reads_of_binding(name, parent, function):
                    yield from self._climb(read, module, inner)
            case ast.AugAssign(target=target) if self._is_traced(target, module, trail):
                if isinstance(parent.op, ast.Pow | ast.MatMult):
                    yield self._python(parent, module)
            case ast.Return():
                yield from self._returned(expr, parent, module, trail)
            case ast.Expr():
                return
            case ast.Tuple() | ast.List() | ast.Dict() | ast.Starred() | ast.Lambda() | ast.AugAssign():
                yield self._unknown(parent, module)
            case _:
                yield self._python(parent, module)

    def _arithmetic(self, expr: ast.expr, parent: ast.BinOp, module: SourceModule, trail: _Trail) -> Iterator[Need]:
        other = parent.right if parent.left is expr else parent.left
        if self._is_traced(other, module, trail):
            exponent = isinstance(parent.op, ast.Pow) and parent.right is expr
            if exponent or isinstance(parent.op, ast.MatMult | ast.LShift | ast.RShift):
                yield self._python(parent, module)
            elif trail.computed and isinstance(parent.op, ast.FloorDiv | ast.Mod):
                yield self._stepped(parent, module)
            return
        kind = self.effects.inference.kind(other, module)
        if not isinstance(kind, Number) and not Numeric(self.effects.inference).holds(other, module):
            if self.effects.times.is_static(other, module):
                yield from self._climb(parent, module, trail)  # with a shape or a length: a Python need, if any
                yield Need("host-arithmetic", parent, module, f"`{ast.unparse(parent)}` is computed on the host")
            else:
                yield self._unknown(parent, module)
            return
        integers = trail.type == "int" and kind == Number("int") and not isinstance(parent.op, ast.Div)
        floats = trail.type == "float" or isinstance(parent.op, ast.Div)
        floats = floats or Numeric(self.effects.inference, types=FLOATS).holds(other, module)
        yield from self._climb(parent, module, trail if integers else trail.as_float())
        small = isinstance(other, ast.Constant) and isinstance(other.value, int) and abs(other.value) < 1 << 16
        if integers and small and isinstance(parent.op, ast.Add | ast.Sub):
            return
        what = f"`{ast.unparse(parent)}` is computed on the host"
        factor = number(other)
        moderate = factor is None or factor == 0 or 1 / _MODERATE < abs(factor) < _MODERATE
        match parent.op:
            case ast.Mult() if floats and moderate:
                return
            case ast.Div() if parent.left is expr and moderate and factor:
                return
            case ast.Div() if factor is None or parent.right is expr:
                yield Need("host-arithmetic", parent, module, f"{what}, where a division by zero raises")
            case ast.Add() if floats:
                positive = needed_positive(parent, module, trail.calls, trail.entry)
                if positive is None:
                    what += ", and in float32 such a sum could cancel"
                yield Need("host-arithmetic", parent, module, what, positive)
            case _:
                yield Need("host-arithmetic", parent, module, f"{what}, and float32 or int32 would not do")

    def _passed(self, expr: ast.expr, parent: ast.AST, module: SourceModule, trail: _Trail) -> Iterator[Need]:
        call = parent if isinstance(parent, ast.Call) else module.parents[parent]
        if not isinstance(call, ast.Call) or call.func is expr:
            yield self._python(parent, module)
            return
        callee = self.effects.inference.kind(call.func, module)
        if Arguments(self.effects).static_use(callee, call, expr):
            yield self._python(call, module)
            return
        while isinstance(callee, Transformed) and callee.transform in library.TRANSFORMS - library.WRAPPERS:
            callee = callee.base
        match callee:
            case Routine(str() as name, receiver):
                yield from self._given_to_library(name, receiver, expr, parent, call, module, trail)
            case Routine(Function() as function, _):
                yield from self._follow(function, expr, call, module, trail)
            case Instance(Class() as cls) if self.effects.inference.classes.is_module(cls):
                called = self.effects.inference.classes.method(cls, "__call__")
                subclasses = self.effects.inference.classes.subclasses(cls)
                if called is None or any("__call__" in sub.methods for sub in subclasses):
                    yield self._unknown(call, module)
                else:
                    yield from self._follow(called, expr, call, module, trail)
            case _:
                yield self._unknown(call, module)

    def _given_to_library(
        self, name: str, receiver: Kind | None, expr: ast.expr, parent: ast.AST, call: ast.Call, module: SourceModule,
        trail: _Trail,
    ) -> Iterator[Need]:  # fmt: skip
        on_at = isinstance(call.func, ast.Attribute) and _is_update(call.func)
        if on_at or (receiver is not None and name.partition(".")[2] in _UPDATES and "at[" in ast.unparse(call.func)):
            return
        positional = isinstance(parent, ast.Call)
        if name.startswith("jax.numpy.") and name.removeprefix("jax.numpy.") in _ELEMENTWISE and positional:
            if trail.computed and name.removeprefix("jax.numpy.") in _STEPPED:
                yield self._stepped(call, module)
            return
        if name in _FILLS and positional and len(call.args) > _FILLS[name] and call.args[_FILLS[name]] is expr:
            return
        on_host = library.role(name) in (Role.STRUCTURE, Role.PULL, Role.NUMPY, Role.HOST)
        if on_host or name in library.STATIC_RESULTS or expr in self.effects.times.shaping(name, call):
            yield self._python(call, module)
        else:
            yield self._unknown(call, module)

    def _follow(
        self, function: Function, expr: ast.expr, call: ast.Call, module: SourceModule, trail: _Trail
    ) -> Iterator[Need]:
        name = next((p.arg for p in function.parameters if argument(function, call, p.arg) is expr), None)
        plain = name is not None and name not in (
            getattr(function.node.args.vararg, "arg", None), getattr(function.node.args.kwarg, "arg", None)
        )  # fmt: skip
        if name is None or not plain or len(trail.calls) >= _DEPTH or any(c is call for c, _ in trail.calls):
            yield self._unknown(call, module)
            return
        yield from self._augmented(name, function)
        inner = trail.entered(call, module)
        for read in reads_of_parameter(function, name):
            yield from self._climb(read, function.module, inner)
        if isinstance(function.node, ast.Lambda) and isinstance(function.node.body, ast.Name):
            yield self._unknown(call, module)

    def _returned(self, expr: ast.expr, parent: ast.Return, module: SourceModule, trail: _Trail) -> Iterator[Need]:
        function = module.functions.get(module.scope_of(parent).node)
        if function is trail.entry and not trail.calls:
            what = f"`{ast.unparse(parent)}` hands it back, and it would come back as an array"
            yield Need("scalar-needed-as-python", parent, module, what)
        elif trail.calls:
            call, outer = trail.calls[-1]
            yield from self._climb(call, outer, trail.left())
        else:
            yield self._unknown(parent, module)

    def _is_traced(self, expr: ast.expr, module: SourceModule, trail: _Trail) -> bool:
        """Whether an operand is a device value for certain, or an item of a tree of them."""
        infer = self.effects.inference
        kind = infer.kind(expr, module)
        if kind != UNKNOWN:
            shape = isinstance(expr, ast.Attribute) and self.effects.times.is_static(expr, module)
            return isinstance(kind, Array | Device) and not shape
        match expr:
            case ast.BinOp(left=left, right=right):
                return self._is_traced(left, module, trail) or self._is_traced(right, module, trail)
            case ast.UnaryOp(operand=operand):
                return self._is_traced(operand, module, trail)
            case ast.Subscript(value=base) | ast.Attribute(value=base, attr="T" | "mT" | "real" | "imag"):
                return self._is_traced(base, module, trail)
            case ast.Call(func=ast.Attribute(value=base, attr=attr)) if attr in library.ARRAY_ONLY_METHODS:
                return self._is_traced(base, module, trail)
            case ast.Name(id=name):
                scope = module.scope_of(expr).find(name)
                bound = scope.bindings[name] if scope is not None else []
                given = next((b.node for b in bound if b.node in trail.traced), None)
                if given is not None:  # what a loop makes of it is one as well
                    known = replace(trail, assumed=trail.assumed | {given})
                    plain = [b.value for b in bound if b.how == "assign" and not b.path and b.value is not None]
                    return given in trail.assumed or (
                        len(plain) == len(bound) - 1 and all(self._is_traced(v, module, known) for v in plain)
                    )
                if scope is not None and isinstance(scope.node, ast.Lambda):
                    user = module.parents[scope.node]
                    return isinstance(user, ast.Call) and infer.dotted(user.func, module) in _MAPPERS
        return False

    def _python(self, node: ast.AST, module: SourceModule) -> Need:
        return Need("scalar-needed-as-python", node, module, f"`{_short(node)}` needs a Python value")

    def _stepped(self, node: ast.AST, module: SourceModule) -> Need:
        what = f"`{_short(node)}` takes a step where the host's arithmetic is exact and float32 is not"
        return Need("host-arithmetic", node, module, what)

    def _unknown(self, node: ast.AST, module: SourceModule) -> Need:
        return Need("unresolved-callee", node, module, f"it cannot be told what `{_short(node)}` does with it")


def takes_array(name: str, call: ast.Call, value: ast.expr) -> bool:
    """Whether a library function takes the argument `value` as an array, traced or not: no shape, axis or count."""
    if not name.startswith(("jax.numpy.", "jax.nn.")) or value not in call.args:
        return False
    last = name.rpartition(".")[2]
    first = value is call.args[0] and last not in _BY_SHAPE
    return first or last in _ELEMENTWISE | _JOINT


def _short(node: ast.AST) -> str:
    match node:
        case ast.If(test=test) | ast.While(test=test):
            return f"{'if' if isinstance(node, ast.If) else 'while'} {ast.unparse(test)}"
        case ast.For(iter=iterable):
            return f"for ... in {ast.unparse(iterable)}"
        case ast.keyword(value=value):
            return ast.unparse(value)
    text = ast.unparse(node).split("\n")[0]
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_update(func: ast.Attribute) -> bool:
    """`x.at[i].set`: the argument is a value."""
    on_at = isinstance(func.value, ast.Subscript) and getattr(func.value.value, "attr", "") == "at"
    return on_at and func.attr in _UPDATES
