"""Arguments whose shape or structure is a new one at every call: a jit compiles again for each."""

from __future__ import annotations

import ast

from jitmod.analysis.boundaries import LOOPS, loop_around
from jitmod.analysis.infer import Inference
from jitmod.analysis.values import Mapping, Record, Sequence
from jitmod.analysis.varying import Varying
from jitmod.source.nodes import walk
from jitmod.source.project import SourceModule

_JOINING = frozenset({"append", "concatenate", "hstack", "vstack", "stack", "r_", "concat", "pad"})


def growing(expr: ast.expr, module: SourceModule, infer: Inference) -> str | None:
    """Why the shape of an argument is new at each call, in words; None where nothing says so."""
    match expr:
        case ast.Subscript(value=value, slice=index):
            parts = index.elts if isinstance(index, ast.Tuple) else [index]
            for part in parts:
                if isinstance(part, ast.Slice) and _length_varies(part, module, infer):
                    return f"`{ast.unparse(expr)}` has another length every time"
            return growing(value, module, infer)
        case ast.Name(id=name):
            return _grows_in_loop(expr, name, module, infer)
    return None


def _length_varies(part: ast.Slice, module: SourceModule, infer: Inference) -> bool:
    varying = Varying(infer)
    lower = varying.why(part.lower, module) if part.lower is not None else None
    upper = varying.why(part.upper, module) if part.upper is not None else None
    if lower is not None and upper is not None and part.lower is not None:
        match part.upper:  # `xs[i : i + n]` has one length
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                texts = {ast.unparse(left): right, ast.unparse(right): left}
                rest = texts.get(ast.unparse(part.lower))
                return rest is None or varying.why(rest, module) is not None
    return lower is not None or upper is not None


def _grows_in_loop(expr: ast.Name, name: str, module: SourceModule, infer: Inference) -> str | None:
    """`ids = jnp.append(ids, new)` or `items.append(x)` in the loop around the call."""
    loop = loop_around(expr, module)
    if loop is None or not isinstance(loop, LOOPS):
        return None
    for node in walk(loop):
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Call(func=func) as value) if target == name:
                joins = getattr(func, "attr", getattr(func, "id", "")) in _JOINING
                if joins and any(isinstance(n, ast.Name) and n.id == name for n in walk(value)):
                    return f"`{name}` grows in line {node.lineno}"
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="append" | "extend")) if owner == name:
                if isinstance(infer.kind(expr, module), Sequence | Record | Mapping):
                    return f"the list `{name}` grows in line {node.lineno}, and every length is compiled anew"
    return None
