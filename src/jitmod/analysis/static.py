"""Binding time: which expressions are Python values under a trace too, and which are certain to be computed ones."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from jitmod.analysis import library
from jitmod.analysis.infer import Inference
from jitmod.analysis.library import Role
from jitmod.analysis.reaching import reaching
from jitmod.analysis.values import Array, Constant, Device, Mapping, NdArray, Number, Record, Sequence, is_device
from jitmod.source.project import SourceModule

_STATIC_ATTRIBUTES = frozenset({"shape", "ndim", "size", "dtype", "weak_type", "__name__", "__class__"})

_PYTHON_ONLY = frozenset({"min", "max", "sorted", "any", "all", "range", "round", "divmod", "chr", "enumerate.start"})
_SHAPE_WORDS = ("shape", "num", "num_classes", "size", "length", "N", "M", "indices_or_sections", "newshape")
# functions with arguments that shape the result, and where those stand
_SHAPES = {f"jax.numpy.{name}": (0, 4) for name in ("arange", "zeros", "ones", "empty", "eye", "identity", "tri")} | {
    "jax.numpy.full": (0, 1), "jax.numpy.linspace": (2, 3), "jax.numpy.tile": (1, 2), "jax.nn.one_hot": (1, 2),
    "jax.numpy.reshape": (1, 2), "jax.numpy.broadcast_to": (1, 2), "jax.numpy.split": (1, 2),
    "jax.random.split": (1, 2), "jax.random.normal": (1, 2), "jax.random.uniform": (1, 2),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class BindingTimes:
    """Judges expressions of functions that are to be traced."""

    inference: Inference

    def is_static(self, expr: ast.expr, module: SourceModule) -> bool:
        """Whether an expression is a Python value under a trace too: constants, shapes, lengths, static fields."""
        match expr:
            case ast.Constant() | ast.JoinedStr():
                return True
            case ast.Attribute(attr=attr) if attr in _STATIC_ATTRIBUTES:
                return True
            case ast.Call(func=ast.Name(id="len")):
                return True
            case ast.Call(args=args):
                name = self.inference.dotted(expr.func, module)
                known = name is not None and library.role(name) in (Role.STRUCTURE, Role.NUMPY, Role.PULL)
                return known and bool(args) and all(self.is_static(a, module) for a in args)
            case ast.BinOp(left=left, right=right):
                return self.is_static(left, module) and self.is_static(right, module)
            case ast.UnaryOp(operand=operand):
                return self.is_static(operand, module)
            case ast.Subscript(value=value):
                return self.is_static(value, module)
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                return all(self.is_static(e, module) for e in elts)
            case ast.Compare(left=left, comparators=others):
                return all(self.is_static(e, module) for e in (left, *others))
        dotted = self.inference.dotted(expr, module)
        if dotted is not None and dotted.startswith(("numpy.", "math.", "jax.numpy.")):
            return True
        kind = self.inference.kind(expr, module)
        return isinstance(kind, Number | Constant)

    def of_subscript(self, node: ast.Subscript, module: SourceModule) -> tuple[str, str] | None:
        """What keeps a subscript from being traced: a mask, a computed slice, a computed index into a list."""
        text = ast.unparse(node)
        index = node.slice
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        if any(self.is_mask(part, module) for part in parts):
            return "ragged-items", f"the shape of `{text}` depends on values"
        for part in parts:
            bounds = (part.lower, part.upper, part.step) if isinstance(part, ast.Slice) else ()
            if any(bound is not None and self.is_computed(bound, module) for bound in bounds):
                return "slice-bounds", f"the bounds of `{text}` are computed values"
        base = self.inference.kind(node.value, module)
        on_at = isinstance(node.value, ast.Attribute) and node.value.attr == "at"
        if self.is_computed(index, module) and not on_at and not isinstance(base, Array | Device | NdArray):
            return "scalar-needed-as-python", f"`{text}` needs a computed value as a Python index"
        return None

    def needs_static(self, name: str, call: ast.Call, module: SourceModule) -> ast.expr | None:
        """The computed argument that a library function needs as a Python value, if there is one."""
        if name == "jax.numpy.where" and len(call.args) == 1:
            return call.args[0]
        if name.startswith("jax.ops.segment_"):
            given = len(call.args) > 2 or any(k.arg == "num_segments" for k in call.keywords)
            return None if given else call.func
        return next((w for w in self.shaping(name, call) if self.is_computed(w, module)), None)

    def shaping(self, name: str, call: ast.Call) -> list[ast.expr]:
        """The arguments that a library function needs as Python values."""
        if name.startswith("math.") or name in _PYTHON_ONLY:
            return list(call.args)
        if name == "jax.numpy.repeat":
            return [] if any(k.arg == "total_repeat_length" for k in call.keywords) else call.args[1:2]
        if name in _SHAPES:
            named = [k.value for k in call.keywords if k.arg in _SHAPE_WORDS]
            return [*call.args[slice(*_SHAPES[name])], *named]
        return []

    def is_mask(self, index: ast.expr, module: SourceModule) -> bool:
        """Whether an index is a boolean array: comparisons, what joins them, and names for such."""
        parts, seen = [index], set[ast.expr]()
        while parts:
            part = parts.pop()
            if part in seen:  # a mask that a loop joins others to
                continue
            seen.add(part)
            match part:
                case ast.Name(id=name):
                    scope = self.inference.scope_binding(name, part, module)
                    values = [b.value for b in reaching(name, part, scope)] if scope and scope.parent else []
                    parts += [value for value in values if value is not None]
                case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() | ast.BitXor(), right=right):
                    parts += [left, right]
                case ast.UnaryOp(op=ast.Invert(), operand=operand):
                    parts.append(operand)
                case ast.Call(func=func):
                    called = self.inference.dotted(func, module) or ""
                    if called.startswith("jax.numpy.") and called.rpartition(".")[2].startswith(("is", "logical_")):
                        return True
                case ast.Compare() if not self.is_static(part, module):
                    return True
        return False

    def is_computed(self, test: ast.expr, module: SourceModule) -> bool:
        """Whether a condition is certain to depend on device values."""
        match test:
            case ast.BoolOp(values=values):
                return any(self.is_computed(v, module) for v in values)
            case ast.UnaryOp(operand=operand):
                return self.is_computed(operand, module)
            case ast.Compare(ops=ops) if any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in ops):
                return False
            case ast.Compare(left=left, comparators=others):
                if any(self.is_computed(e, module) for e in (left, *others)):
                    return True
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                return any(self.is_computed(e, module) for e in elts)
            case ast.BinOp(left=left, right=right):
                return self.is_computed(left, module) or self.is_computed(right, module)
            case ast.Subscript(value=ast.Name(id=name) as base):
                scope = self.inference.scope_binding(name, base, module)
                traced = scope is not None and any(b.how == "param" for b in scope.bindings[name])
                return traced and not isinstance(self.inference.kind(base, module), Sequence | Record | Mapping)
        return is_device(self.inference.kind(test, module)) and not self.is_static(test, module)
