"""Signs of Python numbers: where no sum has operands of two signs, float32 loses as little as it always does.

A sum of numbers of one sign is as exact, relative to itself, as its operands are; of two signs it may cancel to nothing
but rounding errors. So do products and quotients never.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from jitmod.analysis.properties import DEPTH, Property
from jitmod.analysis.values import Number
from jitmod.source.project import Function, SourceModule
from jitmod.source.signatures import argument, default_of

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
    depth: int = DEPTH,
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
class Signs(Property):
    """Which numbers of the calling code are never negative."""

    def holds(self, expr: ast.expr, module: SourceModule, depth: int = DEPTH) -> bool:
        """Whether `expr` is a number for certain, and not negative."""
        value = number(expr)
        if value is not None or depth == 0:
            return value is not None and value >= 0
        match expr:
            case ast.BinOp(left=left, op=ast.Add() | ast.Mult() | ast.Div() | ast.Pow(), right=right):
                power = isinstance(expr.op, ast.Pow) and self._is_number(right, module)
                return self.holds(left, module, depth - 1) and (
                    power or self.holds(right, module, depth - 1)
                )
            case ast.IfExp(body=body, orelse=orelse):
                return self.holds(body, module, depth - 1) and self.holds(orelse, module, depth - 1)
            case ast.Call(func=ast.Name(id="len" | "abs")):
                return self._is_number(expr, module)
            case ast.Call(func=ast.Name(id=name), args=[_, *_] as args, keywords=[]) if name in _KEEPING:
                return self._is_number(expr, module) and all(self.holds(a, module, depth - 1) for a in args)
            case ast.Name():
                return self.of_name(expr, module, depth - 1)
        return False

    def _is_number(self, expr: ast.expr, module: SourceModule) -> bool:
        return isinstance(self.inference.kind(expr, module), Number)

    def augmented(self, before: bool, op: ast.operator, value: bool) -> bool:
        return before and value and isinstance(op, ast.Add | ast.Mult | ast.Div)

    def of_parameter(self, parameter: ast.arg, function: Function, depth: int) -> bool:
        hidden = self.inference.project.escapes
        if function.decorators or hidden(parameter.arg) or hidden(function.name.rpartition(".")[2]):
            return False
        default = default_of(function, parameter)
        fine = default is None or self.holds(default, function.module, depth)
        return fine and self.given(parameter.arg, function, depth)

    def of_items(self, iterable: ast.expr, module: SourceModule, depth: int) -> bool:
        match iterable:
            case ast.Call(func=ast.Name(id="range"), args=[start, _, *step]):
                steps = [number(s) for s in step]
                up = all(s is not None and s > 0 for s in steps)
                return up and self.holds(start, module, depth)
            case ast.Call(func=ast.Name(id="range"), args=[_]):
                return True
        return super().of_items(iterable, module, depth)

    def of_unpacked_item(self, iterable: ast.expr, path: tuple[int, ...]) -> bool:
        """The position that `enumerate` counts from 0."""
        match iterable:
            case ast.Call(func=ast.Name(id="enumerate"), args=[_], keywords=[]):
                return path == (0,)
        return False
