"""Methods of plain objects, moved to the module level: functions of what they read, which the methods call."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from jitmod.analysis.effects import Effects
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.methods import MethodPlan
from jitmod.model import Edit
from jitmod.rewrite.lifted import margin
from jitmod.rewrite.names import Namer
from jitmod.rewrite.spliced import adding_arguments, replacing, text_with
from jitmod.rewrite.text import reindent
from jitmod.source.nodes import walk
from jitmod.source.project import Function


@dataclass(frozen=True, eq=False)
class MovedMethods:
    """The plans of the methods that move; `parameters` names each attribute, `names` each new function."""

    plans: Mapping[Function, MethodPlan]
    parameters: Mapping[str, str]
    names: Mapping[Function, str]
    effects: Effects

    @classmethod
    def of(
        cls, plans: Mapping[Function, MethodPlan], parameters: Mapping[str, str], namer: Namer, effects: Effects
    ) -> MovedMethods:
        names = {function: namer.fresh(f"_{plan.name.strip('_')}") for function, plan in plans.items()}
        return cls(plans, parameters, names, effects)

    def definitions(self) -> list[list[str]]:
        """The new functions, callees first."""
        return [self._definition(plan) for plan in self.plans.values()]

    def _definition(self, plan: MethodPlan) -> list[str]:
        node, document = plan.function.node, plan.function.module.document
        assert isinstance(node, ast.FunctionDef)
        body = _body(node)
        if not body:
            raise Unplannable("mutable-self", node, f"`{plan.name}` has no body")
        extra = [self.parameters[a] for a in plan.attributes]
        own = {n.id for n in walk(node) if isinstance(n, ast.Name)} | {p.arg for p in plan.function.parameters}
        for name in extra:
            if name in own:
                raise Unplannable("mutable-self", node, f"`{name}` means something else in `{plan.name}`")
        edits = [replacing(document, read, self.parameters[read.attr]) for read in plan.reads]
        for call, callee in plan.calls:
            edits.append(replacing(document, call.func, self.names[callee]))
            added = adding_arguments(document, call, [self.parameters[a] for a in self.plans[callee].attributes])
            edits += [added] if added is not None else []
        given = [document.text(p) for p in plan.function.parameters[1:]]  # type: ignore[arg-type]
        start, stop = document.span(body[0])[0], document.span(body[-1])[1]
        step = margin(document, body[0]).removeprefix(margin(document, node))
        text = reindent(text_with(document, start, stop, edits), margin(document, body[0]), step)
        return [f"def {self.names[plan.function]}({', '.join([*given, *extra])}):", *f"{step}{text}".split("\n")]

    def edits(self) -> list[Edit]:
        """The methods call the functions."""
        edits = []
        for plan in self.plans.values():
            node, document = plan.function.node, plan.function.module.document
            assert isinstance(node, ast.FunctionDef)
            body = _body(node)
            given = [p.arg for p in plan.function.parameters[1:]]
            read = [f"{plan.receiver}.{a}" for a in plan.attributes]
            call = f"return {self.names[plan.function]}({', '.join([*given, *read])})"
            edits.append(Edit(document.span(body[0])[0], document.span(body[-1])[1], call))
        return edits


def _body(node: ast.FunctionDef) -> list[ast.stmt]:
    """The statements behind the docstring."""
    return node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
