"""What a scan asks of its carry: that it keeps its structure and types from the first step on."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from jitmod.analysis import library
from jitmod.analysis.dtypes import is_inexact, is_integer
from jitmod.analysis.effects import Effects
from jitmod.analysis.loops import Loop, Unplannable
from jitmod.analysis.plan import Carry
from jitmod.analysis.scannable import bindings_before, holds_arrays, is_compiled, written_before
from jitmod.analysis.ssa import Node
from jitmod.analysis.values import (
    Constant,
    Instance,
    Kind,
    Mapping,
    NdArray,
    Number,
    Record,
    Sequence,
    Transformed,
    is_device,
)
from jitmod.source.nodes import walk
from jitmod.source.project import Class, Function
from jitmod.source.signatures import argument

_GROWING = ("jax.numpy.concatenate", "jax.numpy.append", "jax.numpy.hstack", "jax.numpy.vstack", "jax.numpy.stack",
            "jax.numpy.column_stack", "jax.numpy.dstack", "jax.numpy.pad", "jax.numpy.block")  # fmt: skip


def check_carry(carry: Iterable[Carry], device: list[Node], loop: Loop, effects: Effects) -> None:
    """Raise `Unplannable` where a carried value is known to change its structure, or to be no data at all."""
    for carried in carry:
        name, maker = carried.name, carried.following.maker
        before = written_before(name, loop, effects)
        at = maker.statement if maker is not None else loop.node
        kinds = {before, carried.following.kind}
        if Instance(library.OPTIMISER) in kinds:
            raise Unplannable("carry-type", at, f"`{name}` is an optimiser, which is no array; carry its state")
        if isinstance(before, Constant):
            raise Unplannable("carry-type", at, f"`{name}` is None or text before the loop, and an array after a step")
        if _differ(before, carried.following.kind):
            what = f"`{name}` is {_words(before)} before the loop and {_words(carried.following.kind)} after a step"
            raise Unplannable("carry-type", at, what)
        if maker is not None and maker.expr is not None and is_inexact(maker.expr, loop.module, effects.inference):
            for binding in bindings_before(name, loop, effects):
                given = binding.value if not binding.path else None
                if given is not None and is_integer(given, loop.module, effects.inference):
                    what = f"`{name}` holds integers before the loop and floating-point numbers after a step"
                    raise Unplannable("carry-type", at, what)
        _check_result(carried, before, loop, effects)
        if maker is not None and maker.expr is not None and _grows(maker.expr, name, loop, effects):
            raise Unplannable("growing-carry", at, f"`{name}` gets longer in every step")
        if isinstance(before, Number) and (divisor := _divisor(carried, device, loop)) is not None:
            what = f"dividing by `{name}`, a Python number in the first step, may raise there"
            raise Unplannable("host-arithmetic", divisor, what)
        if isinstance(before, NdArray):
            for node in device:
                for expr, value in node.uses.items():
                    parent = loop.module.parents.get(expr)
                    if value is carried.entry and isinstance(parent, ast.BinOp | ast.AugAssign | ast.UnaryOp):
                        what = f"`{name}` is a numpy array in the first step; make it one of jax before the loop"
                        raise Unplannable("host-arithmetic", expr, what)


def _check_result(carried: Carry, before: Kind, loop: Loop, effects: Effects) -> None:
    """Raise `Unplannable` where a step may hand on Python numbers, which a scan would make arrays.

    What a compiled function returns holds none; a Module keeps them apart from its arrays.
    """
    infer, maker = effects.inference, carried.following.maker
    if maker is not None and isinstance(before, Number) and _may_hand_on_numbers(maker, loop, effects):
        what = f"`{carried.name}` is a Python number, and what is compiled by equinox's jit may return another one"
        raise Unplannable("carry-type", maker.statement, f"{what}; begin with an array")
    if maker is None or is_device(carried.following.kind):
        return
    root = maker.expr
    made = _made_with_numbers(carried, loop, effects)
    if isinstance(root, ast.Call) and is_compiled(infer.kind(root.func, loop.module)):
        return
    if made is not None:
        what = f"`{carried.name}` is made with the Python number `{ast.unparse(made)}`"
        raise Unplannable("carry-type", maker.statement, f"{what}, which a scan would make an array")
    kinds = [k for k in (carried.following.kind, before) if isinstance(k, Instance)]
    if any(infer.classes.is_module(k.cls) for k in kinds):
        return
    for kind in kinds:
        if isinstance(kind.cls, Class) and infer.classes.is_tree(kind.cls):
            names = [n for c in infer.classes.lineage(kind.cls) for n in infer.classes.declared(c)]
            fields = {n: infer.classes.field(kind.cls, n) for n in names}
            other = next((n for n, k in fields.items() if not holds_arrays(k, infer)), None)
            if other is None:
                return
            what = f"`{carried.name}.{other}` may be a Python number, which a scan would make an array"
            raise Unplannable("carry-type", maker.statement, what)
    what = f"it cannot be told what `{carried.name}` is after a step; annotate what the callee returns, or compile it"
    raise Unplannable("unknown-result", maker.statement, what)


def _may_hand_on_numbers(maker: Node, loop: Loop, effects: Effects) -> bool:
    """Whether a step is a call through `filter_jit`, which holds numbers static and returns what is made of them."""
    root = maker.expr
    kind = effects.inference.kind(root.func, loop.module) if isinstance(root, ast.Call) else None
    while isinstance(kind, Transformed):
        if kind.transform == "equinox.filter_jit":
            return True
        kind = kind.base
    return False


def _made_with_numbers(carried: Carry, loop: Loop, effects: Effects) -> ast.expr | None:
    """A Python number that goes into the tuple or object that a carried value begins as: `State(x, 0.0)`."""
    for binding in bindings_before(carried.name, loop, effects):
        if not binding.path and isinstance(binding.value, ast.Call):
            given = [*binding.value.args, *[k.value for k in binding.value.keywords]]
            for value in given:
                if isinstance(effects.inference.kind(value, loop.module), Number):
                    return value
    return None


def _divisor(carried: Carry, device: list[Node], loop: Loop) -> ast.expr | None:
    """Where a step divides by what it begins with."""
    for expr in (e for n in device for e, v in n.uses.items() if v is carried.entry):
        match loop.module.parents.get(expr):
            case (
                ast.BinOp(op=ast.Div() | ast.FloorDiv() | ast.Mod(), right=right)
                | ast.AugAssign(op=ast.Div() | ast.FloorDiv() | ast.Mod(), value=right)
            ) if right is expr:
                return expr
    return None


def _differ(before: Kind, after: Kind) -> bool:
    """Whether two kinds are containers of different structure."""
    match before, after:
        case (Record(items, is_tuple), Record(others, other)):
            unequal = len(items) != len(others) or is_tuple != other
            return unequal or any(_differ(a, b) for a, b in zip(items, others, strict=True))
        case (Record(items, True), Sequence(item)):
            return True
        case (Record(items, False), Sequence(item)):
            return any(_differ(i, item) for i in items)
        case (Sequence(item), Record(items, is_tuple)):
            return is_tuple or any(_differ(item, i) for i in items)
        case (Sequence(a), Sequence(b)):
            return _differ(a, b)
        case (Mapping(a), Mapping(b)):
            return _differ(a, b)
        case (Mapping(), Record() | Sequence()) | (Record() | Sequence(), Mapping()):
            return True
    return False


def _words(kind: Kind) -> str:
    match kind:
        case Record(items, is_tuple):
            return f"a {'tuple' if is_tuple else 'list'} of {len(items)}"
        case Sequence(item):
            inner = {Record: "tuples" if isinstance(item, Record) and item.is_tuple else "lists", Sequence: "lists"}
            return f"a list of {inner.get(type(item), 'values')}"
        case Mapping():
            return "a dict"
    return "something else"


def _grows(expr: ast.expr, name: str, loop: Loop, effects: Effects) -> bool:
    """`x = jnp.concatenate([x, y])`; a window that is cut first (`x[1:]`) keeps its length."""
    if not isinstance(expr, ast.Call) or effects.inference.dotted(expr.func, loop.module) not in _GROWING:
        return False
    for node in walk(expr):
        if isinstance(node, ast.Name) and node.id == name:
            around = loop.module.parents[node]
            if not isinstance(around, ast.Subscript | ast.Attribute):
                return True
    return False


def check_likely_bugs(loop: Loop, effects: Effects) -> None:
    """Raise `Unplannable` where the code most likely does not do what it is meant to: a rewrite would hide it."""
    infer, module = effects.inference, loop.module
    names = [n for s in loop.body for n in walk(s) if isinstance(n, ast.Name)]
    stores = {n.id for n in names if not isinstance(n.ctx, ast.Load)}
    for statement in loop.body:
        for call in (n for n in walk(statement) if isinstance(n, ast.Call)):
            kind = infer.kind(call.func, module)
            function = infer.target(kind)
            if not isinstance(function, Function) or isinstance(function.node, ast.Lambda):
                continue
            for parameter in function.parameters:
                value = argument(function, call, parameter.arg)
                fixed = isinstance(value, ast.Name) and value.id not in stores
                if fixed and isinstance(value, ast.Name) and _is_lost(function, parameter.arg, effects):
                    what = f"`{value.id}` goes into every step, and what `{function.name}` makes of it is dropped"
                    raise Unplannable("state-not-returned", call, f"{what}: return it if that is not meant")
            if is_compiled(kind):
                _check_frozen(call, function, loop, effects)


def _is_lost(function: Function, parameter: str, effects: Effects) -> bool:
    """Whether a function updates an optimiser's state that it is given, and does not return it."""
    infer, updated = effects.inference, False
    for node in walk(function.node):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=[_, ast.Name(id=name)])], value=ast.Call() as call) if (
                name == parameter and isinstance(call.func, ast.Attribute) and call.func.attr == "update"
            ):
                holder = infer.kind(call.func.value, function.module)
                updated = updated or holder == Instance(library.OPTIMISER) or len(call.args) >= 2
            case ast.Return(value=ast.expr() as value):
                if any(isinstance(n, ast.Name) and n.id == parameter for n in walk(value)):
                    return False
    return updated


