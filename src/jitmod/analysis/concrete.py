"""Uses of an array that need its values while a function is traced, and those that do not."""

from __future__ import annotations

import ast

from jitmod.analysis import library
from jitmod.analysis.dtypes import is_integer
from jitmod.analysis.effects import Effects
from jitmod.analysis.library import Role
from jitmod.analysis.scalars import takes_array
from jitmod.analysis.values import Array, Device, Routine
from jitmod.source.project import Function, SourceModule

_STATIC = frozenset({"shape", "ndim", "size", "dtype", "T", "mT", "at", "real", "imag"})
# which arguments of functions of jax.lax are values: of others it is the first
_OF_LAX = {"scan": (1, 2), "map": (1,), "while_loop": (2,), "fori_loop": (3,), "dot": (0, 1), "dot_general": (0, 1),
           "conv_general_dilated": (0, 1), "select": (1, 2), "dynamic_update_slice": (0, 1), "add": (0, 1),
           "mul": (0, 1), "associative_scan": (1,), "stop_gradient": (0,), "dynamic_slice": (0,)}  # fmt: skip


def takes_traced(parent: ast.AST, read: ast.expr, module: SourceModule, effects: Effects) -> bool:
    """Whether what stands around the read of an array does with a traced one as well."""
    infer = effects.inference
    match parent:
        case ast.BinOp() | ast.UnaryOp(op=ast.USub() | ast.Invert()):
            return True
        case ast.Compare(ops=[op]):
            return not isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn)
        case ast.Attribute(attr=attr, ctx=ast.Load()):
            called = isinstance(module.parents[parent], ast.Call)
            kind = infer.kind(parent, module)
            method = called and isinstance(kind, Routine) and isinstance(kind.receiver, Array | Device)
            return attr in _STATIC or (method and not effects.of_call(_call(module.parents[parent]), module))
        case ast.Subscript(value=value, slice=index):
            if value is read:
                return True
            integer = index is read and is_integer(read, module, infer)  # a mask needs its values
            return integer and isinstance(infer.kind(value, module), Array | Device)
        case ast.Tuple() | ast.List():
            outer = module.parents[parent]
            return isinstance(outer, ast.Call) and takes_traced(outer, parent, module, effects)
        case ast.Call(func=func) if func is not read:
            return _call_takes_traced(parent, read, module, effects)
    return False


def _call_takes_traced(call: ast.Call, read: ast.expr, module: SourceModule, effects: Effects) -> bool:
    infer = effects.inference
    name = infer.dotted(call.func, module)
    if name == "len":
        return True
    hazards = [h for h in effects.of_call(call, module) if h.when == "traced"]
    if hazards:
        return False
    if name is None or not name.startswith("jax."):
        kind = infer.kind(call.func, module)
        return isinstance(infer.target(kind), Function)
    if name.startswith("jax.lax.") and read in call.args:
        return call.args.index(read) in _OF_LAX.get(name.rpartition(".")[2], (0,))
    return library.role(name) is Role.PURE and takes_array(name, call, read)


def _call(node: ast.AST) -> ast.Call:
    assert isinstance(node, ast.Call)
    return node
