"""What a compiled function would freeze: variables and attributes that an eager callee reads anew on every call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from jitmod.analysis import library
from jitmod.analysis.infer import Inference
from jitmod.analysis.library import Role
from jitmod.analysis.values import (
    UNKNOWN,
    Array,
    ClassRef,
    Constant,
    Instance,
    Kind,
    Mapping,
    Namespace,
    Number,
    Record,
    Routine,
    Sequence,
    Transformed,
    item_of,
)
from jitmod.analysis.values import Iterator as LazyIterator
from jitmod.source.nodes import walk
from jitmod.source.project import Class, Function, Project, SourceModule
from jitmod.source.scopes import Scope

_DEFINED = ("import", "def", "class")


@dataclass(eq=False)
class Frozen:
    """Finds reads of what may change between calls. Each comes as a reason code and a few words."""

    inference: Inference

    def of_name(self, name: ast.Name, function: Function) -> Iterator[tuple[str, str]]:
        module = function.module
        if self.inference.comprehension_binding(name.id, name, module) is not None:
            return
        scope = self.inference.scope_binding(name.id, name, module)
        if scope is None or isinstance(scope.node, ast.ClassDef):
            return
        if scope.parent is None:
            yield from self.of_variable(scope, name.id)
        elif scope is not function.scope and function.node in [scope.node, *module.ancestors(scope.node)]:
            return  # a nested function's own variable, or that of the function itself
        elif scope is not function.scope:
            kinds = [self.inference.bound(b, module) for b in scope.bindings[name.id]]
            if len(kinds) > 1 or not self.is_constant(kinds[0]):
                yield "late-binding", f"`{name.id}` belongs to the function around it and may change"

    def of_attribute(self, node: ast.Attribute, module: SourceModule) -> Iterator[tuple[str, str]]:
        infer = self.inference
        dotted = infer.dotted(node, module)
        if dotted is not None:
            match infer.project.lookup(dotted):
                case (Scope() as scope, str() as rest) if "." not in rest:
                    yield from self.of_variable(scope, rest)
                case (Scope(), str()) if node.attr in self.changed_names:
                    yield "mutable-self", f"`{ast.unparse(node)}` is assigned elsewhere"
                case str() as name if library.role(name) is Role.HOST and not isinstance(
                    module.parents.get(node), ast.Call | ast.Attribute
                ):
                    yield "host-effect", f"`{name}` is state of the process"
            return
        holder = infer.kind(node.value, module)
        match holder:
            case Routine(Function() as function) if node.attr in self.changed_names:
                yield "rebound-global", f"`{ast.unparse(node)}` is an attribute of `{function.name}` that is assigned"
            case ClassRef(Class()) if node.attr in self.changed_names:
                yield "rebound-global", f"`{ast.unparse(node)}` is a class attribute that is assigned elsewhere"
            case _ if holder == UNKNOWN and isinstance(node.value, ast.Attribute):
                outer = infer.kind(node.value.value, module)
                if isinstance(outer, Instance) and infer.classes.is_module(outer.cls):
                    yield "mutable-self", f"it cannot be told what `{ast.unparse(node.value)}` is"
            case Instance(Class() as cls):
                declared = any(node.attr in infer.classes.declared(c) for c in infer.classes.lineage(cls))
                own = infer.classes.is_module(cls) and (declared or self._set_in_init(cls, node.attr))
                if not own and node.attr in self.changed_names:
                    yield "mutable-self", f"`{ast.unparse(node)}` is assigned elsewhere"

    def of_function(self, function: Function) -> Iterator[tuple[str, str]]:
        """A function that somebody replaces (`module.f = g`)."""
        name = "" if isinstance(function.node, ast.Lambda) else function.node.name
        if function.owner is None and name in self.changed_names:
            yield "rebound-global", f"`{name}` is replaced somewhere"

    def _set_in_init(self, cls: Class, attr: str) -> bool:
        init = self.inference.classes.method(cls, "__init__")
        nodes = walk(init.node) if init else ()
        return any(isinstance(n, ast.Attribute) and n.attr == attr and isinstance(n.ctx, ast.Store) for n in nodes)

    def of_variable(self, scope: Scope, name: str) -> Iterator[tuple[str, str]]:
        """A name of a module's top level. What is imported is what it was there when it was, unless it is changed."""
        bindings = scope.bindings[name]
        if all(b.how in _DEFINED for b in bindings):
            yield from self._of_defined(scope, name)
            return
        kind = self.inference.bound(bindings[0], scope.module)
        if isinstance(kind, LazyIterator):
            yield "host-effect", f"`{name}` is used up by iterating"
        elif self.is_rebound(scope, name):
            yield "rebound-global", f"`{name}` is a variable of the module that is changed elsewhere"
        elif not self.is_constant(kind) and not self._only_read(name):
            yield "rebound-global", f"`{name}` is a variable of the module whose value others may change"

    def _of_defined(self, scope: Scope, name: str) -> Iterator[tuple[str, str]]:
        if any(name in s.rebinds for s in scope.module.scopes.values()):
            yield "rebound-global", f"`{name}` is bound anew by a function of the module"
        match self.inference.project.lookup(scope.bindings[name][-1].target):
            case (Scope() as origin, str() as rest) if "." not in rest:
                if all(b.how in _DEFINED for b in origin.bindings[rest]):
                    return
                kind = self.inference.bound(origin.bindings[rest][0], origin.module)
                held = isinstance(kind, Sequence | Mapping | Record) and not self.is_constant(kind)
                if {name, rest} & self.changed_names:
                    yield "rebound-global", f"`{name}` of `{origin.module.name}` is changed elsewhere"
                elif isinstance(kind, LazyIterator):
                    yield "host-effect", f"`{name}` is used up by iterating"
                elif held and not (self._only_read(name) and self._only_read(rest)):
                    yield "rebound-global", f"`{name}` is a variable of the module whose value others may change"

    def is_rebound(self, scope: Scope, name: str) -> bool:
        """Whether a module's variable is bound more than once, or changed in place or from outside anywhere."""
        if len(scope.bindings[name]) > 1 or any(name in s.rebinds for s in scope.module.scopes.values()):
            return True
        loops = (ast.For, ast.AsyncFor, ast.While)
        places = [a for b in scope.bindings[name] for a in (b.node, *scope.module.ancestors(b.node))]
        if any(isinstance(place, loops) for place in places):
            return True
        return name in self.changed_names

    def is_constant(self, kind: Kind) -> bool:
        """Whether a value cannot change in place."""
        match kind:
            case Array() | Number() | Constant() | ClassRef() | Namespace() | Routine() | Transformed():
                return True
            case Record(items, is_tuple):
                return is_tuple and all(self.is_constant(item) for item in items)
            case Instance(cls):
                return cls == library.OPTIMISER or self.inference.classes.is_module(cls)
        return False

    def _only_read(self, name: str) -> bool:
        """Whether every use of a variable, in any file, takes a value out of it and hands the object to nobody."""
        return all(self._is_plain_read(node, module) for module, node in self.inference.project.uses.get(name, ()))

    def _is_plain_read(self, node: ast.expr, module: SourceModule) -> bool:
        parent = module.parents.get(node)
        match parent:
            case ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.FormattedValue():
                return True
            case ast.comprehension() | ast.For():
                return self.is_constant(item_of(self.inference.kind(node, module)))
            case ast.Subscript(value=value, ctx=ast.Load()):
                return (
                    value is not node
                    or self._is_plain_read(parent, module)
                    or self.is_constant(self.inference.kind(parent, module))
                )
            case ast.Call(func=func, keywords=keywords) if func is not node:
                kind = self.inference.kind(func, module)
                name = kind.target if isinstance(kind, Routine) and isinstance(kind.target, str) else ""
                writes = name in library.IN_PLACE or any(k.arg == "out" for k in keywords)
                writes = writes or name.startswith("operator.")
                known = library.role(name) is not Role.UNKNOWN if name else False
                return (
                    known
                    and not writes
                    and not (isinstance(func, ast.Attribute) and func.attr in library.MUTATING_METHODS)
                )
            case ast.Attribute(attr=attr, ctx=ast.Load()):
                called = isinstance(module.parents.get(parent), ast.Call)
                return attr in ("shape", "ndim", "size", "dtype", "T") or (
                    called and attr in library.ARRAY_ONLY_METHODS | {"get", "items", "keys", "values", "index", "count"}
                )
        return False

    @property
    def changed_names(self) -> frozenset[str]:
        """Names that the project stores into: `X[k] = `, `m.X = `, `X.append()`, `setattr(m, "X", ...)`, patches."""
        project = self.inference.project
        if project not in _CHANGED:
            _CHANGED[project] = _changed_names(Inference(project))  # without open questions, so that none is cut short
        return _CHANGED[project]


