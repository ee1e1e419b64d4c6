"""What the text says of dtypes: arrays that are made as integers, and computations whose result never is one."""

from __future__ import annotations

import ast

from jitmod.analysis.infer import Inference
from jitmod.analysis.reaching import reaching
from jitmod.source.project import SourceModule
from jitmod.source.signatures import argument

_INTEGERS = frozenset({"int", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
                       "bool_"})  # fmt: skip
_FLOATS = frozenset({"float", "float16", "float32", "float64", "bfloat16", "complex", "complex64", "complex128"})
_INEXACT = frozenset({"sin", "cos", "tan", "tanh", "exp", "log", "sqrt", "mean", "std", "var", "divide", "true_divide"})
_HANDED_ON = frozenset({"asarray", "array", "stack", "concatenate", "reshape", "ravel", "zeros_like", "ones_like"})
_DEPTH = 8


def is_integer(expr: ast.expr, module: SourceModule, infer: Inference, depth: int = _DEPTH) -> bool:
    """Whether an array is made with an integer dtype, wherever `expr` may come from."""
    if depth == 0:
        return False
    match expr:
        case ast.Call(func=ast.Attribute(attr="astype"), args=[dtype, *_]):
            return _name(dtype) in _INTEGERS
        case ast.Call(func=func, args=args, keywords=keywords):
            given = [k.value for k in keywords if k.arg == "dtype"] + list(args[1:])
            named = [_name(d) for d in given if _name(d) in _INTEGERS | _FLOATS]
            if named:
                return named[0] in _INTEGERS
            name = (infer.dotted(func, module) or "").rpartition(".")[2]
            if name in _INTEGERS:
                return True
            return name in _HANDED_ON and bool(args) and is_integer(args[0], module, infer, depth - 1)
        case ast.Name(id=name):
            scope = infer.scope_binding(name, expr, module)
            bindings = reaching(name, expr, scope) if scope is not None else []
            values: list[tuple[SourceModule, ast.expr]] = []
            for binding in bindings:
                if binding.how == "assign" and binding.value is not None and not binding.path:
                    values.append((module, binding.value))
                elif binding.how == "param" and scope is not None and scope.node in module.functions:
                    function = module.functions[scope.node]
                    sites = [(m, argument(function, c, name)) for m, c in infer.call_sites(function)]
                    values += [(m, v) for m, v in sites if v is not None]
                else:
                    return False
            return bool(values) and all(is_integer(v, m, infer, depth - 1) for m, v in values)
    return False


def is_inexact(expr: ast.expr, module: SourceModule, infer: Inference) -> bool:
    """Whether the result of an expression has a floating-point dtype, whatever it is computed from."""
    match expr:
        case ast.Constant(value=value):
            return isinstance(value, float)
        case ast.BinOp(op=ast.Div()):
            return True
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Pow(), right=right):
            return is_inexact(left, module, infer) or is_inexact(right, module, infer)
        case ast.UnaryOp(operand=operand):
            return is_inexact(operand, module, infer)
        case ast.Call(func=ast.Attribute(attr="astype"), args=[dtype, *_]):
            return _name(dtype) in _FLOATS
        case ast.Call(func=func):
            name = infer.dotted(func, module) or ""
            last = name.rpartition(".")[2]
            return name.startswith(("jax.numpy.", "numpy.")) and last in _FLOATS | _INEXACT
    return False


def _name(expr: ast.expr) -> str:
    """The last part of a dtype's name: `np.uint8`, `jnp.uint8`, `"uint8"`, `int`."""
    match expr:
        case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Constant(value=str(name)):
            return name
    return ""