def _check_frozen(call: ast.Call, function: Function, loop: Loop, effects: Effects) -> None:
    """A compiled local function keeps what its outer names were when it was first called."""
    module = loop.module
    outer = function.scope.parent
    if outer is None or not outer.is_function:
        return
    around = [a for a in module.ancestors(loop.node) if isinstance(a, ast.For | ast.While)]
    for name in walk(function.node):
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load) and function.scope.find(name.id) is outer:
            for binding in outer.bindings[name.id]:
                if any(a in around for a in module.ancestors(binding.node)):
                    what = f"`{name.id}` is rebound in the loop around it, and `{function.name}`, compiled once, keeps"
                    raise Unplannable("rebound-global", call, f"{what} its first value: likely a bug")


def begins_as_number(carried: Carry, loop: Loop, effects: Effects) -> bool:
    """Whether a carried value is a Python number before the first step."""
    return isinstance(written_before(carried.name, loop, effects), Number)


def literal_before(name: str, loop: Loop, effects: Effects) -> ast.expr | None:
    """The literal number that a local name is when the loop begins: `mean, count = 0.0, 0`; None for anything else."""
    found = bindings_before(name, loop, effects)
    if len(found) != 1 or found[0].how != "assign" or not loop.module.scope_of(loop.node).is_function:
        return None
    value = found[0].value
    for index in found[0].path:
        value = value.elts[index] if isinstance(value, ast.Tuple) and index < len(value.elts) else None
    match value:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return value
    return None


