"""Kinds of expressions: resolved through imports, assignments, annotations, constructors and call sites."""

from __future__ import annotations

import ast
from collections.abc import Generator
from collections.abc import Iterator as Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce

from jitmod.analysis import library
from jitmod.analysis.reaching import reaching
from jitmod.analysis.values import (
    UNKNOWN,
    Array,
    ClassRef,
    Constant,
    Device,
    Instance,
    Iterator,
    Kind,
    Length,
    Mapping,
    Namespace,
    NdArray,
    Number,
    Range,
    Record,
    Routine,
    Sequence,
    Transformed,
    element,
    item_of,
    join,
    length_of,
    with_length_token,
)
from jitmod.source.project import Binding, Class, Function, Project, Scope, SourceModule

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(eq=False)
class Inference:
    """Answers "what kind of value is this expression?" for one project. Answers are remembered."""

    project: Project
    _known: dict[ast.AST, Kind] = field(default_factory=dict)
    _fields: dict[tuple[Class, str], Kind] = field(default_factory=dict)
    _active: set[object] = field(default_factory=set)
    _cycles: int = 0

    def kind(self, expr: ast.expr, module: SourceModule) -> Kind:
        if expr in self._known:
            return self._known[expr]
        with self._once(expr) as first:
            if not first:
                return UNKNOWN
            before = self._cycles
            found = self._expression(expr, module)
            if found != UNKNOWN or self._cycles == before:  # an answer cut short by a cycle is not the last word
                self._known[expr] = found
            return found

    @contextmanager
    def _once(self, key: object) -> Generator[bool]:
        """False where the question `key` is being answered already: a value defined through itself."""
        if key in self._active:
            self._cycles += 1
            yield False
            return
        self._active.add(key)
        try:
            yield True
        finally:
            self._active.discard(key)

    # -- names -------------------------------------------------------------------------------------------------------

    def dotted(self, expr: ast.expr, module: SourceModule) -> str | None:
        """The canonical dotted name of `a.b.c` where `a` is an import or builtin; None for anything else."""
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
        inner: ast.AST = node
        for parent in module.ancestors(node):
            if isinstance(parent, _COMPREHENSIONS):
                for generator in reversed(parent.generators):
                    if generator is inner:
                        continue  # a generator's own iterable is outside of it; later ones see the earlier
                    for target, path in _targets(generator.target):
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
            return self._library(node.id)
        kinds = [self.bound(b, module) for b in reaching(node.id, node, scope)]
        return self._as_stable(self._joined(kinds), scope, node.id)

    def _joined(self, kinds: list[Kind]) -> Kind:
        return reduce(join, kinds) if kinds else UNKNOWN

    def _as_stable(self, kind: Kind, scope: Scope, name: str) -> Kind:
        """A value of a module's top level that is bound once keeps its length from call to call."""
        once = len(scope.bindings[name]) == 1 and scope.parent is None
        return with_length_token(kind, f"{scope.module.name}.{name}") if once else kind

    def bound(self, binding: Binding, module: SourceModule) -> Kind:
        """The kind that one binding gives to its name."""
        match binding.how:
            case "param":
                return self._parameter(binding, module)
            case "assign" if binding.value is not None:
                annotation = binding.node.annotation if isinstance(binding.node, ast.AnnAssign) else None
                promised = self.annotation(annotation, module) if annotation is not None else None
                actual = self._unpacked(self.kind(binding.value, module), binding.path)
                if promised is None or (isinstance(promised, Sequence) and isinstance(actual, Sequence | Record)):
                    return actual if actual != UNKNOWN else promised or UNKNOWN
                return promised
            case "augment" if binding.value is not None and isinstance(binding.node, ast.AugAssign):
                return self._binary(self.kind(binding.value, module), self.kind(binding.value, module))
            case "item" if binding.value is not None:
                return self._unpacked(item_of(self.kind(binding.value, module)), binding.path)
            case "import":
                return self.meaning(binding.target)
            case "def":
                return self.defined(module.functions[binding.node], module)
            case "class":
                return ClassRef(module.classes[binding.node])
        return UNKNOWN

    def _unpacked(self, kind: Kind, path: tuple[int, ...]) -> Kind:
        for index in path:
            kind = element(kind, index)
        return kind

    def meaning(self, dotted: str) -> Kind:
        """What a canonical dotted name is: followed into the project where it leads there."""
        match self.project.lookup(dotted):
            case SourceModule() as found:
                return Namespace(found)
            case (Scope() as scope, str() as rest):
                head, *tail = rest.split(".")
                kinds = [self.bound(b, scope.module) for b in scope.bindings[head]]
                kind = self._as_stable(self._joined(kinds), scope, head)
                for attr in tail:
                    kind = self.attribute(kind, attr)
                return kind
            case str() as name:
                return self._library(name)
        return UNKNOWN

    def _library(self, dotted: str) -> Kind:
        if library.is_module_class(dotted) or dotted == "equinox.nn.State":
            return ClassRef(dotted)
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

    # -- parameters and annotations ----------------------------------------------------------------------------------

    def _parameter(self, binding: Binding, module: SourceModule) -> Kind:
        arg = binding.node
        assert isinstance(arg, ast.arg)
        scope = module.scopes[next(a for a in module.ancestors(arg) if a in module.scopes and a is not arg)]
        function = module.functions.get(scope.node)
        if function is None:
            return UNKNOWN
        promised = self.annotation(arg.annotation, module) if arg.annotation is not None else None
        if promised is not None and not isinstance(promised, Sequence | Mapping):
            at_sites = self._from_call_sites(function, arg)
            return at_sites if isinstance(promised, Array) and isinstance(at_sites, Array) else promised
        if function.owner is not None and function.parameters[0] is arg and not _is_static(function):
            return ClassRef(function.owner) if _is_classmethod(function) else Instance(function.owner)
        found = self._from_call_sites(function, arg)
        return found if found != UNKNOWN else promised or UNKNOWN

    def _from_call_sites(self, function: Function, arg: ast.arg) -> Kind:
        """What the project's calls pass for `arg`: all that say something must agree."""
        kinds: list[Kind] = []
        for module, call in self.call_sites(function):
            value = argument(function, call, arg.arg)
            if value is None or self._is_open(value, module):
                continue  # handed through from outside of what can be seen: it says nothing
            found = self.kind(value, module)
            kinds.append(found if value is _default(function, arg) else with_length_token(found, None))
        return self._joined(kinds)

    def _is_open(self, value: ast.expr, module: SourceModule, depth: int = 4) -> bool:
        """Whether a value is a parameter that no visible call gives anything."""
        scope = self.scope_binding(value.id, value, module) if isinstance(value, ast.Name) else None
        if scope is None or not isinstance(value, ast.Name) or depth == 0:
            return False
        bindings = reaching(value.id, value, scope)
        if not bindings or any(b.how != "param" or getattr(b.node, "annotation", None) for b in bindings):
            return False
        function = module.functions.get(scope.node)
        if function is None or (function.owner is not None and function.parameters[0].arg == value.id):
            return False
        passed = [(m, argument(function, c, value.id)) for m, c in self.call_sites(function)]
        return all(v is None or self._is_open(v, m, depth - 1) for m, v in passed)

    def call_sites(self, function: Function) -> list[tuple[SourceModule, ast.Call]]:
        """The calls of the project that resolve to `function`."""
        if isinstance(function.node, ast.Lambda):
            return []
        name = function.owner.node.name if function.owner and function.node.name == "__init__" else function.node.name
        found: list[tuple[SourceModule, ast.Call]] = []
        for module, call in self.project.calls.get(name, ()):
            if self.target(self.kind(call.func, module)) is function:
                found.append((module, call))
        return found

    def annotation(self, node: ast.expr, module: SourceModule) -> Kind | None:
        """The kind that an annotation promises; None where it says nothing useful."""
        match node:
            case ast.Constant(value=str(text)):
                try:
                    parsed = ast.parse(text, mode="eval").body
                except SyntaxError:
                    return None
                return self._annotation_by_name(ast.unparse(parsed), module)
            case ast.Constant(value=None):
                return Constant()
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                sides = [self.annotation(s, module) for s in (left, right)]
                present = [s for s in sides if s is not None and s != Constant()]
                return present[0] if len(present) == 1 and None not in sides else None
            case ast.Subscript(value=value, slice=inner):
                return self._generic(self.dotted(value, module), inner, module)
            case ast.Name() | ast.Attribute():
                dotted = self.dotted(node, module)
                if dotted is not None:
                    kind = library.annotated(dotted)
                    meaning = self.meaning(dotted) if kind is None else UNKNOWN
                else:
                    kind, meaning = None, self.kind(node, module)
                if isinstance(meaning, ClassRef) and isinstance(meaning.cls, Class):
                    return Instance(meaning.cls)
                return kind
        return None

    def _annotation_by_name(self, text: str, module: SourceModule) -> Kind | None:
        head, *rest = text.split(".")
        bindings = module.scope.bindings.get(head)
        if not all(part.isidentifier() for part in (head, *rest)):
            return None
        if bindings is None:
            return library.annotated(text)
        kind = self.bound(bindings[-1], module)
        for attr in rest:
            kind = self.attribute(kind, attr)
        if isinstance(kind, ClassRef):
            return Instance(kind.cls) if isinstance(kind.cls, Class) else library.annotated(kind.cls)
        return library.annotated(kind.target) if isinstance(kind, Routine) and isinstance(kind.target, str) else None

    def _generic(self, base: str | None, inner: ast.expr, module: SourceModule) -> Kind | None:
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        kinds = [self.annotation(p, module) or UNKNOWN for p in parts]
        last = (base or "").rpartition(".")[2]
        if base and base.startswith("jaxtyping."):
            return kinds[0] if kinds[0] != UNKNOWN else None
        match last:
            case "list" | "List" | "Sequence" | "Collection":
                return Sequence(kinds[0])
            case "tuple" | "Tuple":
                if len(parts) == 2 and isinstance(parts[1], ast.Constant) and parts[1].value is Ellipsis:
                    return Sequence(kinds[0])
                return Record(tuple(kinds))
            case "dict" | "Dict" | "Mapping" if len(kinds) == 2:
                return Mapping(kinds[1])
            case "Iterator" | "Generator" | "Iterable":
                return Iterator(kinds[0]) if last != "Iterable" else None
            case "Optional" | "Annotated":
                return kinds[0] if kinds[0] != UNKNOWN else None
        return None

    # -- classes -----------------------------------------------------------------------------------------------------

    def bases(self, cls: Class) -> list[Class | str]:
        """The direct bases: classes of the project, or dotted names."""
        found: list[Class | str] = []
        for base in cls.node.bases:
            expr = base.value if isinstance(base, ast.Subscript) else base
            kind = self.kind(expr, cls.module)
            if isinstance(kind, ClassRef):
                found.append(kind.cls)
            elif (dotted := self.dotted(expr, cls.module)) is not None:
                found.append(dotted)
        return found

    def lineage(self, cls: Class) -> list[Class]:
        """The class and its bases within the project, nearest first."""
        found: list[Class] = []
        todo: list[Class | str] = [cls]
        while todo:
            current = todo.pop(0)
            if isinstance(current, Class) and current not in found:
                found.append(current)
                todo += self.bases(current)
        return found

    def is_module(self, cls: Class | str) -> bool:
        """Whether a class is an `eqx.Module`."""
        if isinstance(cls, str):
            return library.is_module_class(cls)
        bases = [base for c in self.lineage(cls) for base in self.bases(c)]
        return any(isinstance(base, str) and library.is_module_class(base) for base in bases)

    def method(self, cls: Class, name: str) -> Function | None:
        for current in self.lineage(cls):
            if name in current.methods:
                return current.methods[name]
        return None

    def subclasses(self, cls: Class) -> list[Class]:
        return [c for c in self.project.classes if c is not cls and cls in self.lineage(c)]

    def field_values(self, cls: Class, name: str) -> Iterable[tuple[SourceModule, ast.expr, tuple[int, ...]]]:
        """Every expression of the project that becomes the field `name` of an instance of `cls`."""
        for current in self.lineage(cls):
            for function in current.methods.values():
                owner = function.parameters[0].arg if function.parameters else ""
                for node in ast.walk(function.node):
                    for target, value, path in _assignments(node):
                        match target:
                            case ast.Attribute(value=ast.Name(id=base), attr=attr) if base == owner and attr == name:
                                yield current.module, value, path
        if self.method(cls, "__init__") is None:
            order = [n for c in reversed(self.lineage(cls)) for n in _declared(c)]
            for module, call in self.project.calls.get(cls.node.name, ()):
                if self.kind(call.func, module) == ClassRef(cls):
                    keywords = {k.arg: k.value for k in call.keywords}
                    if name in keywords:
                        yield module, keywords[name], ()
                    elif name in order and order.index(name) < len(call.args):
                        yield module, call.args[order.index(name)], ()
        for current in self.lineage(cls):
            for statement in current.node.body:
                match statement:
                    case ast.AnnAssign(target=ast.Name(id=declared), value=ast.expr() as value) if declared == name:
                        yield current.module, value, ()

    def field(self, cls: Class, name: str) -> Kind:
        """The kind of a field: from its annotation, else from what is assigned to it."""
        key = (cls, name)
        if key in self._fields:
            return self._fields[key]
        with self._once(key) as first:
            if not first:
                return UNKNOWN
            before = self._cycles
            found = self._field(cls, name)
            if found != UNKNOWN or self._cycles == before:
                self._fields[key] = found
            return found

    def _field(self, cls: Class, name: str) -> Kind:
        promised: Kind | None = None
        for current in self.lineage(cls):
            for statement in current.node.body:
                match statement:
                    case ast.AnnAssign(target=ast.Name(id=declared)) if declared == name and promised is None:
                        promised = self.annotation(statement.annotation, current.module)
        if promised is not None and not isinstance(promised, Sequence | Mapping | Record):
            return promised
        values = list(self.field_values(cls, name))
        kinds = [self._unpacked(self.kind(value, module), path) for module, value, path in values]
        found = self._joined([k for k in kinds if k != Constant()] or kinds)
        return found if found != UNKNOWN else promised or UNKNOWN

    def is_property(self, expr: ast.Attribute, module: SourceModule) -> bool:
        """Whether reading an attribute runs a method of a class of the project."""
        holder = self.kind(expr.value, module)
        if not isinstance(holder, Instance) or isinstance(holder.cls, str):
            return False
        method = self.method(holder.cls, expr.attr)
        return method is not None and any(is_property(d) for d in method.decorators)

    # -- expressions -------------------------------------------------------------------------------------------------

    def attribute(self, kind: Kind, attr: str) -> Kind:
        match kind:
            case Namespace(SourceModule() as module):
                return self.meaning(f"{module.name}.{attr}")
            case Namespace(str() as name):
                return self.meaning(f"{name}.{attr}")
            case Instance(Class() as cls):
                method = self.method(cls, attr)
                if method is None:
                    return self.field(cls, attr)
                if any(is_property(d) for d in method.decorators):
                    return self.returned(method)
                defined = self.defined(method, method.module)
                return _with_receiver(defined, None if _is_static(method) else kind)
            case ClassRef(Class() as cls):
                unbound = self.method(cls, attr)
                return Routine(unbound) if unbound else UNKNOWN
            case ClassRef(str() as name):
                return self._library(f"{name}.{attr}")
            case Array() | NdArray() | Device():
                match attr:
                    case "shape":
                        return Sequence(Number("int"))
                    case "ndim" | "size" | "nbytes" | "itemsize":
                        return Number("int")
                    case "dtype" | "weak_type" | "sharding":
                        return Constant()
                    case "T" | "mT" | "real" | "imag" | "at" | "flat":
                        return kind if isinstance(kind, Device) else replace(kind, length=None)
                return Routine(f"array.{attr}", kind)
            case Sequence() | Mapping() | Record() | Constant():
                return Routine(f"container.{attr}", kind)
        return UNKNOWN

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
                return self._call(expr, module)
            case ast.BinOp(left=left, right=right):
                return self._binary(self.kind(left, module), self.kind(right, module))
            case ast.UnaryOp(op=ast.Not()):
                return Number("bool")
            case ast.UnaryOp(operand=operand):
                return self.kind(operand, module)
            case ast.Compare(left=left, comparators=others):
                kinds = [self.kind(e, module) for e in (left, *others)]
                if any(isinstance(k, Array | Device) for k in kinds):
                    return Array()
                return NdArray() if any(isinstance(k, NdArray) for k in kinds) else UNKNOWN
            case ast.IfExp(body=body, orelse=orelse):
                return join(self.kind(body, module), self.kind(orelse, module))
            case ast.NamedExpr(value=value):
                return self.kind(value, module)
            case ast.Subscript():
                return self._subscript(expr, module)
            case ast.Tuple(elts=elts):
                if any(isinstance(e, ast.Starred) for e in elts):
                    return UNKNOWN
                return Record(tuple(self.kind(e, module) for e in elts))
            case ast.List(elts=elts):
                if any(isinstance(e, ast.Starred) for e in elts):
                    return UNKNOWN
                kinds = [self.kind(e, module) for e in elts]
                return Record(tuple(kinds)) if kinds else Sequence(UNKNOWN, 0)
            case ast.Dict(values=values):
                return Mapping(self._joined([self.kind(v, module) for v in values])) if values else Mapping(UNKNOWN)
            case ast.ListComp(elt=elt, generators=generators):
                whole = len(generators) == 1 and not generators[0].ifs
                source = self.kind(generators[0].iter, module)
                length = length_of(source) if whole else None
                item = self.kind(elt, module)
                alike = isinstance(source, Array | Range) or (isinstance(source, Sequence) and source.uniform)
                return Sequence(item, length, uniform=alike and isinstance(item, Array) and not _has_branch(elt))
            case ast.GeneratorExp(elt=elt):
                return Iterator(self.kind(elt, module))
            case ast.DictComp(value=value):
                return Mapping(self.kind(value, module))
            case ast.Lambda():
                return Routine(module.functions[expr])
        return UNKNOWN

    def _binary(self, left: Kind, right: Kind) -> Kind:
        kinds = (left, right)
        if any(isinstance(k, Device) for k in kinds):
            return Device()
        if any(isinstance(k, Array) for k in kinds):
            return Array()
        if any(isinstance(k, NdArray) for k in kinds):
            return NdArray()
        if isinstance(left, Number) and isinstance(right, Number):
            return join(left, right)
        if isinstance(left, Sequence) and isinstance(right, Sequence):
            return Sequence(join(left.item, right.item))
        return UNKNOWN

    def _subscript(self, expr: ast.Subscript, module: SourceModule) -> Kind:
        base = self.kind(expr.value, module)
        match expr.slice:
            case ast.Constant(value=int(index)):
                return element(base, index)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(index))):
                return element(base, -index)
            case ast.Slice():
                match base:
                    case Sequence():
                        return replace(base, length=None)
                    case Record():
                        return Sequence(item_of(base))
                    case Array() | NdArray():
                        return replace(base, length=None)
                return base if isinstance(base, Device) else UNKNOWN
        match base:
            case Mapping(value):
                return value
            case Array():
                return Array(is_key=base.is_key)
            case Instance():
                return UNKNOWN
        return item_of(base)

    def target(self, kind: Kind) -> Function | str | None:
        """The function that calling a value of this kind runs: its own, a class's `__init__`, a Module's `__call__`."""
        match kind:
            case Routine(target):
                return target
            case Transformed(base, _):
                return self.target(base)
            case Instance(Class() as cls):
                return self.method(cls, "__call__")
            case Instance(str() as name) | ClassRef(str() as name):
                return name
            case ClassRef(Class() as cls):
                return self.method(cls, "__init__")
        return None

    def _call(self, call: ast.Call, module: SourceModule) -> Kind:
        callee = self.kind(call.func, module)
        return self._result(callee, call, module)

    def _result(self, callee: Kind, call: ast.Call, module: SourceModule) -> Kind:
        match callee:
            case ClassRef(cls):
                return Instance(cls)
            case Routine(Function() as function):
                return self.returned(function)
            case Routine(str() as name, receiver):
                return self._library_result(name, receiver, call, module)
            case Transformed(base, transform):
                if transform in library.JITS or transform in library.WRAPPERS:
                    inner = self._result(base, call, module)
                    return inner if inner != UNKNOWN else Device()
                if transform == "equinox.nn.make_with_state":
                    return Record((self._result(base, call, module), Instance("equinox.nn.State")))
                return Device()
            case Instance(Class() as cls):
                called = self.method(cls, "__call__")
                inner = self.returned(called) if called else UNKNOWN
                return inner if inner != UNKNOWN or not self.is_module(cls) else Device()
            case Instance(str() as name) if library.is_module_class(name):
                several = name.rpartition(".")[2] in ("LSTMCell", "BatchNorm", "StatefulLayer", "Sequential", "Lambda")
                return Device() if several else Array()
        return UNKNOWN

    def returned(self, function: Function) -> Kind:
        """The kind of a function's result."""
        with self._once(("return", function)) as first:
            if not first:
                return UNKNOWN
            if isinstance(function.node, ast.Lambda):
                return self.kind(function.node.body, function.module)
            annotation = function.node.returns
            promised = self.annotation(annotation, function.module) if annotation is not None else None
            if promised is not None and not isinstance(promised, Sequence | Mapping):
                return promised
            own = [n for n in ast.walk(function.node) if function.module.scope_of(n) is function.scope]
            if any(isinstance(n, ast.Yield | ast.YieldFrom) for n in own):
                return Iterator(UNKNOWN)
            values = [n.value for n in own if isinstance(n, ast.Return) and n.value is not None]
            found = self._joined([self.kind(v, function.module) for v in values])
            return found if found != UNKNOWN else promised or UNKNOWN

    def _library_result(self, name: str, receiver: Kind | None, call: ast.Call, module: SourceModule) -> Kind:
        if name == "super":
            return self._super(call, module)
        args = [self.kind(a, module) for a in call.args if not isinstance(a, ast.Starred)]
        first = args[0] if args else UNKNOWN
        if name in library.TRANSFORMS:
            return Transformed(first, name) if args else UNKNOWN
        match name:
            case "list" | "tuple" | "sorted":
                alike = isinstance(first, Array) or (isinstance(first, Sequence) and first.uniform)
                return first if isinstance(first, Record) else Sequence(item_of(first), length_of(first), alike)
            case "reversed":
                return Iterator(item_of(first))
            case "range":
                return Range(_integer(call.args[0], module, self) if len(call.args) == 1 else None)
            case "zip":
                return Iterator(Record(tuple(item_of(a) for a in args)))
            case "enumerate":
                return Iterator(Record((Number("int"), item_of(first))))
            case "map" | "filter" | "iter":
                return Iterator(UNKNOWN)
            case "abs" | "min" | "max" | "sum" | "copy.copy" | "copy.deepcopy":
                return first if len(args) == 1 and name != "sum" else UNKNOWN
            case "equinox.nn.inference_mode" | "equinox.tree_inference" | "equinox.tree_at" | "equinox.filter_shard":
                return args[0] if args and name != "equinox.tree_at" else args[1] if len(args) > 1 else UNKNOWN
            case "equinox.nn.make_with_state":
                return Transformed(first, name)
            case "equinox.combine" | "equinox.apply_updates":
                return first
            case "jax.numpy.asarray" | "jax.numpy.array" | "jax.device_put":
                return Array(length_of(first), isinstance(first, Array) and first.is_key)
            case "jax.numpy.stack":
                return Array(length_of(first) if not call.keywords else None)
            case "jax.random.split":
                return Array(_integer(call.args[1], module, self) if len(call.args) > 1 else 2, is_key=True)
        if receiver is not None:
            return self._method_result(name, receiver)
        found = library.result(name)
        if isinstance(found, Array | NdArray):
            return replace(found, length=self._leading(name, call, module))
        return found

    def _super(self, call: ast.Call, module: SourceModule) -> Kind:
        """`super()` in a method: an instance of the first base."""
        function = module.functions.get(module.scope_of(call).node)
        bases = self.bases(function.owner) if function is not None and function.owner is not None else []
        return Instance(bases[0]) if bases and not call.args else UNKNOWN

    def _method_result(self, name: str, receiver: Kind) -> Kind:
        attr = name.partition(".")[2]
        match receiver:
            case Array() | Device() | NdArray():
                if attr == "tolist":
                    return UNKNOWN
                if attr == "item":
                    return Number("float")
                if attr in library.ARRAY_METHODS:
                    return NdArray() if isinstance(receiver, NdArray) else Array()
            case Mapping(value):
                match attr:
                    case "values":
                        return Sequence(value)
                    case "items":
                        return Sequence(Record((UNKNOWN, value)))
                    case "keys":
                        return Sequence(UNKNOWN)
                    case "get" | "pop" | "setdefault":
                        return value
        return UNKNOWN

    def _leading(self, name: str, call: ast.Call, module: SourceModule) -> Length:
        """The leading axis of an array made with a shape: `zeros((n, 3))`, `normal(key, (n, 3))`, `arange(n)`."""
        position = 1 if name.startswith(("jax.random.",)) else 0
        shape = next((k.value for k in call.keywords if k.arg in ("shape", "size")), None)
        if shape is None and len(call.args) > position:
            shape = call.args[position]
        makers = ("zeros", "ones", "empty", "full", "arange", "normal", "uniform", "bernoulli", "truncated_normal")
        if shape is None or name.rpartition(".")[2] not in makers:
            return None
        if isinstance(shape, ast.Tuple | ast.List):
            return _integer(shape.elts[0], module, self) if shape.elts else None
        return _integer(shape, module, self) if (name.endswith("arange") and len(call.args) == 1) or not name.endswith(
            "arange") else None


