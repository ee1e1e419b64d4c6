"""Kinds of parts of values: attributes and subscripts."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from jitmod.analysis import library
from jitmod.analysis.values import (
    UNKNOWN,
    Array,
    ClassRef,
    Constant,
    Device,
    Instance,
    Kind,
    Mapping,
    Namespace,
    NdArray,
    Number,
    Record,
    Routine,
    Sequence,
    Transformed,
    element,
    item_of,
    join,
)
from jitmod.source.project import Class, SourceModule
from jitmod.source.signatures import is_property, is_static

if TYPE_CHECKING:
    from jitmod.analysis.infer import Inference


def attribute(kind: Kind, attr: str, infer: Inference) -> Kind:
    """The kind of `value.attr` where the value has `kind`."""
    match kind:
        case Namespace(SourceModule() as module):
            return infer.meaning(f"{module.name}.{attr}")
        case Namespace(str() as name):
            return infer.meaning(f"{name}.{attr}")
        case Instance(Class() as cls):
            method = infer.classes.method(cls, attr)
            if method is None and attr in ("_replace", "replace") and infer.classes.is_tree(cls):
                return Routine(f"container.{attr}", kind)  # makes another one
            if method is None:
                found = infer.classes.field(cls, attr)
                return Sequence(found.item) if isinstance(found, Sequence) else found
            if any(is_property(d) for d in method.decorators):
                return infer.returned(method)
            defined = infer.defined(method, method.module)
            return _with_receiver(defined, None if is_static(method) else kind)
        case ClassRef(Class() as cls):
            unbound = infer.classes.method(cls, attr)
            if unbound is not None:
                return Routine(unbound)
            bindings = ((b, c.module) for c in infer.classes.lineage(cls) for b in c.scope.bindings.get(attr, ()))
            return next((infer.bound(binding, module) for binding, module in bindings), UNKNOWN)
        case ClassRef(str() as name) | Instance(str() as name) if not library.is_module_class(name):
            return infer.of_library(f"{name}.{attr}")
        case Array() | NdArray() | Device():
            match attr:
                case "shape":
                    return Sequence(Number("int"))
                case "ndim" | "size" | "nbytes" | "itemsize":
                    return Number("int")
                case "dtype" | "weak_type" | "sharding":
                    return Constant()
                case "T" | "mT" | "real" | "imag" | "at" | "flat":
                    return kind if isinstance(kind, Device) else replace(kind, length=None)
            return Routine(f"array.{attr}", kind)
        case Sequence() | Mapping() | Record() | Constant():
            return Routine(f"container.{attr}", kind)
    return UNKNOWN


def subscript(expr: ast.Subscript, base: Kind) -> Kind:
    """The kind of `value[...]` where the value has the kind `base`."""
    match expr.slice:
        case ast.Constant(value=int(index)):
            return element(base, index)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(index))):
            return element(base, -index)
        case ast.Slice():
            match base:
                case Sequence():
                    return replace(base, length=None)
                case Record():
                    return Sequence(item_of(base))
                case Array() | NdArray():
                    return replace(base, length=None)
            return base if isinstance(base, Device) else UNKNOWN
    match base:
        case Mapping(value):
            return value
        case Array():
            return Array(is_key=base.is_key)
        case Instance():
            return UNKNOWN
    return item_of(base)


def _with_receiver(kind: Kind, receiver: Kind | None) -> Kind:
    match kind:
        case Routine(target):
            return Routine(target, receiver)
        case Transformed(base, transform):
            return Transformed(_with_receiver(base, receiver), transform)
    return kind


def binary(left: Kind, op: ast.operator, right: Kind) -> Kind:
    """The kind of an operation on two values."""
    kinds = (left, right)
    if left == Constant() and isinstance(op, ast.Mod):
        return Constant()  # a text
    for made in (Device, Array, NdArray):
        if any(isinstance(k, made) for k in kinds):
            return made()
    if isinstance(left, Number) and isinstance(right, Number):
        return Number("float") if isinstance(op, ast.Div) and left == right == Number("int") else join(left, right)
    if isinstance(left, Sequence) and isinstance(right, Sequence):
        return Sequence(join(left.item, right.item))
    return UNKNOWN
