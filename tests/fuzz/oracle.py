"""Runs a loop program as it is and as its plan says, and compares what can be seen of both."""

from __future__ import annotations

import ast
import contextlib
import io
import types
from dataclasses import replace
from typing import Any

from loops import stand_ins

from jitmod.analysis.batching import batch, heavy_calls
from jitmod.analysis.effects import Effects
from jitmod.analysis.infer import Inference
from jitmod.analysis.jits import Contexts
from jitmod.analysis.loops import Loop, Unplannable, loops_in
from jitmod.analysis.periods import chunk
from jitmod.analysis.plan import LoopPlan, plan
from jitmod.analysis.replay import replayed
from jitmod.source.document import Document
from jitmod.source.project import Project

LENGTHS = (0, 1, 2, 5, 7)
ITEMS = (4, 9, 2, 6, 1, 8, 3)


def plans(text: str) -> tuple[list[LoopPlan], str]:
    """Every plan of the program's loop - distributed, in chunks, batched - and how it is split, or why it is not."""
    project = Project.of({"app.py": Document.parse("app.py", text.encode())})
    effects = Effects(Inference(project))
    module = project.by_path["app.py"]
    loop = next(loop for loop in loops_in(module) if _is_of_program(loop))
    found: list[LoopPlan] = []
    try:
        first = plan(loop, effects)
        found.append(first)
        outcome = ("split" if first.traced else "host") + ("" if first.block.kind == "whole" else " by period")
        if first.block.kind == "whole":
            found += [replace(first, block=chunk(size)) for size in (2, 3)]
    except Unplannable as why:
        outcome = why.reason
    heavy = heavy_calls(loop, effects)
    if heavy:
        with contextlib.suppress(Unplannable):
            found.append(batch(loop, effects, Contexts(effects.inference), heavy[0]))
    return found, outcome


def _is_of_program(loop: Loop) -> bool:
    return isinstance(loop.node, ast.For | ast.ListComp) and "xs" in ast.unparse(loop.node)


def difference(text: str) -> tuple[str | None, str]:
    """A plan that does something else than the program, if there is one, and how the program was split."""
    found, outcome = plans(text)
    expected = original(text) if found else []
    for each in found:
        try:
            got: Any = by_plan(each)
        except Exception as error:
            got = repr(error)
        if got != expected:
            return f"{type(each).__name__}, {each.block.kind}\nexpected {expected}\ngot {got}", outcome
    return None, outcome


def original(text: str) -> list[Any]:
    return _seen(ast.parse(text), {})


def by_plan(found: LoopPlan) -> list[Any]:
    swapped, needed = replayed(found)
    return _seen(_Swap(found.loop.node, swapped).copied(found.loop.module.document.tree), needed)


class _Swap:
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def copied(self, node: Any) -> Any:
        if node is self.old:
            return self.new
        if isinstance(node, ast.AST):
            made = type(node)()
            for name in (*node._fields, *node._attributes):
                if hasattr(node, name):
                    setattr(made, name, self.copied(getattr(node, name)))
            return made
        return [self.copied(part) for part in node] if isinstance(node, list) else node


def _seen(tree: ast.Module, needed: dict[str, Any]) -> list[Any]:
    """All that can be told from outside of runs with several numbers of items."""
    body = [s for s in tree.body if not isinstance(s, ast.Import | ast.ImportFrom)]
    code = compile(ast.fix_missing_locations(ast.Module(body, [])), "app.py", "exec")
    return [_run(code, length, needed) for length in LENGTHS]


def _run(code: types.CodeType, length: int, needed: dict[str, Any]) -> Any:
    """Results, errors, text, logs, what is left in lists."""
    logged: list[Any] = []
    space: dict[str, Any] = {"XS": list(ITEMS[:length]), "A": 3, **stand_ins(logged), **needed}
    text = io.StringIO()
    left: list[Any] = []
    result: Any = None
    with contextlib.redirect_stdout(text):
        try:
            exec(code, space)
            result = space["run"](list(ITEMS[:length]), 3, 38, left) if "run" in space else space["RESULT"]
        except (ValueError, ZeroDivisionError, NameError, TypeError, OverflowError) as error:
            result = type(error).__name__, str(error)
    return result, text.getvalue(), logged, left
