"""Kinds of expressions: resolved through imports, assignments, annotations, constructors and call sites."""

from __future__ import annotations

import ast
from collections.abc import Mapping as Mapping_
from dataclasses import dataclass, field, replace
from functools import cached_property

from jitmod.analysis import library
from jitmod.analysis.annotations import promised
from jitmod.analysis.classes import Classes
from jitmod.analysis.effort import Questions
from jitmod.analysis.lists import as_changed, is_alike, keeps_kind
from jitmod.analysis.parameters import call_sites, observed, parameter
from jitmod.analysis.parts import attribute, binary, subscript
from jitmod.analysis.reaching import reaching
from jitmod.analysis.results import augmented, library_result
from jitmod.analysis.returns import returned, returned_by_call
from jitmod.analysis.trackers import stand_in, wrapped
from jitmod.analysis.values import (
    UNKNOWN,
    Array,
    ClassRef,
    Constant,
    Device,
    Instance,
    Iterator,
    Kind,
    Mapping,
    Namespace,
    NdArray,
    Number,
    Range,
    Record,
    Routine,
    Sequence,
    Transformed,
    item_of,
    join,
    joined,
    length_of,
    unpacked,
    with_length_token,
)
from jitmod.source.nodes import COMPREHENSIONS
from jitmod.source.project import Class, Function, Project, SourceModule
from jitmod.source.scopes import Binding, Scope, names_in
from jitmod.source.signatures import argument


