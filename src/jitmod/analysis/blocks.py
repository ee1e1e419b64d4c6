"""Pure stretches of eager code that call a model: what one compiled function could take over."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from collections.abc import Sequence as Several
from dataclasses import dataclass, field

from jitmod.analysis import library
from jitmod.analysis.boundaries import COMPREHENSIONS, loop_around
from jitmod.analysis.effects import Effects
from jitmod.analysis.hazards import Hazard, hazard
from jitmod.analysis.infer import Inference
from jitmod.analysis.jits import Contexts
from jitmod.analysis.methods import closure, method_behind
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
    is_device,
)
from jitmod.source.project import Class, Function, SourceModule
from jitmod.source.signatures import argument

_CLOCKS = ("time.time", "time.perf_counter", "time.monotonic", "time.process_time", "timeit.default_timer")


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive statements of one list, and pure parts (`tails`) of the statement behind them.

    `heavy` is the call that makes it worth while. Without statements it is the one expression in `tails`, in its place.
    """

    module: SourceModule
    function: Function
    statements: tuple[ast.stmt, ...]
    tails: tuple[ast.expr, ...]
    heavy: ast.Call

    @property
    def parts(self) -> tuple[ast.AST, ...]:
        return (*self.statements, *self.tails)

    @property
    def anchor(self) -> ast.stmt | ast.expr:
        return self.statements[0] if self.statements else self.tails[0]


@dataclass(frozen=True, eq=False)
class Blocked:
    """A heavy call that no block can take: why."""

    function: Function
    heavy: ast.Call
    hazard: Hazard


