"""How many elements an array has, where the text says it: literal shapes, and functions that keep the shape."""

from __future__ import annotations

import ast
import operator
from dataclasses import dataclass
from math import prod

from jitmod.analysis.infer import Inference
from jitmod.analysis.reaching import reaching
from jitmod.source.project import Function, SourceModule
from jitmod.source.scopes import Scope
from jitmod.source.signatures import argument

LARGE = 10_000  # elements: from here on it costs to hold an array as a constant of a program
_DEPTH = 8
# where the shape stands: the position of the argument, and its name
_SHAPED = {"zeros": 0, "ones": 0, "empty": 0, "full": 0, "eye": 0, "identity": 0, "arange": 0, "linspace": 2,
           "random": 0, "standard_normal": 0, "rand": 0, "randn": 0, "normal": 2, "uniform": 2, "integers": 2,
           "randint": 2, "truncated_normal": 3, "bernoulli": 2, "choice": 1, "permutation": 0}  # fmt: skip
_OF_KEYS = {"normal": 1, "uniform": 1, "randint": 1, "truncated_normal": 3, "bernoulli": 2, "exponential": 1,
            "gumbel": 1, "laplace": 1, "rademacher": 1, "bits": 1, "orthogonal": 1}  # fmt: skip
_OPERATORS = {ast.Mult: operator.mul, ast.Add: operator.add, ast.Sub: operator.sub, ast.FloorDiv: operator.floordiv}
_MOST = 2**40
_SHAPE_WORDS = frozenset({"shape", "size", "N", "num", "n"})
_KEEPING = frozenset(
    {
        "asarray", "array", "copy", "astype", "argsort", "sort", "cumsum", "cumprod", "exp", "log", "sqrt", "tanh",
        "sin", "cos", "abs", "square", "zeros_like", "ones_like", "full_like", "flip", "roll", "transpose", "reshape",
        "ravel", "flatten", "negative", "float32", "float16", "bfloat16", "int32", "int64", "int8", "uint8",
        "block_until_ready", "squeeze", "expand_dims", "clip", "round", "softmax", "relu", "swapaxes", "moveaxis",
    }
)  # fmt: skip
_REDUCING = frozenset({"sum", "mean", "max", "min", "prod", "std", "var", "any", "all", "argmax", "argmin"})


@dataclass(frozen=True, eq=False)
class Sizes:
    """Answers for the expressions of one project."""

    inference: Inference

    def of(self, expr: ast.expr, module: SourceModule, depth: int = _DEPTH) -> int | None:
        """The number of elements of `expr`, or at least `LARGE` where it has more for certain; None: not known."""
        if depth == 0:
            return None
        match expr:
            case ast.Constant(value=int() | float() | complex()):
                return 1
            case ast.Name():
                return self._of_name(expr, module, depth - 1)
            case ast.Attribute(value=value, attr="T" | "mT" | "real" | "imag"):
                return self.of(value, module, depth - 1)
            case ast.UnaryOp(operand=operand):
                return self.of(operand, module, depth - 1)
            case ast.BinOp(left=left, op=op, right=right) if not isinstance(op, ast.MatMult):
                return self._joined([self.of(side, module, depth - 1) for side in (left, right)])
            case ast.List(elts=elts) | ast.Tuple(elts=elts) if not any(isinstance(e, ast.Starred) for e in elts):
                known = [self.of(e, module, depth - 1) for e in elts]
                return sum(k for k in known if k is not None) if None not in known else None
            case ast.Call():
                return self._of_call(expr, module, depth - 1)
        return None

    def _joined(self, known: list[int | None]) -> int | None:
        """Of what is broadcast together: as large as the largest, for which one that is large is enough."""
        largest = max((k for k in known if k is not None), default=None)
        if None not in known or (largest is not None and largest >= LARGE):
            return largest
        return None

    def _of_name(self, name: ast.Name, module: SourceModule, depth: int) -> int | None:
        scope = self.inference.scope_binding(name.id, name, module)
        if scope is None or self.inference.comprehension_binding(name.id, name, module) is not None:
            return None
        return self._of_bindings(scope, name.id, name, depth)

    def _of_bindings(self, scope: Scope, name: str, use: ast.AST | None, depth: int) -> int | None:
        bindings = reaching(name, use, scope) if use is not None else scope.bindings[name]
        if len(bindings) != 1:
            return None
        binding = bindings[0]
        match binding.how:
            case "assign" if binding.value is not None and not binding.path:
                return self.of(binding.value, scope.module, depth)
            case "import":
                match self.inference.project.lookup(binding.target):
                    case (Scope() as other, str() as rest) if rest in other.bindings and depth > 0:
                        return self._of_bindings(other, rest, None, depth - 1)
            case "param" if isinstance(function := scope.module.functions.get(scope.node), Function):
                given = [(m, argument(function, c, name)) for m, c in self.inference.call_sites(function)]
                known = [self.of(v, m, depth) if v is not None else None for m, v in given]
                return self._joined(known) if known else None
        return None

    def _of_call(self, call: ast.Call, module: SourceModule, depth: int) -> int | None:
        name = self.inference.dotted(call.func, module) or ""
        last = name.rpartition(".")[2] or getattr(call.func, "attr", "")
        method = isinstance(call.func, ast.Attribute) and not name
        if name.startswith("jax.random.") and last in _OF_KEYS:
            return self._shape(call, _OF_KEYS[last], module, depth)
        if last in _REDUCING and not (call.keywords or len(call.args) > (0 if method else 1)):
            return 1
        if last in _KEEPING:
            source = call.func.value if method and isinstance(call.func, ast.Attribute) else next(iter(call.args), None)
            return self.of(source, module, depth) if source is not None else None
        if last in _SHAPED and (method or name.startswith(("jax.numpy.", "numpy."))):
            number = self._shape(call, _SHAPED[last], module, depth)
            if last in ("rand", "randn"):
                known = [self._number(a, module, depth) for a in call.args]
                return prod(k for k in known if k is not None) if None not in known else None
            squared = last in ("eye", "identity") and number is not None and len(call.args) == 1
            return number * number if squared and number is not None else number
        return None

    def _shape(self, call: ast.Call, position: int, module: SourceModule, depth: int) -> int | None:
        named = [k.value for k in call.keywords if k.arg in _SHAPE_WORDS]
        if getattr(call.func, "attr", "") in ("arange", "eye") and len(call.args) != 1:
            return None  # from where to where, or how many columns
        given = named or call.args[position : position + 1]
        return self._number(given[0], module, depth) if given else None

    def _number(self, expr: ast.expr, module: SourceModule, depth: int) -> int | None:
        """The product of the numbers that an expression, a shape or a length, holds."""
        match expr:
            case ast.Constant(value=int() | float() as value):
                return int(value)
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                known = [self._number(e, module, depth) for e in elts]
                return prod(k for k in known if k is not None) if None not in known else None
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                a, b = self._number(left, module, depth), self._number(right, module, depth)
                if a is None or b is None or not (0 < b < _MOST and 0 <= a < _MOST):
                    return None
                return int(_OPERATORS[type(op)](a, b))
            case ast.Name(id=name) if depth > 0:
                scope = self.inference.scope_binding(name, expr, module)
                bindings = reaching(name, expr, scope) if scope is not None else []
                if len(bindings) == 1 and bindings[0].how == "assign" and bindings[0].value is not None:
                    return self._number(bindings[0].value, module, depth - 1) if not bindings[0].path else None
        return None
