"""Which expressions are Python numbers, or what arithmetic on them makes: where the kind alone does not tell."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from jitmod.analysis.properties import DEPTH, Property
from jitmod.analysis.reaching import reaching
from jitmod.analysis.values import UNKNOWN, Number
from jitmod.source.project import Function, SourceModule
from jitmod.source.scopes import Binding, Scope
from jitmod.source.signatures import argument, default_of

NUMBERS = frozenset({"int", "float", "complex"})
FLOATS = frozenset({"float"})


@dataclass(frozen=True, eq=False)
class Numeric(Property):
    """A number of unknown origin counts where Python could make nothing else of it than a number, or an array.

    Both may be passed through `jnp.asarray`, which leaves an array as it is. `types`: the numbers that are meant.
    """

    types: frozenset[str] = NUMBERS

    def holds(self, expr: ast.expr, module: SourceModule, depth: int = DEPTH) -> bool:
        """Whether `expr` is a number, and no flag, or an array where a number would do as well."""
        kind = self.inference.kind(expr, module)
        if kind != UNKNOWN:
            return isinstance(kind, Number) and kind.type in self.types
        if depth == 0:
            return False
        match expr:
            case ast.BinOp(left=left, op=op, right=right):
                if self.types == FLOATS and not replace(self, types=NUMBERS).holds(expr, module, depth):
                    return False
                sides = [self.holds(s, module, depth - 1) for s in (left, right)]
                if self.types == FLOATS:  # one float makes all the rest floats
                    return isinstance(op, ast.Div) or any(sides)
                constants = [isinstance(s, ast.Constant) and isinstance(s.value, int | float) for s in (left, right)]
                floats = [isinstance(s, ast.Constant) and isinstance(s.value, float) for s in (left, right)]
                sure = isinstance(op, ast.Add | ast.Sub | ast.Div | ast.Pow) and any(constants)
                return all(sides) or sure or any(floats)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.holds(operand, module, depth - 1)
            case ast.IfExp(body=body, orelse=orelse):
                return self.holds(body, module, depth - 1) and self.holds(orelse, module, depth - 1)
            case ast.Name():
                return self.of_name(expr, module, depth - 1)
        return False

    def augmented(self, before: bool, op: ast.operator, value: bool) -> bool:
        return before or value if self.types == FLOATS else before and value  # one float makes floats

    def of_parameter(self, parameter: ast.arg, function: Function, depth: int) -> bool:
        if parameter.annotation is not None:
            return False
        default = default_of(function, parameter)
        plain = default is not None and self.holds(default, function.module, depth)
        sites = self.inference.call_sites(function)
        return self.given(parameter.arg, function, depth) if sites else plain

    def of_items(self, iterable: ast.expr, module: SourceModule, depth: int) -> bool:
        """Whether iterating gives numbers: also what a name or parameter holds."""
        if not isinstance(iterable, ast.Name) or depth <= 0:
            return super().of_items(iterable, module, depth)
        scope = self.inference.scope_binding(iterable.id, iterable, module)
        bindings = reaching(iterable.id, iterable, scope) if scope is not None else []
        return bool(bindings) and all(
            self._items_of_binding(b, scope, depth - 1) for b in bindings if scope is not None
        )

    def _items_of_binding(self, binding: Binding, scope: Scope, depth: int) -> bool:
        module = scope.module
        function = module.functions.get(scope.node)
        if binding.how == "assign" and binding.value is not None and not binding.path:
            return self.of_items(binding.value, module, depth)
        if binding.how != "param" or function is None:
            return False
        values = [(m, argument(function, c, binding.name)) for m, c in self.inference.call_sites(function)]
        return bool(values) and all(v is not None and self.of_items(v, m, depth) for m, v in values)
