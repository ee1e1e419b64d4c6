"""What calls of libraries return."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from jitmod.analysis import library
from jitmod.analysis.parts import binary
from jitmod.analysis.reaching import reaching
from jitmod.analysis.values import (
    UNKNOWN,
    Array,
    Device,
    Instance,
    Iterator,
    Kind,
    Length,
    Mapping,
    NdArray,
    Number,
    Range,
    Record,
    Sequence,
    Transformed,
    is_device,
    item_of,
    joined,
    length_of,
)
from jitmod.source.project import SourceModule
from jitmod.source.scopes import Binding

if TYPE_CHECKING:
    from jitmod.analysis.infer import Inference


def library_result(name: str, receiver: Kind | None, call: ast.Call, module: SourceModule, infer: Inference) -> Kind:
    """The kind of what a call of a library's function, or of a method of an array or container, returns."""
    if name == "super":
        return _super(call, module, infer)
    args = [infer.kind(a, module) for a in call.args if not isinstance(a, ast.Starred)]
    first = args[0] if args else UNKNOWN
    if name in library.TRANSFORMS:
        return Transformed(first, name) if args else UNKNOWN
    match name:
        case "list" | "tuple" | "sorted":
            alike = isinstance(first, Array) or (isinstance(first, Sequence) and first.uniform)
            return first if isinstance(first, Record) else Sequence(item_of(first), length_of(first), alike)
        case "reversed":
            return Iterator(item_of(first))
        case "range":
            return Range(_integer(call.args[0], module, infer) if len(call.args) == 1 else None)
        case "zip":
            return Iterator(Record(tuple(item_of(a) for a in args)))
        case "enumerate":
            return Iterator(Record((Number("int"), item_of(infer.iterated(call.args[0], module) if args else UNKNOWN))))
        case "dict" if len(args) == 1 and not call.keywords:
            match first if isinstance(first, Mapping) else item_of(first):
                case Mapping():
                    return first
                case Record((_, value)):
                    return Mapping(value)
            return UNKNOWN
        case "map" | "filter" | "iter":
            return Iterator(UNKNOWN)
        case "abs" | "min" | "max" | "sum" | "copy.copy" | "copy.deepcopy":
            return first if len(args) == 1 and name != "sum" else UNKNOWN
        case "jax.tree.map" | "jax.tree_util.tree_map":
            return _mapped_tree(first, args[1:], infer)
        case "jax.tree.leaves" | "jax.tree_util.tree_leaves" | "jax.tree.reduce" | "jax.tree_util.tree_reduce":
            return Device() if is_device(args[-1] if args else UNKNOWN) else UNKNOWN
        case "equinox.tree_at" if len(args) > 1 and not isinstance(args[1], Instance):
            return UNKNOWN
        case "equinox.nn.inference_mode" | "equinox.tree_inference" | "equinox.tree_at" | "equinox.filter_shard":
            return args[0] if args and name != "equinox.tree_at" else args[1] if len(args) > 1 else UNKNOWN
        case "equinox.nn.make_with_state":
            return Transformed(first, name)
        case "equinox.combine" | "equinox.apply_updates" | "dataclasses.replace":
            return first
        case "jax.numpy.asarray" | "jax.numpy.array" | "jax.device_put":
            return Array(length_of(first), isinstance(first, Array) and first.is_key)
        case "jax.numpy.where" if len(args) == 3 and not all(isinstance(a, Number) for a in args[1:]):
            return Array()  # of two Python numbers it is weakly typed, which a list of results would not be
        case "jax.numpy.stack":
            return Array(length_of(first) if not call.keywords and len(call.args) == 1 else None)
        case "jax.random.split":
            return Array(_integer(call.args[1], module, infer) if len(call.args) > 1 else 2, is_key=True)
    if receiver is not None:
        return _method_result(name, receiver)
    found = library.result(name)
    if isinstance(found, Array | NdArray):
        return replace(found, length=_leading(name, call, module, infer))
    return found


