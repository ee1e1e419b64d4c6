"""`jax.vmap(f)` of a compiled `f` at the module level becomes `jax.jit(jax.vmap(f))`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from jitmod.analysis import library
from jitmod.analysis.arguments import Arguments
from jitmod.analysis.effects import Effects
from jitmod.analysis.values import Transformed
from jitmod.model import Edit
from jitmod.rewrite.imports import Imports
from jitmod.source.project import Function, SourceModule


def mapped_jits(module: SourceModule, effects: Effects) -> Iterator[ast.Call]:
    """The vmaps of compiled functions that get a name at the module level."""
    infer = effects.inference
    for statement in module.document.tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name()], value=ast.Call(args=[inner, *_]) as call):
                pass
            case _:
                continue
        made = infer.kind(inner, module)
        if infer.dotted(call.func, module) not in library.VMAPS or not isinstance(made, Transformed):
            continue
        if made.transform not in ("jax.jit", "equinox.filter_jit"):
            continue
        target = infer.target(made)
        if not isinstance(target, Function):
            continue  # what it was compiled with cannot be seen, and a Module would become a constant
        if not any(option.keywords for option in Arguments(effects).jit_options(target)):
            yield call


def jitted(call: ast.Call, module: SourceModule, effects: Effects) -> tuple[Edit, ...]:
    """The edits that compile a vmap as a whole, by the jit of what it maps. Raises `NameTaken`."""
    made = effects.inference.kind(call.args[0], module)
    assert isinstance(made, Transformed)
    imports = Imports(module)
    jit = imports.refer(made.transform)
    start, end = module.document.span(call)
    return (*imports.edits(), Edit(start, start, f"{jit}("), Edit(end, end, ")"))
