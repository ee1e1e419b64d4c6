"""Calls that pass arrays where no number is negative, and the numbers as they are elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from jitmod.analysis.infer import Inference
from jitmod.analysis.scalars import Need
from jitmod.analysis.signs import Signs, number
from jitmod.analysis.values import Instance
from jitmod.model import Edit
from jitmod.rewrite.spliced import text_with
from jitmod.rewrite.text import is_exact
from jitmod.source.nodes import walk
from jitmod.source.project import Class, Function, SourceModule
from jitmod.source.signatures import argument


def compared(
    need: Need, function: Function, call: ast.Call, module: SourceModule, infer: Inference
) -> list[str] | None:
    """The texts of what `call` must not pass negative; none where that is proved, None where it cannot be written."""
    texts = []
    for name in sorted(need.positive) if need.positive is not None else ():
        value = argument(function, call, name)
        if value is None:
            return None
        if Signs(infer).holds(value, module):
            continue
        simple = (ast.Name, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.Constant, ast.operator, ast.unaryop, ast.Load)
        literal = number(value) is not None or value not in [*call.args, *[k.value for k in call.keywords]]
        if literal or not all(isinstance(n, simple) for n in walk(value)):
            return None
        if not all(_is_plain(n, module, infer) for n in walk(value) if isinstance(n, ast.Attribute)):
            return None
        texts.append(module.document.text(value))
    return texts if need.positive is not None else None


def _is_plain(node: ast.Attribute, module: SourceModule, infer: Inference) -> bool:
    """Whether reading an attribute runs no code, so that it may be read twice."""
    holder = infer.kind(node.value, module)
    if not isinstance(holder, Instance) or not isinstance(holder.cls, Class):
        return False
    return all(infer.classes.method(holder.cls, n) is None for n in (node.attr, "__getattr__", "__getattribute__"))


def guarded(call: ast.Call, guard: Sequence[str], wrapped: Sequence[Edit], module: SourceModule) -> list[Edit] | None:
    """The call with arrays where none of the numbers is negative, else as it was: float32 sums could cancel then."""
    document = module.document
    text = document.text(call)
    if "\n" in text or not is_exact(document, call) or any("\n" in g for g in guard):
        return None
    condition = f"min({', '.join(guard)}) >= 0" if len(guard) > 1 else f"{guard[0]} >= 0"
    start, end = document.span(call)
    parent = module.parents[call]
    bare = isinstance(parent, ast.Assign | ast.AnnAssign | ast.Expr | ast.Return | ast.Tuple | ast.List) or (
        (isinstance(parent, ast.ListComp) and parent.elt is call)
        or (isinstance(parent, ast.Call) and call in parent.args)
    )
    made = f"{text_with(document, start, end, wrapped)} if {condition} else {text}"
    return [Edit(start, end, made if bare else f"({made})")]


def is_fallback(call: ast.Call, module: SourceModule) -> bool:
    """The other arm of a guard that this codemod wrote: the numbers as they are, where one is negative."""
    parent = module.parents[call]
    if not isinstance(parent, ast.IfExp) or parent.orelse is not call or not isinstance(parent.body, ast.Call):
        return False
    same = ast.unparse(parent.body.func) == ast.unparse(call.func)
    return same and isinstance(parent.test, ast.Compare) and "asarray(" in ast.unparse(parent.body)