def _mapped_tree(function: Kind, trees: list[Kind], infer: Inference) -> Kind:
    """A tree of what a function makes of leaves: a Module stays one, arrays do if the function keeps them so."""
    if trees and isinstance(trees[0], Instance) and infer.classes.is_module(trees[0].cls):
        return trees[0]
    target = infer.target(function)
    keeps = not isinstance(target, str) or isinstance(library.result(target), Array | Device)
    return Device() if trees and keeps and all(is_device(t) for t in trees) else UNKNOWN


def _method_result(name: str, receiver: Kind) -> Kind:
    attr = name.partition(".")[2]
    match receiver:
        case Array() | Device() | NdArray():
            if attr == "tolist":
                return UNKNOWN
            if attr == "item":
                return Number("float")
            if attr == "nonzero":
                return Device()
            if attr in library.ARRAY_METHODS:
                return NdArray() if isinstance(receiver, NdArray) else Array()
        case Instance() if attr in ("_replace", "replace"):
            return receiver
        case Mapping(value):
            match attr:
                case "values":
                    return Sequence(value)
                case "items":
                    return Sequence(Record((UNKNOWN, value)))
                case "keys":
                    return Sequence(UNKNOWN)
                case "get" | "pop" | "setdefault":
                    return value
    return UNKNOWN


def _leading(name: str, call: ast.Call, module: SourceModule, infer: Inference) -> Length:
    """The leading axis of an array made with a shape: `zeros((n, 3))`, `normal(key, (n, 3))`, `arange(n)`."""
    position = 1 if name.startswith(("jax.random.",)) else 0
    shape = next((k.value for k in call.keywords if k.arg in ("shape", "size")), None)
    if shape is None and len(call.args) > position:
        shape = call.args[position]
    makers = ("zeros", "ones", "empty", "full", "arange", "normal", "uniform", "bernoulli", "truncated_normal")
    if shape is None or name.rpartition(".")[2] not in makers:
        return None
    if isinstance(shape, ast.Tuple | ast.List):
        return _integer(shape.elts[0], module, infer) if shape.elts else None
    return (
        _integer(shape, module, infer)
        if (name.endswith("arange") and len(call.args) == 1) or not name.endswith("arange")
        else None
    )


def _super(call: ast.Call, module: SourceModule, infer: Inference) -> Kind:
    """`super()` in a method: an instance of the first base."""
    function = module.functions.get(module.scope_of(call).node)
    bases = infer.classes.bases(function.owner) if function is not None and function.owner is not None else []
    return Instance(bases[0]) if bases and not call.args else UNKNOWN


def _integer(expr: ast.expr, module: SourceModule, infer: Inference) -> Length:
    """A length written as an integer, as `len(x)`, or as the name of a constant."""
    match expr:
        case ast.Constant(value=int(number)):
            return number
        case ast.Call(func=ast.Name(id="len"), args=[ast.expr() as value]):
            return length_of(infer.kind(value, module))
        case ast.Name(id=name):
            scope = infer.scope_binding(name, expr, module)
            if scope is not None and scope.parent is None and len(scope.bindings[name]) == 1:
                bound = scope.bindings[name][0].value
                if isinstance(bound, ast.Constant) and isinstance(bound.value, int):
                    return f"={bound.value}"
    return None


def augmented(binding: Binding, statement: ast.AugAssign, module: SourceModule, infer: Inference) -> Kind:
    """The kind of `w` after `w += x`: what w was decides whether it is changed in place."""
    scope = module.scope_of(statement).find(binding.name)
    with infer.once(("augment", binding)) as first:
        if scope is None or not first:
            return UNKNOWN
        earlier = [b for b in reaching(binding.name, statement.target, scope) if b is not binding]
        before = joined(infer.bound(b, module) for b in earlier)
        if before == UNKNOWN or isinstance(before, NdArray):
            return before
        return binary(before, statement.op, infer.kind(statement.value, module))
