"""Methods of plain objects as functions of the attributes that they read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from jitmod.analysis import library
from jitmod.analysis.effects import Effects
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.trees import settled
from jitmod.analysis.values import Array, Device, Instance, Kind, Routine, Transformed
from jitmod.source.nodes import walk
from jitmod.source.project import Class, Function, SourceModule
from jitmod.source.signatures import argument


@dataclass(frozen=True, eq=False)
class MethodPlan:
    """A method, the attributes of its object that it reads (with those of the methods it calls), and these calls."""

    function: Function
    attributes: tuple[str, ...]
    reads: tuple[ast.Attribute, ...]
    calls: tuple[tuple[ast.Call, Function], ...]

    @property
    def name(self) -> str:
        return self.function.name.rpartition(".")[2]

    @property
    def receiver(self) -> str:
        return self.function.parameters[0].arg


def plain_method(kind: Kind, effects: Effects) -> Function | None:
    """The method of a plain object of the project that a value of this kind is bound to."""
    match kind:
        case Routine(Function() as function, Instance(Class() as cls)) if function.owner is not None:
            return None if effects.inference.classes.is_module(cls) else function
    return None


def method_behind(kind: Kind, effects: Effects) -> Function | None:
    """The same, through transforms."""
    while isinstance(kind, Transformed):
        kind = kind.base
    return plain_method(kind, effects)


def closure(function: Function, effects: Effects) -> list[Function]:
    """A method and the methods of its object that it calls, callers first."""
    found = [function]
    for current in found:
        for _, callee in _self_calls(current, effects):
            if callee not in found:
                found.append(callee)
    return found


def plan_methods(roots: list[Function], effects: Effects) -> dict[Function, MethodPlan]:
    """How each method becomes a function; callees come first. Raises `Unplannable`."""
    order: list[Function] = []
    for root in roots:
        order += [f for f in closure(root, effects) if f not in order]
    plans: dict[Function, MethodPlan] = {}
    for function in sorted(order, key=lambda f: len(closure(f, effects))):
        plans[function] = _plan(function, plans, effects)
    return plans


def _plan(function: Function, plans: dict[Function, MethodPlan], effects: Effects) -> MethodPlan:
    node, module, owner = function.node, function.module, function.owner
    assert owner is not None
    if not isinstance(node, ast.FunctionDef) or node.decorator_list or not function.parameters:
        raise Unplannable("mutable-self", node, f"`{function.name}` cannot be made a function")
    a = node.args
    if a.defaults or a.vararg or a.kwarg or a.kwonlyargs or a.posonlyargs:
        raise Unplannable("mutable-self", node, f"the parameters of `{function.name}` are not plain")
    for sub in effects.inference.classes.subclasses(owner):
        if node.name in sub.methods:
            raise Unplannable("mutable-self", node, f"{sub.node.name} overrides `{node.name}`")
    calls = tuple(_self_calls(function, effects))
    receiver = function.parameters[0].arg
    called = {id(call.func) for call, _ in calls}
    attributes: list[str] = []
    reads: list[ast.Attribute] = []
    for name in (n for n in walk(node) if isinstance(n, ast.Name) and n.id == receiver):
        parent = module.parents[name]
        if not isinstance(parent, ast.Attribute) or not isinstance(parent.ctx, ast.Load):
            raise Unplannable("mutable-self", name, f"`{function.name}` does more with `{receiver}` than to read it")
        if id(parent) in called:
            continue
        if effects.inference.classes.method(owner, parent.attr) is not None:
            raise Unplannable("mutable-self", parent, f"`{ast.unparse(parent)}` is a method or property")
        reads.append(parent)
        attributes += [parent.attr] if parent.attr not in attributes else []
    for call, callee in calls:
        if callee not in plans:
            raise Unplannable("mutable-self", call, f"`{function.name}` calls itself")
        attributes += [x for x in plans[callee].attributes if x not in attributes]
    return MethodPlan(function, tuple(attributes), tuple(reads), calls)


def _self_calls(function: Function, effects: Effects) -> Iterator[tuple[ast.Call, Function]]:
    """`self.other(...)` in a method."""
    receiver = function.parameters[0].arg if function.parameters else ""
    for node in walk(function.node):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name)) as func) if name == receiver:
                callee = plain_method(effects.inference.kind(func, function.module), effects)
                if callee is not None:
                    yield node, callee


def traced_parameters(
    uses: list[tuple[ast.Attribute, ast.Call, Function]], plans: dict[Function, MethodPlan], effects: Effects
) -> frozenset[ast.arg]:
    """The parameters of methods that get device values from the calls at hand, also through each other."""
    found: set[ast.arg] = set()
    for _, call, function in uses:
        for parameter in function.parameters[1:]:
            value = argument(function, call, parameter.arg)
            if value is not None and isinstance(settled(value, function.module, effects.inference), Array | Device):
                found.add(parameter)
    for plan in reversed(plans.values()):  # callers first
        by_name = {p.arg: p for p in plan.function.parameters}
        for call, callee in plan.calls:
            for parameter in callee.parameters[1:]:
                value = argument(callee, call, parameter.arg)
                if isinstance(value, ast.Name) and by_name.get(value.id) in found:
                    found.add(parameter)
    return frozenset(found)


def method_uses(
    root: ast.AST, module: SourceModule, effects: Effects
) -> Iterator[tuple[ast.Attribute, ast.Call, Function]]:
    """Each `self.m` below a node, with the call that runs it: `self.m(...)`, `jax.grad(self.m)(...)`.

    Raises `Unplannable` where it is used in another way.
    """
    for node in walk(root):
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
            continue
        function = plain_method(effects.inference.kind(node, module), effects)
        if function is None:
            continue
        parent = module.parents[node]
        if isinstance(parent, ast.Call) and parent.func is node:
            yield node, parent, function
            continue
        outer = module.parents.get(parent)
        graded = isinstance(parent, ast.Call) and effects.inference.dotted(parent.func, module) in library.GRADS
        plain = isinstance(parent, ast.Call) and parent.args == [node]
        if graded and plain and isinstance(outer, ast.Call) and outer.func is parent:
            yield node, outer, function
            continue
        raise Unplannable("mutable-self", node, f"`{ast.unparse(node)}` is handed on as a method of a plain object")
