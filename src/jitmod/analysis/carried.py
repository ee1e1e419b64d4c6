"""State that a loop hands through a compiled function, and that holds a Python number: new in every round."""

from __future__ import annotations

import ast

from jitmod.analysis.boundaries import loop_around
from jitmod.analysis.infer import Inference
from jitmod.analysis.inner import InnerReads, Step
from jitmod.analysis.numeric import Numeric
from jitmod.analysis.reaching import reaching
from jitmod.source.nodes import walk
from jitmod.source.project import Function, SourceModule
from jitmod.source.signatures import argument


def carried_number(call: ast.Call, function: Function, module: SourceModule, infer: Inference) -> str | None:
    """Which item of `state = step(state)` is a number that `step` changes, in words; None where none is seen.

    Only a tuple that is written where the state starts, and one that is written where the function returns, are seen.
    """
    statement = module.parents[call]
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) if loop_around(call, module) is not None:
            passed = [a for a in call.args if isinstance(a, ast.Name) and a.id == name]
        case _:
            return None
    scope = module.scope_of(call).find(name)
    parameter = next((p.arg for p in function.parameters if argument(function, call, p.arg) in passed), None)
    if not passed or scope is None or parameter is None:
        return None
    starts = [b.value for b in reaching(name, passed[0], scope) if b.node is not statement]
    returned = [n.value for n in walk(function.node) if isinstance(n, ast.Return)]
    match starts, returned:
        case [ast.Tuple(elts=start)], [ast.Tuple(elts=end)] if len(start) == len(end):
            for place, (first, later) in enumerate(zip(start, end, strict=True)):
                if not Numeric(infer).holds(first, module) or isinstance(later, ast.Name):
                    continue
                reads = InnerReads(infer).of_parameter(function, parameter, (Step("item", place),))
                if any(read in walk(later) for read, _ in reads or ()):
                    starting = f"it starts as `{ast.unparse(first)}`"
                    return f"`{name}[{place}]` ({starting}, and `{function.name}` returns `{ast.unparse(later)}`)"
    return None
