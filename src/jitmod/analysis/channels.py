"""Effects by channel: what running a piece of host code reads and writes outside of its own values, and what commutes.

Channels: text (stdout, stderr, logging in one order), files, clock, gui, rng, iterator, heap:<a container of this
function's own>, heap (any other object), exit (an exception may end the loop), unknown (anything at all).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from jitmod.analysis import library
from jitmod.analysis.contents import is_immutable, own_container
from jitmod.analysis.effects import Effects
from jitmod.analysis.heap import holds_objects, touches
from jitmod.analysis.library import Role
from jitmod.analysis.syntax import below
from jitmod.analysis.values import (
    UNKNOWN,
    Array,
    ClassRef,
    Constant,
    Device,
    Instance,
    Kind,
    Number,
    Range,
    Routine,
    Transformed,
)
from jitmod.analysis.values import Iterator as LazyIterator
from jitmod.source.nodes import walk
from jitmod.source.project import Function, SourceModule

# conversions and container methods that cannot fail on what they are given here
_SAFE_CALLS = frozenset({"print", "len", "float", "int", "bool", "str", "repr", "abs", "isinstance", "range", "round",
                         "min", "max", "enumerate", "zip", "list", "tuple", "dict", "set", "type"})  # fmt: skip
_SAFE_METHODS = frozenset({"append", "extend", "add", "update", "item", "tolist", "setdefault", "clear", "copy"})
_PREFIXES = {
    "text": ("print", "logging.", "warnings.", "sys.", "tqdm.", "rich.", "absl.", "loguru.", "jax.debug.", "input",
             "equinox.tree_pprint", "io.TextIOWrapper."),
    "clock": ("time.", "timeit.", "datetime."),
    "rng": ("random.", "numpy.random.", "secrets.", "uuid."),
    "gui": ("matplotlib.", "wandb."),
    "files": ("open", "os.", "io.", "pathlib.", "shutil.", "numpy.save", "numpy.load", "numpy.savetxt", "pickle.",
              "json.dump", "jax.numpy.save", "jax.numpy.load", "equinox.tree_serialise", "equinox.tree_deserialise"),
}  # fmt: skip
# what somebody else can see in the order in which it happened
_VISIBLE = frozenset({"text", "files", "gui", "rng", "iterator", "heap", "exit", "unknown"})


@dataclass(frozen=True)
class Access:
    """One effect: a channel that is read or written."""

    channel: str
    writes: bool = True


def commute(a: Access, b: Access) -> bool:
    """Whether two effects may happen in either order without anybody noticing."""
    if "unknown" in (a.channel, b.channel):
        return False
    channels = {a.channel, b.channel}
    if "exit" in channels:
        (other, *_) = channels - {"exit"} or {"exit"}
        writer = a if a.channel == other else b
        return not writer.writes or not (other in _VISIBLE or other.startswith("heap"))
    if a.channel == b.channel or ("heap" in channels and all(c.startswith("heap") for c in channels)):
        return not a.writes and not b.writes
    return True


def conflict(first: Iterable[Access], second: Iterable[Access]) -> bool:
    """Whether two pieces of code must keep their order."""
    others = list(second)
    return any(not commute(a, b) for a in first for b in others)


def accesses(root: ast.AST, apart: AbstractSet[ast.AST], module: SourceModule, effects: Effects) -> frozenset[Access]:
    """The effects of evaluating `root` once; what is below the nodes in `apart` is not evaluated with it."""
    return frozenset(_accesses(root, apart, module, effects))


def _accesses(root: ast.AST, apart: AbstractSet[ast.AST], module: SourceModule, effects: Effects) -> Iterator[Access]:
    for touch in touches(root, module, effects, apart):
        if touch.how == "anything":
            yield Access("unknown")
        yield Access(f"heap:{touch.owner}" if touch.owner else "heap")
    for node in below(root, apart):
        match node:
            case ast.Call():
                yield from _of_call(node, module, effects)
            case ast.Name(ctx=ast.Load()):
                kind = effects.inference.kind(node, module)
                if isinstance(kind, LazyIterator):
                    yield Access("iterator")
                elif not is_immutable(kind, effects) and not isinstance(kind, Range):
                    owner = own_container(node, module, effects)
                    yield Access(
                        f"heap:{owner}" if owner and not holds_objects(kind, effects) else "heap", writes=False
                    )
            case ast.Assert() | ast.Raise() | ast.With() | ast.AsyncWith() | ast.Import() | ast.ImportFrom():
                yield Access("exit")
            case ast.Subscript(value=value):
                if not isinstance(effects.inference.kind(value, module), Array | Device):
                    yield Access("exit")
            case ast.BinOp() if not _is_total(node, module, effects):
                yield Access("exit")
            case ast.AugAssign(op=op, value=value):
                if isinstance(op, ast.Div | ast.FloorDiv | ast.Mod | ast.Pow):
                    yield Access("exit")


def _is_total(node: ast.BinOp, module: SourceModule, effects: Effects) -> bool:
    """Whether an operation has a result for all values of its operands."""
    known = (Number, Array, Device, Constant)
    if not all(isinstance(effects.inference.kind(side, module), known) for side in (node.left, node.right)):
        return False
    if isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod):
        on_device = any(isinstance(effects.inference.kind(s, module), Array | Device) for s in (node.left, node.right))
        return on_device or (isinstance(node.right, ast.Constant) and bool(node.right.value))
    return not isinstance(node.op, ast.Pow | ast.LShift | ast.RShift)


def calling(call: ast.Call, module: SourceModule, effects: Effects) -> frozenset[Access]:
    """The effects of a call itself, whatever its arguments do."""
    return frozenset(_of_call(call, module, effects))


def _of_call(call: ast.Call, module: SourceModule, effects: Effects) -> Iterator[Access]:
    callee = effects.inference.kind(call.func, module)
    yield from _of_callee(callee, call, module, effects)
    for value in [*call.args, *[k.value for k in call.keywords]]:
        given = effects.inference.kind(value, module)
        if isinstance(given, Routine | Transformed) and not isinstance(value, ast.Lambda):
            yield from _of_callee(given, call, module, effects)


def _of_callee(callee: Kind, call: ast.Call, module: SourceModule, effects: Effects) -> Iterator[Access]:
    match callee:
        case Routine(Function() as function):
            yield from of_function(function, effects)
        case Transformed(base, transform) if transform in library.TRANSFORMS:
            if transform not in library.JITS:
                yield from _of_callee(base, call, module, effects)
            elif effects.of_callee(callee, call, module):
                yield Access("unknown")
        case Routine(str() as name, None):
            yield from _of_library(name)
        case Routine(str() as name, receiver):
            method = name.rpartition(".")[2]
            if isinstance(receiver, Instance) and receiver.cls == "numpy.random.Generator":
                yield Access("rng")
            elif isinstance(receiver, Instance) and receiver.cls == "logging.Logger":
                yield Access("text")
            elif method not in _SAFE_METHODS and not isinstance(receiver, Array | Device | Number):
                yield Access("exit")
        case Instance(cls) | ClassRef(cls) if effects.inference.classes.is_module(cls):
            if effects.of_callee(callee, call, module):
                yield Access("unknown")
        case _ if callee == UNKNOWN and _is_list_method(call):
            return
        case _:
            yield Access("unknown")


def _is_list_method(call: ast.Call) -> bool:
    """`out.append(v)`: what it changes has been noted; that a list has the method is taken for granted."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in _SAFE_METHODS


