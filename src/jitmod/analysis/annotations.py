"""What an annotation promises of a value."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from jitmod.analysis import library
from jitmod.analysis.values import (
    UNKNOWN,
    ClassRef,
    Constant,
    Instance,
    Iterator,
    Kind,
    Mapping,
    Record,
    Routine,
    Sequence,
)
from jitmod.source.project import Class, SourceModule

if TYPE_CHECKING:
    from jitmod.analysis.infer import Inference


def promised(node: ast.expr, module: SourceModule, infer: Inference) -> Kind | None:
    """The kind that an annotation promises; None where it says nothing useful."""
    match node:
        case ast.Constant(value=str(text)):
            try:
                parsed = ast.parse(text, mode="eval").body
            except SyntaxError:
                return None
            return _by_name(ast.unparse(parsed), module, infer)
        case ast.Constant(value=None):
            return Constant()
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            sides = [promised(s, module, infer) for s in (left, right)]
            present = [s for s in sides if s is not None and s != Constant()]
            return present[0] if len(present) == 1 and None not in sides else None
        case ast.Subscript(value=value, slice=inner):
            return _generic(infer.dotted(value, module), inner, module, infer)
        case ast.Name() | ast.Attribute():
            dotted = infer.dotted(node, module)
            if dotted is not None:
                kind = library.annotated(dotted)
                meaning = infer.meaning(dotted) if kind is None else UNKNOWN
            else:
                kind, meaning = None, infer.kind(node, module)
            if isinstance(meaning, ClassRef) and isinstance(meaning.cls, Class):
                return Instance(meaning.cls)
            return kind
    return None


def _by_name(text: str, module: SourceModule, infer: Inference) -> Kind | None:
    head, *rest = text.split(".")
    bindings = module.scope.bindings.get(head)
    if not all(part.isidentifier() for part in (head, *rest)):
        return None
    if bindings is None:
        return library.annotated(text)
    kind = infer.bound(bindings[-1], module)
    for attr in rest:
        kind = infer.attribute(kind, attr)
    if isinstance(kind, ClassRef):
        return Instance(kind.cls) if isinstance(kind.cls, Class) else library.annotated(kind.cls)
    return library.annotated(kind.target) if isinstance(kind, Routine) and isinstance(kind.target, str) else None


def _generic(base: str | None, inner: ast.expr, module: SourceModule, infer: Inference) -> Kind | None:
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    kinds = [promised(p, module, infer) or UNKNOWN for p in parts]
    last = (base or "").rpartition(".")[2]
    if base and base.startswith("jaxtyping."):
        return kinds[0] if kinds[0] != UNKNOWN else None
    match last:
        case "list" | "List" | "Sequence" | "Collection":
            return Sequence(kinds[0])
        case "tuple" | "Tuple":
            if len(parts) == 2 and isinstance(parts[1], ast.Constant) and parts[1].value is Ellipsis:
                return Sequence(kinds[0])
            return Record(tuple(kinds))
        case "dict" | "Dict" | "Mapping" if len(kinds) == 2:
            return Mapping(kinds[1])
        case "Iterator" | "Generator" | "Iterable":
            return Iterator(kinds[0])
        case "Optional" | "Annotated":
            return kinds[0] if kinds[0] != UNKNOWN else None
    return None
