"""Whether what compiles a function on every call can move to the module level, and what it takes along."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from jitmod.analysis.boundaries import Creation
from jitmod.analysis.captures import Captures, Capturing, How, lasting_hazards
from jitmod.analysis.effects import Effects
from jitmod.analysis.fresh import origins
from jitmod.analysis.keys import check_order
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.reaching import reaching
from jitmod.analysis.stable import check_name, check_object, region
from jitmod.analysis.static_numbers import check_found_again, check_types
from jitmod.analysis.syntax import first_line
from jitmod.analysis.values import Array, Device, Instance, Transformed, is_device
from jitmod.source.document import Document
from jitmod.source.nodes import walk
from jitmod.source.project import Function, SourceModule
from jitmod.source.signatures import argument

_KEPT_OPTIONS = frozenset(
    {"static_argnums", "static_argnames", "donate_argnums", "donate_argnames", "donate", "inline", "keep_unused"}
)


@dataclass(frozen=True, eq=False)
class Uses:
    """How a compiled function is used: the names that are read, and the calls. `escapes`: some read is no call."""

    reads: tuple[ast.expr, ...]
    calls: tuple[ast.Call, ...]

    @property
    def escapes(self) -> bool:
        return len(self.calls) < len(self.reads)


def uses_of(creation: Creation) -> Uses:
    """Every use of what a creation makes. Raises `Unplannable` where a use may see another value of the name."""
    module, node = creation.module, creation.node
    if creation.is_eager:
        return Uses((), ())
    if creation.name is None or (isinstance(node, ast.Call) and isinstance(creation.statement, ast.AnnAssign)):
        assert isinstance(node, ast.expr)
        parent = module.parents[node]
        return Uses((node,), (parent,) if isinstance(parent, ast.Call) and parent.func is node else ())
    scope = module.scope_of(creation.statement)
    if any(creation.name in s.rebinds for s in module.scopes.values() if s is not scope):
        raise Unplannable("late-binding", node, f"`{creation.name}` is rebound by a nested function")
    reads: list[ast.expr] = []
    for name in walk(scope.node):
        if isinstance(name, ast.Name) and name.id == creation.name and isinstance(name.ctx, ast.Load):
            if module.scope_of(name).find(name.id) is not scope:
                continue
            found = reaching(name.id, name, scope)
            if any(b.node is creation.statement for b in found):
                if len(found) > 1:
                    raise Unplannable("late-binding", name, f"`{name.id}` may be another function here")
                reads.append(name)
    calls = [p for r in reads if isinstance(p := module.parents[r], ast.Call) and p.func is r]
    return Uses(tuple(reads), tuple(calls))


@dataclass(frozen=True, eq=False)
class Judged:
    """What moves (`parts`; `inner` where it is one function), how it is used, and what it takes along.

    `filtered`: `eqx.filter_jit` compiles it.
    """

    uses: Uses
    inner: ast.FunctionDef | ast.Lambda | None
    parts: tuple[ast.AST, ...]
    captures: Captures
    filtered: bool


@dataclass(frozen=True, eq=False)
class Hoistable:
    """Judges one creation."""

    creation: Creation
    effects: Effects

    @property
    def module(self) -> SourceModule:
        return self.creation.module

    @property
    def document(self) -> Document:
        return self.creation.module.document

    def judged(self) -> Judged:
        """Raises `Unplannable` where it cannot move."""
        creation = self.creation
        uses = uses_of(creation)
        inner = self._inner()
        entry = self.module.functions.get(inner) if inner is not None else None
        own = frozenset({creation.name} if creation.name else ())
        traced = self._traced(entry, uses)
        capturing = Capturing(self.module, creation.function, self.effects, entry, own, traced=traced)
        parts = self._parts(inner)
        capturing.gather(parts)
        self._check_defaults(inner)
        self._check_use(uses, capturing, inner)
        captures = capturing.judged()
        self._check_hazards(entry, captures, parts)
        own_arguments = frozenset(p.arg for p in entry.parameters) if entry is not None else frozenset[str]()
        moved = [*parts, *captures.helpers]
        check_order([c.kind for c in captures.values], moved, self.module, self.effects, own_arguments)
        filtered = self._is_filtered(captures, uses)
        if filtered:
            check_types(captures, self.module, self.effects.inference)
        check_found_again(captures, creation.node, self.module)
        self._check_options(captures, filtered)
        self._check_donated(captures, uses, entry)
        return Judged(uses, inner, tuple(parts), captures, filtered)

    def _inner(self) -> ast.FunctionDef | ast.Lambda | None:
        """The nested function or lambda that is compiled as such; None where it is wrapped in something."""
        wrapped = self.creation.wrapped
        if self.creation.is_eager:
            return None
        if isinstance(wrapped, ast.FunctionDef | ast.Lambda):
            return wrapped
        scope = self.module.scope_of(self.creation.node)
        if isinstance(wrapped, ast.Name) and scope.find(wrapped.id) is scope and scope.is_function:
            bindings = scope.bindings[wrapped.id]
            reads = [n for n in walk(scope.node) if isinstance(n, ast.Name) and n.id == wrapped.id]
            node = bindings[0].node
            if len(bindings) == 1 and isinstance(node, ast.FunctionDef) and len(reads) == 1 and not node.decorator_list:
                return node
        return None

    def _parts(self, inner: ast.FunctionDef | ast.Lambda | None) -> list[ast.AST]:
        creation = self.creation
        if inner is not None:
            return [inner]
        if creation.is_eager:
            assert isinstance(creation.node, ast.Call)
            return [creation.node.args[0]]
        return [creation.wrapped]

    def _traced(self, entry: Function | None, uses: Uses) -> frozenset[ast.arg]:
        """The parameters of the compiled function that every call gives an array."""
        if entry is None or uses.escapes or not uses.calls:
            return frozenset()
        found = set()
        for parameter in entry.parameters:
            given = [argument(entry, call, parameter.arg) for call in uses.calls]
            kinds = [self.effects.inference.kind(g, self.module) for g in given if g is not None]
            if len(kinds) == len(given) and all(isinstance(k, Array | Device) for k in kinds):
                found.add(parameter)
        return frozenset(found)

    def _check_defaults(self, inner: ast.FunctionDef | ast.Lambda | None) -> None:
        """Defaults and annotations are evaluated where the function is made: they must mean the same above."""
        if inner is None:
            return
        a = inner.args
        early: list[ast.expr] = [*a.defaults, *[d for d in a.kw_defaults if d is not None]]
        every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *[x for x in (a.vararg, a.kwarg) if x is not None]]
        early += [x.annotation for x in every if x.annotation is not None]
        if isinstance(inner, ast.FunctionDef):
            early += [inner.returns] if inner.returns is not None else []
            early += inner.decorator_list
        line = first_line(self.top())
        for expr in early:
            for node in walk(expr):
                if not isinstance(node, ast.Name):
                    continue
                scope = self.module.scope_of(node).find(node.id)
                if scope is None:
                    continue
                above = scope.parent is None and all(
                    getattr(b.node, "lineno", line) < line and b.node in self.document.tree.body
                    for b in scope.bindings[node.id]
                )
                if not above:
                    message = f"`{ast.unparse(expr)}` is evaluated where the function is defined, and reads `{node.id}`"
                    raise Unplannable("local-callable", node, message)

    def top(self) -> ast.stmt:
        """The statement of the top level that holds the creation."""
        top: ast.AST = self.creation.statement
        for parent in self.module.ancestors(top):
            if parent is self.document.tree:
                break
            top = parent
        assert isinstance(top, ast.stmt)
        return top

    def _check_use(self, uses: Uses, captures: Capturing, inner: ast.FunctionDef | ast.Lambda | None) -> None:
        creation = self.creation
        inside = [r for r in uses.reads if inner is not None and inner in self.module.ancestors(r)]
        if captures.is_empty and not inside:
            return
        if inside:
            raise Unplannable("local-callable", inside[0], f"`{creation.name}` calls itself")
        if uses.escapes:
            read = next(r for r in uses.reads if self.module.parents[r] not in uses.calls)
            raise self._escape(read, captures)
        scope = self.module.scope_of(creation.statement)
        places: list[ast.AST] = list(uses.calls) or [creation.node]
        for call in uses.calls:
            if self.module.scope_of(call) is not scope:
                raise Unplannable("late-binding", call, f"`{ast.unparse(call)[:60]}` runs in a nested function, later")
        between = region(creation.statement, places, self.module)
        bound = self.module.scopes[inner].bindings if inner is not None else {}
        for helper in captures.helpers:
            if helper.name in bound:
                raise Unplannable("local-callable", helper, f"`{helper.name}` is also a name inside of what moves")
            self._check_helper(helper, captures)
            check_name(helper.name, scope, between, creation.node)
        for path, reads in captures.paths.items():
            root, *attributes = path.split(".")
            holder = self.module.scope_of(reads[0]).find(root)
            if holder is not None and between:
                check_name(root, holder, between, reads[0])
                kind = captures.kind_of(path)
                check_object((root, *attributes), kind, between, reads[0], self.module, self.effects)

    def _escape(self, read: ast.expr, captures: Capturing) -> Unplannable:
        names = ", ".join(f"`{path}`" for path in captures.paths)
        for path, reads in captures.paths.items():
            root = path.partition(".")[0]
            scope = self.module.scope_of(reads[0]).find(root)
            if scope is not None and any(b.how == "item" for b in scope.bindings[root]):
                message = f"it is kept for later and reads `{path}`, which the loop rebinds"
                return Unplannable("late-binding", read, message)
        message = f"it is handed on and reads {names or 'local functions'}, which exist only here; make it once outside"
        return Unplannable("local-callable", read, message)

    def _check_helper(self, helper: ast.FunctionDef, captures: Capturing) -> None:
        """A nested function moves along only where nothing else uses it."""
        scope = self.module.scope_of(helper)
        moved = [*self._parts(self._inner()), *captures.helpers]
        for node in walk(scope.node):
            if isinstance(node, ast.Name) and node.id == helper.name and isinstance(node.ctx, ast.Load):
                inside = any(part is node or part in self.module.ancestors(node) for part in moved)
                if self.module.scope_of(node).find(node.id) is scope and not inside:
                    message = f"the nested function `{helper.name}` is used elsewhere too"
                    raise Unplannable("local-callable", node, message)

    def _check_hazards(self, entry: Function | None, captures: Captures, parts: Sequence[ast.AST]) -> None:
        creation = self.creation
        found = list(self.effects.of_function(entry)) if entry is not None else []
        if entry is None:
            for part in parts:
                for node in walk(part):
                    if isinstance(node, ast.Call):
                        found += self.effects.of_call(node, self.module)
                        made = self.effects.inference.kind(node, self.module)
                        if isinstance(made, Transformed):
                            found += self.effects.of_callee(made, node, self.module)
                    elif isinstance(node, ast.Lambda):
                        found += self.effects.of_function(self.module.functions[node])
            wrapped = parts[0]
            if isinstance(wrapped, ast.Name | ast.Attribute) and isinstance(creation.node, ast.Call):
                kind = self.effects.inference.kind(wrapped, self.module)
                found += self.effects.of_callee(kind, creation.node, self.module)
        for helper in captures.helpers:
            found += self.effects.of_function(self.module.functions[helper])
        for hazard in lasting_hazards(found, captures, parts, self.module):
            raise Unplannable(hazard.reason, creation.node, f"{hazard.what} ({hazard.path}:{hazard.line})")

    def _is_filtered(self, captures: Captures, uses: Uses) -> bool:
        """Whether `eqx.filter_jit` compiles it: as before, or since a Module is passed that `jax.jit` does not take."""
        creation = self.creation
        if creation.jit == "equinox.filter_jit":
            return True
        modules = [c for c in captures.values if c.how is How.MODULE]
        if not modules:
            return False
        kinds = [self.effects.inference.kind(a, self.module) for call in uses.calls for a in call.args]
        classes = self.effects.inference.classes
        plain = all(is_device(k) or (isinstance(k, Instance) and classes.is_module(k.cls)) for k in kinds)
        if creation.options or not plain or any(call.keywords for call in uses.calls):
            message = f"`{modules[0].path}` is a Module, which jax.jit does not take as an argument; use eqx.filter_jit"
            raise Unplannable("unhashable-static", modules[0].reads[0], message)
        return True

    def _check_options(self, captures: Captures, filtered: bool) -> None:
        for option in self.creation.options:
            try:
                value = ast.literal_eval(option.value)
            except ValueError:
                value = option
            if option.arg not in _KEPT_OPTIONS or value is option:
                raise Unplannable("varying-static", option.value, f"`{option.arg}=` is not a plain constant")
            if option.arg == "donate" and value != "none" and captures.values:
                raise Unplannable("donated-later-read", option.value, "what is passed from now on would be donated")
            several = value if isinstance(value, tuple | list) else (value,)
            behind = any(isinstance(v, int) and v < 0 for v in several)  # counted from the end, where captures come
            if option.arg in ("static_argnums", "donate_argnums") and (filtered or (behind and captures.values)):
                raise Unplannable("varying-static", option.value, f"`{option.arg}=` counts the old arguments")

    def _check_donated(self, captures: Captures, uses: Uses, entry: Function | None) -> None:
        """A buffer that is donated must not be passed a second time, for a capture: that was a constant before."""
        infer = self.effects.inference
        donating = [o.value for o in self.creation.options if (o.arg or "").startswith("donate_arg")]
        passed = [c for c in captures.values if c.how in (How.TRACED, How.MODULE)]
        for call in uses.calls if donating and passed else ():
            for given in _donated(call, donating, entry):
                known = origins(given, self.module, infer)
                for capture in passed:
                    if known & origins(capture.at, self.module, infer):
                        message = f"`{capture.path}` may be the buffer of `{ast.unparse(given)}`, which is donated"
                        raise Unplannable("may-alias", capture.at, message)


def _donated(call: ast.Call, donating: Sequence[ast.expr], entry: Function | None) -> list[ast.expr]:
    """The arguments of a call that it donates; all of them where that cannot be told."""
    found: list[ast.expr] = []
    for option in donating:
        value = ast.literal_eval(option)
        for one in value if isinstance(value, tuple | list) else (value,):
            if isinstance(one, int) and not any(isinstance(a, ast.Starred) for a in call.args) and one < len(call.args):
                found.append(call.args[one])
            elif isinstance(one, str) and entry is not None and (given := argument(entry, call, one)) is not None:
                found.append(given)
            else:
                found += [*call.args, *[k.value for k in call.keywords]]
    return found
