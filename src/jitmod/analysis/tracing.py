"""What eager code may be traced as it stands, and which of its calls are worth a compiled function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from collections.abc import Sequence as Several
from dataclasses import dataclass, field
from functools import cached_property

from jitmod.analysis import library
from jitmod.analysis.boundaries import loop_around
from jitmod.analysis.effects import Effects
from jitmod.analysis.fresh import handed_through
from jitmod.analysis.hazards import Hazard, hazard
from jitmod.analysis.keys import keeps_order
from jitmod.analysis.leading import leads
from jitmod.analysis.methods import closure, method_behind
from jitmod.analysis.trees import settled
from jitmod.analysis.values import (
    UNKNOWN,
    Array,
    Constant,
    Device,
    Instance,
    Kind,
    Mapping,
    NdArray,
    Number,
    Record,
    Routine,
    Sequence,
    Transformed,
    function_behind,
    is_device,
)
from jitmod.source.nodes import COMPREHENSIONS, children
from jitmod.source.project import Class, Function, SourceModule
from jitmod.source.signatures import argument


@dataclass(eq=False)
class EagerCode:
    """Judges the statements and expressions of one file. Answers are remembered."""

    module: SourceModule
    effects: Effects
    _judged: dict[ast.expr, tuple[Hazard, ...]] = field(default_factory=dict)

    @cached_property
    def _reaching(self) -> dict[Function, bool]:
        return self.effects.reaching.setdefault(type(self), {})

    @cached_property
    def _iterating(self) -> dict[Function, bool]:
        return self.effects.iterating.setdefault(type(self), {})

    def iterates(self, function: Function) -> bool:
        """Whether a function calls something heavy in a loop, or calls what does: a trace would unroll it."""
        return leads(function, self._iterating, self._step_to_loop)

    def _step_to_loop(self, function: Function) -> tuple[bool, list[Function]]:
        called: list[Function] = []
        for call in function.calls:
            kind = self.effects.inference.kind(call.func, function.module)
            heavy = self._heavy(kind) if loop_around(call, function.module) is not None else False
            if heavy is True or (isinstance(heavy, Function) and self._reaches(heavy)):
                return True, []
            target = function_behind(kind)
            if target is not None:
                called.append(target)
        return False, called

    def heavy_calls(self, root: ast.AST) -> list[ast.Call]:
        """Eager calls of Modules, gradients, optimisers, and of functions that reach one; not inside of nested code."""
        return [c for c in _calls(root) if self._is_heavy(self.effects.inference.kind(c.func, self.module))]

    def _is_heavy(self, kind: Kind) -> bool:
        heavy = self._heavy(kind)
        return self._reaches(heavy) and not self.iterates(heavy) if isinstance(heavy, Function) else heavy

    def _heavy(self, kind: Kind) -> bool | Function:
        """Whether a call of such a value is heavy; a function where that depends on what it calls."""
        infer = self.effects.inference
        match kind:
            case Transformed(base, transform):
                if transform in library.JITS:
                    return False
                return transform in library.GRADS or self._heavy(base)
            case Instance(cls):
                return infer.classes.is_module(cls)
            case Routine(Function() as function, receiver):
                return (isinstance(receiver, Instance) and infer.classes.is_module(receiver.cls)) or function
            case Routine(str() as name, _):
                return name in (f"{library.OPTIMISER}.update", "optax.apply_updates")
        return False

    def _reaches(self, function: Function) -> bool:
        """Whether a function calls something heavy, itself or through others, in loops or not."""
        return leads(function, self._reaching, self._step_to_heavy)

    def _step_to_heavy(self, function: Function) -> tuple[bool, list[Function]]:
        infer = self.effects.inference
        found = [self._heavy(infer.kind(call.func, function.module)) for call in function.calls]
        return True in found, [one for one in found if isinstance(one, Function)]

    def is_traceable(self, statement: ast.stmt) -> bool:
        """Whether a statement computes on the device, for names and attributes, and does nothing else."""
        match statement:
            case ast.Assign(targets=[target], value=value):
                return _is_target(target) and self.is_device_work(value) and not self.hazards(value)
            case ast.AnnAssign(target=ast.Name(), value=ast.expr() as value):
                return self.is_device_work(value) and not self.hazards(value)
            case ast.AugAssign(target=ast.Name() as target, value=value):
                both = self.is_device_work(value) and is_device(self.effects.inference.kind(target, self.module))
                return both and not self.hazards(value)
        return False

    def is_device_work(self, value: ast.expr) -> bool:
        """Whether a value is computed on the device, and not a Python value or a piece of one."""
        kind = self.effects.inference.kind(value, self.module)
        if isinstance(value, ast.Name | ast.Attribute | ast.Constant | ast.Lambda) or self._changes_container(value):
            return False
        if isinstance(kind, Number | Constant | NdArray):
            return False
        if is_device(kind) or isinstance(kind, Array | Device):
            return True
        structures = (Instance, Record, Sequence, Mapping)
        return isinstance(value, ast.Call) and (kind == UNKNOWN or isinstance(kind, structures)) and (
            bool(self.heavy_calls(value)) or self._is_pure_library(value)
        )

    def _changes_container(self, value: ast.expr) -> bool:
        """`out.append(net(x))`: what is computed is the argument."""
        match value:
            case ast.Call(func=ast.Attribute(value=holder, attr=attr)) if attr in library.MUTATING_METHODS:
                return isinstance(self.effects.inference.kind(holder, self.module), Record | Sequence | Mapping)
        return False

    def _is_pure_library(self, call: ast.Call) -> bool:
        kind = self.effects.inference.kind(call.func, self.module)
        name = kind.target if isinstance(kind, Routine) and isinstance(kind.target, str) else ""
        return name.startswith(("optax.", "equinox.", "jax."))

    def hazards(self, expr: ast.expr) -> tuple[Hazard, ...]:
        """What keeps an expression of the eager function from being traced."""
        if expr not in self._judged:
            self._judged[expr] = tuple(dict.fromkeys([*self._walk(expr), *self._of_result(expr)]))
        return self._judged[expr]

    def _of_result(self, expr: ast.expr) -> Iterator[Hazard]:
        """What a value would lose on its way out of a compiled function: the order of its keys, who else holds it."""
        infer = self.effects.inference
        if not keeps_order(expr, self.module, infer) and not self._is_read_by_key(expr):
            what = f"jax sorts the keys of `{ast.unparse(expr)[:60]}`, and something may go through them in order"
            yield hazard("key-order", expr, self.module, what)
        for shared in handed_through(expr, self.module, infer):
            what = f"`{ast.unparse(shared)}` may be a container that is changed in place: a copy would come back"
            yield hazard("may-alias", shared, self.module, what)

    def _is_read_by_key(self, expr: ast.expr) -> bool:
        """Whether a dict gets a name of which nothing but single items is read: `metrics["loss"]`."""
        match self.module.parents[expr]:
            case ast.Assign(targets=[ast.Name(id=name) as target], value=value) if value is expr:
                scope = self.module.scope_of(target)
                reads = [m for m in scope.mentions.get(name, ()) if isinstance(m.ctx, ast.Load)]
                return scope.is_function and all(
                    isinstance(item := self.module.parents[read], ast.Subscript)
                    and item.value is read
                    and isinstance(item.slice, ast.Constant)
                    for read in reads
                )
        return False

    def _walk(self, expr: ast.expr) -> Iterator[Hazard]:
        module, effects, infer = self.module, self.effects, self.effects.inference
        for node in _outside_lambdas(expr):
            match node:
                case ast.Call():
                    kind = infer.kind(node.func, module)
                    if isinstance(kind, Routine) and isinstance(kind.target, Function) and self.iterates(kind.target):
                        what = f"`{ast.unparse(node.func)}` loops over a model, which a trace would unroll"
                        yield hazard("unknown-iterable", node, module, what)
                    yield from (h for h in self._of_call(node) if not is_fine_under_jit(h))
                case ast.Lambda() if not self._is_applied(node):
                    yield from (h for h in effects.of_function(module.functions[node]) if not is_fine_under_jit(h))
                case ast.NamedExpr() | ast.Await() | ast.Yield() | ast.YieldFrom():
                    yield hazard("host-effect", node, module, f"`{ast.unparse(node)[:60]}`")
                case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() | ast.Starred():
                    yield hazard("unknown-iterable", node, module, f"`{ast.unparse(node)[:60]}` is a loop of its own")
                case ast.JoinedStr():
                    yield hazard("host-effect", node, module, "a text is made")
                case ast.Subscript(ctx=ast.Load()) if (problem := effects.times.of_subscript(node, module)) is not None:
                    yield hazard(problem[0], node, module, problem[1])
                case ast.IfExp(test=test) if effects.times.is_computed(test, module):
                    yield hazard("batched-branch", node, module, f"`{ast.unparse(test)}` is a computed value")
                case ast.BoolOp() | ast.UnaryOp(op=ast.Not()) if effects.times.is_computed(node, module):
                    yield hazard("batched-branch", node, module, f"`{ast.unparse(node)}` is a computed value")
                case ast.BinOp(left=left, right=right):
                    kinds = [infer.kind(side, module) for side in (left, right)]
                    if any(isinstance(k, NdArray) for k in kinds) and not any(is_device(k) for k in kinds):
                        yield hazard("host-arithmetic", node, module, f"`{ast.unparse(node)}` is numpy arithmetic")
                    if any(isinstance(k, Instance) and isinstance(k.cls, Class) for k in kinds):
                        yield hazard("unresolved-callee", node, module, f"`{ast.unparse(node)}` runs an operator")
                case ast.Compare(ops=ops) if any(isinstance(o, ast.Is | ast.IsNot | ast.In | ast.NotIn) for o in ops):
                    yield hazard("scalar-needed-as-python", node, module, f"`{ast.unparse(node)}`")
                case ast.Attribute(ctx=ast.Load()):
                    holder = infer.kind(node.value, module)
                    if not (isinstance(holder, Instance) and not infer.classes.is_module(holder.cls)):
                        for reason, what in effects.frozen.of_attribute(node, module):
                            yield hazard(reason, node, module, what)

    def _is_applied(self, node: ast.Lambda) -> bool:
        """`eqx.filter_grad(lambda net: ...)(net)`: judged as called, with the arguments of the call."""
        made = self.module.parents[node]
        transforms = isinstance(made, ast.Call) and (
            self.effects.inference.dotted(made.func, self.module) in library.TRANSFORMS
        )
        return transforms and getattr(self.module.parents[made], "func", None) is made

    def _of_call(self, call: ast.Call) -> tuple[Hazard, ...]:
        """The hazards of a call; a function that a transform wraps is looked at with the kinds of the call's arguments.

        What a method reads of its plain object will be passed, so that it changes is no hazard.
        """
        infer = self.effects.inference
        kind = infer.kind(call.func, self.module)
        outer = self.module.parents[call]
        if infer.dotted(call.func, self.module) in library.TRANSFORMS and getattr(outer, "func", None) is call:
            return ()  # what is called at once is judged as called, with its arguments
        found = self.effects.of_call(call, self.module)
        target = function_behind(kind)
        if target is not None and any(h.reason == "unresolved-callee" for h in found):
            passed = {p: argument(target, call, p.arg) for p in target.parameters}
            kinds = {p: settled(v, self.module, infer) for p, v in passed.items() if v is not None}
            given = {p: k for p, k in kinds.items() if k != UNKNOWN}
            found = Effects(infer.of_call(target, given)).of_function(target)
        method = method_behind(kind, self.effects)
        if method is not None:
            spans = [(f.module.document.path, f.node.lineno, f.node.end_lineno or 0, f.parameters[0].arg)
                     for f in closure(method, self.effects) if f.parameters]  # fmt: skip
            found = tuple(h for h in found if not _is_own_read(h, spans))
        return found


def _is_own_read(found: Hazard, spans: Several[tuple[str, int, int, str]]) -> bool:
    """Whether a hazard is a method's reading of its own object."""
    return found.reason == "mutable-self" and any(
        found.path == path and first <= found.line <= last and found.what.startswith(f"`{receiver}.")
        for path, first, last, receiver in spans
    )


def is_fine_under_jit(found: Hazard) -> bool:
    """Control flow of jax itself is no hazard of a jit, only of a vmap."""
    return found.reason == "batched-branch" and "branches in Python" not in found.what


def _is_target(target: ast.expr) -> bool:
    match target:
        case ast.Name():
            return True
        case ast.Attribute(value=ast.Name()):
            return True
        case ast.Tuple(elts=elts):
            return all(_is_target(e) for e in elts)
    return False


def _calls(root: ast.AST) -> Iterator[ast.Call]:
    """The calls below a node, but not those inside lambdas and comprehensions."""
    todo = [root]
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.Lambda, *COMPREHENSIONS)):
            continue
        if isinstance(node, ast.Call):
            yield node
        todo += children(node)


def _outside_lambdas(root: ast.AST) -> Iterator[ast.AST]:
    """The nodes below `root`, lambdas included, but not what is inside of them."""
    todo = [root]
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, ast.Lambda):
            todo += children(node)
