"""Closures that are made in a loop, read what the loop rebinds, and are kept for later."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from jitmod.analysis.boundaries import loop_around
from jitmod.analysis.infer import Inference
from jitmod.source.nodes import COMPREHENSIONS, walk
from jitmod.source.project import SourceModule

_KEEPING = frozenset({"append", "add", "insert", "setdefault", "appendleft"})


def late_closures(module: SourceModule, infer: Inference) -> Iterator[tuple[ast.Lambda, str]]:
    """Each lambda that computes with jax, with the name whose last value all of them see."""
    for node in module.document.of(ast.Lambda):
        if _is_kept(node, module) and _computes(node, module, infer):
            loop = loop_around(node, module)
            for name in walk(node.body):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load) and _rebinds(loop, name, node, module):
                    yield node, name.id
                    break


def _is_kept(node: ast.Lambda, module: SourceModule) -> bool:
    parent = module.parents[node]
    while isinstance(parent, ast.Tuple | ast.List | ast.Dict):
        parent = module.parents[parent]
    match parent:
        case ast.Call(func=ast.Attribute(attr=attr)):
            return attr in _KEEPING
        case ast.Assign(targets=targets):
            return any(isinstance(t, ast.Subscript | ast.Attribute) for t in targets)
        case ast.ListComp() | ast.DictComp():
            return True
    return False


def _computes(node: ast.Lambda, module: SourceModule, infer: Inference) -> bool:
    names = (infer.dotted(n, module) for n in walk(node.body) if isinstance(n, ast.Attribute | ast.Name))
    return any(name is not None and name.startswith(("jax.", "equinox.")) for name in names)


def _rebinds(loop: ast.AST | None, name: ast.Name, closure: ast.Lambda, module: SourceModule) -> bool:
    """Whether `name` is bound by the loop around the closure, and not by the closure itself."""
    if loop is None or module.scope_of(name).find(name.id) is module.scopes.get(closure):
        return False
    if isinstance(loop, COMPREHENSIONS):
        targets = [g.target for g in loop.generators]
    else:
        targets = [loop.target] if isinstance(loop, ast.For | ast.AsyncFor) else []
        targets += [t for s in walk(loop) if isinstance(s, ast.Assign) for t in s.targets]
    return any(isinstance(n, ast.Name) and n.id == name.id for t in targets for n in walk(t))
