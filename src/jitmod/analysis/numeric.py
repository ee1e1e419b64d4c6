"""Which expressions are Python numbers, or what arithmetic on them makes: where the kind alone does not tell."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from jitmod.analysis.infer import Inference
from jitmod.analysis.reaching import reaching
from jitmod.analysis.values import UNKNOWN, Number
from jitmod.source.project import SourceModule
from jitmod.source.scopes import Binding, Scope
from jitmod.source.signatures import argument, default_of

_DEPTH = 8
NUMBERS = frozenset({"int", "float", "complex"})
FLOATS = frozenset({"float"})


@dataclass(frozen=True, eq=False)
class Numeric:
    """A number of unknown origin counts where Python could make nothing else of it than a number, or an array.

    Both may be passed through `jnp.asarray`, which leaves an array as it is. `types`: the numbers that are meant.
    """

    inference: Inference
    types: frozenset[str] = NUMBERS
    assumed: frozenset[tuple[str, Scope]] = frozenset()  # names whose other values are being looked at

    def is_number(self, expr: ast.expr, module: SourceModule, depth: int = _DEPTH) -> bool:
        """Whether `expr` is a number, and no flag, or an array where a number would do as well."""
        kind = self.inference.kind(expr, module)
        if kind != UNKNOWN:
            return isinstance(kind, Number) and kind.type in self.types
        if depth == 0:
            return False
        match expr:
            case ast.BinOp(left=left, op=op, right=right):
                if self.types == FLOATS and not replace(self, types=NUMBERS).is_number(expr, module, depth):
                    return False
                sides = [self.is_number(s, module, depth - 1) for s in (left, right)]
                if self.types == FLOATS:  # one float makes all the rest floats
                    return isinstance(op, ast.Div) or any(sides)
                constants = [isinstance(s, ast.Constant) and isinstance(s.value, int | float) for s in (left, right)]
                floats = [isinstance(s, ast.Constant) and isinstance(s.value, float) for s in (left, right)]
                sure = isinstance(op, ast.Add | ast.Sub | ast.Div | ast.Pow) and any(constants)
                return all(sides) or sure or any(floats)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.is_number(operand, module, depth - 1)
            case ast.IfExp(body=body, orelse=orelse):
                return self.is_number(body, module, depth - 1) and self.is_number(orelse, module, depth - 1)
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

    def _of_binding(self, binding: Binding, scope: Scope, module: SourceModule, depth: int) -> bool:
        name = binding.name
        match binding.how:
            case "assign" if binding.value is not None and not binding.path:
                return self.is_number(binding.value, module, depth)
            case "assign" if isinstance(binding.value, ast.Tuple) and len(binding.path) == 1:
                return self.is_number(binding.value.elts[binding.path[0]], module, depth)
            case "augment" if binding.value is not None:
                return self.is_number(binding.value, module, depth)
            case "item" if binding.value is not None and not binding.path:
                return self._items(binding.value, module, depth)
            case "param" if isinstance(binding.node, ast.arg) and binding.node.annotation is None:
                function = module.functions.get(scope.node)
                if function is None:
                    return False
                default = default_of(function, binding.node)
                given = [(m, argument(function, c, name)) for m, c in self.inference.call_sites(function)]
                plain = default is not None and self.is_number(default, module, depth)
                return (plain or bool(given)) and all(v is not None and self.is_number(v, m, depth) for m, v in given)
        return False

    def _items(self, iterable: ast.expr, module: SourceModule, depth: int) -> bool:
        """Whether iterating gives numbers."""
        match iterable:
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                return bool(elts) and all(self.is_number(e, module, depth) for e in elts)
            case ast.ListComp(elt=elt) | ast.GeneratorExp(elt=elt):
                return self.is_number(elt, module, depth)
            case ast.Name(id=name) if depth > 0:
                scope = self.inference.scope_binding(name, iterable, module)
                bindings = reaching(name, iterable, scope) if scope is not None else []
                return bool(bindings) and all(
                    self._items_of_binding(b, scope, module, depth - 1) for b in bindings if scope is not None
                )
        return False

    def _items_of_binding(self, binding: Binding, scope: Scope, module: SourceModule, depth: int) -> bool:
        function = module.functions.get(scope.node)
        if binding.how == "assign" and binding.value is not None and not binding.path:
            return self._items(binding.value, module, depth)
        if binding.how != "param" or function is None:
            return False
        given = [(m, argument(function, c, binding.name)) for m, c in self.inference.call_sites(function)]
        return bool(given) and all(v is not None and self._items(v, m, depth) for m, v in given)
