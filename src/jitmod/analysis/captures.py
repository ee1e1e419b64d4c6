"""What code reads from the function around it: what must be passed, once it has moved to the module level."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from jitmod.analysis.constructions import Construction, LocalImport, construction, is_constant, is_hashable_static
from jitmod.analysis.effects import Effects
from jitmod.analysis.hazards import Hazard
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.scalars import Scalars, takes_array
from jitmod.analysis.trees import settled
from jitmod.analysis.values import (
    UNKNOWN,
    Array,
    ClassRef,
    Device,
    Instance,
    Kind,
    Namespace,
    NdArray,
    Number,
    Routine,
    is_device,
)
from jitmod.analysis.values import (
    Sequence as ListOf,
)
from jitmod.source.nodes import walk
from jitmod.source.project import Class, Function, SourceModule
from jitmod.source.scopes import Scope

_DYNAMIC = frozenset({"locals", "vars", "dir", "eval", "exec", "globals", "super"})


Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class How(StrEnum):
    """How a value enters a compiled function."""

    TRACED = "traced"  # an array or a pytree of arrays; a number under jax.jit
    MODULE = "module"  # arrays and static fields: only filter_jit takes it
    NUMBER = "number"  # a Python number that an array can stand for
    STATIC = "static"  # hashable, and held as it is


@dataclass(frozen=True, eq=False)
class Capture:
    """A value that moved code reads from outside: `path` is how the user's function writes it, `at` the first read."""

    path: str
    kind: Kind
    how: How
    reads: tuple[ast.expr, ...]
    at: ast.expr

    @property
    def root(self) -> str:
        return self.path.partition(".")[0]


@dataclass(frozen=True, eq=False)
class Captures:
    """Everything that a piece of moved code takes along.

    `helpers`: nested functions that only it uses; `constants`: optimisers that move to the module level; `rebuilt`:
    ones that are built again inside of it, in order; `imports`: what the function around it imports for it.
    """

    values: tuple[Capture, ...]
    helpers: tuple[ast.FunctionDef, ...]
    constants: tuple[Construction, ...]
    rebuilt: tuple[Construction, ...]
    imports: tuple[LocalImport, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.values or self.helpers or self.constants or self.rebuilt or self.imports)


