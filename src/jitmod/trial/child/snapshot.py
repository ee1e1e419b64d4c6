"""A value written down so that it can be compared across worlds: paths, type names, and copies of the data.

Two worlds have two classes of every name, so `isinstance`, tree definitions and equality say nothing across them.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class Entry:
    """One container or leaf. `kind` tells jax arrays, numpy arrays and Python values apart; `data` is a host copy."""

    path: str
    kind: str
    type: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    weak: bool = False
    data: Any = None

    def describe(self) -> str:
        shape = f" {self.dtype}{list(self.shape)}" if self.dtype else ""
        return f"{self.kind} {self.type}{shape}"


def snapshot(value: Any, path: str = "output") -> list[Entry]:
    """Everything reachable from `value`, in an order that does not depend on the world."""
    return list(_walk(value, path, ()))


def arrays(value: Any) -> list[jax.Array]:
    """The jax arrays inside `value`, also those inside objects that jax takes for leaves."""
    found: list[jax.Array] = []
    for leaf in jax.tree_util.tree_leaves(value):
        if isinstance(leaf, jax.Array):
            found.append(leaf)
        elif hasattr(leaf, "__dict__") and not isinstance(leaf, type | types.FunctionType | types.ModuleType):
            found += [a for a in vars(leaf).values() if isinstance(a, jax.Array)]
    return found


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def _walk(value: Any, path: str, above: tuple[int, ...]) -> Iterator[Entry]:
    if id(value) in above:
        yield Entry(path, "cycle", "")
        return
    name = _name(type(value))
    match value:
        case None | bool() | int() | float() | complex() | str() | bytes() if type(value).__module__ == "builtins":
            yield Entry(path, "python", name, data=value)
        case jax.Array():
            yield _jax_array(value, path)
        case np.generic():
            yield Entry(path, "numpy scalar", name, str(value.dtype), data=np.asarray(value))
        case np.ndarray() if value.dtype == object:
            yield Entry(path, "numpy array", name, "object", value.shape)
            yield from _children(((f"[{i}]", item) for i, item in enumerate(value.ravel())), path, (*above, id(value)))
        case np.ndarray():
            yield Entry(path, "numpy array", name, str(value.dtype), value.shape, data=np.array(value, copy=True))
        case type() | types.FunctionType() | types.BuiltinFunctionType() | types.MethodType() | types.ModuleType():
            where = getattr(value, "__module__", "")
            yield Entry(path, "callable", name, data=f"{where}.{getattr(value, '__qualname__', value.__name__)}")
        case _ if callable(value) and type(value).__module__.partition(".")[0] in {"jax", "jaxlib", "functools"} and (
            hasattr(value, "__wrapped__")
        ):  # a compiled or cached function is a function
            where = getattr(value, "__module__", "")
            yield Entry(path, "callable", "function", data=f"{where}.{getattr(value, '__qualname__', '')}")
        case _:
            yield from _container(value, name, path, (*above, id(value)))


def _container(value: Any, name: str, path: str, above: tuple[int, ...]) -> Iterator[Entry]:
    parts: Iterator[tuple[str, Any]] | None
    count: Any = None
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        parts, count = ((f".{f}", item) for f, item in zip(value._fields, value, strict=True)), len(value)
    elif isinstance(value, list | tuple):
        parts, count = ((f"[{i}]", item) for i, item in enumerate(value)), len(value)
    elif isinstance(value, Mapping):
        keys = sorted(value, key=repr)
        parts, count = ((f"[{key!r}]", value[key]) for key in keys), len(value)
    elif isinstance(value, set | frozenset):
        parts, count = ((f"{{{i}}}", item) for i, item in enumerate(sorted(value, key=repr))), len(value)
    elif isinstance(value, functools.partial):
        parts = iter([(".func", value.func), (".args", value.args), (".keywords", value.keywords)])
    elif dataclasses.is_dataclass(value):
        names = [f.name for f in dataclasses.fields(value) if hasattr(value, f.name)]  # static fields as well
        parts = ((f".{n}", getattr(value, n)) for n in names)
    else:
        parts = _registered(value) or _attributes(value)
    if parts is None:
        yield Entry(path, "opaque", name)
        return
    yield Entry(path, "container", name, data=count)
    yield from _children(parts, path, above)


def _children(parts: Iterator[tuple[str, Any]], path: str, above: tuple[int, ...]) -> Iterator[Entry]:
    for suffix, item in parts:
        yield from _walk(item, path + suffix, above)


def _registered(value: Any) -> Iterator[tuple[str, Any]] | None:
    """The children of a class that is registered as a pytree node."""
    children, _ = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda node: node is not value)
    if len(children) == 1 and children[0][1] is value:
        return None
    return ((jax.tree_util.keystr(keys), child) for keys, child in children)


def _attributes(value: Any) -> Iterator[tuple[str, Any]] | None:
    if not hasattr(value, "__dict__"):
        return None
    return ((f".{name}", item) for name, item in sorted(vars(value).items()))


def _jax_array(value: jax.Array, path: str) -> Entry:
    dtype, shape, weak = str(value.dtype), tuple(value.shape), bool(getattr(value, "weak_type", False))
    if isinstance(value, jax.core.Tracer):
        return Entry(path, "tracer", "jax.Array", dtype, shape)
    if value.is_deleted():
        return Entry(path, "deleted", "jax.Array", dtype, shape)
    if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return Entry(path, "key", "jax.Array", dtype, shape, data=np.array(jax.random.key_data(value)))
    return Entry(path, "jax array", "jax.Array", dtype, shape, weak, np.array(value, copy=True))
