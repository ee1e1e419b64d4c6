"""One jit around a function that calls compiled ones: its decorator, and those of the functions that it alone calls."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from jitmod.analysis.boundaries import jit_of
from jitmod.analysis.composites import Composite, Dispatch
from jitmod.analysis.effects import Effects
from jitmod.analysis.syntax import first_line
from jitmod.analysis.values import Array, Device
from jitmod.model import Edit
from jitmod.rewrite.imports import Imports
from jitmod.rewrite.lifted import decorator, margin
from jitmod.source.document import Document
from jitmod.source.project import Function


@dataclass(frozen=True, eq=False)
class Decorating:
    """One composite on its way to edits."""

    composite: Composite
    effects: Effects

    @property
    def document(self) -> Document:
        return self.composite.function.module.document

    def edits(self) -> tuple[Edit, ...]:
        """The decorator, on a line of its own above the `def`. Raises `Unplannable` and `NameTaken`."""
        function, imports = self.composite.function, Imports(self.composite.function.module)
        assert isinstance(function.node, ast.FunctionDef)
        indent = margin(self.document, function.node)
        jit = "equinox.filter_jit" if self.composite.filtered else "jax.jit"
        text = decorator(jit, [], imports)
        at = self.document.line_starts[function.node.lineno - 1]
        return (*imports.edits(), Edit(at, at, f"{indent}{text}\n"))

    def dropped(self) -> tuple[list[Edit], list[Edit]]:
        """What takes the jit off functions that nothing else calls: where a trace reaches them once, where perhaps.

        A call that every trace reaches more than once is compiled faster with its jit.
        """
        once: list[Edit] = []
        perhaps: list[Edit] = []
        for dispatch in self.composite.dispatches:
            function = dispatch.target
            if function is None or self.composite.reached[function] > 1 or dispatch.mapped:
                continue
            edit = self._without_jit(function) if self._is_for_it_alone(function, dispatch) else None
            if edit is not None:
                (perhaps if dispatch.conditional else once).append(edit)
        return once, perhaps

    def _is_for_it_alone(self, function: Function, dispatch: Dispatch) -> bool:
        """Whether nothing else in the project names a function, and all that it is given is traced in any case."""
        infer, name = self.effects.inference, function.name
        if function.module is not self.composite.function.module or function.scope.parent is not function.module.scope:
            return False
        uses = [node for module, node in infer.project.uses.get(name, ())
                if infer.target(infer.kind(node, module)) in (function, None)]  # fmt: skip
        given = [*dispatch.call.args, *[k.value for k in dispatch.call.keywords]]
        traced = all(isinstance(infer.kind(value, dispatch.module), Array | Device) for value in given)
        alone = len(function.module.scope.bindings.get(name, ())) == 1
        return traced and alone and uses == [dispatch.call.func] and not self._is_public(name)

    def _is_public(self, name: str) -> bool:
        """Whether `__all__`, or other text of the project, names it."""
        modules = self.effects.inference.project.by_path.values()
        return any(constant.value == name for module in modules for constant in module.document.of(ast.Constant))

    def _without_jit(self, function: Function) -> Edit | None:
        """The removal of a function's only decorator, a jit without options that has its line for itself."""
        node, document = function.node, self.document
        if not isinstance(node, ast.FunctionDef) or len(node.decorator_list) != 1:
            return None
        (only,) = node.decorator_list
        jit, options = jit_of(only, function.module, self.effects.inference)
        line = first_line(node)
        if jit is None or options or only.lineno != only.end_lineno:
            return None
        if document.line(line).strip().removeprefix("@").strip() != document.text(only):
            return None  # a comment stands beside it
        return Edit(document.line_starts[line - 1], document.line_starts[line], "")
