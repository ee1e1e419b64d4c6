"""What kind of value a name held: the words that analysis can use, without the value."""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from .record_references import reference_of

_MAX_ITEMS = 64
_MAX_DEPTH = 4
_RECORD = 4  # a tuple of so few items is described item by item

Kind = dict[str, Any]

_known_classes: WeakKeyDictionary[type, list[str]] = WeakKeyDictionary()


def describe(value: Any, depth: int = 0) -> Kind:
    """The kind of `value` as JSON. Containers say what all their items agree on: one kind each, or a list of kinds."""
    jax, np = sys.modules.get("jax"), sys.modules.get("numpy")
    if value is None or isinstance(value, str | bytes | slice) or value is Ellipsis:
        return {"kind": "constant", "type": type(value).__name__}
    if type(value) in (bool, int, float, complex):
        return {"kind": "number", "type": type(value).__name__}
    if jax is not None and isinstance(value, jax.Array):
        key = bool(jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key))
        traced = isinstance(value, jax.core.Tracer)
        return {"kind": "array", "shape": list(map(str, value.shape)), "dtype": str(value.dtype), "key": key,
                "weak": bool(getattr(value, "weak_type", False)), "traced": traced}  # fmt: skip
    if np is not None and isinstance(value, np.ndarray):
        return {"kind": "ndarray", "shape": list(map(str, value.shape)), "dtype": str(value.dtype)}
    if type(value) in (list, tuple):
        return _sequence(value, depth)
    if type(value) is dict:
        items = list(value.values())
        return {"kind": "mapping", "length": len(items), "items": _kinds(items, depth)}
    if isinstance(value, type):
        return {"kind": "class", "class": _class(value)}
    if isinstance(value, types.FunctionType | types.MethodType | types.BuiltinFunctionType):
        return {"kind": "function", "name": [value.__module__ or "", value.__qualname__]}
    if isinstance(value, Iterator):
        return {"kind": "iterator", "type": type(value).__name__}
    return {"kind": "object", "class": _class(type(value)), "traced": _holds_tracer(value, depth)}


def core(kind: Kind) -> Kind:
    """A kind without what varies from call to call: shapes and lengths."""
    kept = {key: value for key, value in kind.items() if key not in ("shape", "length", "items")}
    if "items" in kind:
        items = [core(item) for item in kind["items"]]
        one_by_one = kind["kind"] == "tuple" and kind["length"] == len(items) <= _RECORD
        kept["items"] = items if one_by_one else [k for i, k in enumerate(items) if k not in items[:i]]
        kept["one_by_one"] = one_by_one
    return kept


def is_traced(kind: Mapping[str, Any]) -> bool:
    """Whether a tracer is anywhere in a described value."""
    return bool(kind.get("traced")) or any(is_traced(item) for item in kind.get("items", ()))


def _sequence(value: list[Any] | tuple[Any, ...], depth: int) -> Kind:
    return {"kind": type(value).__name__, "length": len(value), "items": _kinds(list(value), depth)}


def _kinds(items: list[Any], depth: int) -> list[Kind]:
    """The kinds of items: one by one for a few, each different one once for many. None where they lie too deep."""
    if depth >= _MAX_DEPTH:
        return []
    described = [describe(item, depth + 1) for item in items[:_MAX_ITEMS]]
    if len(items) <= _RECORD:
        return described
    different: list[Kind] = []
    for kind in described:
        if kind not in different:
            different.append(kind)
    return different


def _class(kind: type) -> list[str]:
    """Module, qualified name and file; the public name of a library's class."""
    if kind not in _known_classes:
        name = reference_of(kind) or (kind.__module__, kind.__qualname__)
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        _known_classes[kind] = [*name, file or ""]
    return _known_classes[kind]


def _holds_tracer(value: Any, depth: int) -> bool:
    """Whether a Module or another dataclass holds a tracer."""
    jax = sys.modules.get("jax")
    if jax is None or depth >= _MAX_DEPTH or not dataclasses.is_dataclass(value):
        return False
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(value))
