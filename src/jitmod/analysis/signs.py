"""Signs of Python numbers: where no sum has operands of two signs, float32 loses as little as it always does.

A sum of numbers of one sign is as exact, relative to itself, as its operands are; of two signs it may cancel to nothing
but rounding errors. So do products and quotients never.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jitmod.analysis.infer import Inference
from jitmod.analysis.reaching import reaching
from jitmod.analysis.values import Number
from jitmod.source.project import Function, SourceModule
from jitmod.source.scopes import Binding, Scope
from jitmod.source.signatures import argument, default_of

_DEPTH = 8
_KEEPING = ("abs", "len", "sum", "min", "max", "float", "int", "round")


def number(expr: ast.expr) -> float | None:
    """The value of a literal number, with its sign."""
    match expr:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = number(operand)
            return None if inner is None else -inner
    return None


def needed_positive(
    expr: ast.expr, module: SourceModule, calls: Sequence[tuple[ast.Call, SourceModule]], entry: Function | None,
    depth: int = _DEPTH,
) -> frozenset[str] | None:  # fmt: skip
    """The parameters of `entry` that must not be negative for `expr` not to be; None where that would not suffice.

    `calls` lead from `entry` to the function around `expr`.
    """
    value = number(expr)
    if value is not None or depth == 0:
        return frozenset() if value is not None and value >= 0 else None
    match expr:
        case ast.BinOp(left=left, op=ast.Add() | ast.Mult() | ast.Div(), right=right):
            sides = [needed_positive(s, module, calls, entry, depth - 1) for s in (left, right)]
            found = [s for s in sides if s is not None]
            return frozenset().union(*found) if len(found) == len(sides) else None
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return needed_positive(operand, module, calls, entry, depth - 1)
        case ast.Name(id=name):
            scope = module.scope_of(expr).find(name)
            bindings = scope.bindings[name] if scope is not None else []
            function = module.functions.get(scope.node) if scope is not None else None
            if len(bindings) != 1 or function is None:
                return None
            (binding,) = bindings
            if binding.how == "assign" and binding.value is not None and not binding.path:
                return needed_positive(binding.value, module, calls, entry, depth - 1)
            if binding.how != "param" or not isinstance(binding.node, ast.arg):
                return None
            if not calls:
                return frozenset({name}) if function is entry else None
            call, outer = calls[-1]
            given = argument(function, call, name)
            return None if given is None else needed_positive(given, outer, calls[:-1], entry, depth - 1)
    return None


@dataclass(frozen=True, eq=False)
class Signs:
    """Which numbers of the calling code are never negative."""

    inference: Inference
    assumed: frozenset[tuple[str, Scope]] = frozenset()  # names whose other values are being looked at

    def is_positive(self, expr: ast.expr, module: SourceModule, depth: int = _DEPTH) -> bool:
        """Whether `expr` is a number for certain, and not negative."""
        value = number(expr)
        if value is not None or depth == 0:
            return value is not None and value >= 0
        match expr:
            case ast.BinOp(left=left, op=ast.Add() | ast.Mult() | ast.Div() | ast.Pow(), right=right):
                power = isinstance(expr.op, ast.Pow) and self._is_number(right, module)
                return self.is_positive(left, module, depth - 1) and (
                    power or self.is_positive(right, module, depth - 1)
                )
            case ast.IfExp(body=body, orelse=orelse):
                return self.is_positive(body, module, depth - 1) and self.is_positive(orelse, module, depth - 1)
            case ast.Call(func=ast.Name(id="len" | "abs")):
                return self._is_number(expr, module)
            case ast.Call(func=ast.Name(id=name), args=[_, *_] as args, keywords=[]) if name in _KEEPING:
                return self._is_number(expr, module) and all(self.is_positive(a, module, depth - 1) for a in args)
            case ast.Name(id=name):
                item = self.inference.comprehension_binding(name, expr, module)
                if item is not None:
                    return self._of_binding(item, module.scope_of(expr), module, depth - 1)
                scope = self.inference.scope_binding(name, expr, module)
                if scope is None or (name, scope) in self.assumed:
                    return scope is not None
                inner = replace(self, assumed=self.assumed | {(name, scope)})
                bindings = reaching(name, expr, scope)
                return bool(bindings) and all(inner._of_binding(b, scope, module, depth - 1) for b in bindings)
        return False

    def _is_number(self, expr: ast.expr, module: SourceModule) -> bool:
        return isinstance(self.inference.kind(expr, module), Number)

    def _of_binding(self, binding: Binding, scope: Scope, module: SourceModule, depth: int) -> bool:
        match binding.how:
            case "assign" if binding.value is not None and not binding.path:
                return self.is_positive(binding.value, module, depth)
            case "assign" if isinstance(binding.value, ast.Tuple) and len(binding.path) == 1:
                return self.is_positive(binding.value.elts[binding.path[0]], module, depth)
            case "augment" if binding.value is not None and isinstance(binding.node, ast.AugAssign):
                keeps = isinstance(binding.node.op, ast.Add | ast.Mult | ast.Div)
                return keeps and self.is_positive(binding.value, module, depth)
            case "item" if binding.value is not None and not binding.path:
                return self._items(binding.value, module, depth)
            case "item" if isinstance(binding.value, ast.Call) and binding.path == (0,):
                counted = getattr(binding.value.func, "id", "") == "enumerate" and not binding.value.keywords
                return counted and len(binding.value.args) == 1
            case "param" if isinstance(binding.node, ast.arg):
                function = module.functions.get(scope.node)
                if function is None or function.decorators or self.inference.project.escapes(binding.name):
                    return False
                sites = self.inference.call_sites(function)
                default = default_of(function, binding.node)
                given = [(argument(function, c, binding.name), m) for m, c in sites]
                known = bool(sites) and not self.inference.project.escapes(function.name.rpartition(".")[2])
                fine = default is None or self.is_positive(default, module, depth)
                return known and fine and all(v is not None and self.is_positive(v, m, depth) for v, m in given)
        return False

    def _items(self, iterable: ast.expr, module: SourceModule, depth: int) -> bool:
        match iterable:
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                return bool(elts) and all(self.is_positive(e, module, depth) for e in elts)
            case ast.ListComp(elt=elt) | ast.GeneratorExp(elt=elt):
                return self.is_positive(elt, module, depth)
            case ast.Call(func=ast.Name(id="range"), args=[start, _, *step]):
                steps = [number(s) for s in step]
                up = all(s is not None and s > 0 for s in steps)
                return up and self.is_positive(start, module, depth)
            case ast.Call(func=ast.Name(id="range"), args=[_]):
                return True
        return False
