"""Values that are arrays, Modules, or pytrees of them, whichever way they were made: where one kind cannot say so."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from jitmod.analysis.infer import Inference
from jitmod.analysis.reaching import reaching
from jitmod.analysis.values import UNKNOWN, Device, Instance, Kind, is_device, unpacked
from jitmod.source.project import Class, SourceModule

_KEEPING = ("equinox.apply_updates", "optax.apply_updates", "equinox.tree_at", "equinox.nn.inference_mode")


def settled(expr: ast.expr, module: SourceModule, infer: Inference) -> Kind:
    """The kind of `expr`; where it is unknown because its values differ, what all of them have in common.

    A weight that starts as a dict of arrays and comes back from an optimiser is a pytree of arrays; a model that is
    updated is still a model.
    """
    kind = infer.kind(expr, module)
    if kind != UNKNOWN:
        return kind
    kinds = list(_each(expr, module, infer))
    if not kinds:
        return UNKNOWN
    if all(is_device(k) for k in kinds):
        return Device()
    modules = [k for k in kinds if isinstance(k, Instance) and infer.classes.is_module(k.cls)]
    if modules and all(is_device(k) or k == modules[0] for k in kinds):
        return modules[0]
    return UNKNOWN


def _each(expr: ast.expr, module: SourceModule, infer: Inference) -> Iterator[Kind]:
    match expr:
        case ast.Name(id=name):
            scope = infer.scope_binding(name, expr, module)
            if infer.comprehension_binding(name, expr, module) is None and scope is not None:
                for binding in reaching(name, expr, scope):
                    if not _updates(binding.value, expr, module, infer):
                        yield infer.bound(binding, module)
        case ast.Attribute(value=value, attr=attr):
            holder = infer.kind(value, module)
            if isinstance(holder, Instance) and isinstance(holder.cls, Class):
                for where, given, path in infer.classes.field_values(holder.cls, attr):
                    if not _updates(given, expr, where, infer):
                        yield unpacked(infer.kind(given, where), path)
                yield from _from_outside(attr, holder.cls, infer)


def _updates(value: ast.expr | None, expr: ast.expr, module: SourceModule, infer: Inference) -> bool:
    """`model = eqx.apply_updates(model, u)`: of the kind that it was."""
    if not isinstance(value, ast.Call) or infer.dotted(value.func, module) not in _KEEPING:
        return False
    return any(ast.unparse(a) == ast.unparse(expr) for a in value.args)


def _from_outside(attr: str, cls: Class, infer: Inference) -> Iterator[Kind]:
    """What code outside of the class assigns to an attribute of that name."""
    for module, node in infer.project.stores.get(attr, ()):
        assignment = module.parents[node]
        if isinstance(assignment, ast.Assign) and node in assignment.targets:
            function = module.functions.get(module.scope_of(assignment).node)
            if function is None or function.owner is not cls:
                yield infer.kind(assignment.value, module)