@dataclass(eq=False)
class Blocks:
    """Finds the blocks of the functions of one file."""

    module: SourceModule
    effects: Effects
    contexts: Contexts
    _judged: dict[ast.expr, tuple[Hazard, ...]] = field(default_factory=dict)
    _reaching: dict[Function, bool] = field(default_factory=dict)
    _iterating: dict[Function, bool] = field(default_factory=dict)

    def find(self) -> Iterator[Block | Blocked]:
        for node, function in self.module.functions.items():
            if isinstance(node, ast.Lambda) or self._is_elsewhere(function):
                continue
            for block in _lists(node):
                yield from self._of_list(block, function)

    def _is_elsewhere(self, function: Function) -> bool:
        """Whether the boundary belongs to the callers: traced already, a method of a Module, pure as a whole."""
        if "traced" in self.contexts.of(function) or function.scope.parent is None:
            return True
        outer = function.scope.parent
        if outer.is_function:
            return True
        classes = self.effects.inference.classes
        if function.owner is not None and classes.is_module(function.owner):
            return True
        called = bool(self.effects.inference.call_sites(function)) or self._is_value(function)
        whole = function.owner is None and not self._iterates(function)
        return called and whole and not self.effects.of_function(function)

    def _iterates(self, function: Function) -> bool:
        """Whether a function calls something heavy in a loop of its own, which a trace would unroll."""
        if function not in self._iterating:
            self._iterating[function] = False
            module = function.module
            for node in ast.walk(function.node):
                if isinstance(node, ast.Call):
                    kind = self.effects.inference.kind(node.func, module)
                    inside = loop_around(node, module) is not None and self._is_heavy(kind)
                    base = kind
                    while isinstance(base, Transformed):
                        base = base.base
                    target = base.target if isinstance(base, Routine) and isinstance(base.target, Function) else None
                    if inside or (target is not None and self._iterates(target)):
                        self._iterating[function] = True
                        break
        return self._iterating[function]

    def _is_value(self, function: Function) -> bool:
        return self.effects.inference.project.escapes(function.name.rpartition(".")[2])

    def _of_list(self, block: Several[ast.stmt], function: Function) -> Iterator[Block | Blocked]:
        run: list[ast.stmt] = []
        for statement in block:
            if self._is_traceable(statement, function) and not isinstance(statement, ast.Return):
                run.append(statement)
                continue
            tails = self._tails(statement, function)
            yield from self._closed(run, tails, statement, function)
            run = []
        yield from self._closed(run, [], None, function)

    def _closed(
        self, run: list[ast.stmt], tails: list[ast.expr], statement: ast.stmt | None, function: Function
    ) -> Iterator[Block | Blocked]:
        """The block of a finished run; a host statement behind it may give its pure parts to it, or have its own."""
        heavy = [h for s in run for h in self.heavy_calls(s)]
        inside = [h for t in tails for h in self.heavy_calls(t)]
        joined = tails if statement is not None and _may_move_up(statement, tails) else []
        if heavy:
            yield Block(self.module, function, tuple(run), tuple(joined), heavy[0])
            tails = [t for t in tails if t not in joined]
            inside = [h for t in tails for h in self.heavy_calls(t)]
        for tail in tails:
            found = self.heavy_calls(tail)
            if found:
                yield Block(self.module, function, (), (tail,), found[0])
        if statement is not None and not inside:
            taken = {h for t in joined for h in self.heavy_calls(t)}
            for call in self._own_heavy(statement):
                if call not in taken and not self._is_searched(call):
                    yield Blocked(function, call, self._why(call, statement, function))
                    break

    def _is_searched(self, call: ast.Call) -> bool:
        """Whether the site is inside of what is called: a function of the project with host work of its own."""
        kind = self.effects.inference.kind(call.func, self.module)
        target = kind.target if isinstance(kind, Routine) else None
        return isinstance(target, Function) and not self._is_elsewhere(target)

    # -- what is heavy -----------------------------------------------------------------------------------------------

    def heavy_calls(self, root: ast.AST) -> list[ast.Call]:
        """Eager calls of Modules, gradients, optimisers, and of functions that reach one; not inside of nested code."""
        return [c for c in _calls(root) if self._is_heavy(self.effects.inference.kind(c.func, self.module))]

    def _is_heavy(self, kind: Kind) -> bool:
        infer = self.effects.inference
        match kind:
            case Transformed(base, transform):
                if transform in library.JITS:
                    return False
                return transform in library.GRADS or self._is_heavy(base)
            case Instance(cls):
                return infer.classes.is_module(cls)
            case Routine(Function() as function, receiver):
                if isinstance(receiver, Instance) and infer.classes.is_module(receiver.cls):
                    return True
                return self._reaches(function) and not self._iterates(function)
            case Routine(str() as name, _):
                return name in (f"{library.OPTIMISER}.update", "optax.apply_updates")
        return False

    def _reaches(self, function: Function) -> bool:
        known = self._reaching
        if function not in known:
            known[function] = False
            calls = [n for n in ast.walk(function.node) if isinstance(n, ast.Call)]
            known[function] = any(self._is_heavy(self.effects.inference.kind(c.func, function.module)) for c in calls)
        return known[function]

    def _own_heavy(self, statement: ast.stmt) -> list[ast.Call]:
        """Heavy calls of a statement itself, not of the statements inside it."""
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return []
        heads = [c for c in ast.iter_child_nodes(statement) if isinstance(c, ast.expr)]
        return [h for head in heads for h in self.heavy_calls(head)]

    # -- what may be traced ------------------------------------------------------------------------------------------

    def _is_traceable(self, statement: ast.stmt, function: Function) -> bool:
        match statement:
            case ast.Assign(targets=[target], value=value):
                return _is_target(target) and self._is_device_work(value) and not self.hazards(value)
            case ast.AnnAssign(target=ast.Name(), value=ast.expr() as value):
                return self._is_device_work(value) and not self.hazards(value)
            case ast.AugAssign(target=ast.Name() as target, value=value):
                both = self._is_device_work(value) and is_device(self.effects.inference.kind(target, self.module))
                return both and not self.hazards(value)
        return False

    def _is_device_work(self, value: ast.expr) -> bool:
        """Whether a value is computed on the device, and not a Python value or a piece of one."""
        kind = self.effects.inference.kind(value, self.module)
        if isinstance(value, ast.Name | ast.Attribute | ast.Constant | ast.Lambda):
            return False
        if isinstance(kind, Number | Constant | NdArray):
            return False
        if is_device(kind) or isinstance(kind, Array | Device):
            return True
        structures = (Instance, Record, Sequence, Mapping)
        return (
            isinstance(value, ast.Call)
            and (kind == UNKNOWN or isinstance(kind, structures))
            and (bool(self.heavy_calls(value)) or self._is_pure_library(value))
        )

    def _is_pure_library(self, call: ast.Call) -> bool:
        kind = self.effects.inference.kind(call.func, self.module)
        name = kind.target if isinstance(kind, Routine) and isinstance(kind.target, str) else ""
        return name.startswith(("optax.", "equinox.", "jax."))

    def hazards(self, expr: ast.expr) -> tuple[Hazard, ...]:
        """What keeps an expression of the eager function from being traced."""
        if expr not in self._judged:
            self._judged[expr] = tuple(dict.fromkeys(self._walk(expr)))
        return self._judged[expr]

    def _walk(self, expr: ast.expr) -> Iterator[Hazard]:
        module, effects, infer = self.module, self.effects, self.effects.inference
        for node in ast.walk(expr):
            match node:
                case ast.Call():
                    kind = infer.kind(node.func, module)
                    if isinstance(kind, Routine) and isinstance(kind.target, Function) and self._iterates(kind.target):
                        what = f"`{ast.unparse(node.func)}` loops over a model, which a trace would unroll"
                        yield hazard("unknown-iterable", node, module, what)
                    yield from (h for h in self._of_call(node) if not _is_fine_under_jit(h))
                case ast.Lambda():
                    yield from (h for h in effects.of_function(module.functions[node]) if not _is_fine_under_jit(h))
                case ast.NamedExpr() | ast.Await() | ast.Yield() | ast.YieldFrom():
                    yield hazard("host-effect", node, module, f"`{ast.unparse(node)[:60]}`")
                case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() | ast.Starred():
                    yield hazard("unknown-iterable", node, module, f"`{ast.unparse(node)[:60]}` is a loop of its own")
                case ast.JoinedStr():
                    yield hazard("host-effect", node, module, "a text is made")
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
        base = kind
        while isinstance(base, Transformed):
            base = base.base
        target = base.target if isinstance(base, Routine) and isinstance(base.target, Function) else None
        if target is not None and any(h.reason == "unresolved-callee" for h in found):
            passed = {p: argument(target, call, p.arg) for p in target.parameters}
            kinds = {p: infer.kind(v, self.module) for p, v in passed.items() if v is not None}
            given = {p: k for p, k in kinds.items() if k != UNKNOWN}
            found = Effects(Inference(infer.project, given=given, depth=1)).of_function(target)
        method = method_behind(kind, self.effects)
        if method is not None:
            spans = [(f.module.document.path, f.node.lineno, f.node.end_lineno or 0, f.parameters[0].arg)
                     for f in closure(method, self.effects) if f.parameters]  # fmt: skip
            found = tuple(h for h in found if not _is_own_read(h, spans))
        return found

    def _tails(self, statement: ast.stmt, function: Function) -> list[ast.expr]:
        """The largest pure parts of a host statement that compute on the device."""
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.With | ast.Try):
            return []
        found: list[ast.expr] = []
        todo: list[ast.AST] = [c for c in ast.iter_child_nodes(statement) if isinstance(c, ast.expr)]
        if isinstance(statement, ast.For | ast.AsyncFor | ast.While):
            return []
        while todo:
            node = todo.pop(0)
            if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
                continue
            if isinstance(node, ast.BoolOp | ast.IfExp):
                continue  # parts that may not be evaluated
            if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
                worth = isinstance(node, ast.Call | ast.BinOp | ast.Compare | ast.Tuple) and self._is_device_work(node)
                if worth and not self.hazards(node):
                    found.append(node)
                    continue
            todo += ast.iter_child_nodes(node)
        return found

    def _why(self, call: ast.Call, statement: ast.stmt, function: Function) -> Hazard:
        value = getattr(statement, "value", None)
        found = self.hazards(value) if isinstance(value, ast.expr) else ()
        own = self.hazards(call)
        if own or found:
            return (own or found)[0]
        what = f"`{ast.unparse(call)[:60]}` cannot be moved out of `{ast.unparse(statement)[:60]}`"
        return hazard("unresolved-callee", call, self.module, what)


