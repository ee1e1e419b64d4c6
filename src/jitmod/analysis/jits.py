"""Boundaries: which callables are compiled or Modules, and whether a function's body runs inside a trace."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from jitmod.analysis import library
from jitmod.analysis.effects import Effects
from jitmod.analysis.infer import Inference
from jitmod.analysis.leading import leads
from jitmod.analysis.values import Instance, Kind, Routine, Transformed, function_behind
from jitmod.source.nodes import walk
from jitmod.source.project import Function, Project, SourceModule


def is_heavy(kind: Kind, effects: Effects) -> bool:
    """Whether calling a value of this kind runs a Module or a compiled function.

    A plain function counts where it reaches one and may be traced as a whole.
    """
    match kind:
        case Routine(Function() as function, None):
            reaches = leads(function, effects.reaching_boundary, lambda one: _step(one, effects))
            return reaches and not effects.of_function(function)
        case Transformed(base, transform):
            return transform in library.JITS or is_heavy(base, effects)
        case Routine(str() as name, None) if effects.counts_library:
            return library.computes(name)
    return _is_boundary(kind, effects)


def _is_boundary(kind: Kind, effects: Effects) -> bool:
    """A Module, its method, or a compiled function, whatever transforms are around it."""
    while isinstance(kind, Transformed):
        if kind.transform in library.JITS:
            return True
        kind = kind.base
    match kind:
        case Instance(cls) | Routine(_, Instance(cls)):
            return effects.inference.classes.is_module(cls)
    return False


def _step(function: Function, effects: Effects) -> tuple[bool, list[Function]]:
    """Whether a function itself calls a Module or compiled function, and which functions it calls."""
    called: list[Function] = []
    for call in function.calls:
        kind = effects.inference.kind(call.func, function.module)
        if _is_boundary(kind, effects):
            return True, []
        target = function_behind(kind)
        if target is not None:
            called.append(target)
    return False, called


def describe(kind: Kind) -> str:
    """A callee in words."""
    match kind:
        case Transformed(_, transform) if transform in library.JITS:
            return "the compiled function"
        case Transformed(base, _):
            return describe(base)
        case Routine(Function(), None):
            return "the function"
    return "the Module"


@dataclass(eq=False)
class Contexts:
    """Where the functions of a project run: inside a trace, eagerly, both, or nowhere that can be seen."""

    inference: Inference
    _known: dict[Function, frozenset[str]] = field(default_factory=dict)
    _traced: dict[Function, bool] = field(default_factory=dict)
    _eager: dict[Function, bool] = field(default_factory=dict)

    def of(self, function: Function) -> frozenset[str]:
        """A subset of {"traced", "eager"}; empty where no call is seen."""
        if function not in self._known:
            traced = leads(function, self._traced, self._step_to_trace)
            eager = leads(function, self._eager, self._step_to_eager)
            self._known[function] = frozenset(["traced"] * traced + ["eager"] * eager)
        return self._known[function]

    def _step_to_trace(self, function: Function) -> tuple[bool, list[Function]]:
        outer = function.scope.parent
        around = [outer.module.functions[outer.node]] if outer is not None and outer.is_function else []
        return function in self._compiled_functions(), [*around, *filter(None, self._callers(function))]

    def _step_to_eager(self, function: Function) -> tuple[bool, list[Function]]:
        """What calls it, if only traces call that; a caller that no trace reaches runs eagerly, if it runs."""
        callers = self._callers(function)
        traced = [c for c in callers if c is not None and leads(c, self._traced, self._step_to_trace)]
        return len(traced) < len(callers), traced

    def _callers(self, function: Function) -> list[Function | None]:
        """The functions that call it as it is, not compiled; None for the top level of a module."""
        calls = self.inference.call_sites(function)
        compiled = function in self._compiled_functions()
        plain = [(module, call) for module, call in calls if not (compiled and self._is_compiled_call(call, module))]
        return [module.functions.get(module.scope_of(call).node) for module, call in plain]

    def is_passed_on(self, function: Function) -> bool:
        """Whether a function's name is used otherwise than to call it: wrapped, stored, handed on."""
        if isinstance(function.node, ast.Lambda):
            return True
        name = function.node.name
        for module, node in self.inference.project.uses.get(name, ()):
            parent = module.parents.get(node)
            if not (isinstance(parent, ast.Call) and parent.func is node):
                return True
        return bool(function.decorators)

    def may_get_tracers(self, function: Function) -> bool:
        """Whether what a function is given may be traced: a call that cannot be seen, or a caller that is wrapped.

        A function that nothing calls is where a program begins, if it hands on nothing that it is given itself.
        """
        if function.parameters and "eager" not in self.of(function):
            return True
        seen, todo = {function}, [function]
        while todo:
            current = todo.pop()
            if "traced" in self.of(current) or self.is_passed_on(current):
                return True
            for module, call in self.inference.call_sites(current):
                caller = module.functions.get(module.scope_of(call).node)
                if caller is not None and not self.inference.call_sites(caller) and _hands_on(caller, call):
                    return True
                if caller is not None and caller not in seen:
                    seen.add(caller)
                    todo.append(caller)
        return False

    def _is_compiled_call(self, call: ast.Call, module: SourceModule) -> bool:
        kind = self.inference.kind(call.func, module)
        while isinstance(kind, Transformed):
            if kind.transform in library.JITS:
                return True
            kind = kind.base
        return False

    def _compiled_functions(self) -> set[Function]:
        """The functions that some boundary of the project compiles: by decorator, or `jit(f)` anywhere."""
        project = self.inference.project
        if project not in _COMPILED:
            _COMPILED[project] = set(_compiled(Inference(project)))  # without open questions, so that none is cut short
        return _COMPILED[project]


