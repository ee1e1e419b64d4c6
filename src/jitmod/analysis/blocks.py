"""Pure stretches of eager code that call a model: what one compiled function could take over."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Several
from dataclasses import dataclass

from jitmod.analysis.boundaries import loop_around
from jitmod.analysis.effects import Effects
from jitmod.analysis.hazards import Hazard, hazard
from jitmod.analysis.jits import Contexts
from jitmod.analysis.syntax import between
from jitmod.analysis.tracing import EagerCode
from jitmod.analysis.values import Routine
from jitmod.source.nodes import children, walk
from jitmod.source.project import Function, SourceModule

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
    code: EagerCode
    of_pure_ones: bool = False  # also of functions that are pure as a whole, for which the callers' boundary would do
    admits: Callable[[Several[ast.stmt], Function], bool] = lambda statements, function: True  # cheap, so asked first

    def find(self) -> Iterator[Block | Blocked]:
        for function in self.module.functions.values():
            node = function.node
            if isinstance(node, ast.Lambda):
                continue
            heavy = [call for statement in node.body for call in self.code.heavy_calls(statement)]
            if not heavy:
                continue
            around = {outer for call in heavy for outer in between(call, node, self.module)}
            worth = [b for b in _lists(node) if not around.isdisjoint(b) and self.admits(b, function)]
            if worth and not self._is_elsewhere(function):
                for block in worth:
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
        if self.of_pure_ones:
            return False
        called = bool(self.effects.inference.call_sites(function)) or self._is_value(function)
        whole = function.owner is None and not self.code.iterates(function)
        return called and whole and not self.effects.of_function(function)

    def _is_value(self, function: Function) -> bool:
        return self.effects.inference.project.escapes(function.name.rpartition(".")[2])

    def _of_list(self, block: Several[ast.stmt], function: Function) -> Iterator[Block | Blocked]:
        run: list[ast.stmt] = []
        for statement in block:
            if self.code.is_traceable(statement) and not isinstance(statement, ast.Return):
                if run or not is_selection(getattr(statement, "value", None)):  # items are taken before, by their names
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
        heavy = [h for s in run for h in self.code.heavy_calls(s)]
        inside = [h for t in tails for h in self.code.heavy_calls(t)]
        apart = [part for tail in tails for part in self._apart(tail)]
        joined = apart if statement is not None and _may_move_up(statement, apart) else []
        if heavy:
            yield Block(self.module, function, tuple(run), tuple(joined), heavy[0])
            tails = [] if joined else tails
            inside = [h for t in tails for h in self.code.heavy_calls(t)]
        for tail in tails:
            found = self.code.heavy_calls(tail)
            if found:
                yield Block(self.module, function, (), (tail,), found[0])
        if statement is not None and not inside:
            taken = {h for t in joined for h in self.code.heavy_calls(t)}
            for call in self._own_heavy(statement):
                if call not in taken and not self._is_searched(call):
                    yield Blocked(function, call, self._why(call, statement, function))
                    break

    def _apart(self, tail: ast.expr) -> list[ast.expr]:
        """What a tuple computes, item by item; names in it need not be handed through a compiled function."""
        if not isinstance(tail, ast.Tuple):
            return [tail]
        computing = [e for e in tail.elts if not isinstance(e, ast.Name) and self.code.is_device_work(e)]
        return [part for e in computing for part in self._apart(e)]

    def _is_searched(self, call: ast.Call) -> bool:
        """Whether the site is inside of what is called: a function of the project with host work of its own."""
        kind = self.effects.inference.kind(call.func, self.module)
        target = kind.target if isinstance(kind, Routine) else None
        return isinstance(target, Function) and not self._is_elsewhere(target)

    def _own_heavy(self, statement: ast.stmt) -> list[ast.Call]:
        """Heavy calls of a statement itself, not of the statements inside it."""
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return []
        heads = [c for c in children(statement) if isinstance(c, ast.expr)]
        return [h for head in heads for h in self.code.heavy_calls(head)]

    def _tails(self, statement: ast.stmt, function: Function) -> list[ast.expr]:
        """The largest pure parts of a host statement that compute on the device."""
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.With | ast.Try):
            return []
        found: list[ast.expr] = []
        todo: list[ast.AST] = [c for c in children(statement) if isinstance(c, ast.expr)]
        if isinstance(statement, ast.For | ast.AsyncFor | ast.While):
            return []
        while todo:
            node = todo.pop(0)
            if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
                continue
            if isinstance(node, ast.BoolOp | ast.IfExp):
                continue  # parts that may not be evaluated
            if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
                computes = isinstance(node, ast.Call | ast.BinOp | ast.Compare | ast.Tuple)
                if computes and self.code.is_device_work(node) and not self.code.hazards(node):
                    found.append(node)
                    continue
            todo += children(node)
        return found

    def _why(self, call: ast.Call, statement: ast.stmt, function: Function) -> Hazard:
        value = getattr(statement, "value", None)
        found = self.code.hazards(value) if isinstance(value, ast.expr) else ()
        own = self.code.hazards(call)
        if own or found:
            return (own or found)[0]
        what = f"`{ast.unparse(call)[:60]}` cannot be moved out of `{ast.unparse(statement)[:60]}`"
        return hazard("unresolved-callee", call, self.module, what)


def _may_move_up(statement: ast.stmt, tails: Several[ast.expr]) -> bool:
    """Whether the pure parts of a statement may be computed just before it: nothing else in it runs code."""
    quiet = {"float", "int", "bool", "append"}
    for node in walk(statement):
        moved = any(node is p for t in tails for p in walk(t))
        if isinstance(node, ast.Call) and not moved and _called(node) not in quiet:
            return False
    simple = isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr | ast.Return)
    return simple


def _called(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


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
    calls = [n for n in walk(around) if isinstance(n, ast.Call)] if around is not None else []
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


def is_selection(expr: ast.AST | None) -> bool:
    """Whether an expression takes an item of something, and computes nothing else."""
    if not isinstance(expr, ast.Subscript):
        return False
    return all(_is_length(n) for n in walk(expr) if isinstance(n, ast.Call | ast.Lambda))


def _is_length(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"