_CHANGED: WeakKeyDictionary[Project, frozenset[str]] = WeakKeyDictionary()


def _changed_names(infer: Inference) -> frozenset[str]:
    found: set[str] = set()
    for module in infer.project.by_path.values():
        for node in module.document.of(ast.Attribute, ast.Subscript, ast.Call, ast.AugAssign):
            match node:
                case ast.Attribute(ctx=ast.Load()) | ast.Subscript(ctx=ast.Load()):
                    continue
                case ast.Attribute(value=ast.Name(id="self"), attr=attr):
                    found |= set() if _in_init(node, module) else {attr}
                case ast.Attribute(value=value, attr=attr):
                    found |= {attr, *_roots(value)}
                case ast.Subscript(value=value):
                    found |= set(_roots(value))
                    if isinstance(value, ast.Call) and isinstance(node.slice, ast.Constant):  # globals()["x"]
                        found.add(str(node.slice.value))
                case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in library.MUTATING_METHODS:
                    found |= set() if _is_optimiser(value, attr, module, infer) else set(_roots(value))
                case ast.AugAssign(target=ast.Name(id=name)):
                    found |= {name} if module.scope_of(node).find(name) is module.scope else set()
            if isinstance(node, ast.Call):
                found |= set(_patched(node))
        for name, bindings in module.scope.bindings.items():  # `from m import X as Y`: Y changes, and so does X
            if name in found and bindings[-1].how == "import":
                found.add(bindings[-1].target.rpartition(".")[2])
    return frozenset(found)


def _is_optimiser(expr: ast.expr, method: str, module: SourceModule, infer: Inference) -> bool:
    """`optim.update(grads, state)` changes nothing."""
    return method == "update" and infer.kind(expr, module) == Instance(library.OPTIMISER)


def _in_init(node: ast.AST, module: SourceModule) -> bool:
    name = getattr(module.scope_of(node).node, "name", "")
    return name in ("__init__", "__post_init__", "setup")


def _roots(expr: ast.expr) -> Iterator[str]:
    """The names on the way to a changed object: `m.X[k]` is `X` and `m`."""
    match expr:
        case ast.Name(id=name):
            yield name
        case ast.Attribute(value=value, attr=attr):
            yield attr
            yield from _roots(value)
        case ast.Subscript(value=value):
            yield from _roots(value)


_PATCHING = frozenset({"setattr", "object", "patch", "setitem", "delattr", "dict"})


def _patched(node: ast.Call) -> Iterator[str]:
    """Names in the strings of `setattr(m, "x", v)`, `patch("m.x")`, `monkeypatch.setattr(m, "x", v)`."""
    if getattr(node.func, "attr", getattr(node.func, "id", "")) in _PATCHING:
        for value in node.args:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value.rpartition(".")[2]