def _of_library(name: str) -> Iterator[Access]:
    for channel, prefixes in _PREFIXES.items():
        if any(name == p or (p[-1] == "." and name.startswith(p)) for p in prefixes):
            yield Access(channel)
            if channel in ("files", "rng", "clock"):
                yield Access("exit")
            return
    match library.role(name):
        case Role.PURE | Role.PULL:
            return
        case Role.STRUCTURE | Role.NUMPY:
            if name not in _SAFE_CALLS:
                yield Access("exit")
        case _:
            yield Access("unknown")


def of_function(function: Function, effects: Effects) -> frozenset[Access]:
    """The effects of calling a function of the project; its own containers and values are nobody else's business."""
    known, waiting = effects.channels, effects.channels_so_far
    if function in known or function in waiting:
        effects.channels_cut += function in waiting
        return known.get(function) or waiting.get(function, frozenset())
    is_first, before = not waiting, effects.channels_cut
    waiting[function] = frozenset()  # a recursive call adds nothing
    waiting[function] = found = _of_body(function, effects)
    if effects.channels_cut == before:  # it leads to nothing that waits for an answer
        del waiting[function]
        known[function] = found
    elif is_first:  # those that call each other have what any of them has
        while (more := {one: _of_body(one, effects) for one in tuple(waiting)}) != waiting:
            waiting.update(more)
        known.update(waiting)
        waiting.clear()
    return known.get(function, found)


def _of_body(function: Function, effects: Effects) -> frozenset[Access]:
    body = [function.node.body] if isinstance(function.node, ast.Lambda) else function.node.body
    found = {a for part in body for a in accesses(part, set(), function.module, effects)}
    outer = any(isinstance(n, ast.Global | ast.Nonlocal) for part in body for n in walk(part))
    lazy = any(isinstance(n, ast.Yield | ast.YieldFrom | ast.Await) for part in body for n in walk(part))
    reads = {Access("heap", writes=False)} if _reads_globals(function) else set()
    found = {a for a in found if not a.channel.startswith("heap:")} | reads
    return frozenset(found | ({Access("unknown")} if outer or lazy or function.decorators else set()))


def _reads_globals(function: Function) -> bool:
    """Whether a function reads module-level names that are rebound somewhere."""
    scope = function.module.scope
    names = {n.id for n in walk(function.node) if isinstance(n, ast.Name)}
    return any(len(scope.bindings.get(name, ())) > 1 for name in names)
