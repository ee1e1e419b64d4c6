"""What running a piece of code does besides computing its result, and whether it may be traced.

A `Hazard` is one reason against tracing. Summaries of functions are computed through calls, bottom-up, and remembered;
a recursive call adds nothing to its own summary. A call that cannot be resolved is a hazard: it is never traced.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from jitmod.analysis import library
from jitmod.analysis.infer import Inference
from jitmod.analysis.library import Role
from jitmod.analysis.values import (
    UNKNOWN,
    Array,
    ClassRef,
    Constant,
    Device,
    Instance,
    Kind,
    NdArray,
    Number,
    Routine,
    Transformed,
    is_device,
)
from jitmod.source.project import Class, Function, SourceModule
from jitmod.source.scopes import Scope

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_STATIC_ATTRIBUTES = frozenset({"shape", "ndim", "size", "dtype", "weak_type", "__name__", "__class__"})


@dataclass(frozen=True)
class Hazard:
    """Why a piece of code must not be traced: a reason code, where, and a few words."""

    reason: str
    path: str
    line: int
    what: str


@dataclass(eq=False)
class Effects:
    """Summaries of the functions of one project."""

    inference: Inference
    _known: dict[Function, tuple[Hazard, ...]] = field(default_factory=dict)
    _active: set[Function] = field(default_factory=set)
    _changed: frozenset[str] | None = None

    def of_function(self, function: Function) -> tuple[Hazard, ...]:
        """The hazards of tracing a call of `function`."""
        if function in self._known:
            return self._known[function]
        if function in self._active:
            return ()
        self._active.add(function)
        try:
            found = tuple(dict.fromkeys(self._walk(function)))
        finally:
            self._active.discard(function)
        if not self._active:
            self._known[function] = found  # inside a recursion the answer may still be partial
        return found

    def of_call(self, call: ast.Call, module: SourceModule) -> tuple[Hazard, ...]:
        """The hazards of tracing what `call` calls; its arguments are not looked into, but functions among them are."""
        found = list(self.of_callee(self.inference.kind(call.func, module), call, module))
        for value in [*call.args, *[k.value for k in call.keywords]]:
            kind = self.inference.kind(value, module)
            if isinstance(kind, Routine | Transformed) and not isinstance(value, ast.Lambda):
                found += self.of_callee(kind, call, module)
        return tuple(dict.fromkeys(found))

    def of_callee(self, callee: Kind, call: ast.Call, module: SourceModule) -> tuple[Hazard, ...]:
        """The hazards of tracing a call of a value of this kind."""
        infer = self.inference
        match callee:
            case Routine(Function() as function, receiver):
                found = self.of_function(function)
                if isinstance(receiver, Instance) and isinstance(receiver.cls, Class):
                    found += self._overrides(receiver.cls, function)
                return found
            case Routine(str() as name, receiver):
                return self._of_library(name, receiver, call, module)
            case Transformed(base, _):
                return self.of_callee(base, call, module)
            case Instance(Class() as cls):
                called = infer.classes.method(cls, "__call__")
                if called is None and not infer.classes.subclasses(cls):
                    return (self._hazard("unresolved-callee", call, module, f"{cls.node.name} has no __call__"),)
                own = self.of_function(called) if called else ()
                return own + self._overrides(cls, called) + self._held(cls)
            case ClassRef(Class() as cls):
                init = infer.classes.method(cls, "__init__")
                return self.of_function(init) if init else ()
            case Instance(str() as name) | ClassRef(str() as name):
                if library.role(name) is Role.STATE:
                    return (self._hazard("stateful-module", call, module, f"{name.rpartition('.')[2]} keeps a state"),)
                return ()
        if callee == UNKNOWN and isinstance(call.func, ast.Attribute) and _is_array_method(call.func):
            return ()
        return (self._hazard("unresolved-callee", call, module, f"`{ast.unparse(call.func)}` cannot be resolved"),)

    def _overrides(self, cls: Class, function: Function | None) -> tuple[Hazard, ...]:
        """A value annotated with a class may be of any subclass: what those override counts too."""
        found: tuple[Hazard, ...] = ()
        name = function.node.name if function and not isinstance(function.node, ast.Lambda) else "__call__"
        for sub in self.inference.classes.subclasses(cls):
            if name in sub.methods and sub.methods[name] is not function:
                found += self.of_function(sub.methods[name])
        return found

    def _held(self, cls: Class) -> tuple[Hazard, ...]:
        """Modules built in `__init__` may hold functions (`nn.Lambda(f)`, `activation=f`) or a layer with a state."""
        found: tuple[Hazard, ...] = ()
        for current in self.inference.classes.lineage(cls):
            function = current.methods.get("__init__")
            for node in ast.walk(function.node if function else ast.Pass()):
                if isinstance(node, ast.Call):
                    kind = self.inference.kind(node, current.module)
                    if isinstance(kind, Instance):
                        found += self.held_by(node, current.module)
        return found

    def held_by(self, construction: ast.Call, module: SourceModule) -> tuple[Hazard, ...]:
        """The hazards of the functions and layers that a Module's constructor call puts into it."""
        found: tuple[Hazard, ...] = ()
        kind = self.inference.kind(construction, module)
        if isinstance(kind, Instance) and isinstance(kind.cls, str) and library.role(kind.cls) is Role.STATE:
            found += self.of_callee(kind, construction, module)
        for value in [*construction.args, *[k.value for k in construction.keywords]]:
            held = self.inference.kind(value, module)
            if isinstance(held, Routine | Transformed):
                found += self.of_callee(held, construction, module)
        return found

    # -- one function ------------------------------------------------------------------------------------------------

    def _walk(self, function: Function) -> Iterator[Hazard]:
        for decorator in function.decorators:
            yield from self._of_decorator(decorator, function.module)
        body = [function.node.body] if isinstance(function.node, ast.Lambda) else function.node.body
        for part in body:
            for node in ast.walk(part):
                yield from self._of_node(node, function)

    def _of_decorator(self, decorator: ast.expr, module: SourceModule) -> Iterator[Hazard]:
        """A decorator replaces the function: one that is not known to leave its effects alone is a hazard."""
        expr = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = self.inference.dotted(expr, module)
        known = name in library.PLAIN_DECORATORS or name in library.TRANSFORMS
        if not known and (name is None or library.role(name) not in (Role.PURE, Role.STRUCTURE)):
            what = f"the decorator `{ast.unparse(expr)}` is not known"
            yield self._hazard("unresolved-callee", decorator, module, what)

    def _of_node(self, node: ast.AST, function: Function) -> Iterator[Hazard]:
        module = function.module
        match node:
            case ast.Name(ctx=ast.Load()):
                yield from self._of_global(node, module)
            case ast.Attribute(ctx=ast.Load()):
                yield from self._of_attribute(node, module)
            case ast.Subscript(slice=ast.Compare()) if not self.is_static(node.slice, module):
                what = f"the shape of `{ast.unparse(node)}` depends on values"
                yield self._hazard("ragged-items", node, module, what)
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
                if self._is_computed(test, module):
                    what = f"`{ast.unparse(test)}` branches in Python on a computed value"
                    yield self._hazard("batched-branch", node, module, what)
            case ast.BinOp(left=left, right=right):
                for side in (left, right):
                    kind = self.inference.kind(side, module)
                    if isinstance(kind, Instance) and isinstance(kind.cls, Class):
                        what = f"`{ast.unparse(node)}` runs an operator of {kind.cls.node.name}"
                        yield self._hazard("unresolved-callee", node, module, what)
            case ast.Call():
                yield from self.of_call(node, module)
            case ast.Global() | ast.Nonlocal():
                yield self._hazard("host-effect", node, module, f"`{node.names[0]}` is rebound in an outer scope")
            case ast.Yield() | ast.YieldFrom() | ast.Await():
                yield self._hazard("host-effect", node, module, "yield or await")
            case ast.Assign(targets=targets):
                for target in targets:
                    yield from self._of_store(target, function)
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target, value=ast.expr()):
                yield from self._of_store(target, function)
            case ast.Delete(targets=targets):
                for target in targets:
                    yield from self._of_store(target, function)

    def _is_computed(self, test: ast.expr, module: SourceModule) -> bool:
        """Whether a condition is certain to depend on device values."""
        match test:
            case ast.BoolOp(values=values):
                return any(self._is_computed(v, module) for v in values)
            case ast.UnaryOp(operand=operand):
                return self._is_computed(operand, module)
            case ast.Compare(ops=ops) if any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in ops):
                return False
        return is_device(self.inference.kind(test, module)) and not self.is_static(test, module)

    def _of_global(self, name: ast.Name, module: SourceModule) -> Iterator[Hazard]:
        """A module's variable that somebody changes would be frozen by a jit."""
        scope = self.inference.scope_binding(name.id, name, module)
        if scope is None or scope.parent is not None:
            return
        if all(b.how in ("import", "def", "class") for b in scope.bindings[name.id]):
            return
        if self.inference.comprehension_binding(name.id, name, module) is None and self.is_rebound(scope, name.id):
            what = f"`{name.id}` is a variable of the module that is changed elsewhere"
            yield self._hazard("rebound-global", name, module, what)

    def is_rebound(self, scope: Scope, name: str) -> bool:
        """Whether a module's variable is bound more than once, or changed in place or from outside anywhere."""
        if len(scope.bindings[name]) > 1 or any(name in s.rebinds for s in scope.module.scopes.values()):
            return True
        return name in self._changed_names()

    def _changed_names(self) -> frozenset[str]:
        """Names that some statement of the project stores into (`X[k] = `, `m.X = `) or calls a mutating method on."""
        if self._changed is None:
            found: set[str] = set()
            for module in self.inference.project.by_path.values():
                for node in ast.walk(module.document.tree):
                    match node:
                        case ast.Attribute(value=ast.Name(id=base), attr=attr, ctx=ast.Store() | ast.Del()):
                            found |= {base} if base in ("self", "cls") else {base, attr}
                        case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
                            found.add(getattr(value, "attr", getattr(value, "id", "")))
                        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in library.MUTATING_METHODS:
                            found.add(getattr(value, "attr", getattr(value, "id", "")))
            self._changed = frozenset(found)
        return self._changed

    def _of_attribute(self, node: ast.Attribute, module: SourceModule) -> Iterator[Hazard]:
        """Reading a property runs it."""
        holder = self.inference.kind(node.value, module)
        if isinstance(holder, Instance) and isinstance(holder.cls, Class):
            method = self.inference.classes.method(holder.cls, node.attr)
            if method is not None and self.inference.classes.is_property(node, module):
                yield from self.of_function(method)
            elif self.inference.classes.method(holder.cls, "__getattr__") is not None:
                what = f"{holder.cls.node.name} has a __getattr__"
                yield self._hazard("unresolved-callee", node, module, what)

    def _of_store(self, target: ast.expr, function: Function) -> Iterator[Hazard]:
        match target:
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                for element in elts:
                    yield from self._of_store(element, function)
            case ast.Attribute() | ast.Subscript():
                if not self._is_own(target.value, function):
                    what = f"`{ast.unparse(target)}` is changed"
                    yield self._hazard("host-effect", target, function.module, what)

    def _is_own(self, expr: ast.expr, function: Function) -> bool:
        """Whether an object was made in this call, so that changing it is nobody else's business."""
        match expr:
            case ast.Attribute(value=value) | ast.Subscript(value=value):
                in_init = not isinstance(function.node, ast.Lambda) and function.node.name == "__init__"
                mine = isinstance(expr, ast.Attribute) and in_init
                return mine or self._is_own(value, function)
            case ast.Name(id=name):
                in_init = not isinstance(function.node, ast.Lambda) and function.node.name == "__init__"
                if in_init and function.parameters and function.parameters[0].arg == name:
                    return True
                scope = function.module.scope_of(expr).find(name)
                if scope is None or scope.parent is None or not _within(scope.node, function, function.module):
                    return False
                fresh = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
                return all(isinstance(b.value, fresh) or _makes_container(b.value) for b in scope.bindings[name])
        return False

    # -- calls of libraries ------------------------------------------------------------------------------------------

    def _of_library(
        self, name: str, receiver: Kind | None, call: ast.Call, module: SourceModule
    ) -> tuple[Hazard, ...]:
        if receiver is not None:
            return self._of_method(name.partition(".")[2], receiver, call, module)
        match library.role(name):
            case Role.PURE | Role.STRUCTURE:
                if name == "jax.lax.fori_loop" and not all(self.is_static(a, module) for a in call.args[:2]):
                    return (self._hazard("batched-branch", call, module, "fori_loop with a computed trip count"),)
                if name in ("next", "iter", "id"):
                    return (self._hazard("host-effect", call, module, f"`{name}` is not a function of values"),)
                return ()
            case Role.PULL:
                if all(self.is_static(a, module) for a in call.args) or name in ("str", "repr", "format"):
                    return ()
                what = f"`{ast.unparse(call)}` reads a computed value on the host"
                return (self._hazard("host-effect", call, module, what),)
            case Role.NUMPY:
                if all(self.is_static(a, module) for a in call.args):
                    return ()
                what = f"`{ast.unparse(call.func)}` computes on the host"
                return (self._hazard("host-arithmetic", call, module, what),)
            case Role.HOST:
                return (self._hazard("host-effect", call, module, f"`{ast.unparse(call.func)}` has a visible effect"),)
            case Role.BRANCH:
                what = f"`{ast.unparse(call.func)}`: batched, both branches run for every item"
                return (self._hazard("batched-branch", call, module, what),)
            case Role.DYNAMIC:
                if any(k.arg in ("size", "length") for k in call.keywords):
                    return ()
                what = f"the shape of `{ast.unparse(call.func)}(...)` depends on values"
                return (self._hazard("ragged-items", call, module, what),)
            case Role.STATE:
                return (self._hazard("stateful-module", call, module, f"`{ast.unparse(call.func)}` keeps a state"),)
        return (self._hazard("unresolved-callee", call, module, f"`{name}` is not known to be traceable"),)

    def _of_method(self, attr: str, receiver: Kind, call: ast.Call, module: SourceModule) -> tuple[Hazard, ...]:
        if isinstance(receiver, Array | Device | NdArray):
            if attr in library.PULL_METHODS:
                return (self._hazard("host-effect", call, module, f"`.{attr}()` reads a value on the host"),)
            if attr in library.ARRAY_METHODS:
                return ()
        elif attr not in library.MUTATING_METHODS or self._is_fresh_receiver(call, module):
            return ()
        else:
            what = f"`{ast.unparse(call.func)}` changes an object that outlives the call"
            return (self._hazard("host-effect", call, module, what),)
        return (self._hazard("unresolved-callee", call, module, f"`.{attr}` is not a known method of arrays"),)

    def _is_fresh_receiver(self, call: ast.Call, module: SourceModule) -> bool:
        scope = module.scope_of(call)
        function = module.functions.get(scope.node)
        return isinstance(call.func, ast.Attribute) and function is not None and self._is_own(call.func.value, function)

    def is_static(self, expr: ast.expr, module: SourceModule) -> bool:
        """Whether an expression is a Python value under a trace too: constants, shapes, lengths, static fields."""
        match expr:
            case ast.Constant() | ast.JoinedStr():
                return True
            case ast.Attribute(attr=attr) if attr in _STATIC_ATTRIBUTES:
                return True
            case ast.Call(func=ast.Name(id="len")):
                return True
            case ast.Call(args=args):
                name = self.inference.dotted(expr.func, module)
                known = name is not None and library.role(name) in (Role.STRUCTURE, Role.NUMPY, Role.PULL)
                return known and bool(args) and all(self.is_static(a, module) for a in args)
            case ast.BinOp(left=left, right=right):
                return self.is_static(left, module) and self.is_static(right, module)
            case ast.UnaryOp(operand=operand):
                return self.is_static(operand, module)
            case ast.Subscript(value=value):
                return self.is_static(value, module)
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                return all(self.is_static(e, module) for e in elts)
            case ast.Compare(left=left, comparators=others):
                return all(self.is_static(e, module) for e in (left, *others))
        dotted = self.inference.dotted(expr, module)
        if dotted is not None and dotted.startswith(("numpy.", "math.", "jax.numpy.")):
            return not callable(getattr(ast, dotted, None))
        kind = self.inference.kind(expr, module)
        return isinstance(kind, Number | Constant)

    def _hazard(self, reason: str, node: ast.AST, module: SourceModule, what: str) -> Hazard:
        return Hazard(reason, module.document.path, getattr(node, "lineno", 1), what)


def _is_array_method(func: ast.Attribute) -> bool:
    """`x.reshape(...)`, `x.at[i].set(...)` on a value of unknown kind: a traced argument of the function."""
    on_at = isinstance(func.value, ast.Subscript) and getattr(func.value.value, "attr", "") == "at"
    return func.attr in (library.AT_METHODS if on_at else library.ARRAY_ONLY_METHODS)


def _within(scope_node: ast.AST, function: Function, module: SourceModule) -> bool:
    return scope_node is function.node or function.node in module.ancestors(scope_node)


def _makes_container(value: ast.expr | None) -> bool:
    match value:
        case ast.Call(func=ast.Name(id=name)):
            return name in ("list", "dict", "set", "defaultdict", "deque")
    return False


