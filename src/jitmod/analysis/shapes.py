"""Arguments whose shape or structure is new at every call, or at every new length: a jit compiles again for each."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from jitmod.analysis.boundaries import LOOPS, loop_around
from jitmod.analysis.infer import Inference
from jitmod.analysis.reaching import reaching
from jitmod.analysis.values import Array, Mapping, NdArray, Record
from jitmod.analysis.values import Sequence as ListOf
from jitmod.analysis.varying import Varying
from jitmod.source.nodes import walk
from jitmod.source.project import Function, SourceModule
from jitmod.source.signatures import argument

_MAKERS = ("jax.numpy.array", "jax.numpy.asarray", "numpy.array", "numpy.asarray")
_FEW = 3  # recorded shapes: so many may be meant
_DEPTH = 3  # names of names
JOINING = frozenset({"append", "concatenate", "hstack", "vstack", "stack", "r_", "concat", "pad"})


def growing(expr: ast.expr, module: SourceModule, infer: Inference) -> str | None:
    """Why the shape of an argument is new at each call, in words; None where nothing says so."""
    match expr:
        case ast.Subscript(value=value, slice=index):
            parts = index.elts if isinstance(index, ast.Tuple) else [index]
            for part in parts:
                if isinstance(part, ast.Slice) and _length_varies(part, module, infer):
                    return f"`{ast.unparse(expr)}` has another length every time"
            return growing(value, module, infer)
        case ast.BinOp(left=ast.List(), op=ast.Mult(), right=count) | ast.BinOp(
            left=count, op=ast.Mult(), right=ast.List()
        ):
            return _as_many(expr, [count], module, infer)
        case ast.ListComp(generators=[ast.comprehension(iter=ast.Call(func=func, args=counts), ifs=[])]):
            return _as_many(expr, counts, module, infer) if infer.dotted(func, module) == "range" else None
        case ast.Name(id=name):
            return _grows_in_loop(expr, name, module, infer)
    return None


def given_growing(name: str, function: Function, infer: Inference) -> str | None:
    """Why the argument that calls give for a parameter is new in each of them."""
    for module, call in infer.call_sites(function):
        value = argument(function, call, name)
        why = growing(value, module, infer) if value is not None else None
        if why is not None:
            return why
    return None


def _as_many(expr: ast.expr, counts: Sequence[ast.expr], module: SourceModule, infer: Inference) -> str | None:
    why = next((w for c in counts if (w := Varying(infer).why(c, module)) is not None), None)
    return f"`{ast.unparse(expr)[:60]}` has as many items as {why.partition(' ')[0]} says" if why is not None else None


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
                joins = getattr(func, "attr", getattr(func, "id", "")) in JOINING
                if joins and any(isinstance(n, ast.Name) and n.id == name for n in walk(value)):
                    return f"`{name}` grows in line {node.lineno}"
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="append" | "extend")) if owner == name:
                if isinstance(infer.kind(expr, module), ListOf | Record | Mapping):
                    return f"the list `{name}` grows in line {node.lineno}, and every length is compiled anew"
    return None


def ragged(expr: ast.expr, module: SourceModule, infer: Inference, depth: int = _DEPTH) -> str | None:
    """Why an argument has the length of what it is made from, so that a jit compiles for every length that occurs."""
    match expr:
        case ast.Subscript(value=value, slice=ast.Compare() as mask) if _is_array(value, module, infer):
            return f"`{ast.unparse(expr)}` is as long as `{ast.unparse(mask)}` is often true"
        case ast.Call(args=[made, *_]) if infer.dotted(expr.func, module) in _MAKERS:
            source = _follows(made, module, infer, depth)
            return f"`{ast.unparse(expr)}` is as long as `{source}` is" if source is not None else None
        case ast.Name(id=name) if depth > 0 and loop_around(expr, module) is not None:
            scope = infer.scope_binding(name, expr, module)
            for binding in reaching(name, expr, scope) if scope is not None else ():
                in_loop = loop_around(binding.node, module) is not None
                if binding.how == "assign" and binding.value is not None and not binding.path and in_loop:
                    return ragged(binding.value, module, infer, depth - 1)
    return None


def _is_array(expr: ast.expr, module: SourceModule, infer: Inference) -> bool:
    return isinstance(infer.kind(expr, module), Array | NdArray)


def _follows(expr: ast.expr, module: SourceModule, infer: Inference, depth: int) -> str | None:
    """What a list of the host has its length from, where that is new in every round of a loop."""
    match expr:
        case ast.ListComp(generators=[ast.comprehension(iter=ast.Call() as iterable, ifs=[])]):
            return _follows(iterable, module, infer, depth)
        case ast.ListComp(generators=[ast.comprehension(iter=ast.Name() as iterable, ifs=[])]):
            if (source := _follows(iterable, module, infer, depth)) is not None:
                return source
            lengths = not isinstance(infer.kind(iterable, module), Array | NdArray | Record)
            new = Varying(infer).why(iterable, module, 0) is not None
            return ast.unparse(iterable) if lengths and new else None
        case ast.Call(func=ast.Attribute(value=value, attr="split" | "encode" | "tokenize"), args=args):
            new = any(Varying(infer).why(v, module, 0) is not None for v in (value, *args))
            return ast.unparse(expr) if new and not _is_array(value, module, infer) else None
        case ast.Name(id=name) if depth > 0:
            scope = infer.scope_binding(name, expr, module)
            for binding in reaching(name, expr, scope) if scope is not None else ():
                if binding.how == "assign" and binding.value is not None and not binding.path:
                    return _follows(binding.value, module, infer, depth - 1)
    return None


def recorded_lengths(function: Function, infer: Inference) -> str | None:
    """Which parameter of a compiled function was traced with several lengths, by what recordings saw of its traces."""
    recorded = infer.project.recorded.function(function.module.document.path, function.name)
    for name, shapes in recorded.shapes.items() if recorded is not None else ():
        if len(shapes) < _FEW or len({len(shape) for shape in shapes}) != 1:
            continue
        axes = [axis for axis in range(len(shapes[0])) if len({shape[axis] for shape in shapes}) > 1]
        if len(axes) == 1:
            lengths = sorted({shape[axes[0]] for shape in shapes}, key=lambda n: (len(n), n))
            return f"`{name}` had {len(lengths)} lengths in the recording ({', '.join(lengths)})"
    return None