def _integer(expr: ast.expr, module: SourceModule, inference: Inference) -> Length:
    """A length written as an integer, as `len(x)`, or as the name of a constant."""
    match expr:
        case ast.Constant(value=int(number)):
            return number
        case ast.Call(func=ast.Name(id="len"), args=[ast.expr() as value]):
            return length_of(inference.kind(value, module))
        case ast.Name(id=name):
            scope = inference.scope_binding(name, expr, module)
            if scope is not None and scope.parent is None and len(scope.bindings[name]) == 1:
                bound = scope.bindings[name][0].value
                if isinstance(bound, ast.Constant) and isinstance(bound.value, int):
                    return f"={bound.value}"
    return None


def _targets(target: ast.expr, path: tuple[int, ...] = ()) -> Iterable[tuple[ast.Name, tuple[int, ...]]]:
    match target:
        case ast.Name():
            yield target, path
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            for index, inner in enumerate(elts):
                yield from _targets(inner, (*path, index))


def _assignments(node: ast.AST) -> Iterable[tuple[ast.expr, ast.expr, tuple[int, ...]]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                if isinstance(target, ast.Tuple | ast.List):
                    for index, inner in enumerate(target.elts):
                        yield inner, value, (index,)
                else:
                    yield target, value, ()
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, value, ()


def _declared(cls: Class) -> list[str]:
    return [s.target.id for s in cls.node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)]


