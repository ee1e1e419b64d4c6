"""What a compiled function that is new may hold static: values that its cache tells apart, and finds again."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from jitmod.analysis import library
from jitmod.analysis.boundaries import loop_around
from jitmod.analysis.captures import Capture, Captures, How
from jitmod.analysis.infer import Inference
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.values import Instance, Number
from jitmod.source.project import SourceModule
from jitmod.source.signatures import argument


def check_types(captures: Captures, module: SourceModule, infer: Inference) -> None:
    """Raises `Unplannable` where `eqx.filter_jit` would hold numbers of several types, which it takes for one."""
    for capture in captures.values:
        root = capture.at
        if capture.how is not How.STATIC or not isinstance(capture.kind, Number) or not isinstance(root, ast.Name):
            continue
        scope = module.scope_of(root).find(root.id)
        function = module.functions.get(scope.node) if scope is not None else None
        if function is None:
            continue
        given = [(m, argument(function, c, root.id)) for m, c in infer.call_sites(function)]
        types = {t for m, value in given if value is not None for t in _types(value, m, infer)}
        if len(types) > 1:
            listed = " and ".join(sorted(types))
            raise Unplannable("varying-static", root, f"`{capture.path}` is given as {listed}: one key of the cache")


def _types(value: ast.expr, module: SourceModule, infer: Inference) -> Iterator[str]:
    """The types of number that an expression may have; for the variable of a loop, those of what is listed there."""
    scope = module.scope_of(value).find(value.id) if isinstance(value, ast.Name) else None
    bindings = scope.bindings[value.id] if scope is not None and isinstance(value, ast.Name) else []
    listed = [b.value.elts for b in bindings if b.how == "item" and isinstance(b.value, ast.Tuple | ast.List)]
    if bindings and len(listed) == len(bindings):
        for item in (e for elts in listed for e in elts):
            yield from _types(item, module, infer)
        return
    kind = infer.kind(value, module)
    if isinstance(kind, Number):
        yield kind.type


def check_found_again(captures: Captures, made: ast.expr | ast.stmt, module: SourceModule) -> None:
    """Raises `Unplannable` where the cache would never hold what is passed: an optimiser that each call makes anew.

    `made`: where the compiled function was made. In a loop behind the optimiser's making it is found again.
    """
    around = loop_around(made, module)
    for capture in captures.values:
        if capture.how is How.STATIC and capture.kind == Instance(library.OPTIMISER) and _is_local(capture, module):
            scope = module.scope_of(capture.at)
            own = [b for b in (scope.find(capture.root) or scope).bindings[capture.root] if b.how == "assign"]
            if own and all(around is None or around in module.ancestors(b.node) for b in own):
                message = f"`{capture.path}` is made anew whenever this runs, so the jit would compile anew; annotate"
                message += " what it is made of (a number), or pass it in"
                raise Unplannable("varying-static", capture.at, message)


def _is_local(capture: Capture, module: SourceModule) -> bool:
    if not isinstance(capture.at, ast.Name):
        return False
    scope = module.scope_of(capture.at).find(capture.root)
    return scope is not None and scope.is_function and all(b.how == "assign" for b in scope.bindings[capture.root])