def _is_own_read(found: Hazard, spans: Several[tuple[str, int, int, str]]) -> bool:
    """Whether a hazard is a method's reading of its own object."""
    return found.reason == "mutable-self" and any(
        found.path == path and first <= found.line <= last and found.what.startswith(f"`{receiver}.")
        for path, first, last, receiver in spans
    )


def _is_fine_under_jit(found: Hazard) -> bool:
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


def _may_move_up(statement: ast.stmt, tails: Several[ast.expr]) -> bool:
    """Whether the pure parts of a statement may be computed just before it: nothing else in it runs code."""
    quiet = {"float", "int", "bool", "append"}
    for node in ast.walk(statement):
        moved = any(node is p for t in tails for p in ast.walk(t))
        if isinstance(node, ast.Call) and not moved and _called(node) not in quiet:
            return False
    simple = isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr | ast.Return)
    return simple and not any(isinstance(t, ast.Tuple) for t in tails)


def _called(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def _calls(root: ast.AST) -> Iterator[ast.Call]:
    """The calls below a node, but not those inside lambdas and comprehensions."""
    todo = [root]
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.Lambda, *COMPREHENSIONS)):
            continue
        if isinstance(node, ast.Call):
            yield node
        todo += ast.iter_child_nodes(node)


def _lists(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The statement lists of a function, innermost included, without those of nested functions."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield block
            for statement in block:
                if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    yield from _lists(statement)
    for handler in getattr(node, "handlers", []):
        yield from _lists(handler)


def is_in_loop(node: ast.AST, module: SourceModule) -> bool:
    return loop_around(node, module) is not None


def is_timed(node: ast.AST, module: SourceModule, effects: Effects) -> bool:
    """Whether a clock is read in the loop, or function, around `node`: a benchmark."""
    around: ast.AST | None = loop_around(node, module) or module.scope_of(node).node
    calls = [n for n in ast.walk(around) if isinstance(n, ast.Call)] if around is not None else []
    return any(effects.inference.dotted(c.func, module) in _CLOCKS for c in calls)


def in_try(node: ast.AST, module: SourceModule) -> bool:
    """Whether a handler around `node`, in the same function, could catch what it raises."""
    inner = node
    for parent in module.ancestors(node):
        if isinstance(parent, ast.Try) and parent.handlers and inner in parent.body:
            return True
        if parent in module.scopes:
            return False
        inner = parent
    return False