def _has_branch(expr: ast.expr) -> bool:
    return any(isinstance(n, ast.IfExp | ast.BoolOp) for n in ast.walk(expr))


def _decorator_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def is_property(node: ast.expr) -> bool:
    return _decorator_name(node) in ("property", "cached_property")


def _is_static(function: Function) -> bool:
    return any(_decorator_name(d) == "staticmethod" for d in function.decorators)


def _is_classmethod(function: Function) -> bool:
    return any(_decorator_name(d) == "classmethod" for d in function.decorators)


def _with_receiver(kind: Kind, receiver: Kind | None) -> Kind:
    match kind:
        case Routine(target):
            return Routine(target, receiver)
        case Transformed(base, transform):
            return Transformed(_with_receiver(base, receiver), transform)
    return kind


def _default(function: Function, arg: ast.arg) -> ast.expr | None:
    a = function.node.args
    positional = [*a.posonlyargs, *a.args]
    if arg in positional:
        offset = positional.index(arg) - (len(positional) - len(a.defaults))
        return a.defaults[offset] if offset >= 0 else None
    if arg in a.kwonlyargs:
        return a.kw_defaults[a.kwonlyargs.index(arg)]
    return None


def argument(function: Function, call: ast.Call, name: str) -> ast.expr | None:
    """What `call` passes for the parameter `name`: an argument, or the default; None where that cannot be told."""
    a = function.node.args
    if any(isinstance(x, ast.Starred) for x in call.args) or any(k.arg is None for k in call.keywords):
        return None
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    positional = [*a.posonlyargs, *a.args]
    if function.owner is not None and not _is_static(function):
        positional = positional[1:]
    names = [p.arg for p in positional]
    if name in names and names.index(name) < len(call.args):
        return call.args[names.index(name)]
    parameter = next((p for p in function.parameters if p.arg == name), None)
    return _default(function, parameter) if parameter is not None else None