def comprehension_of(name: ast.Name, module: SourceModule) -> Comprehension | None:
    """The comprehension that binds what `name` reads, also from within lambdas in it."""
    inner: ast.AST = name
    for parent in module.ancestors(name):
        if isinstance(parent, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            bound = {n.id for g in parent.generators for n in walk(g.target) if isinstance(n, ast.Name)}
            if name.id in bound and inner is not parent.generators[0]:
                return parent
        elif parent in module.scopes and name.id in module.scopes[parent].bindings:
            return None
        inner = parent
    return None


@dataclass(eq=False)
class Capturing:
    """Collects the captures of `parts`, which stand in `function` (None: at module level) and move together."""

    module: SourceModule
    function: Function | None
    effects: Effects
    entry: Function | None = None
    own: frozenset[str] = frozenset()  # names that the moved code binds itself, and the name of the moved function
    parts: list[ast.AST] = field(default_factory=list)
    traced: frozenset[ast.arg] = frozenset()  # parameters that always get device values
    internal: frozenset[ast.AST] = frozenset()  # reads of what the moved code has bound before
    whole: frozenset[ast.AST] = frozenset()  # expressions that are evaluated outside, and passed
    passes_globals: bool = False  # arrays and Modules of the module: else they are constants of the compiled program
    paths: dict[str, list[ast.expr]] = field(default_factory=dict)
    _kinds: dict[str, Kind] = field(default_factory=dict)
    _foreign: dict[str, tuple[ast.expr, ...]] = field(default_factory=dict)
    _helpers: dict[str, ast.FunctionDef] = field(default_factory=dict)
    _constants: dict[str, Construction] = field(default_factory=dict)
    _rebuilt: dict[str, Construction] = field(default_factory=dict)
    _imports: dict[str, tuple[ast.Import | ast.ImportFrom, ast.alias]] = field(default_factory=dict)

    def gather(self, parts: Sequence[ast.AST]) -> None:
        """Find what `parts` read from outside. Raises `Unplannable` where something cannot be taken along at all."""
        for part in parts:
            self._take(part)
        for reads in self.paths.values():
            reads.sort(key=lambda r: (r.lineno, r.col_offset))

    def read_elsewhere(self, path: str, reads: Sequence[ast.expr]) -> None:
        """Pass the attribute `path` too, which code at `reads` outside of the parts reads."""
        if path not in self.paths:
            self.paths[path] = list(reads)
            self._kinds[path] = settled(reads[0], self.module, self.effects.inference)
        else:
            self.paths[path] += reads
        self._foreign[path] = tuple(reads)

    @property
    def helpers(self) -> tuple[ast.FunctionDef, ...]:
        return tuple(self._helpers.values())

    @property
    def is_empty(self) -> bool:
        return not (self.paths or self._helpers or self._constants or self._rebuilt or self._imports)

    def kind_of(self, path: str) -> Kind:
        return self._kinds[path]

    def judged(self) -> Captures:
        """How each value enters. Raises `Unplannable`."""
        values = tuple(self._judged(path) for path in sorted(self.paths, key=self._position))
        imports = [LocalImport(s, a, self._is_left(name)) for name, (s, a) in self._imports.items()]
        constants, rebuilt = tuple(self._constants.values()), tuple(self._rebuilt.values())
        imports.sort(key=lambda one: one.statement.lineno)
        return Captures(values, tuple(self._helpers.values()), constants, rebuilt, tuple(imports))

    def _take(self, part: ast.AST) -> None:
        self.parts.append(part)
        for node in list(walk(part)):
            if isinstance(node, ast.Attribute) and node.attr.startswith("__") and not node.attr.endswith("__"):
                raise Unplannable("local-callable", node, f"`{ast.unparse(node)}` is private to its class")
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._read(node)
            elif isinstance(node, ast.Global | ast.Nonlocal):
                raise Unplannable("host-effect", node, f"`{node.names[0]}` is rebound in an outer scope")

    def _read(self, name: ast.Name) -> None:
        infer = self.effects.inference
        if name in self.internal:
            return
        item = comprehension_of(name, self.module)
        if item is not None:
            if not self._is_inside(item.generators[0]):  # around the moved code
                message = f"`{name.id}` is new for every item of a comprehension; write a loop, or make it once outside"
                raise Unplannable("late-binding", name, message)
            return
        outside = next((a for a in (name, *self.module.ancestors(name)) if a in self.whole), None)
        if isinstance(outside, ast.expr):
            if outside not in self.paths.setdefault(ast.unparse(outside), []):
                self.paths[ast.unparse(outside)].append(outside)
                self._kinds[ast.unparse(outside)] = settled(outside, self.module, infer)
            return
        scope = self.module.scope_of(name).find(name.id)
        if scope is None:
            if name.id in _DYNAMIC or name.id == "__class__":
                raise Unplannable("dynamic-scope", name, f"`{name.id}` depends on where it is called")
            return
        if self._is_inside(scope.node) or (name.id in self.own and scope is self._scope):
            return
        of_module = scope.parent is None and (self.function is not None or not self._varies_at_top(scope, name.id))
        if of_module and not (self.passes_globals and self._holds_arrays(scope, name)):
            return self._check_variable(scope, name)
        if isinstance(scope.node, ast.ClassDef):
            raise Unplannable("local-callable", name, f"`{name.id}` belongs to the body of a class")
        if self._take_helper(scope, name) or self._take_import(scope, name) or self._take_construction(scope, name):
            return
        expr = self._object(name)
        self.paths.setdefault(ast.unparse(expr), []).append(expr)
        self._kinds.setdefault(ast.unparse(expr), settled(expr, self.module, self.effects.inference))

    @property
    def _scope(self) -> Scope:
        return self.function.scope if self.function is not None else self.module.scope

    def _is_inside(self, node: ast.AST) -> bool:
        return any(node is part or part in self.module.ancestors(node) for part in self.parts)

    def _varies_at_top(self, scope: Scope, name: str) -> bool:
        """Moved from a loop of the module level: what that level binds more than once, or in a loop, is passed."""
        bindings = scope.bindings[name]
        fixed = all(b.how in ("import", "def", "class") for b in bindings)
        return not fixed and (len(bindings) > 1 or bindings[0].how in ("item", "augment"))

    def _holds_arrays(self, scope: Scope, name: ast.Name) -> bool:
        """Whether a name of the module is a variable that holds an array or a Module."""
        kind, made = self.effects.inference.kind(name, self.module), {b.how for b in scope.bindings[name.id]}
        model = isinstance(kind, Instance) and self.effects.inference.classes.is_module(kind.cls)
        return not made & {"import", "def", "class"} and (model or isinstance(kind, Array | Device | NdArray))

    def _check_variable(self, scope: Scope, name: ast.Name) -> None:
        holder = self.function or next(iter(self.module.functions.values()), None)
        if holder is not None:
            for reason, what in self.effects.frozen.of_name(name, holder):
                raise Unplannable(reason, name, what)

    def _take_helper(self, scope: Scope, name: ast.Name) -> bool:
        bindings = scope.bindings[name.id]
        if not any(b.how == "def" for b in bindings):
            return False
        if name.id in self._helpers:
            return True
        node = bindings[0].node
        if len(bindings) > 1 or not isinstance(node, ast.FunctionDef) or scope is not self._scope:
            raise Unplannable("local-callable", name, f"the nested function `{name.id}` cannot be moved")
        self._helpers[name.id] = node
        self._take(node)
        return True

    def _take_import(self, scope: Scope, name: ast.Name) -> bool:
        statement = scope.bindings[name.id][0].node
        if len(scope.bindings[name.id]) > 1 or not isinstance(statement, ast.Import | ast.ImportFrom):
            return False
        named = [a for a in statement.names if (a.asname or a.name.partition(".")[0]) == name.id]
        if scope is self._scope and len(named) == 1:
            self._imports[name.id] = (statement, named[0])
        return name.id in self._imports

    def _is_left(self, name: str) -> bool:
        reads = [n for n in self._scope.mentions.get(name, ()) if isinstance(n.ctx, ast.Load)]
        return all(self._is_inside(read) for read in reads)

    def _take_construction(self, scope: Scope, name: ast.Name) -> bool:
        found = construction(name.id, scope, self.effects) if scope is self._scope else None
        if found is None:
            return False
        if is_constant(found.value, self.module, self.effects):
            self._constants[name.id] = found
        elif name.id not in self._rebuilt:
            inputs = [n for n in walk(found.value) if isinstance(n, ast.Name)]
            for read in inputs:
                inner = self.module.scope_of(read).find(read.id)
                if inner is not None and inner.is_function and len(inner.bindings[read.id]) != 1:
                    raise Unplannable("late-binding", read, f"`{read.id}` is rebound after it went into `{name.id}`")
            self._take(found.value)
            self._rebuilt[name.id] = found
        return True

    def _object(self, name: ast.Name) -> ast.expr:
        """The attribute path from a name to the first object that may be passed."""
        infer = self.effects.inference
        expr: ast.expr = name
        kind = infer.kind(name, self.module)
        while self._is_holder(kind):
            parent = self.module.parents[expr]
            if not isinstance(parent, ast.Attribute) or not isinstance(parent.ctx, ast.Load):
                break
            if infer.classes.is_property(parent, self.module):
                raise Unplannable("mutable-self", parent, f"`{ast.unparse(parent)}` is a property")
            expr, kind = parent, infer.kind(parent, self.module)
        return expr

    def _is_holder(self, kind: Kind) -> bool:
        match kind:
            case Namespace(SourceModule()) | ClassRef(Class()):
                return True
            case Instance(Class() as cls):
                return not self.effects.inference.classes.is_module(cls)
        return False

    # -- how a value may enter ---------------------------------------------------------------------------------------

    def _position(self, path: str) -> tuple[bool, int, int]:
        """Parameters stand in the order of their first reads; what only methods read comes last."""
        foreign = self._foreign.get(path, ())
        first = next((r for r in self.paths[path] if r not in foreign), self.paths[path][0])
        return first in foreign, first.lineno, first.col_offset

    def _judged(self, path: str) -> Capture:
        kind, reads = self._kinds[path], tuple(self.paths[path])
        own = tuple(r for r in reads if r not in self._foreign.get(path, ()))
        return Capture(path, kind, self.how(path, kind, reads), own, reads[0])

    def how(self, path: str, kind: Kind, reads: Sequence[ast.expr]) -> How:
        """How a value of this kind enters. Raises `Unplannable`."""
        at = reads[0]
        if is_device(kind):
            return How.MODULE if self._is_filtered(at) else How.TRACED
        match kind:
            case Instance(cls) if self.effects.inference.classes.is_module(cls):
                for hazard in self.effects.held.unhashable(cls) if isinstance(cls, Class) else ():
                    raise Unplannable(hazard.reason, at, f"{hazard.what} ({hazard.path}:{hazard.line})")
                return How.MODULE
            case Number(type) if type != "bool":
                needs = Scalars(self.effects).needs(reads, self.module, self.entry, kind, self.traced)
                return How.STATIC if needs else How.NUMBER
            case NdArray():
                self._check_numpy(path, reads)
                return How.TRACED
        if is_hashable_static(kind):
            return How.STATIC
        if kind == UNKNOWN or isinstance(kind, ListOf):
            message = f"it cannot be told what `{path}` is; annotate it (an Array, a Module, a number)"
            raise Unplannable("mutable-self", at, message)
        if isinstance(kind, Instance | Routine):
            raise Unplannable("mutable-self", at, f"`{path}` is (a method of) a plain object, which cannot be passed")
        raise Unplannable("local-callable", at, f"`{path}` cannot be passed to a compiled function")

    def _is_filtered(self, read: ast.expr) -> bool:
        """Whether a value comes from a function of equinox, whose trees may hold more than arrays."""
        scope = self.module.scope_of(read).find(read.id) if isinstance(read, ast.Name) else None
        values = [b.value for b in scope.bindings[read.id]] if scope is not None and isinstance(read, ast.Name) else []
        calls = [v for v in values if isinstance(v, ast.Call)]
        return any((self.effects.inference.dotted(c.func, self.module) or "").startswith("equinox.") for c in calls)

    def _check_numpy(self, path: str, reads: Sequence[ast.expr]) -> None:
        """A numpy array may become a traced one where jax sees it first."""
        for read in reads:
            parent = self.module.parents[read]
            if isinstance(parent, ast.BinOp):
                other = parent.right if parent.left is read else parent.left
                if isinstance(self.effects.inference.kind(other, self.module), Array | Device):
                    continue
            elif isinstance(parent, ast.Call) and parent.func is not read:
                name = self.effects.inference.dotted(parent.func, self.module) or ""
                if takes_array(name, parent, read):
                    continue
            raise Unplannable("host-arithmetic", read, f"`{path}` is a numpy array, and numpy computes with it")


def _is_fine_inside(hazard: Hazard) -> bool:
    """Whether traced code may have a hazard: not where it needs a concrete array, as what it captured was."""
    control_flow = hazard.reason == "batched-branch" and "branches in Python" not in hazard.what
    return control_flow or hazard.reason in ("stateful-module", "exception-order", "index-as-python")


def lasting_hazards(
    found: Sequence[Hazard], captures: Captures, parts: Sequence[ast.AST], module: SourceModule
) -> Iterator[Hazard]:
    """Those hazards of code that is traced already which matter when it moves and is traced less often.

    What it reads from the function around it is passed from now on, so that is none.
    """
    passed = {(r.lineno, p) for c in captures.values for r in c.reads for p in (ast.unparse(r), c.root)}
    spans = [(getattr(p, "lineno", 0), getattr(p, "end_lineno", 0) or 0) for p in (*parts, *captures.helpers)]
    names = {c.name for c in (*captures.constants, *captures.rebuilt)} | {h.name for h in captures.helpers}
    names |= bound_inside((*parts, *captures.helpers), module)  # its own are bound in the same trace
    given = {(c.lineno, ast.unparse(c.func)) for c in _calls_of_arguments((*parts, *captures.helpers), module)}
    for hazard in found:
        if _is_fine_inside(hazard):
            continue
        subject = hazard.what.split("`")[1] if hazard.what.count("`") >= 2 else ""
        own = hazard.path == module.document.path and any(a <= hazard.line <= b for a, b in spans)
        handled = (hazard.line, subject) in passed or subject in names
        if own and handled and hazard.reason in ("late-binding", "mutable-self"):
            continue
        if own and hazard.reason == "rebound-global" and (hazard.line, subject) in passed:
            continue  # a name of the module level that a loop there binds
        if own and hazard.reason == "unresolved-callee" and (hazard.line, subject) in given:
            continue
        yield hazard


def bound_inside(parts: Sequence[ast.AST], module: SourceModule) -> set[str]:
    """The names that the functions inside moved code bind."""
    scopes = [module.scopes[n] for part in parts for n in walk(part) if n in module.scopes]
    return {name for scope in scopes for name in scope.bindings}


def _calls_of_arguments(parts: Sequence[ast.AST], module: SourceModule) -> Iterator[ast.Call]:
    """Calls of what the moved code gets as an argument, such as a Module: their results depend on arguments alone."""
    for part in parts:
        for node in walk(part):
            if isinstance(node, ast.Call):
                roots = [n for n in walk(node.func) if isinstance(n, ast.Name)]
                scopes = [module.scope_of(n).find(n.id) for n in roots]
                inner = [s for s in scopes if s is not None and s.parent is not None]
                if inner and all(any(p is s.node or p in module.ancestors(s.node) for p in parts) for s in inner):
                    yield node
