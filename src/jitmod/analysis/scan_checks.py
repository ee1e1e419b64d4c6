"""What must hold for a loop to become a scan: its exits, its ends, and what leaves it."""

from __future__ import annotations

import ast

from jitmod.analysis.appends import Append
from jitmod.analysis.batching import Emit
from jitmod.analysis.effects import Effects
from jitmod.analysis.legality import check_results, is_rebound_elsewhere
from jitmod.analysis.loops import Loop, Stream, Unplannable, header, is_range
from jitmod.analysis.scannable import written_before
from jitmod.analysis.ssa import Value
from jitmod.analysis.stateful import own_statements
from jitmod.analysis.values import Array, Device, is_device
from jitmod.source.nodes import walk


def check_exits(loop: Loop) -> None:
    for statement in own_statements(loop.body):
        if isinstance(statement, ast.Break | ast.Return | ast.Raise):
            word = type(statement).__name__.lower()
            raise Unplannable("data-dependent-exit", statement, f"`{word}` ends the loop early; a scan runs every step")


def check_range(loop: Loop) -> None:
    """Raise `Unplannable` where the positions of a range do not fit into an array of 32-bit integers."""
    for number in (n for n in walk(header(loop)[1]) if isinstance(n, ast.Constant)):
        if isinstance(number.value, int) and abs(number.value) >= 2**31:
            raise Unplannable("index-as-python", loop.node, f"the position may reach {number.value}, more than 32 bits")


def check_count(loop: Loop) -> None:
    """Raise `Unplannable` where the number of steps, which a scan is compiled for, is new in every outer iteration."""
    read = {n.id for n in walk(header(loop)[1]) if isinstance(n, ast.Name)} if is_range(header(loop)[1]) else set()
    for outer in loop.module.ancestors(loop.node):
        if outer is loop.module.scope_of(loop.node).node:
            return
        if isinstance(outer, ast.For):
            new = read & {n.id for n in walk(outer.target) if isinstance(n, ast.Name)}
            if new:
                message = f"the number of steps is new for every `{min(new)}`, and a scan would be compiled for each"
                raise Unplannable("varying-static", loop.node, message)


def check_ends(found: tuple[Stream, ...], used: tuple[Stream, ...], loop: Loop) -> None:
    """Raise `Unplannable` where something that the scan does not take may end the loop before its items do."""
    known = {ast.unparse(s.source) for s in used if s.source is not None}
    limits = [s for s in found if s.limits]
    for stream in limits:
        given = stream.source is not None and ast.unparse(stream.source) in known
        if not given and (len({ast.unparse(s.source) if s.source else "" for s in limits}) > 1):
            message = f"`{stream.name}` may end the loop earlier than the other items do"
            raise Unplannable("unknown-iterable", loop.node, message)


def check_beginnings(emits: tuple[Emit, ...], loop: Loop, effects: Effects) -> None:
    """Raise `Unplannable` where the host reads what the first step begins with, and that may be no array of jax."""
    for value in (e.value for e in emits if e.value.origin == "carried"):
        if not is_device(written_before(value.name, loop, effects)):
            what = f"`{value.name}` is read before the first step has made an array of it, and may be none"
            raise Unplannable("carry-type", loop.node, f"{what}; make it one before the loop")


def check_sources(used: tuple[Stream, ...], loop: Loop) -> None:
    """Raise `Unplannable` where what blocks are cut from may be another array in the next block."""
    scope = loop.module.scope_of(loop.node)
    stored = {n.id for n in walk(loop.node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    for source in (s.source for s in used if s.source is not None):
        local = isinstance(source, ast.Name) and scope.is_function and scope.find(source.id) is scope
        local = local and isinstance(source, ast.Name) and not is_rebound_elsewhere(scope, source.id)
        if not local or {n.id for n in walk(source) if isinstance(n, ast.Name)} & stored:
            what = f"`{ast.unparse(source)}` is cut into blocks, and may be bound anew between two of them"
            raise Unplannable("carried-state", loop.node, f"{what}; give it a name before the loop")


def check_outputs(emits: tuple[Emit, ...], lasts: tuple[Value, ...], appends: tuple[Append, ...], loop: Loop) -> None:
    """What leaves the scan for every step must be arrays, so that it comes back as it was, and small."""
    stacked = {a.value for a in appends if a.folds}
    numbers = {e.value for e in emits if e.pulled and all(_is_number(r, loop) for r in e.readers)}
    check_results((e.value for e in emits if e.value not in stacked | numbers), loop.node)
    for value in lasts:
        if not isinstance(value.kind, Array | Device):
            message = f"only the last `{value.name}` is read, and it may be too large to be kept for every step"
            raise Unplannable("split-memory", loop.node, message)


def _is_number(reader: ast.expr, loop: Loop) -> bool:
    """Whether a read makes a number of the value at once, so that it is one array and nothing else."""
    match loop.module.parents.get(reader):
        case ast.Call(func=ast.Name(id="float" | "int")):
            return True
        case ast.Attribute(attr="item"):
            return True
    return False
