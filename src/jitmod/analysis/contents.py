"""Containers that a function makes itself, and what they hold: where all are numbers, `counts[c] += 1` changes none."""

from __future__ import annotations

import ast

from jitmod.analysis import library
from jitmod.analysis.effects import Effects
from jitmod.analysis.reaching import reaching
from jitmod.analysis.values import (
    Array,
    ClassRef,
    Constant,
    Device,
    Instance,
    Kind,
    Namespace,
    Number,
    Routine,
    Transformed,
)
from jitmod.source.project import SourceModule
from jitmod.source.scopes import Binding

_PLAIN = {"get", "items", "keys", "values", "count", "index", "copy", "clear", "sort", "reverse", "remove", "pop"}
_PLAIN |= {"popitem", "popleft", "most_common", "discard"}
_ADDED = {"append": 0, "appendleft": 0, "add": 0, "setdefault": 1, "insert": 1}  # which argument becomes an item
_READERS = {"len", "dict", "list", "tuple", "set", "sorted", "sum", "min", "max", "print", "str", "repr", "any", "all"}
_READERS |= {"enumerate", "zip", "reversed"}
_MADE_BY_DEFAULT = {"int", "float", "bool", "complex", "str"}


def is_immutable(kind: Kind, effects: Effects) -> bool:
    """Whether nothing can change a value of this kind in place."""
    match kind:
        case Array() | Device() | Number() | Constant() | Routine() | Transformed() | ClassRef() | Namespace():
            return True
        case Instance(cls):
            return cls == library.OPTIMISER or effects.inference.classes.is_tree(cls)
    return False


def own_container(expr: ast.expr, module: SourceModule, effects: Effects) -> str:
    """The name of a list, dict or set that every binding it may have here makes anew in this function; else nothing."""
    if not isinstance(expr, ast.Name):
        return ""
    scope = effects.inference.scope_binding(expr.id, expr, module)
    if scope is None or scope.parent is None:
        return ""
    fresh = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
    for binding in reaching(expr.id, expr, scope):
        value = _given(binding)
        if isinstance(binding.node, ast.Assign) and len(binding.node.targets) > 1:
            return ""
        if binding.how == "augment":
            continue
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult) and isinstance(value.left, ast.List):
            continue  # `[None] * n`
        called = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
        if not isinstance(value, fresh) and called not in ("list", "dict", "set", "defaultdict", "deque", "Counter"):
            return ""
    return expr.id


def _given(binding: Binding) -> ast.expr | None:
    """What a binding binds, as far as the text shows it: `a, b = [], {}` binds b to a dict."""
    value = binding.value
    for index in binding.path:
        value = value.elts[index] if isinstance(value, ast.Tuple) and index < len(value.elts) else None
    return value


def holds_immutables(container: ast.expr, module: SourceModule, effects: Effects) -> bool:
    """Whether `container` names a list, dict or set of this function into which only unchangeable values get."""
    name = own_container(container, module, effects)
    scope = effects.inference.scope_binding(name, container, module) if name else None
    if scope is None or scope.node not in module.functions:
        return False
    contents = _Contents(module, effects)
    begun = all(contents.begins(binding) for binding in scope.bindings[name])
    return begun and all(contents.keeps(use) for use in scope.mentions.get(name, ()) if isinstance(use.ctx, ast.Load))


class _Contents:
    def __init__(self, module: SourceModule, effects: Effects) -> None:
        self._module, self._effects = module, effects

    def _fine(self, value: ast.expr) -> bool:
        return is_immutable(self._effects.inference.kind(value, self._module), self._effects)

    def begins(self, binding: Binding) -> bool:
        """Does a binding make a container of such values?"""
        match _given(binding):
            case ast.List(elts=items) | ast.Set(elts=items) | ast.BinOp(left=ast.List(elts=items)):
                return all(self._fine(item) for item in items)
            case ast.Dict(values=items):
                return all(self._fine(item) for item in items)
            case ast.ListComp(elt=item) | ast.SetComp(elt=item) | ast.DictComp(value=item):
                return self._fine(item)
            case ast.Call(func=ast.Name(id="defaultdict"), args=[ast.Name(id=made)], keywords=[]):
                return made in _MADE_BY_DEFAULT
            case ast.Call(func=ast.Name(), args=[], keywords=[]):
                return True
        return False

    def keeps(self, use: ast.Name) -> bool:
        """Does a use of the container leave it with such values?"""
        around = self._module.ancestors(use)
        first, second = next(around), next(around, None)
        match first, second:
            case ast.Subscript(ctx=ast.Load() | ast.Del(), value=value), _ if value is use:
                return True
            case ast.Subscript(value=value) as place, ast.Assign(targets=targets, value=given) if value is use:
                return place in targets and self._fine(given)
            case ast.Subscript(value=value), ast.AugAssign(value=given) if value is use:
                return self._fine(given)
            case ast.Attribute(attr=attr), ast.Call(func=func, args=given) if func is first:
                added = _ADDED.get(attr)
                return attr in _PLAIN or (added is not None and len(given) > added and self._fine(given[added]))
            case ast.Call(func=ast.Name(id=called), args=given), _:
                return called in _READERS and use in given
            case ast.Return(), _:
                return True
            case ast.Tuple(), ast.Return():
                return True
            case ((ast.For(iter=read) | ast.comprehension(iter=read)), _):
                return read is use
        return isinstance(first, ast.Compare)
