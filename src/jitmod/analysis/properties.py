"""Properties that a name has where everything that it may be bound to has them."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

from jitmod.analysis.infer import Inference
from jitmod.analysis.reaching import reaching
from jitmod.source.project import Function, SourceModule
from jitmod.source.scopes import Binding, Scope
from jitmod.source.signatures import argument

DEPTH = 8


@dataclass(frozen=True, eq=False)
class Property(ABC):
    """A question about expressions; `assumed` are the bindings that are being looked at: a loop asks for them again."""

    inference: Inference
    assumed: frozenset[Binding] = frozenset()

    @abstractmethod
    def holds(self, expr: ast.expr, module: SourceModule, depth: int = DEPTH) -> bool:
        """Whether the value of `expr` has the property for certain."""

    @abstractmethod
    def augmented(self, before: bool, op: ast.operator, value: bool) -> bool:
        """Whether `a op= b` leaves a name with the property; `before` and `value`: whether `a` and `b` have it."""

    @abstractmethod
    def of_parameter(self, parameter: ast.arg, function: Function, depth: int) -> bool: ...

    def of_name(self, name: ast.Name, module: SourceModule, depth: int) -> bool:
        item = self.inference.comprehension_binding(name.id, name, module)
        if item is not None:
            return self._of_binding(item, module.scope_of(name), depth)
        scope = self.inference.scope_binding(name.id, name, module)
        bindings = reaching(name.id, name, scope) if scope is not None else []
        return bool(bindings) and all(self._of_binding(b, scope, depth) for b in bindings if scope is not None)

    def of_items(self, iterable: ast.expr, module: SourceModule, depth: int) -> bool:
        """Whether every item has the property."""
        match iterable:
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                return bool(elts) and all(self.holds(e, module, depth) for e in elts)
            case ast.ListComp(elt=elt) | ast.GeneratorExp(elt=elt):
                return self.holds(elt, module, depth)
        return False

    def of_unpacked_item(self, iterable: ast.expr, path: tuple[int, ...]) -> bool:
        """Whether what is unpacked of every item has it."""
        return False

    def given(self, name: str, function: Function, depth: int) -> bool:
        """Whether every visible call, and there is one, passes a value that has it."""
        values = [(argument(function, call, name), m) for m, call in self.inference.call_sites(function)]
        return bool(values) and all(v is not None and self.holds(v, m, depth) for v, m in values)

    def _of_binding(self, binding: Binding, scope: Scope, depth: int) -> bool:
        if binding in self.assumed:
            return True
        inner, module = replace(self, assumed=self.assumed | {binding}), scope.module
        match binding.how:
            case "assign" if binding.value is not None and not binding.path:
                return inner.holds(binding.value, module, depth)
            case "assign" if isinstance(binding.value, ast.Tuple) and len(binding.path) == 1:
                return inner.holds(binding.value.elts[binding.path[0]], module, depth)
            case "augment" if binding.value is not None and isinstance(binding.node, ast.AugAssign):
                value = inner.holds(binding.value, module, depth)
                return self.augmented(inner._before(binding.node, scope, depth), binding.node.op, value)
            case "item" if binding.value is not None and not binding.path:
                return inner.of_items(binding.value, module, depth)
            case "item" if binding.value is not None:
                return self.of_unpacked_item(binding.value, binding.path)
            case "param" if isinstance(binding.node, ast.arg):
                function = module.functions.get(scope.node)
                return function is not None and inner.of_parameter(binding.node, function, depth)
        return False

    def _before(self, node: ast.AugAssign, scope: Scope, depth: int) -> bool:
        """Whether the name had the property before the assignment."""
        target = node.target
        if not isinstance(target, ast.Name):
            return False
        bindings = reaching(target.id, target, scope)
        return bool(bindings) and all(self._of_binding(b, scope, depth) for b in bindings)
