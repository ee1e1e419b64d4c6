"""The convolutions that calls lead to: on a CPU they are slow inside of a loop of XLA's."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from jitmod.analysis import library
from jitmod.analysis.infer import Inference
from jitmod.analysis.values import ClassRef, Instance, Kind, Routine, Transformed
from jitmod.source.nodes import walk
from jitmod.source.project import Class, Function, SourceModule


def convolutions(calls: Iterable[ast.Call], module: SourceModule, infer: Inference) -> frozenset[str]:
    """The convolutions that the callees, or the functions and classes that these mention, mention."""
    found: set[str] = set()
    todo: list[Class | Function] = []
    for call in calls:
        _enter(infer.kind(call.func, module), todo, found)
    seen: set[Class | Function] = set()
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        for node in walk(one.node):
            if isinstance(node, ast.Name | ast.Attribute):
                found.add(infer.dotted(node, one.module) or "")
                _enter(infer.kind(node, one.module), todo, found)
    return frozenset(name for name in found if library.is_convolution(name))


def _enter(kind: Kind, todo: list[Class | Function], found: set[str]) -> None:
    """Note the class or function that a value of this kind runs."""
    while isinstance(kind, Transformed):
        kind = kind.base
    holders = (kind, kind.receiver) if isinstance(kind, Routine) else (kind,)
    for holder in holders:
        match holder:
            case Instance(Class() as cls) | ClassRef(Class() as cls):
                todo.append(cls)
            case Instance(str() as name) | ClassRef(str() as name):
                found.add(name)
            case Routine(Function() as function):
                todo.append(function)
            case Routine(str() as name):
                found.add(name)