def begins_weakly(carried: Carry, loop: Loop, effects: Effects) -> bool:
    """Whether a carried value may begin as `jnp.asarray(1.0)`, an array that gives way to others as numbers do."""
    for binding in bindings_before(carried.name, loop, effects):
        match binding.value:
            case ast.Call(func=func, args=[given], keywords=[]) if not binding.path:
                array = effects.inference.dotted(func, loop.module) in ("jax.numpy.asarray", "jax.numpy.array")
                if array and isinstance(effects.inference.kind(given, loop.module), Number):
                    return True
    return False


def has_static_parts(carried: Carry, loop: Loop, effects: Effects) -> bool:
    """Whether a carried value may hold more than arrays: a Module, or something of which nothing is known."""
    classes = effects.inference.classes
    for kind in (written_before(carried.name, loop, effects), carried.following.kind):
        if isinstance(kind, Instance):
            return classes.is_module(kind.cls)
        if is_device(kind) or isinstance(kind, Number | NdArray):
            return False
    return True


def is_added_to(carried: Carry, device: list[Node], loop: Loop) -> bool:
    """Whether a step does nothing with a carried value but add to it: `total += loss`, `total = total + loss`.

    Then a Python number at the start gives the same as an array of the type that the sum has.
    """
    uses = [(n, e) for n in device for e, v in n.uses.items() if v is carried.entry]
    if len(uses) != 1 or uses[0][0] is not carried.following.maker:
        return False
    node, use = uses[0]
    match node.statement:
        case ast.AugAssign(target=target, op=ast.Add() | ast.Sub()):
            return use is target
        case ast.Assign(value=ast.BinOp(left=left, op=ast.Add(), right=right)):
            return use in (left, right)
        case ast.Assign(value=ast.BinOp(left=left, op=ast.Sub())):
            return use is left
    return False
