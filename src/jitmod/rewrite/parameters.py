"""The parameters of a compiled function: what the map piece reads from outside, and how the call passes it."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass, field

from jitmod.analysis.arguments import Arguments
from jitmod.analysis.batching import BatchPlan
from jitmod.analysis.contents import is_immutable
from jitmod.analysis.effects import Effects
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.ssa import Value
from jitmod.analysis.values import (
    UNKNOWN,
    Array,
    ClassRef,
    Constant,
    Instance,
    Kind,
    Namespace,
    NdArray,
    Number,
    Routine,
    Sequence,
    Transformed,
)
from jitmod.rewrite.imports import Imports
from jitmod.source.document import Document
from jitmod.source.nodes import walk
from jitmod.source.project import Class, SourceModule
from jitmod.source.scopes import Scope


@dataclass(frozen=True)
class Parameter:
    """A parameter of the compiled function: `text` is what the call passes for it. `leads`: it stands before others.

    `holds`: arrays, number (one that is passed as an array), python (a value that must not be traced), or objects
    (Modules, functions, optimisers).
    """

    name: str
    text: str
    annotation: str = ""
    leads: bool = False
    holds: str = "arrays"


@dataclass(eq=False)
class Parameters:
    """Collects parameters; `renamed` says how the map piece must write what they stand for."""

    plan: BatchPlan
    effects: Effects
    imports: Imports
    reserved: set[str]
    found: list[Parameter] = field(default_factory=list)
    renamed: dict[ast.expr, str] = field(default_factory=dict)

    @property
    def module(self) -> SourceModule:
        return self.plan.loop.module

    @property
    def document(self) -> Document:
        return self.plan.loop.module.document

    def add(
        self, text: str, wish: str, annotation: str = "", own: str = "", leads: bool = False, holds: str = "arrays"
    ) -> str:
        """The name of the parameter for which the call passes `text`; `own` is the name that it takes the place of."""
        for parameter in self.found:
            if parameter.text == text:
                return parameter.name
        used = {p.name for p in self.found} | (self.reserved - {own} if text != wish else set())
        name, number = wish, 1
        while name in used:
            number += 1
            name = f"{wish}_{number}"
        at = sum(p.leads for p in self.found) if leads else len(self.found)
        self.found.insert(at, Parameter(name, text, annotation, leads, holds))
        return name

    def invariant(self, name: ast.Name, value: Value) -> None:
        """Pass what `name` reads from outside, unless it is a definition of the module. Raises `Unplannable`."""
        scope = self.effects.inference.scope_binding(name.id, name, self.module)
        target = self._is_target(name)
        if scope is None and not target:
            return
        expr, kind = self._object(name, value.kind)
        known = expr is name or kind != UNKNOWN or not self._is_holder(value.kind)
        outermost = scope is not None and scope.parent is None and not target
        if scope is not None and outermost and known and self._is_definition(scope, name.id, kind):
            return
        self._check(expr, kind)
        own = name.id
        if isinstance(kind, Number) and kind.type != "bool":
            number = self._number(expr)
            if number is not None:
                wish = expr.id if isinstance(expr, ast.Name) else expr.attr
                wish = wish.lstrip("_").lower() if number is expr else f"{wish.lstrip('_').lower()}_term"
                asarray = self.imports.refer("jax.numpy.asarray")
                text = f"{asarray}({self.document.text(number)})"
                self.renamed[number] = self.add(text, wish, own=own, holds="number")
                return
        text = self.document.text(expr)
        wish = "module" if text == "self" else text.rpartition(".")[2].lstrip("_")
        wish = wish.lower() if wish.isupper() else wish
        holds = "objects" if isinstance(kind, Instance | Routine | Transformed) else "arrays"
        holds = "python" if isinstance(kind, Number | Constant) else holds
        parameter = self.add(text, wish, self.annotation(expr), own, isinstance(kind, Instance), holds)
        if parameter != text:
            self.renamed[expr] = parameter

    def _is_target(self, name: ast.Name) -> bool:
        """Whether a comprehension around the loop, or an outer `for` of its own, binds the name."""
        return self.effects.inference.comprehension_binding(name.id, name, self.module) is not None

    def number(self, name: ast.Name) -> bool:
        """Pass a number of the loop's function as an array; False where the name is one of the module level."""
        scope = self.effects.inference.scope_binding(name.id, name, self.module)
        if not self._is_target(name) and (scope is None or scope.parent is None):
            return False
        text = f"{self.imports.refer('jax.numpy.asarray')}({name.id})"
        self.renamed[name] = self.add(text, name.id.lstrip("_").lower(), own=name.id, holds="number")
        return True

    def _check(self, expr: ast.expr, kind: Kind) -> None:
        written = ast.unparse(expr)
        receiver = getattr(kind, "receiver", None)
        if isinstance(kind, Routine | Transformed) and not isinstance(receiver, Instance):
            message = f"`{written}` is made inside the function; at module level it would compile once"
            raise Unplannable("local-callable", expr, message)
        if kind == UNKNOWN:
            message = f"it cannot be told what `{written}` is; annotate it (an Array, a Module, a number)"
            raise Unplannable("mutable-self", expr, message)
        if isinstance(kind, Instance) and not is_immutable(kind, self.effects):
            message = f"`{written}` is a plain object; the compiled function would not see it change"
            raise Unplannable("mutable-self", expr, message)
        if isinstance(kind, Instance) and isinstance(kind.cls, Class):
            for hazard in self.effects.held.unhashable(kind.cls):
                raise Unplannable(hazard.reason, expr, f"{hazard.what} ({hazard.path}:{hazard.line})")
        if isinstance(kind, Routine):
            message = f"`{written}` is a method of a plain object, which cannot be passed"
            raise Unplannable("mutable-self", expr, message)

    def _is_definition(self, scope: Scope, name: str, kind: Kind) -> bool:
        """What the module level defines once and for all: functions, classes, libraries, `step = jax.jit(f)`.

        A value of another module (`settings.SCALE`, `Config.scale`) is none: it is read, and passed, at every call.
        """
        if not isinstance(kind, Routine | Transformed | ClassRef | Namespace) and kind != UNKNOWN:
            return False
        defined = {b.how for b in scope.bindings[name]} <= {"import", "def", "class"}
        return defined or (kind != UNKNOWN and not self.effects.frozen.is_rebound(scope, name))

    def _object(self, name: ast.Name, kind: Kind) -> tuple[ast.Name | ast.Attribute, Kind]:
        """The attribute path from a name to the first object that may be passed: an array, a Module, a number."""
        expr: ast.Name | ast.Attribute = name
        while self._is_holder(kind):
            parent = self.module.parents[expr]
            if not isinstance(parent, ast.Attribute):
                break
            expr, kind = parent, self.effects.inference.kind(parent, self.module)
        return expr, kind

    def _is_holder(self, kind: Kind) -> bool:
        """Whether attributes of a value are looked up when the call is made, not inside of the compiled function."""
        match kind:
            case Namespace(SourceModule()) | ClassRef(Class()):
                return True
            case Sequence() | NdArray():
                return False
        return not is_immutable(kind, self.effects)

    def _number(self, expr: ast.expr) -> ast.expr | None:
        """The largest host arithmetic around a number that only meets device values in arithmetic of theirs.

        It stays on the host, in double precision, and enters as a weakly typed array, which is as good as a number.
        """
        infer = self.effects.inference
        while isinstance(infer.kind(expr, self.module), Number):
            parent = self.module.parents[expr]
            if self._is_traced_argument(expr, parent):
                return expr
            if not isinstance(parent, ast.BinOp | ast.UnaryOp):
                return None
            if isinstance(parent, ast.BinOp) and not isinstance(infer.kind(parent, self.module), Number):
                other = parent.right if parent.left is expr else parent.left
                fits = not isinstance(parent.op, ast.Pow) and isinstance(infer.kind(other, self.module), Array)
                return expr if fits else None
            if self._has_inner_names(parent):
                return None
            expr = parent
        return None

    def _has_inner_names(self, expr: ast.expr) -> bool:
        """Whether an expression mentions what the loop binds."""
        inner = self.plan.body.env.keys() | self.plan.body.carried.keys()
        return any(isinstance(n, ast.Name) and n.id in inner for n in walk(expr))

    def _is_traced_argument(self, expr: ast.expr, parent: ast.AST) -> bool:
        """Whether an expression is an argument that `jax.jit` traces, so that an array does as well as a number."""
        call = self.module.parents[parent] if isinstance(parent, ast.keyword) else parent
        if not isinstance(call, ast.Call) or expr is call.func:
            return False
        callee = self.effects.inference.kind(call.func, self.module)
        plain = isinstance(callee, Transformed) and callee.transform == "jax.jit"
        return plain and not Arguments(self.effects).static_use(callee, call, expr)

    def annotation(self, expr: ast.expr) -> str:
        """The user's own annotation of a parameter that is passed on, where it means the same at module level."""
        function = self.plan.loop.function
        if isinstance(expr, ast.Name) and function is not None and not self._is_target(expr):
            for arg in function.parameters:
                plain = arg not in (function.node.args.vararg, function.node.args.kwarg)
                once = len(function.scope.bindings[arg.arg]) == 1
                if arg.arg == expr.id and arg.annotation is not None and plain and once:
                    names = [n for n in walk(arg.annotation) if isinstance(n, ast.Name)]
                    if all(self._is_global(n) for n in names):
                        return self.document.text(arg.annotation)
        return ""

    def _is_global(self, name: ast.Name) -> bool:
        scope = self.effects.inference.scope_binding(name.id, name, self.module)
        if scope is None:
            return hasattr(builtins, name.id)
        line, body = self._top_line(), self.document.tree.body
        before = all(b.node in body and getattr(b.node, "lineno", line) < line for b in scope.bindings[name.id])
        return scope.parent is None and before

    def _top_line(self) -> int:
        """The line of the top-level statement that holds the loop, before which the function is put."""
        line = self.plan.loop.statement.lineno
        for parent in self.module.ancestors(self.plan.loop.statement):
            line = getattr(parent, "lineno", line)
        return line
