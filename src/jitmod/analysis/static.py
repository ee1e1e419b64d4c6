"""Binding time: which expressions are Python values under a trace too, and which are certain to be computed ones."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from jitmod.analysis import library
from jitmod.analysis.infer import Inference
from jitmod.analysis.library import Role
from jitmod.analysis.reaching import reaching
from jitmod.analysis.values import Constant, Mapping, Number, Record, Sequence, is_device
from jitmod.source.project import SourceModule

_STATIC_ATTRIBUTES = frozenset({"shape", "ndim", "size", "dtype", "weak_type", "__name__", "__class__"})


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
            return not callable(getattr(ast, dotted, None))
        kind = self.inference.kind(expr, module)
        return isinstance(kind, Number | Constant)

    def is_mask(self, index: ast.expr, module: SourceModule) -> bool:
        """Whether an index is a boolean array: a comparison, or a name for one."""
        if isinstance(index, ast.Name):
            scope = self.inference.scope_binding(index.id, index, module)
            values = [b.value for b in reaching(index.id, index, scope)] if scope and scope.parent else []
            return any(isinstance(v, ast.Compare) and not self.is_static(v, module) for v in values)
        return isinstance(index, ast.Compare) and not self.is_static(index, module)

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
            case ast.Subscript(value=ast.Name(id=name) as base):
                scope = self.inference.scope_binding(name, base, module)
                traced = scope is not None and any(b.how == "param" for b in scope.bindings[name])
                return traced and not isinstance(self.inference.kind(base, module), Sequence | Record | Mapping)
        return is_device(self.inference.kind(test, module)) and not self.is_static(test, module)
