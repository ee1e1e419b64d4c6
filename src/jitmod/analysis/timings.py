"""Code that takes the time of compiled or eager work of jax's: what it measures, where that is not the work."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from jitmod.analysis import library
from jitmod.analysis.boundaries import loop_around, statement_of
from jitmod.analysis.effects import Effects
from jitmod.analysis.infer import Inference
from jitmod.analysis.jits import is_heavy, jitted_target
from jitmod.analysis.reaching import reaching
from jitmod.analysis.stable import block_of
from jitmod.analysis.syncs import waits
from jitmod.analysis.syntax import calls_outside_functions
from jitmod.analysis.values import Routine
from jitmod.source.nodes import walk
from jitmod.source.project import Function, SourceModule

_CLOCKS = frozenset({"time.time", "time.perf_counter", "time.monotonic", "time.process_time", "time.time_ns",
                     "time.perf_counter_ns", "time.monotonic_ns", "timeit.default_timer"})  # fmt: skip

_WAITING = frozenset({"block_until_ready", "item", "tolist"})


@dataclass(frozen=True, eq=False)
class Timing:
    """`end - start` of clocks around `statements`, which call `work`, in this order."""

    elapsed: ast.BinOp
    statements: tuple[ast.stmt, ...]
    work: tuple[ast.Call, ...]


def timings_in(module: SourceModule, effects: Effects) -> Iterator[Timing]:
    """The differences of two clocks between which a Module or a compiled function is called, in the order of lines."""
    infer = effects.inference
    found = []
    for node in module.document.of(ast.BinOp):
        if not isinstance(node.op, ast.Sub):
            continue
        ends, starts = _read(node.left, module, infer), _read(node.right, module, infer)
        if ends is None or starts is None:
            continue
        statements = _between(starts, ends, module)
        calls = (call for statement in statements for call in calls_outside_functions(statement))
        work = tuple(call for call in calls if is_heavy(infer.kind(call.func, module), effects))
        if work:
            found.append(Timing(node, statements, work))
    return iter(sorted(found, key=lambda timing: timing.elapsed.lineno))


def _read(clock: ast.expr, module: SourceModule, infer: Inference) -> ast.stmt | None:
    """The statement that reads the clock: `clock` calls it, or names what such a call gave."""
    if isinstance(clock, ast.Name):
        scope = infer.scope_binding(clock.id, clock, module)
        bindings = reaching(clock.id, clock, scope) if scope is not None and scope is module.scope_of(clock) else []
        values = {b.value: b.node for b in bindings if not b.path}
        if len(bindings) != 1 or len(values) != 1:
            return None
        ((value, node),) = values.items()
        return node if isinstance(node, ast.stmt) and value is not None and _reads(value, module, infer) else None
    return statement_of(clock, module) if _reads(clock, module, infer) else None


def _reads(value: ast.expr, module: SourceModule, infer: Inference) -> bool:
    return isinstance(value, ast.Call) and infer.dotted(value.func, module) in _CLOCKS


def _between(start: ast.stmt, end: ast.stmt, module: SourceModule) -> tuple[ast.stmt, ...]:
    """The statements between two of one block; none where they do not stand in one."""
    block = block_of(start, module)
    return tuple(block[block.index(start) + 1 : block.index(end)]) if end in block else ()


def unblocked(timing: Timing, module: SourceModule, infer: Inference) -> ast.Call | None:
    """The last call whose result nothing waits for before the clock is read again."""
    last = timing.work[-1]
    behind = [n for s in timing.statements for n in walk(s)]
    around = {n for n in behind if isinstance(n, ast.Call) and n is not last and last in walk(n)}
    later = [n for n in behind if getattr(n, "lineno", 0) > (last.end_lineno or last.lineno)]
    if any(_blocks(n, module, infer) for n in (*around, *later)):
        return None
    return last


def _blocks(node: ast.AST, module: SourceModule, infer: Inference) -> bool:
    """Whether a node waits for the device, or may: a function of the project's own that is given a result."""
    if isinstance(node, ast.Call):
        name, kind = infer.dotted(node.func, module) or "", infer.kind(node.func, module)
        own = isinstance(kind, Routine) and isinstance(kind.target, Function)
        if own or name == "jax.effects_barrier" or library.role(name) is library.Role.PULL:
            return True
        if getattr(node.func, "attr", "") in _WAITING:
            return True
    return waits(node, module, infer)


def compiles(timing: Timing, module: SourceModule, effects: Effects) -> ast.Call | None:
    """A compiled function's first call, as far as can be seen, where it is timed: it is traced and compiled then."""
    infer = effects.inference
    if loop_around(timing.elapsed, module) is not None:
        return None
    for call in timing.work:
        jit, target = jitted_target(infer.kind(call.func, module), infer)
        if jit is None or target is None or loop_around(call, module) is not None:
            continue
        text = ast.unparse(call.func)
        alike = [n for n in walk(module.scope_of(call).node) if isinstance(n, ast.Call) and ast.unparse(n.func) == text]
        if min(alike, key=lambda c: (c.lineno, c.col_offset)) is call:
            return call
    return None