_COMPILED: WeakKeyDictionary[Project, set[Function]] = WeakKeyDictionary()


def _compiled(infer: Inference) -> Iterator[Function]:
    kinds: list[Kind] = []
    for module in infer.project.by_path.values():
        for function in module.functions.values():
            if function.decorators and not isinstance(function.node, ast.Lambda):
                kinds.append(infer.defined(function, module))
    for name in ("jit", "filter_jit", "pmap", "filter_pmap"):
        kinds += [infer.kind(call, module) for module, call in infer.project.calls.get(name, ())]
    for kind in kinds:
        inside = False
        while isinstance(kind, Transformed):
            inside = inside or kind.transform in library.JITS
            kind = kind.base
        target = infer.target(kind)
        if inside and isinstance(target, Function):
            yield target


def _hands_on(caller: Function, call: ast.Call) -> bool:
    """Whether a call passes on what its function is given, but as a position."""
    given = {p.arg for p in caller.parameters}
    values = [*call.args, *[k.value for k in call.keywords]]
    positions = {n for v in values for s in walk(v) if isinstance(s, ast.Subscript) for n in walk(s.slice)}
    return any(isinstance(n, ast.Name) and n.id in given and n not in positions for v in values for n in walk(v))


_ANALYSES: WeakKeyDictionary[Project, tuple[Effects, Contexts]] = WeakKeyDictionary()


def analyses(project: Project) -> tuple[Effects, Contexts]:
    """The analyses of a project, made once and shared by the codemods."""
    if project not in _ANALYSES:
        inference = Inference(project)
        _ANALYSES[project] = Effects(inference), Contexts(inference)
    return _ANALYSES[project]


def forget() -> None:
    """Begin anew: what was found out so far decides how far a later question may lead."""
    _ANALYSES.clear()


def jitted_target(kind: Kind, infer: Inference) -> tuple[str | None, Function | None]:
    """The jit through which a callable of this kind is called, and the project's function that it compiles."""
    jit = None
    while isinstance(kind, Transformed):
        if jit is None and kind.transform in library.JITS:
            jit = kind.transform
        elif kind.transform in library.VMAPS | library.WRAPPERS:
            return jit, None  # its parameters are not those of the function
        kind = kind.base
    target = infer.target(kind) if jit is not None else None
    return jit, target if isinstance(target, Function) else None
