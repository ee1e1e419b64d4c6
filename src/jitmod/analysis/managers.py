"""Context managers that may keep an error from leaving their `with` statement."""

from __future__ import annotations

import ast

from jitmod.analysis.infer import Inference
from jitmod.analysis.values import Instance, Routine
from jitmod.source.nodes import walk
from jitmod.source.project import Class, Function, SourceModule

_CATCHING = frozenset({"suppress", "raises", "assertRaises", "assertRaisesRegex", "warns", "catch_warnings",
                       "assertWarns", "assertWarnsRegex", "ExitStack", "AsyncExitStack"})  # fmt: skip


def may_swallow(manager: ast.expr, module: SourceModule, infer: Inference) -> bool:
    """Whether an error in the body of `with manager:` may stay inside. What cannot be resolved may do anything."""
    func = manager.func if isinstance(manager, ast.Call) else manager
    if _name(manager) in _CATCHING:
        return True
    kind = infer.kind(func, module)
    if isinstance(kind, Routine) and isinstance(kind.target, Function):
        inside = walk(kind.target.node)
        withs = [item.context_expr for n in inside if isinstance(n, ast.With) for item in n.items]
        caught = any(isinstance(n, ast.Try) and n.handlers for n in inside)
        return caught or any(_name(expr) in _CATCHING for expr in withs)
    made = infer.kind(manager, module)
    if isinstance(made, Instance) and isinstance(made.cls, Class):
        leave = infer.classes.method(made.cls, "__exit__")
        returns = [n.value for n in walk(leave.node) if isinstance(n, ast.Return)] if leave else []
        return any(r is not None and not (isinstance(r, ast.Constant) and not r.value) for r in returns)
    name = infer.dotted(func, module)
    return name is None or name.rpartition(".")[2] in _CATCHING


def _name(manager: ast.expr) -> str:
    func = manager.func if isinstance(manager, ast.Call) else manager
    return str(getattr(func, "attr", getattr(func, "id", "")))
