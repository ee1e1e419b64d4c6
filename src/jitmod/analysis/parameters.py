"""Kinds of parameters: what annotations promise and what the project's calls pass. And what a recording saw of names.

A recording saw some calls, so what it says is no promise. It answers only where nothing else does, only inside of a
loop before which the rewritten code checks it (`rewrite/observed.py`), and only in kinds that a check can tell apart.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping as Mapping_
from typing import TYPE_CHECKING, Any

from jitmod.analysis import library
from jitmod.analysis.reaching import reaching
from jitmod.analysis.values import (
    UNKNOWN,
    Array,
    ClassRef,
    Instance,
    Kind,
    Mapping,
    NdArray,
    Number,
    Record,
    Sequence,
    item_of,
    joined,
    with_length_token,
)
from jitmod.source.project import Function, SourceModule
from jitmod.source.scopes import Binding
from jitmod.source.signatures import default_of, is_classmethod, is_static

if TYPE_CHECKING:
    from jitmod.analysis.infer import Inference


def parameter(binding: Binding, module: SourceModule, infer: Inference) -> Kind:
    """The kind of a parameter: by its annotation, as `self`, or by what the project's calls pass."""
    arg = binding.node
    assert isinstance(arg, ast.arg)
    scope = module.scopes[next(a for a in module.ancestors(arg) if a in module.scopes and a is not arg)]
    function = module.functions.get(scope.node)
    if function is None:
        return UNKNOWN
    promised = infer.annotation(arg.annotation, module) if arg.annotation is not None else None
    if arg is function.node.args.vararg:
        return Sequence(promised or UNKNOWN)
    if arg is function.node.args.kwarg:
        return Mapping(promised or UNKNOWN)
    if arg in infer.given:
        return infer.given[arg]
    if promised is not None and not isinstance(promised, Sequence | Mapping):
        kinds = _from_call_sites(function, arg, infer)
        if isinstance(promised, Array) and any(isinstance(k, Sequence | Record | Mapping | NdArray) for k in kinds):
            return joined(kinds)  # the calls say otherwise
        at_sites = joined(kinds)
        return at_sites if isinstance(promised, Array) and isinstance(at_sites, Array) else promised
    if function.owner is not None and function.parameters[0] is arg and not is_static(function):
        return ClassRef(function.owner) if is_classmethod(function) else Instance(function.owner)
    found = joined(_from_call_sites(function, arg, infer))
    said = found != UNKNOWN and not (promised is not None and item_of(found) == UNKNOWN)
    return found if said else promised or UNKNOWN


def observed(node: ast.Name, module: SourceModule, infer: Inference) -> Kind:
    """The one kind that a name had whenever the loop around `node` began; unknown unless the recording is believed."""
    recorded = infer.project.recorded
    kinds = {described(kind, infer) for kind in recorded.believed.get(node.id, ())}
    if len(kinds) != 1 or recorded.at is None:
        return UNKNOWN
    return kinds.pop() if any(above is recorded.at for above in module.ancestors(node)) else UNKNOWN


def described(kind: Mapping_[str, Any], infer: Inference) -> Kind:
    """A kind as a recording describes it (`trial/child/record_kinds.py`), in the words of the analysis."""
    match kind:
        case {"kind": "array", "key": key}:
            return Array(is_key=bool(key))
        case {"kind": "ndarray"}:
            return NdArray()
        case {"kind": "number", "type": str(name)}:
            return Number(name)
        case {"kind": "list" | "tuple", "items": [first, *others], "one_by_one": False}:
            return Sequence(described(first, infer)) if not others else UNKNOWN
        case {"kind": "object", "class": [module, name, ""]} if library.is_module_class(f"{module}.{name}"):
            return Instance(f"{module}.{name}")
        case {"kind": "object", "class": [_, name, path]} if path in infer.project.by_path:
            classes = infer.project.by_path[path].classes.values()
            return next((Instance(c) for c in classes if c.name == name), UNKNOWN)
    return UNKNOWN


def _from_call_sites(function: Function, arg: ast.arg, infer: Inference) -> list[Kind]:
    """What the project's calls pass for `arg`, as far as they say something."""
    kinds: list[Kind] = []
    if infer.project.escapes(function.name.rpartition(".")[2]):
        return kinds  # called in places that cannot be seen
    for module, value in infer.passed(function, arg):
        if value is None or _is_open(value, module, infer):
            continue  # handed through from outside of what can be seen: it says nothing
        found = infer.kind(value, module)
        kinds.append(found if value is default_of(function, arg) else with_length_token(found, None))
    return kinds


def _is_open(value: ast.expr, module: SourceModule, infer: Inference, depth: int = 4) -> bool:
    """Whether a value is a parameter that no visible call gives anything."""
    if (value, depth) not in infer.open:
        before = infer.cycles
        found = _finds_open(value, module, infer, depth)
        if infer.cycles != before:
            return found
        infer.open[value, depth] = found
    return infer.open[value, depth]


def _finds_open(value: ast.expr, module: SourceModule, infer: Inference, depth: int) -> bool:
    scope = infer.scope_binding(value.id, value, module) if isinstance(value, ast.Name) else None
    if scope is None or not isinstance(value, ast.Name) or depth == 0:
        return False
    bindings = reaching(value.id, value, scope)
    if not bindings or any(b.how != "param" or getattr(b.node, "annotation", None) for b in bindings):
        return False
    function = module.functions.get(scope.node)
    if function is None or (function.owner is not None and function.parameters[0].arg == value.id):
        return False
    parameter = next(p for p in function.parameters if p.arg == value.id)
    return all(v is None or _is_open(v, m, infer, depth - 1) for m, v in infer.passed(function, parameter))


def call_sites(function: Function, infer: Inference) -> list[tuple[SourceModule, ast.Call]]:
    """The calls of the project that resolve to `function`."""
    if isinstance(function.node, ast.Lambda):
        return []
    name = function.owner.node.name if function.owner and function.node.name == "__init__" else function.node.name
    found: list[tuple[SourceModule, ast.Call]] = []
    for module, call in infer.project.calls.get(name, ()):
        if infer.target(infer.kind(call.func, module)) is function:
            found.append((module, call))
    return found
