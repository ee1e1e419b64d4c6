"""Loops whose first round compiles alone: a name starts as a Python float and comes back as a float32 array."""

from __future__ import annotations

import ast
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from jitmod.analysis.blocks import in_try
from jitmod.analysis.boundaries import loop_around
from jitmod.analysis.infer import Inference
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.precision import Precision, Type
from jitmod.analysis.reaching import reaching, reads_of_binding
from jitmod.analysis.stable import block_of
from jitmod.analysis.values import Array, Record, Sequence
from jitmod.source.nodes import walk
from jitmod.source.project import Function, SourceModule
from jitmod.source.scopes import Binding, Scope
from jitmod.source.signatures import argument


@dataclass(frozen=True, eq=False)
class FirstRound:
    """`state = step(state)` in a loop: the names that start as Python floats, each with the number it starts from.

    `guard` is true where `loop` has a round, if something would see the other type where it has none: then the names
    get it just before the loop. None: they may start with it.
    """

    loop: ast.For
    names: Mapping[str, ast.expr]
    guard: str | None


def first_round(call: ast.Call, function: Function, module: SourceModule, infer: Inference) -> FirstRound | None:
    """What makes the first call of `function` in a loop another one than all that follow; None where nothing does.

    Raises `Unplannable` where it cannot be told that the loop would compute the same from a float32 number.
    """
    statement, loop = module.parents[call], loop_around(call, module)
    around = module.functions.get(module.scope_of(call).node)
    if not isinstance(statement, ast.Assign) or statement.value is not call or around is None:
        return None
    if not isinstance(loop, ast.For) or statement not in loop.body or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    targets = target.elts if isinstance(target, ast.Tuple) else [target]
    positions = {t.id: i for i, t in enumerate(targets) if isinstance(t, ast.Name)}
    starts = {}
    for value in (*call.args, *[k.value for k in call.keywords]):
        if isinstance(value, ast.Name) and value.id in positions:
            start = _start(value, statement, around.scope)
            starts.update({value.id: start} if start is not None else {})
    returned = {name: positions[name] for name in starts}
    weak, strong = (_results(call, function, module, infer, t, starts) for t in (Type.WEAK, Type.FLOAT))
    if weak is None or strong is None or len(weak) != len(targets):
        return None
    late = {name for name, position in returned.items() if weak[position] is Type.FLOAT}
    if not late:
        return None
    names = {name: _value(binding) for name, binding in starts.items()}
    held = all(_is_held(number) for number in names.values())
    if late != set(starts) or None in weak or weak != strong or not held or _has_doubles(infer):
        what = ", ".join(f"`{name}`" for name in sorted(late))
        message = f"{what} starts as a Python float and comes back as a float32 array, so the second round compiles too"
        raise Unplannable("carry-type", call, f"{message}; start from `np.float32(...)` if all it meets is float32")
    return FirstRound(loop, names, _guard(starts, statement, loop, around, infer))


def _value(binding: Binding) -> ast.expr:
    """The expression that a binding gives its name."""
    value = binding.value
    for index in binding.path:
        assert isinstance(value, ast.Tuple)
        value = value.elts[index]
    assert value is not None
    return value


def _start(read: ast.Name, statement: ast.Assign, scope: Scope) -> Binding | None:
    """The one binding from outside of the loop that an argument has in the first round, if it is a plain float."""
    others = [b for b in reaching(read.id, read, scope) if b.node is not statement]
    if len(others) != 1 or others[0].how != "assign" or not isinstance(others[0].node, ast.Assign):
        return None
    (start,) = others
    one_target = isinstance(start.node, ast.Assign) and len(start.node.targets) == 1
    plain = not start.path or (isinstance(start.value, ast.Tuple) and len(start.path) == 1)
    if not one_target or not plain:
        return None
    match _value(start):
        case ast.Constant(value=float()):
            return start
    return None


def _is_held(number: ast.expr) -> bool:
    """Whether float32 holds a number exactly."""
    value = getattr(number, "value", None)
    return isinstance(value, float) and struct.unpack("f", struct.pack("f", value))[0] == value


def _results(
    call: ast.Call,
    function: Function,
    module: SourceModule,
    infer: Inference,
    start: Type,
    starts: Mapping[str, Binding],
) -> list[Type | None] | None:
    """The types that the function returns where what the loop hands on has the type `start`."""
    outside = Precision(infer)
    given: dict[ast.arg, Type | None] = {}
    for parameter in function.parameters:
        value = argument(function, call, parameter.arg)
        carried = isinstance(value, ast.Name) and value.id in starts
        given[parameter] = start if carried else None if value is None else outside.of(value, module)
    return Precision(infer, given).results(function)


def _has_doubles(infer: Inference) -> bool:
    return any(b"x64" in d.source for d in infer.project.documents.values())


def _guard(
    starts: Mapping[str, Binding], statement: ast.Assign, loop: ast.For, around: Function, infer: Inference
) -> str | None:
    """The condition under which nothing but the call sees what the names start from; None where it always holds.

    Raises `Unplannable` where something else sees it.
    """
    module = around.module
    place = loop.body.index(statement)
    leaves = [n for s in loop.body[:place] for n in walk(s) if isinstance(n, ast.Break | ast.Continue | ast.Return)]
    certain, needed = _has_rounds(loop), False
    for name, binding in starts.items():
        for read in reads_of_binding(name, binding.node, around):
            above = {read, *module.ancestors(read)}
            if statement in above or (loop in above and not any(s in above for s in loop.body[:place])):
                continue
            if loop in above or module.scope_of(read) is not around.scope:
                message = f"`{ast.unparse(module.parents[read])[:60]}` reads `{name}` before it is an array"
                raise Unplannable("carry-type", read, f"{message}; start from `np.float32(...)` if that is fine")
            if leaves or in_try(statement, module):
                message = f"`{name}` would be a numpy number where the first round does not come as far"
                raise Unplannable("may-be-empty", read, f"{message}; start from `np.float32(...)` if that is fine")
            needed = needed or not certain or read.lineno < loop.lineno
    if not needed:
        return None
    condition = "True" if certain else _condition(loop, around, infer)
    beside = all(block_of(b.node, module) is block_of(loop, module) for b in starts.values())  # type: ignore[arg-type]
    if condition is None or not beside:
        message = "it cannot be told before the loop whether it has a round"
        raise Unplannable("may-be-empty", loop, f"{message}; start from `np.float32(...)` if none is no matter")
    return condition


def _has_rounds(loop: ast.For) -> bool:
    match loop.iter:
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int() as count)], keywords=[]):
            return count > 0
        case ast.Tuple(elts=[_, *_] as elts) | ast.List(elts=[_, *_] as elts):
            return not any(isinstance(e, ast.Starred) for e in elts)
    return False


def _condition(loop: ast.For, around: Function, infer: Inference) -> str | None:
    """What says before a loop that it has a round."""
    match loop.iter:
        case ast.Call(func=ast.Name(id="range"), args=[ast.Name(id=name)], keywords=[]):
            return f"{name} > 0"
        case ast.Name(id=name) if isinstance(infer.kind(loop.iter, around.module), Array | Sequence | Record):
            return f"len({name}) > 0"
    return None
