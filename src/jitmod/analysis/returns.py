"""What functions of the project return: whatever is passed, or for one call."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from jitmod.analysis.values import (
    UNKNOWN,
    Array,
    Constant,
    Device,
    Instance,
    Iterator,
    Kind,
    Mapping,
    NdArray,
    Number,
    Sequence,
    joined,
)
from jitmod.source.nodes import walk
from jitmod.source.project import Function, SourceModule
from jitmod.source.signatures import argument

if TYPE_CHECKING:
    from jitmod.analysis.infer import Inference

_CALLS = 2  # calls that are followed with the kinds of their own arguments


def returned_by_call(function: Function, call: ast.Call, module: SourceModule, infer: Inference) -> Kind:
    """The kind of a call's result: of any call, or else with the kinds of this call's own arguments."""
    found = infer.returned(function)
    if found != UNKNOWN or infer.depth >= _CALLS:
        return found
    passed = {p: argument(function, call, p.arg) for p in function.parameters}
    kinds = {p: infer.kind(v, module) for p, v in passed.items() if v is not None}
    kinds = {p: k for p, k in kinds.items() if isinstance(k, Array | Device | Instance | Number | NdArray)}
    return infer.of_call(function, kinds).returned(function) if kinds else UNKNOWN


def returned(function: Function, infer: Inference) -> Kind:
    """The kind of a function's result, from its `return` statements and its annotation."""
    if isinstance(function.node, ast.Lambda):
        return infer.kind(function.node.body, function.module)
    annotation = function.node.returns
    promised = infer.annotation(annotation, function.module) if annotation is not None else None
    if function.is_generator:
        return Iterator(UNKNOWN)
    values = [n.value for n in function.returns if n.value is not None]
    kinds = [infer.kind(v, function.module) for v in values]
    if values and (len(values) < len(function.returns) or _falls_off(function.node.body)):
        kinds.append(Constant())  # None
    found = joined(kinds)
    if promised is None or isinstance(promised, Sequence | Mapping):
        return found if found != UNKNOWN else promised or UNKNOWN
    agree = all(k == UNKNOWN or isinstance(k, type(promised) | Device) for k in kinds)
    return promised if agree else found  # where the code returns something else, the code is right


def _falls_off(body: list[ast.stmt]) -> bool:
    """Whether control may reach the end of a block, so that a function returns None."""
    match body[-1]:
        case ast.Return() | ast.Raise():
            return False
        case ast.If(body=then, orelse=other):
            return not other or _falls_off(then) or _falls_off(other)
        case ast.With(body=inner) | ast.AsyncWith(body=inner):
            return _falls_off(inner)
        case ast.While(test=ast.Constant(value=True), body=inner):
            return any(isinstance(n, ast.Break) for s in inner for n in walk(s))
        case ast.Match(cases=cases):
            whole = any(isinstance(c.pattern, ast.MatchAs) and c.pattern.pattern is None and not c.guard for c in cases)
            return not whole or any(_falls_off(c.body) for c in cases)
        case ast.Try(body=inner, handlers=handlers, orelse=orelse, finalbody=final):
            if final and not _falls_off(final):
                return False
            return _falls_off(orelse or inner) or any(_falls_off(h.body) for h in handlers)
    return True
