"""Whether a Python number is a new one at (nearly) every call: loop indices, counters, schedules, what is read back."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from jitmod.analysis.boundaries import loop_around
from jitmod.analysis.infer import Inference
from jitmod.analysis.reaching import reaching
from jitmod.analysis.values import Number, is_device, unpacked
from jitmod.source.nodes import walk
from jitmod.source.project import Class, SourceModule
from jitmod.source.scopes import Binding, Scope
from jitmod.source.signatures import argument

_DEPTH = 4  # parameters of parameters


@dataclass(frozen=True, eq=False)
class Varying:
    """Answers for one project in words, or None where nothing says that a value varies."""

    inference: Inference

    def why(self, expr: ast.expr, module: SourceModule, depth: int = _DEPTH) -> str | None:
        """Why `expr` has a new value at each call."""
        infer = self.inference
        match expr:
            case ast.Name(id=name):
                return self._of_name(expr, name, module, depth)
            case ast.Attribute(attr=attr):
                return self._of_attribute(expr, attr)
            case ast.BinOp(left=left, right=right):
                return self.why(left, module, depth) or self.why(right, module, depth)
            case ast.UnaryOp(operand=operand):
                return self.why(operand, module, depth)
            case ast.IfExp(body=body, orelse=orelse):
                return self.why(body, module, depth) or self.why(orelse, module, depth)
            case ast.Subscript(value=value, slice=index):
                return self.why(index, module, depth) or self.why(value, module, depth)
            case ast.Call(func=func, args=args):
                reads = infer.dotted(func, module) in ("float", "int") or getattr(func, "attr", "") == "item"
                inner = [*args, *([func.value] if isinstance(func, ast.Attribute) else [])]
                if reads and any(is_device(infer.kind(a, module)) for a in inner) and loop_around(expr, module):
                    return f"`{ast.unparse(expr)}` is read back from the device"
                found = (self.why(a, module, depth) for a in args if not isinstance(a, ast.Starred))
                return next((f for f in found if f is not None), None)
        return None

    def of_fields(self, cls: Class | str) -> str | None:
        """Why Modules of a class are made with new Python numbers again and again: their static halves differ."""
        classes = self.inference.classes
        lineage = classes.lineage(cls) if isinstance(cls, Class) else []
        for owner, name in [(c, n) for c in lineage for n in classes.declared(c)]:
            for module, value, path in classes.field_values(owner, name):
                number = isinstance(unpacked(self.inference.kind(value, module), path), Number)
                why = self.why(value, module) if number else None
                if why is not None:
                    return f"`{name}` of `{owner.node.name}` is a Python number, and {why}"
        return None

    def _of_name(self, expr: ast.Name, name: str, module: SourceModule, depth: int) -> str | None:
        infer = self.inference
        item = infer.comprehension_binding(name, expr, module)
        if item is not None:
            return f"`{name}` is new for every item"
        scope = infer.scope_binding(name, expr, module)
        if scope is None:
            return None
        for binding in reaching(name, expr, scope):
            found = self._of_binding(binding, expr, scope, module, depth)
            if found is not None:
                return found
        if scope.parent is None and any(name in s.rebinds for s in scope.module.scopes.values()):
            return f"`{name}` is a counter of the module"
        return None

    def _of_binding(
        self, binding: Binding, use: ast.Name, scope: Scope, module: SourceModule, depth: int
    ) -> str | None:
        name = binding.name
        match binding.how:
            case "item":
                return f"`{name}` is new in every round of the loop"
            case "augment":
                return f"`{name}` changes in every round" if loop_around(binding.node, scope.module) else None
            case "assign" if binding.value is not None and depth > 0:
                mentions = any(isinstance(n, ast.Name) and n.id == name for n in walk(binding.value))
                if mentions and loop_around(binding.node, scope.module) is not None:
                    return f"`{name}` changes in every round"
                return self.why(binding.value, scope.module, depth - 1)
            case "param" if depth > 0:
                function = module.functions.get(scope.node)
                sites = self.inference.call_sites(function) if function is not None else []
                for where, call in sites:
                    value = argument(function, call, name) if function is not None else None
                    found = self.why(value, where, depth - 1) if value is not None else None
                    if found is not None:
                        return found
        return None

    def _of_attribute(self, expr: ast.Attribute, attr: str) -> str | None:
        """`self.t`, where something counts it up, or sets it after the object was made."""
        for module, node in self.inference.project.stores.get(attr, ()):
            if isinstance(module.parents[node], ast.AugAssign):
                return f"`{ast.unparse(expr)}` is counted up in line {node.lineno}"
            maker = getattr(module.scope_of(node).node, "name", "")
            if isinstance(node.ctx, ast.Store) and maker not in ("__init__", "__post_init__"):
                return f"`{ast.unparse(expr)}` is assigned in line {node.lineno}"
        return None
