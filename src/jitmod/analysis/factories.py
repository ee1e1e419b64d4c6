"""Calls of factories: functions that define one compiled function and return it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from jitmod.analysis.boundaries import Creation, function_around, makes_boundary
from jitmod.analysis.infer import Inference
from jitmod.analysis.values import Routine
from jitmod.source.project import Function, SourceModule


@dataclass(frozen=True, eq=False)
class FactoryCall:
    """`step = make_step(optim)` inside a function."""

    module: SourceModule
    function: Function
    statement: ast.Assign
    call: ast.Call
    name: str
    factory: Function

    @property
    def symbol(self) -> str:
        return self.function.name

    def as_creation(self) -> Creation:
        """The call, seen as what makes a compiled function."""
        return Creation(self.module, self.function, self.call, self.statement, "", self.call, (), self.name)


def factory_calls(module: SourceModule, infer: Inference) -> Iterator[FactoryCall]:
    """The calls of a file, inside functions, that make a compiled function through a factory of the project."""
    for node in module.document.of(ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                function = function_around(node, module)
                kind = infer.kind(call.func, module)
                if function is None or not isinstance(kind, Routine) or kind.receiver is not None:
                    continue
                target = kind.target
                if not isinstance(target, Function) or target is function or target.owner is not None:
                    continue
                if makes_boundary(target, infer) is not None:
                    yield FactoryCall(module, function, node, call, name, target)
