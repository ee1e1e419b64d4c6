"""Number types of what a function computes, as far as they are proved: strong float32, or what bends to others.

Only what everybody can see is believed: arrays made without a dtype, `jnp.float32(...)`, and arithmetic on those. It
holds without double precision only; whoever asks must look for that.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from jitmod.analysis.infer import Inference
from jitmod.analysis.reaching import reaching
from jitmod.analysis.values import Routine
from jitmod.source.nodes import walk
from jitmod.source.project import Function, SourceModule
from jitmod.source.scopes import Binding, Scope
from jitmod.source.signatures import argument

_DEPTH = 4  # calls inside of calls
_FLOATING = frozenset({"sin", "cos", "tan", "tanh", "sinh", "cosh", "exp", "expm1", "log", "log1p", "sqrt"})
_KEEPING = frozenset({"abs", "negative", "square", "ravel", "reshape", "transpose", "squeeze", "flip", "roll", "sort"})
_REDUCING = frozenset({"sum", "mean", "max", "min", "prod", "cumsum"})
_JOINING = frozenset({"add", "subtract", "multiply", "maximum", "minimum", "outer", "inner", "dot", "matmul"})
_MAKERS = {"jax.numpy.linspace": 3, "jax.numpy.ones": 1, "jax.numpy.zeros": 1, "jax.numpy.eye": 1,
           "jax.random.normal": 2, "jax.random.uniform": 2}  # fmt: skip
_NUMPY = "jax.numpy."


class Type(Enum):
    """`FLOAT` is a float32 array that others bend to; `WEAK` and `COUNT` are a Python float and int, or weak arrays.

    `WHOLE`: an array of integers or flags. `OPEN`: what a loop hands to itself, as long as nothing else is known of it.
    """

    FLOAT = "float32"
    WEAK = "weak float"
    WHOLE = "integers"
    COUNT = "weak integer"
    OPEN = "open"


def promoted(a: Type | None, b: Type | None) -> Type | None:
    """The type of a sum or product; None where it is not proved."""
    if a is None or b is None:
        return None
    for one, other in ((a, b), (b, a)):
        if one is Type.OPEN:
            return other
    for strongest in (Type.FLOAT, Type.WEAK, Type.WHOLE):
        if strongest in (a, b):
            return strongest
    return Type.COUNT


@dataclass(frozen=True, eq=False)
class Precision:
    """Answers for one call of a function: `given` are the types of its parameters."""

    inference: Inference
    given: Mapping[ast.arg, Type | None] = field(default_factory=dict)
    depth: int = 0
    open: frozenset[Binding] = frozenset()  # those that are being looked at: a loop hands their values to themselves

    def of(self, expr: ast.expr, module: SourceModule) -> Type | None:
        """The type of a value; None where it is not proved."""
        match expr:
            case ast.Constant(value=bool()):
                return None
            case ast.Constant(value=float()):
                return Type.WEAK
            case ast.Constant(value=int()):
                return Type.COUNT
            case ast.Name(id=name):
                return self._of_name(expr, name, module)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                return self.of(operand, module)
            case ast.Compare(left=left, comparators=others):
                return None if None in (self.of(e, module) for e in (left, *others)) else Type.WHOLE
            case ast.BinOp(left=left, op=op, right=right):
                return _arithmetic(self.of(left, module), op, self.of(right, module))
            case ast.IfExp(body=body, orelse=orelse):
                return _agreed([self.of(body, module), self.of(orelse, module)])
            case ast.Subscript(value=value, slice=ast.Slice() | ast.Constant(value=int())):
                return self._strong(value, module)
            case ast.Attribute(value=value, attr="T" | "mT"):
                return self._strong(value, module)
            case ast.Call(keywords=[]):
                return self._of_call(expr, module)
        return None

    def results(self, function: Function) -> list[Type | None] | None:
        """The types of what a function returns, one for each item of a tuple; None where it returns in several ways."""
        if isinstance(function.node, ast.Lambda):
            return None
        own = [n for n in walk(function.node) if isinstance(n, ast.Return | ast.Yield | ast.YieldFrom)
               and function.module.scope_of(n) is function.scope]  # fmt: skip
        if len(own) != 1 or not isinstance(own[0], ast.Return) or own[0].value is None:
            return None
        value = own[0].value
        items = value.elts if isinstance(value, ast.Tuple) else [value]
        return [self.of(item, function.module) for item in items]

    def _strong(self, expr: ast.expr, module: SourceModule) -> Type | None:
        found = self.of(expr, module)
        return found if found in (Type.FLOAT, Type.WHOLE, Type.OPEN) else None

    def _of_name(self, expr: ast.Name, name: str, module: SourceModule) -> Type | None:
        infer = self.inference
        scope = infer.scope_binding(name, expr, module)
        if scope is None or infer.comprehension_binding(name, expr, module) is not None:
            return None
        bindings = reaching(name, expr, scope)
        if scope.parent is None and (len(bindings) != 1 or any(name in s.rebinds for s in module.scopes.values())):
            return None
        return _agreed([self._of_binding(b, scope) for b in bindings])

    def _of_binding(self, binding: Binding, scope: Scope) -> Type | None:
        if binding in self.open:
            return Type.OPEN
        module, inner = scope.module, replace(self, open=self.open | {binding})
        match binding.how:
            case "param" if isinstance(binding.node, ast.arg):
                return self.given.get(binding.node)
            case "assign" if binding.value is not None and not binding.path:
                return inner.of(binding.value, module)
            case "assign" if isinstance(binding.value, ast.Tuple) and len(binding.path) == 1:
                return inner.of(binding.value.elts[binding.path[0]], module)
            case "augment" if isinstance(binding.node, ast.AugAssign) and isinstance(binding.node.target, ast.Name):
                target = binding.node.target
                before = _agreed([inner._of_binding(b, scope) for b in reaching(target.id, target, scope)])
                return _arithmetic(before, binding.node.op, inner.of(binding.node.value, module))
            case "item" if isinstance(binding.value, ast.Call) and not binding.path:
                counts = self.inference.dotted(binding.value.func, module) == "range"
                return Type.COUNT if counts else None
        return None

    def _of_call(self, call: ast.Call, module: SourceModule) -> Type | None:
        name = self.inference.dotted(call.func, module)
        if name is None or not name.startswith("jax."):
            kind = self.inference.kind(call.func, module)
            if isinstance(kind, Routine) and isinstance(kind.target, Function) and kind.receiver is None:
                return self._of_function(kind.target, call, module)
            on_array = isinstance(call.func, ast.Attribute) and call.func.attr in _REDUCING | _KEEPING
            return self._strong(call.func.value, module) if on_array else None  # type: ignore[attr-defined]
        types = [self.of(a, module) for a in call.args]
        if name in _MAKERS and 1 <= len(call.args) <= _MAKERS[name]:
            return Type.FLOAT
        short = name.removeprefix(_NUMPY)
        if not name.startswith(_NUMPY) or not types or types[0] is None:
            return None
        if short == "float32" and len(types) == 1:
            return Type.FLOAT
        if short in _FLOATING and len(types) == 1:
            return types[0] if types[0] in (Type.FLOAT, Type.WEAK, Type.OPEN) else None
        if short in _KEEPING or (short in _REDUCING and types[0] in (Type.FLOAT, Type.OPEN)):
            return types[0]
        if short in _JOINING and len(types) == 2:
            return promoted(types[0], types[1])
        if short == "where" and len(types) == 3:
            return promoted(types[1], types[2])
        return None

    def _of_function(self, function: Function, call: ast.Call, module: SourceModule) -> Type | None:
        if self.depth >= _DEPTH or function.decorators:
            return None
        values = {p: argument(function, call, p.arg) for p in function.parameters}
        given = {p: None if v is None else self.of(v, module) for p, v in values.items()}
        found = Precision(self.inference, given, self.depth + 1).results(function)
        return found[0] if found is not None and len(found) == 1 else None


def _agreed(types: Iterable[Type | None]) -> Type | None:
    """The type of a value that is one of several."""
    found = list(types)
    known = {t for t in found if t is not Type.OPEN}
    if not known:
        return Type.OPEN if found else None
    return known.pop() if len(known) == 1 else None


def _arithmetic(left: Type | None, op: ast.operator, right: Type | None) -> Type | None:
    match op:
        case ast.Add() | ast.Sub() | ast.Mult():
            return promoted(left, right)
        case ast.Div():
            floats = {Type.FLOAT, Type.WEAK} & {left, right}
            return promoted(left, right) if floats else None
        case ast.MatMult():
            return promoted(left, right) if {left, right} <= {Type.FLOAT, Type.OPEN} else None
        case ast.Pow():
            return left if right is Type.COUNT and left in (Type.FLOAT, Type.WEAK, Type.OPEN) else None
    return None
