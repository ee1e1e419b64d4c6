"""What a Module may hold or turn out to be: functions given to it, subclasses, spliced parts, unhashable fields."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from jitmod.analysis import library
from jitmod.analysis.hazards import Hazard, hazard
from jitmod.analysis.library import Role
from jitmod.analysis.values import (
    Array,
    ClassRef,
    Constant,
    Instance,
    Kind,
    Mapping,
    NdArray,
    Number,
    Record,
    Routine,
    Sequence,
    Transformed,
    is_device,
)
from jitmod.source.nodes import walk
from jitmod.source.project import Class, Function, SourceModule

if TYPE_CHECKING:
    from jitmod.analysis.effects import Effects, Found


@dataclass(eq=False)
class Held:
    """Hazards of a Module that do not show in the text of its `__call__`."""

    effects: Effects
    _active: set[str] = field(default_factory=set)

    def overrides(self, cls: Class, function: Function | None) -> Iterator[Found]:
        """A value annotated with a class may be of any subclass: what those override counts too."""
        name = function.node.name if function and not isinstance(function.node, ast.Lambda) else "__call__"
        for sub in self.effects.inference.classes.subclasses(cls):
            if name in sub.methods and sub.methods[name] is not function:
                yield sub.methods[name]

    def of_class(self, cls: Class) -> Iterator[Found]:
        """Modules built in `__init__` may hold functions (`nn.Lambda(f)`, `activation=f`) or a layer with a state."""
        for current in self.effects.inference.classes.lineage(cls):
            function = current.methods.get("__init__")
            for node in walk(function.node if function else ast.Pass()):
                if isinstance(node, ast.Call):
                    kind = self.effects.inference.kind(node, current.module)
                    if isinstance(kind, Instance):
                        yield from self._by_call(node, current.module)

    def _by_call(self, construction: ast.Call, module: SourceModule) -> Iterator[Found]:
        """The hazards of the functions and layers that a Module's constructor call puts into it."""
        kind = self.effects.inference.kind(construction, module)
        if isinstance(kind, Instance) and isinstance(kind.cls, str) and library.role(kind.cls) is Role.STATE:
            yield from self.effects.calling(kind, construction, module)
        for value in [*construction.args, *[k.value for k in construction.keywords]]:
            held = self.effects.inference.kind(value, module)
            if isinstance(held, Routine | Transformed):
                yield from self.effects.calling(held, construction, module)

    def of_library(self, name: str) -> Iterator[Found]:
        """Functions that the project puts into a library's Module, wherever it builds one of that class."""
        if name not in library.HOLDERS or name in self._active:
            return
        self._active.add(name)
        for holder in library.HOLDERS[name]:
            for module, construction in self.effects.inference.project.calls.get(holder.rpartition(".")[2], ()):
                if self.effects.inference.kind(construction.func, module) == ClassRef(holder):
                    yield from self._by_call(construction, module)
        self._active.discard(name)

    def spliced(self) -> Iterator[Found]:
        """Functions and Modules that `eqx.tree_at` puts into a Module somewhere in the project."""
        if "tree_at" in self._active:
            return
        self._active.add("tree_at")
        for module, call in self.effects.inference.project.calls.get("tree_at", ()):
            for value in call.args[2:3]:
                kind = self.effects.inference.kind(value, module)
                if isinstance(kind, Routine | Transformed | Instance):
                    yield from self.effects.calling(kind, call, module)
        self._active.discard("tree_at")

    @cached_property
    def may_hold_ndarrays(self) -> bool:
        """Whether `eqx.tree_at` puts anything into a Module somewhere that may be changed in place later."""
        infer = self.effects.inference
        for module, call in infer.project.calls.get("tree_at", ()):
            given = [*call.args[2:3], *[k.value for k in call.keywords if k.arg in ("replace", "replace_fn")]]
            for value in given:
                kind = infer.kind(value, module)
                lasting = is_device(kind) or isinstance(kind, Number | Constant | Routine | Transformed)
                if not lasting and not (isinstance(kind, Instance) and infer.classes.is_module(kind.cls)):
                    return True
        return False

    def subclasses_of_library(self, name: str) -> Iterator[Found]:
        """A value annotated with a library's class may be of a subclass that the project defines."""
        for cls in self.effects.inference.project.classes:
            classes = self.effects.inference.classes
            bases = [b for c in classes.lineage(cls) for b in classes.bases(c)]
            if name in bases and "__call__" in cls.methods:
                yield cls.methods["__call__"]

    def unhashable(self, cls: Class) -> tuple[Hazard, ...]:
        """Fields that a jit would have to hash and cannot."""
        for current in self.effects.inference.classes.lineage(cls):
            for statement in current.node.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    kind = self.effects.inference.classes.field(cls, statement.target.id)
                    if self._varies_in_type(cls, statement.target.id):
                        what = f"the field `{statement.target.id}` is an int here, a float there: one key of the cache"
                        return (hazard("varying-static", statement, current.module, what),)
                    if self._cannot_be_static(statement, kind, current):
                        what = f"the field `{statement.target.id}` cannot be hashed"
                        return (hazard("unhashable-static", statement, current.module, what),)
        return ()

    def _varies_in_type(self, cls: Class, name: str) -> bool:
        """Whether a field gets Python numbers of several types: static 1, 1.0 and True are one key of the cache."""
        infer = self.effects.inference
        kinds = [infer.kind(v, m) for m, v, path in infer.classes.field_values(cls, name) if not path]
        return len({k.type for k in kinds if isinstance(k, Number)}) > 1

    def _cannot_be_static(self, statement: ast.AnnAssign, kind: Kind, cls: Class) -> bool:
        text = ast.unparse(statement.annotation)
        static = statement.value is not None and "static=True" in ast.unparse(statement.value)
        name = text.partition("[")[0].rpartition(".")[2]
        if name in ("set", "Set", "bytearray", "MutableSet"):
            return True
        if static and name in ("dict", "list", "Dict", "List", "defaultdict", "OrderedDict", "Counter", "deque"):
            return True  # equal to itself, however it was changed since
        if static and (isinstance(kind, NdArray | Array | Sequence | Mapping) or "rray" in text):
            return not isinstance(kind, Record)
        if not isinstance(kind, Instance) or isinstance(kind.cls, str):
            return False
        if self.effects.inference.classes.is_module(kind.cls):
            return False
        decorators = [ast.unparse(d) for d in kind.cls.node.decorator_list]
        dataclass_ = any("dataclass" in d for d in decorators)
        hashable = any(w in d for d in decorators for w in ("frozen=True", "eq=False", "unsafe_hash=True"))
        own_eq = "__eq__" in kind.cls.methods and "__hash__" not in kind.cls.methods
        return (dataclass_ and not hashable) or own_eq
