"""What running a piece of code does besides computing its result, and whether it may be traced.

A `Hazard` is one reason against tracing. What the body of a function runs into is found once: hazards, and functions
that it calls; the hazards of all that are reached are its summary. A call that cannot be resolved is a hazard: it is
never traced.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from jitmod.analysis import library
from jitmod.analysis.frozen import Frozen
from jitmod.analysis.hazards import Hazard, hazard
from jitmod.analysis.held import Held
from jitmod.analysis.infer import Inference
from jitmod.analysis.library import Role
from jitmod.analysis.reaching import reaching
from jitmod.analysis.static import BindingTimes
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
)
from jitmod.analysis.values import Iterator as LazyIterator
from jitmod.source.nodes import walk
from jitmod.source.project import Class, Function, SourceModule

if TYPE_CHECKING:
    from jitmod.analysis.channels import Access

Found = Hazard | Function  # what tracing runs into: a hazard, or a function that holds more


@dataclass(eq=False)
class Effects:
    """Summaries of the functions of one project.

    `counts_library`: a call of jax's own functions is heavy, too.
    """

    inference: Inference
    counts_library: bool = False
    _known: dict[Function, tuple[Hazard, ...]] = field(default_factory=dict)
    _own: dict[Function, tuple[Found, ...]] = field(default_factory=dict)
    changed: dict[Function, frozenset[str] | None] = field(default_factory=dict)  # remembered by `heap.own_changes`
    changed_so_far: dict[Function, frozenset[str]] = field(default_factory=dict)  # its answers that a cycle cut short
    changing: set[Function] = field(default_factory=set)  # what it is being asked
    changes_cut: int = 0
    channels: dict[Function, frozenset[Access]] = field(default_factory=dict)  # remembered by `channels.of_function`
    channels_so_far: dict[Function, frozenset[Access]] = field(default_factory=dict)  # those that a cycle cut short
    channels_cut: int = 0
    reaching_boundary: dict[Function, bool] = field(default_factory=dict)  # remembered by `jits.is_heavy`
    dispatching: dict[Function, bool] = field(default_factory=dict)  # remembered by `composites`
    reaching: dict[type, dict[Function, bool]] = field(default_factory=dict)  # by the classes of `tracing`
    iterating: dict[type, dict[Function, bool]] = field(default_factory=dict)  # the same

    @cached_property
    def frozen(self) -> Frozen:
        return Frozen(self.inference)

    @cached_property
    def held(self) -> Held:
        return Held(self)

    @cached_property
    def times(self) -> BindingTimes:
        return BindingTimes(self.inference)

    def counting_library(self) -> Effects:
        """The same summaries, where calls of jax's own functions are heavy."""
        return replace(self, counts_library=True)

    def of_function(self, function: Function) -> tuple[Hazard, ...]:
        """The hazards of tracing a call of `function`."""
        if function not in self._known:
            self._known[function] = self._all([function])
        return self._known[function]

    def of_call(self, call: ast.Call, module: SourceModule) -> tuple[Hazard, ...]:
        """The hazards of tracing what `call` calls; its arguments are not looked into, but functions among them are."""
        return self._all(self._of_call(call, module))

    def of_callee(self, callee: Kind, call: ast.Call, module: SourceModule) -> tuple[Hazard, ...]:
        """The hazards of tracing a call of a value of this kind."""
        return self._all(self.calling(callee, call, module))

    def _all(self, found: Iterable[Found]) -> tuple[Hazard, ...]:
        """Hazards in their order, with those of a function where it is first called: recursion adds nothing."""
        hazards: dict[Hazard, None] = {}
        entered: set[Function] = set()
        inner = [iter(tuple(found))]  # whole, before anything is entered: what `held` leaves out holds for this call
        while inner:
            one = next(inner[-1], None)
            if one is None:
                inner.pop()
            elif isinstance(one, Hazard):
                hazards[one] = None
            elif one not in entered:
                entered.add(one)
                inner.append(iter(self._known[one] if one in self._known else self._of_body(one)))
        return tuple(hazards)

    def _of_call(self, call: ast.Call, module: SourceModule) -> Iterator[Found]:
        yield from self.calling(self.inference.kind(call.func, module), call, module)
        for value in [*call.args, *[k.value for k in call.keywords]]:
            kind = self.inference.kind(value, module)
            if isinstance(kind, Routine | Transformed) and not isinstance(value, ast.Lambda):
                yield from self.calling(kind, call, module)

    def calling(self, callee: Kind, call: ast.Call, module: SourceModule) -> Iterator[Found]:
        """The hazards of calling a value of this kind, and the functions of the project that run."""
        infer = self.inference
        match callee:
            case Routine(Function() as function, receiver):
                yield function
                for reason, what in self.frozen.of_function(function):
                    yield hazard(reason, call, module, what)
                if isinstance(receiver, Instance) and isinstance(receiver.cls, Class):
                    yield from self.held.overrides(receiver.cls, function)
                    if infer.classes.is_module(receiver.cls):
                        yield from self.held.unhashable(receiver.cls)
            case Routine(str() as name, receiver):
                yield from self._of_library(name, receiver, call, module)
            case Transformed(base, _):
                yield from self.calling(base, call, module)
            case Instance(Class() as cls):
                called = infer.classes.method(cls, "__call__")
                if called is None and not infer.classes.subclasses(cls):
                    yield hazard("unresolved-callee", call, module, f"{cls.node.name} has no __call__")
                    return
                if called:
                    yield called
                yield from self.held.overrides(cls, called)
                yield from self.held.of_class(cls)
                yield from self.held.spliced()
                yield from self.held.unhashable(cls)
            case ClassRef(Class() as cls):
                init = infer.classes.method(cls, "__init__")
                if init:
                    yield init
            case Instance(str() as name) | ClassRef(str() as name):
                if library.role(name) is Role.STATE:
                    what = f"{name.rpartition('.')[2]} keeps a state"
                    yield hazard("stateful-module", call, module, what, "batched")
                    return
                yield from self.held.of_library(name)
                yield from self.held.subclasses_of_library(name)
                yield from self.held.spliced()
            case _:
                array_method = isinstance(call.func, ast.Attribute) and _is_array_method(call.func)
                if callee != UNKNOWN or not array_method:
                    what = f"`{ast.unparse(call.func)}` cannot be resolved"
                    yield hazard("unresolved-callee", call, module, what)

    # -- one function ------------------------------------------------------------------------------------------------

    def _of_body(self, function: Function) -> tuple[Found, ...]:
        if function not in self._own:
            self._own[function] = tuple(dict.fromkeys(self._walk(function)))
        return self._own[function]

    def _walk(self, function: Function) -> Iterator[Found]:
        for decorator in function.decorators:
            yield from self._of_decorator(decorator, function.module)
        body = [function.node.body] if isinstance(function.node, ast.Lambda) else function.node.body
        for part in body:
            for node in walk(part):
                yield from self._of_node(node, function)

    def _of_decorator(self, decorator: ast.expr, module: SourceModule) -> Iterator[Hazard]:
        """A decorator replaces the function: one that is not known to leave its effects alone is a hazard."""
        expr = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = self.inference.dotted(expr, module)
        known = name in library.PLAIN_DECORATORS or name in library.TRANSFORMS
        if not known and (name is None or library.role(name) not in (Role.PURE, Role.STRUCTURE)):
            what = f"the decorator `{ast.unparse(expr)}` is not known"
            yield hazard("unresolved-callee", decorator, module, what)

    def _of_node(self, node: ast.AST, function: Function) -> Iterator[Found]:
        module = function.module
        match node:
            case ast.Name(ctx=ast.Load()):
                for reason, what in self.frozen.of_name(node, function):
                    yield hazard(reason, node, module, what)
            case ast.Attribute(ctx=ast.Load()):
                for reason, what in self.frozen.of_attribute(node, module):
                    yield hazard(reason, node, module, what)
                yield from self._of_attribute(node, module)
            case ast.With(items=items):
                for item in items:
                    if not isinstance(item.context_expr, ast.Call):
                        what = f"`with {ast.unparse(item.context_expr)}` may have an effect"
                        yield hazard("unresolved-callee", item.context_expr, module, what)
            case ast.Try(handlers=[_, *_]):
                yield hazard("exception-order", node, module, "a try could catch what only a trace raises")
            case ast.For(iter=iterable) | ast.comprehension(iter=iterable):
                lazy = isinstance(self.inference.kind(iterable, module), LazyIterator)
                if lazy and not isinstance(iterable, ast.Call):
                    what = f"`{ast.unparse(iterable)}` is used up by iterating"
                    yield hazard("host-effect", iterable, module, what)
            case ast.Subscript(ctx=ast.Load()) if (problem := self.times.of_subscript(node, module)) is not None:
                yield hazard(problem[0], node, module, problem[1])
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
                if self.times.is_computed(test, module):
                    what = f"`{ast.unparse(test)}` branches in Python on a computed value"
                    yield hazard("batched-branch", node, module, what)
            case ast.BinOp(left=left, right=right):
                kinds = [self.inference.kind(side, module) for side in (left, right)]
                if any(isinstance(k, NdArray) for k in kinds) and all(isinstance(k, NdArray | Number) for k in kinds):
                    what = f"`{ast.unparse(node)}` is numpy arithmetic"
                    yield hazard("host-arithmetic", node, module, what)
                for kind in kinds:
                    if isinstance(kind, Instance) and isinstance(kind.cls, Class):
                        what = f"`{ast.unparse(node)}` runs an operator of {kind.cls.node.name}"
                        yield hazard("unresolved-callee", node, module, what)
            case ast.Call():
                yield from self._of_call(node, module)
            case ast.Global() | ast.Nonlocal():
                yield hazard("host-effect", node, module, f"`{node.names[0]}` is rebound in an outer scope")
            case ast.Yield() | ast.YieldFrom() | ast.Await():
                yield hazard("host-effect", node, module, "yield or await")
            case ast.Assign(targets=targets):
                for target in targets:
                    yield from self._of_store(target, function)
            case ast.AugAssign(target=ast.Name(id=name)):
                scope = module.scope_of(node).find(name)
                aliases = (ast.Name, ast.Attribute, ast.Subscript)
                given = [b for b in reaching(name, node.target, scope)
                         if b.how in ("param", "item") or isinstance(b.value, aliases)] if scope else []  # fmt: skip
                if any(not isinstance(self.inference.bound(b, module), Array | Number | Constant) for b in given):
                    what = f"`{name} {_operator(node)}= ...` may change the caller's object"
                    yield hazard("inplace-ndarray", node, module, what)
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target, value=ast.expr()):
                yield from self._of_store(target, function)
            case ast.Delete(targets=targets):
                for target in targets:
                    yield from self._of_store(target, function)

    def _of_attribute(self, node: ast.Attribute, module: SourceModule) -> Iterator[Found]:
        """Reading a property runs it."""
        holder = self.inference.kind(node.value, module)
        if isinstance(holder, Instance) and isinstance(holder.cls, Class):
            method = self.inference.classes.method(holder.cls, node.attr)
            if method is not None and self.inference.classes.is_property(node, module):
                yield method
            elif self.inference.classes.method(holder.cls, "__getattr__") is not None:
                what = f"{holder.cls.node.name} has a __getattr__"
                yield hazard("unresolved-callee", node, module, what)

    def _of_store(self, target: ast.expr, function: Function) -> Iterator[Hazard]:
        match target:
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                for element in elts:
                    yield from self._of_store(element, function)
            case ast.Attribute() | ast.Subscript():
                if not self._is_own(target.value, function):
                    what = f"`{ast.unparse(target)}` is changed"
                    yield hazard("host-effect", target, function.module, what)

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

    def _of_library(self, name: str, receiver: Kind | None, call: ast.Call, module: SourceModule) -> tuple[Hazard, ...]:
        if receiver is not None:
            return self._of_method(name.partition(".")[2], receiver, call, module)
        match library.role(name):
            case Role.PURE | Role.STRUCTURE:
                needed = self.times.needs_static(name, call, module)
                if needed is not None:
                    what = f"`{ast.unparse(call)}` needs `{ast.unparse(needed)}` as a Python value"
                    return (hazard("scalar-needed-as-python", call, module, what),)
                if name == "jax.lax.fori_loop" and not all(self.times.is_static(a, module) for a in call.args[:2]):
                    return (hazard("batched-branch", call, module, "fori_loop with a computed trip count", "batched"),)
                if name in ("next", "iter", "id"):
                    return (hazard("host-effect", call, module, f"`{name}` is not a function of values"),)
                return ()
            case Role.PULL:
                if all(self.times.is_static(a, module) for a in call.args) or name in ("str", "repr", "format"):
                    return ()
                what = f"`{ast.unparse(call)}` reads a computed value on the host"
                return (hazard("host-effect", call, module, what),)
            case Role.NUMPY:
                if all(self.times.is_static(a, module) for a in call.args):
                    return ()
                what = f"`{ast.unparse(call.func)}` computes on the host"
                return (hazard("host-arithmetic", call, module, what),)
            case Role.HOST:
                return (hazard("host-effect", call, module, f"`{ast.unparse(call.func)}` has a visible effect"),)
            case Role.BRANCH:
                what = f"`{ast.unparse(call.func)}`: batched, both branches run for every item"
                return (hazard("batched-branch", call, module, what, "batched"),)
            case Role.DYNAMIC:
                if any(k.arg in ("size", "length") for k in call.keywords):
                    return ()
                what = f"the shape of `{ast.unparse(call.func)}(...)` depends on values"
                return (hazard("ragged-items", call, module, what),)
            case Role.STATE:
                what = f"`{ast.unparse(call.func)}` keeps a state"
                return (hazard("stateful-module", call, module, what, "batched"),)
        return (hazard("unresolved-callee", call, module, f"`{name}` is not known to be traceable"),)

    def _of_method(self, attr: str, receiver: Kind, call: ast.Call, module: SourceModule) -> tuple[Hazard, ...]:
        if isinstance(receiver, Array | Device | NdArray):
            if attr in library.PULL_METHODS:
                return (hazard("host-effect", call, module, f"`.{attr}()` reads a value on the host"),)
            if attr in library.ARRAY_METHODS:
                return ()
        elif attr not in library.MUTATING_METHODS or self._is_fresh_receiver(call, module):
            return ()
        else:
            what = f"`{ast.unparse(call.func)}` changes an object that outlives the call"
            return (hazard("host-effect", call, module, what),)
        return (hazard("unresolved-callee", call, module, f"`.{attr}` is not a known method of arrays"),)

    def _is_fresh_receiver(self, call: ast.Call, module: SourceModule) -> bool:
        scope = module.scope_of(call)
        function = module.functions.get(scope.node)
        return isinstance(call.func, ast.Attribute) and function is not None and self._is_own(call.func.value, function)


def _is_array_method(func: ast.Attribute) -> bool:
    """`x.reshape(...)`, `x.at[i].set(...)` on a value of unknown kind: a traced argument of the function."""
    on_at = isinstance(func.value, ast.Subscript) and getattr(func.value.value, "attr", "") == "at"
    return func.attr in (library.AT_METHODS if on_at else library.ARRAY_ONLY_METHODS)


def _within(scope_node: ast.AST, function: Function, module: SourceModule) -> bool:
    return scope_node is function.node or function.node in module.ancestors(scope_node)


def _operator(node: ast.AugAssign) -> str:
    return {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}.get(type(node.op), "?")


def _makes_container(value: ast.expr | None) -> bool:
    match value:
        case ast.Call(func=ast.Name(id=name)):
            return name in ("list", "dict", "set", "defaultdict", "deque")
    return False
