"""Classes of a project: bases, methods, and what their fields hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from jitmod.analysis import library
from jitmod.analysis.values import (
    UNKNOWN,
    Array,
    ClassRef,
    Constant,
    Instance,
    Kind,
    Mapping,
    NdArray,
    Record,
    Routine,
    Sequence,
    Transformed,
    joined,
    unpacked,
)
from jitmod.source.nodes import walk
from jitmod.source.project import Class, Function, Project, SourceModule
from jitmod.source.signatures import is_property

if TYPE_CHECKING:
    from jitmod.analysis.infer import Inference


_REGISTERING = frozenset({"jax.tree_util.register_dataclass", "jax.tree_util.register_pytree_node_class",
                          "chex.dataclass"})  # fmt: skip

_BELOW: WeakKeyDictionary[Project, dict[Class, list[Class]]] = WeakKeyDictionary()  # the subclasses of every class


@dataclass(eq=False)
class Classes:
    """Answers questions about classes; `inference` tells the kinds of the expressions involved."""

    inference: Inference
    _lineages: dict[Class, list[Class]] = field(default_factory=dict)
    _fields: dict[tuple[Class, str], Kind] = field(default_factory=dict)
    _assignments: dict[Class, dict[str, list[tuple[ast.expr, tuple[int, ...]]]]] = field(default_factory=dict)

    def bases(self, cls: Class) -> list[Class | str]:
        """The direct bases: classes of the project, or dotted names."""
        found: list[Class | str] = []
        for base in cls.node.bases:
            expr = base.value if isinstance(base, ast.Subscript) else base
            kind = self.inference.kind(expr, cls.module)
            if isinstance(kind, ClassRef):
                found.append(kind.cls)
            elif (dotted := self.inference.dotted(expr, cls.module)) is not None:
                found.append(dotted)
        return found

    def lineage(self, cls: Class) -> list[Class]:
        """The class and its bases within the project, nearest first."""
        if cls in self._lineages:
            return self._lineages[cls]
        before = self.inference.cycles
        found: list[Class] = []
        todo: list[Class | str] = [cls]
        while todo:
            current = todo.pop(0)
            if isinstance(current, Class) and current not in found:
                found.append(current)
                todo += self.bases(current)
        if self.inference.cycles == before:
            self._lineages[cls] = found
        return found

    def is_module(self, cls: Class | str) -> bool:
        """Whether a class is an `eqx.Module`."""
        if isinstance(cls, str):
            return library.is_module_class(cls)
        bases = [base for c in self.lineage(cls) for base in self.bases(c)]
        return any(isinstance(base, str) and library.is_module_class(base) for base in bases)

    def is_tree(self, cls: Class | str) -> bool:
        """Whether jax takes instances of a class apart, and nothing can change them in place: Modules, named tuples,
        frozen dataclasses that are registered, flax's and chex's."""
        if isinstance(cls, str) or self.is_module(cls):
            return self.is_module(cls)
        bases = {base for c in self.lineage(cls) for base in self.bases(c)}
        if bases & {"typing.NamedTuple", "flax.struct.PyTreeNode"}:
            return True
        named: set[str] = set()
        frozen = False
        for decorator in cls.node.decorator_list:
            expr = decorator.func if isinstance(decorator, ast.Call) else decorator
            given = [decorator.args[0]] if isinstance(decorator, ast.Call) and decorator.args else []
            named |= {self.inference.dotted(e, cls.module) or "" for e in (expr, *given)}
            keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
            frozen = frozen or any(k.arg == "frozen" and ast.unparse(k.value) == "True" for k in keywords)
        return "flax.struct.dataclass" in named or (frozen and bool(named & _REGISTERING))

    def method(self, cls: Class, name: str) -> Function | None:
        for current in self.lineage(cls):
            if name in current.methods:
                return current.methods[name]
        return None

    def subclasses(self, cls: Class) -> list[Class]:
        project = self.inference.project
        if project not in _BELOW:
            apart = Classes(type(self.inference)(project))  # without open questions, so that none is cut short
            found: dict[Class, list[Class]] = {}
            for below in project.classes:
                for above in apart.lineage(below)[1:]:
                    found.setdefault(above, []).append(below)
            _BELOW[project] = found
        return _BELOW[project].get(cls, [])

    def declared(self, cls: Class) -> list[str]:
        """The annotated names of the class's own body: its fields, in order."""
        return [s.target.id for s in cls.node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)]

    def field_values(self, cls: Class, name: str) -> Iterator[tuple[SourceModule, ast.expr, tuple[int, ...]]]:
        """Every expression of the project that becomes the field `name` of an instance of `cls`."""
        for current in self.lineage(cls):
            for value, path in self._assigned(current).get(name, ()):
                yield current.module, value, path
        if self.method(cls, "__init__") is None:
            order = [n for c in reversed(self.lineage(cls)) for n in self.declared(c)]
            for module, call in self.inference.project.calls.get(cls.node.name, ()):
                if self.inference.kind(call.func, module) == ClassRef(cls):
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

    def _assigned(self, cls: Class) -> dict[str, list[tuple[ast.expr, tuple[int, ...]]]]:
        """What the methods of a class's own body assign to attributes of their first parameter, by attribute."""
        if cls not in self._assignments:
            found: dict[str, list[tuple[ast.expr, tuple[int, ...]]]] = {}
            for function in cls.methods.values():
                owner = function.parameters[0].arg if function.parameters else ""
                for node in walk(function.node):
                    for target, value, path in _assignments(node):
                        match target:
                            case ast.Attribute(value=ast.Name(id=base), attr=attr) if base == owner:
                                found.setdefault(attr, []).append((value, path))
            self._assignments[cls] = found
        return self._assignments[cls]

    def field(self, cls: Class, name: str) -> Kind:
        """The kind of a field: from its annotation, else from what is assigned to it."""
        key = (cls, name)
        if key in self._fields:
            return self._fields[key]
        with self.inference.once(key) as first:
            if not first:
                return UNKNOWN
            before = self.inference.cycles
            found = self._field(cls, name)
            if found != UNKNOWN or self.inference.cycles == before:
                self._fields[key] = found
            return found

    def _field(self, cls: Class, name: str) -> Kind:
        promised: Kind | None = None
        for current in self.lineage(cls):
            for statement in current.node.body:
                match statement:
                    case ast.AnnAssign(target=ast.Name(id=declared)) if declared == name and promised is None:
                        promised = self.inference.annotation(statement.annotation, current.module)
        values = list(self.field_values(cls, name))
        if promised is not None and not isinstance(promised, Sequence | Mapping | Record):
            given = [unpacked(self.inference.kind(value, module), path) for module, value, path in values]
            others = Sequence | Record | NdArray
            contradicted = isinstance(promised, Array) and any(isinstance(k, others) for k in given)
            return joined(given) if contradicted else promised
        kinds = [unpacked(self.inference.kind(value, module), path) for module, value, path in values]
        found = joined([k for k in kinds if k != Constant()] or kinds)
        if isinstance(found, Routine | Transformed) and self.escapes(cls):
            return UNKNOWN  # built where it cannot be seen, perhaps with another function
        return found if found != UNKNOWN else promised or UNKNOWN

    def escapes(self, cls: Class) -> bool:
        """Whether the class is handed to somebody as a value."""
        harmless = ("isinstance", "issubclass", "super")
        for module, node in self.inference.project.uses.get(cls.node.name, ()):
            parent = module.parents[node]
            match node, parent:
                case ast.Name(), ast.Call(func=func) if func is not node:
                    if (self.inference.dotted(func, module) or "") not in harmless:
                        return True
        return False

    def is_property(self, expr: ast.Attribute, module: SourceModule) -> bool:
        """Whether reading an attribute runs a method of a class of the project."""
        holder = self.inference.kind(expr.value, module)
        if not isinstance(holder, Instance) or isinstance(holder.cls, str):
            return False
        method = self.method(holder.cls, expr.attr)
        return method is not None and any(is_property(d) for d in method.decorators)


def _assignments(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr, tuple[int, ...]]]:
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