@dataclass(eq=False)
class Inference(Questions):
    """Answers "what kind of value is this expression?" for one project. Answers are remembered."""

    project: Project
    _known: dict[ast.AST, Kind] = field(default_factory=dict)
    _dotted: dict[ast.expr, str | None] = field(default_factory=dict)
    _provisional: dict[ast.AST, Kind] = field(default_factory=dict)
    _returned: dict[Function, Kind] = field(default_factory=dict)
    _sites: dict[Function, list[tuple[SourceModule, ast.Call]]] = field(default_factory=dict)
    _passed: dict[ast.arg, list[tuple[SourceModule, ast.expr | None]]] = field(default_factory=dict)
    open: dict[tuple[ast.expr, int], bool] = field(default_factory=dict)  # remembered by `parameters`
    # for one call: the function, what it is passed, and who answers all that does not depend on it
    inside: Function | None = None
    given: Mapping_[ast.arg, Kind] = field(default_factory=dict)
    outer: Inference | None = None
    depth: int = 0

    def of_call(self, function: Function, given: Mapping_[ast.arg, Kind]) -> Inference:
        """The inference for one call of `function`, which passes values of the kinds `given`."""
        depth = self.depth + 1
        return Inference(self.project, effort=self.effort, inside=function, given=given, outer=self, depth=depth,
                         _dotted=self._dotted)  # fmt: skip

    @cached_property
    def classes(self) -> Classes:
        return Classes(self) if self.outer is None else self.outer.classes

    def _depends(self, scope: Scope | None) -> bool:
        """Whether something in `scope` may depend on what is passed."""
        while scope is not None and self.inside is not None and scope is not self.inside.scope:
            scope = scope.parent
        return scope is not None

    def kind(self, expr: ast.expr, module: SourceModule) -> Kind:
        known = self._known.get(expr)
        if known is not None:
            return known
        if self.outer is not None and not self._depends(module.scope_of(expr)):
            return self.outer.kind(expr, module)
        if not self.begins(expr):  # `once` without its cost: most questions are this one
            return UNKNOWN
        try:
            before = self.cycles
            if expr in self._provisional:
                return self._provisional[expr]
            found = self._expression(expr, module)
            if found == UNKNOWN and isinstance(expr, ast.Name):
                found = observed(expr, module, self)
            if found != UNKNOWN or self.cycles == before or self.is_first:
                self._known[expr] = found
            else:
                self._provisional[expr] = found  # cut short inside of another question: enough for that one
            if self.is_outermost:
                self._provisional.clear()
            return found
        finally:
            self.ends(expr)

    # -- names -------------------------------------------------------------------------------------------------------

    def dotted(self, expr: ast.expr, module: SourceModule) -> str | None:
        """The canonical dotted name of `a.b.c` where `a` is an import or builtin; None for anything else."""
        if expr not in self._dotted:
            self._dotted[expr] = self._find_dotted(expr, module)
        return self._dotted[expr]

    def _find_dotted(self, expr: ast.expr, module: SourceModule) -> str | None:
        match expr:
            case ast.Name(id=name):
                scope = self.scope_binding(name, expr, module)
                if scope is None:
                    return name
                bindings = scope.bindings[name]
                if all(b.how == "import" for b in bindings):
                    return bindings[-1].target
                return None
            case ast.Attribute(value=value, attr=attr):
                if isinstance(value, ast.Name) and self.scope_binding(value.id, value, module) is None:
                    return None
                base = self.dotted(value, module)
                return f"{base}.{attr}" if base is not None else None
        return None

    def scope_binding(self, name: str, node: ast.AST, module: SourceModule) -> Scope | None:
        """The scope in which `name`, read at `node`, is bound; None for builtins and undefined names."""
        return module.scope_of(node).find(name)

    def comprehension_binding(self, name: str, node: ast.AST, module: SourceModule) -> Binding | None:
        """The comprehension target that `name` means at `node`, if any."""
        if node not in module.in_comprehensions:
            return None
        inner: ast.AST = node
        for parent in module.ancestors(node):
            if isinstance(parent, COMPREHENSIONS):
                for generator in reversed(parent.generators):
                    if generator is inner:
                        continue  # a generator's own iterable is outside of it; later ones see the earlier
                    for target, path in names_in(generator.target):
                        if target.id == name:
                            return Binding(name, "item", generator, generator.iter, path)
            if parent in module.scopes:
                return None
            inner = parent
        return None

    def _name(self, node: ast.Name, module: SourceModule) -> Kind:
        item = self.comprehension_binding(node.id, node, module)
        if item is not None:
            return self.bound(item, module)
        scope = self.scope_binding(node.id, node, module)
        if scope is None:
            return self.of_library(node.id)
        reached = reaching(node.id, node, scope)
        kept = [b for b in reached if not keeps_kind(b, module, self)] or reached
        kinds = [self.bound(b, module) for b in kept]
        kind = self._as_stable(stand_in(kinds) or joined(kinds), scope, node.id)
        return as_changed(kind, node.id, scope, self) if isinstance(kind, Sequence | Record) else kind

    def _as_stable(self, kind: Kind, scope: Scope, name: str) -> Kind:
        """A value of a module's top level that is bound once keeps its length from call to call."""
        once = len(scope.bindings[name]) == 1 and scope.parent is None
        return with_length_token(kind, f"{scope.module.name}.{name}") if once else kind

    def bound(self, binding: Binding, module: SourceModule) -> Kind:
        """The kind that one binding gives to its name."""
        match binding.how:
            case "param":
                return parameter(binding, module, self)
            case "assign" if binding.value is not None:
                annotation = binding.node.annotation if isinstance(binding.node, ast.AnnAssign) else None
                promised = self.annotation(annotation, module) if annotation is not None else None
                actual = unpacked(self.kind(binding.value, module), binding.path)
                if promised is None or (isinstance(promised, Sequence) and isinstance(actual, Sequence | Record)):
                    return actual if actual != UNKNOWN else promised or UNKNOWN
                return promised
            case "augment" if binding.value is not None and isinstance(binding.node, ast.AugAssign):
                return augmented(binding, binding.node, module, self)
            case "item" if binding.value is not None:
                return unpacked(item_of(self.iterated(binding.value, module)), binding.path)
            case "import":
                return self.meaning(binding.target)
            case "def":
                return self.defined(module.functions[binding.node], module)
            case "class":
                return ClassRef(module.classes[binding.node])
        return UNKNOWN

    def meaning(self, dotted: str) -> Kind:
        """What a canonical dotted name is: followed into the project where it leads there."""
        match self.project.lookup(dotted):
            case SourceModule() as found:
                return Namespace(found)
            case (Scope() as scope, str() as rest):
                head, *tail = rest.split(".")
                with self.once((scope, head)) as first:  # a name that a module imports from itself, by some way round
                    kinds = [self.bound(b, scope.module) for b in scope.bindings[head]] if first else [UNKNOWN]
                kind = self._as_stable(stand_in(kinds) or joined(kinds), scope, head)
                for attr in tail:
                    kind = self.attribute(kind, attr)
                return kind
            case str() as name:
                return self.of_library(name)
        return UNKNOWN

    def iterated(self, iterable: ast.expr, module: SourceModule) -> Kind:
        """The kind of what is iterated over: a progress bar stands for what it wraps."""
        return self.kind(wrapped(iterable, module, self) or iterable, module)

    def of_library(self, dotted: str) -> Kind:
        if library.is_module_class(dotted) or dotted == "equinox.nn.State":
            return ClassRef(dotted)
        if dotted in library.TEXT_STREAMS:
            return library.TEXT_STREAM
        if library.role(dotted) is library.Role.UNKNOWN and "." not in dotted:
            return Namespace(dotted)
        return Routine(dotted)

    def defined(self, function: Function, module: SourceModule) -> Kind:
        kind: Kind = Routine(function)
        for decorator in reversed(function.decorators):
            call = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = self.dotted(call, module)
            if name in ("staticmethod", "classmethod", "property", "functools.cached_property", "typing.override"):
                continue
            if name == "functools.partial" and isinstance(decorator, ast.Call) and decorator.args:
                name = self.dotted(decorator.args[0], module)
            if name in library.TRANSFORMS or (name is not None and library.role(name) is library.Role.PURE):
                kind = Transformed(kind, name)
            else:
                return UNKNOWN
        return kind

    def call_sites(self, function: Function) -> list[tuple[SourceModule, ast.Call]]:
        """The calls of the project that resolve to `function`."""
        if self.outer is not None:
            return self.outer.call_sites(function)
        if function not in self._sites:
            before = self.cycles
            found = call_sites(function, self)
            if self.cycles != before:
                return found
            self._sites[function] = found
        return self._sites[function]

    def passed(self, function: Function, parameter: ast.arg) -> list[tuple[SourceModule, ast.expr | None]]:
        """What the project's calls pass for a parameter; None where it has no default and they pass nothing."""
        if self.outer is not None:
            return self.outer.passed(function, parameter)
        if parameter not in self._passed:
            found = [(module, argument(function, call, parameter.arg)) for module, call in self.call_sites(function)]
            if function not in self._sites:  # not the last word
                return found
            self._passed[parameter] = found
        return self._passed[parameter]

    def annotation(self, node: ast.expr, module: SourceModule) -> Kind | None:
        """The kind that an annotation promises; None where it says nothing useful."""
        return promised(node, module, self)

    def attribute(self, kind: Kind, attr: str) -> Kind:
        """The kind of `value.attr` where the value has `kind`."""
        return attribute(kind, attr, self)

    # -- expressions -------------------------------------------------------------------------------------------------

    def _expression(self, expr: ast.expr, module: SourceModule) -> Kind:
        match expr:
            case ast.Name():
                return self._name(expr, module)
            case ast.Constant(value=value):
                return Number(type(value).__name__) if isinstance(value, int | float | complex) else Constant()
            case ast.JoinedStr() | ast.Slice():
                return Constant()
            case ast.Attribute(value=value, attr=attr):
                dotted = self.dotted(expr, module)
                if dotted is not None:
                    return self.meaning(dotted)
                return self.attribute(self.kind(value, module), attr)
            case ast.Call():
                return self._result(self.kind(expr.func, module), expr, module)
            case ast.BinOp(left=left, op=op, right=right):
                return binary(self.kind(left, module), op, self.kind(right, module))
            case ast.UnaryOp(op=ast.Not()):
                return Number("bool")
            case ast.UnaryOp(operand=operand):
                return self.kind(operand, module)
            case ast.Compare(left=left, comparators=others):
                kinds = [self.kind(e, module) for e in (left, *others)]
                if any(isinstance(k, Array | Device) for k in kinds):
                    return Array()
                return NdArray() if any(isinstance(k, NdArray) for k in kinds) else UNKNOWN
            case ast.BoolOp(op=ast.Or(), values=[first, second]):  # `file or sys.stderr`: a default for no argument
                other = self.kind(second, module)
                given = self.kind(first, module)
                return other if isinstance(other, Instance) and given == Constant() else join(given, other)
            case ast.IfExp(body=body, orelse=orelse):
                return join(self.kind(body, module), self.kind(orelse, module))
            case ast.NamedExpr(value=value):
                return self.kind(value, module)
            case ast.Subscript():
                return subscript(expr, self.kind(expr.value, module))
            case ast.Tuple(elts=elts):
                if any(isinstance(e, ast.Starred) for e in elts):
                    return UNKNOWN
                return Record(tuple(self.kind(e, module) for e in elts))
            case ast.List(elts=elts):
                if any(isinstance(e, ast.Starred) for e in elts):
                    return UNKNOWN
                kinds = [self.kind(e, module) for e in elts]
                return Record(tuple(kinds), is_tuple=False) if kinds else Sequence(UNKNOWN, 0)
            case ast.Dict(values=values):
                return Mapping(joined([self.kind(v, module) for v in values])) if values else Mapping(UNKNOWN)
            case ast.ListComp(elt=elt, generators=generators):
                whole = len(generators) == 1 and not generators[0].ifs
                source = self.kind(generators[0].iter, module)
                length = length_of(source) if whole else None
                item = self.kind(elt, module)
                alike = isinstance(source, Array | Range) or (isinstance(source, Sequence) and source.uniform)
                uniform = alike and isinstance(item, Array) and is_alike(elt, generators[0], module, self)
                return Sequence(item, length, uniform)
            case ast.GeneratorExp(elt=elt):
                return Iterator(self.kind(elt, module))
            case ast.DictComp(value=value):
                return Mapping(self.kind(value, module))
            case ast.Lambda():
                return Routine(module.functions[expr]) if expr in module.functions else UNKNOWN
        return UNKNOWN

    def target(self, kind: Kind) -> Function | str | None:
        """The function that calling a value of this kind runs: its own, a class's `__init__`, a Module's `__call__`."""
        match kind:
            case Routine(target):
                return target
            case Transformed(base, _):
                return self.target(base)
            case Instance(Class() as cls):
                return self.classes.method(cls, "__call__")
            case Instance(str() as name) | ClassRef(str() as name):
                return name
            case ClassRef(Class() as cls):
                return self.classes.method(cls, "__init__")
        return None

    def _result(self, callee: Kind, call: ast.Call, module: SourceModule) -> Kind:
        match callee:
            case ClassRef(cls):
                return Instance(cls)
            case Routine(Function() as function):
                return returned_by_call(function, call, module, self)
            case Routine(str() as name, receiver):
                return library_result(name, receiver, call, module, self)
            case Transformed(base, transform):
                if transform in library.JITS or transform in library.WRAPPERS:
                    inner = self._result(base, call, module)
                    return inner if inner != UNKNOWN else Device()
                if transform in library.VMAPS:
                    inner = self._result(base, call, module)
                    return replace(inner, length=None) if isinstance(inner, Array) else Device()
                if transform in library.VALUES_AND_GRADS:
                    inner = self._result(base, call, module)
                    return Record((inner if inner != UNKNOWN else Device(), Device()))
                if transform == "equinox.nn.make_with_state":
                    return Record((self._result(base, call, module), Instance("equinox.nn.State")))
                return Device()
            case Instance(Class() as cls):
                called = self.classes.method(cls, "__call__")
                inner = returned_by_call(called, call, module, self) if called else UNKNOWN
                return inner if inner != UNKNOWN or not self.classes.is_module(cls) else Device()
            case Instance(str() as name) if library.is_module_class(name):
                several = name.rpartition(".")[2] in ("LSTMCell", "BatchNorm", "StatefulLayer", "Sequential", "Lambda")
                return Device() if several else Array()
        return UNKNOWN

    def returned(self, function: Function) -> Kind:
        """The kind of a function's result."""
        if self.outer is not None and not self._depends(function.scope):
            return self.outer.returned(function)
        if function not in self._returned:
            with self.once(("return", function)) as first:
                before = self.cycles
                found = returned(function, self) if first else UNKNOWN
            if found == UNKNOWN and (not first or self.cycles != before):
                return found
            self._returned[function] = found
        return self._returned[function]
