"""Deep copies of arguments, so that a region can run on the same live-ins more than once."""

from __future__ import annotations

import collections
import copy
import functools
import random
import types
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

_SHARED = (
    type(None), bool, int, float, complex, str, bytes, type, range, slice, types.FunctionType, types.MethodType,
    types.BuiltinFunctionType, types.ModuleType, np.dtype, np.ufunc, np.generic,
)  # fmt: skip


class CannotCopy(Exception):
    """A value that is used up by reading, or that stands for something outside of the program."""


def duplicate(value: Any) -> Any:
    """A copy that shares nothing mutable with `value`, aliases inside it kept. Raises `CannotCopy`.

    Arrays are copied as well, because a call may donate them. Functions, classes and modules are shared.
    """
    return _copy(value, {})


def _copy(value: Any, known: dict[int, Any]) -> Any:
    if id(value) in known:
        return known[id(value)][0]
    made = _new(value, known)
    known[id(value)] = (made, value)  # keeps `value` alive, so that its id stays its own
    return made


def _new(value: Any, known: dict[int, Any]) -> Any:
    kind = type(value)
    match value:
        case jax.core.Tracer():
            return value
        case jax.Array():
            if value.is_deleted():
                raise CannotCopy("an array that was donated or deleted")
            return value.copy()
        case np.ndarray() if value.dtype != object:
            return np.array(value, copy=True, subok=True)
        case random.Random() | np.random.Generator() | np.random.RandomState():
            return copy.deepcopy(value)
        case Iterator():
            raise CannotCopy(f"an iterator ({kind.__name__}), which is used up by reading")
    if isinstance(value, _SHARED) and not hasattr(value, "_fields"):
        return value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind(*(_copy(item, known) for item in value))
    if kind in (tuple, frozenset):
        return kind(_copy(item, known) for item in value)
    if isinstance(value, dict | list | set | collections.deque):
        return _fill(value, known)
    if isinstance(value, functools.partial):
        return functools.partial(
            _copy(value.func, known), *_copy(value.args, known), **_copy(dict(value.keywords), known)
        )
    return _instance(value, known)


def _fill(value: Any, known: dict[int, Any]) -> Any:
    """A container that may hold itself: registered before it is filled."""
    made = copy.copy(value)
    known[id(value)] = (made, value)
    if isinstance(value, Mapping):
        for key in value:
            made[key] = _copy(value[key], known)
    elif isinstance(value, set):
        made.clear()
        made.update(_copy(item, known) for item in value)
    else:
        for number, item in enumerate(value):
            made[number] = _copy(item, known)
    _copy_attributes(value, made, known)
    return made


def _instance(value: Any, known: dict[int, Any]) -> Any:
    kind = type(value)
    if callable(value) and kind.__module__.partition(".")[0] in {"jax", "jaxlib", "numpy", "functools"}:
        return value  # a compiled function of a library
    plain = "__reduce_ex__" not in vars(kind) and "__reduce__" not in vars(kind)
    if kind.__module__ == "builtins" or not hasattr(value, "__dict__") or not plain:
        return _by_pickle_protocol(value)
    if kind.__module__.partition(".")[0] in {"_io", "io", "threading", "socket", "subprocess", "jaxlib"}:
        raise CannotCopy(f"a {kind.__module__}.{kind.__name__}")
    made = object.__new__(kind)
    known[id(value)] = (made, value)
    _copy_attributes(value, made, known)
    return made


def _copy_attributes(value: Any, made: Any, known: dict[int, Any]) -> None:
    for name, item in list(getattr(value, "__dict__", {}).items()):
        object.__setattr__(made, name, _copy(item, known))
    for kind in type(value).__mro__:
        for name in kind.__dict__.get("__slots__", ()):
            if isinstance(name, str) and name not in {"__dict__", "__weakref__"} and hasattr(value, name):
                object.__setattr__(made, name, _copy(getattr(value, name), known))


def _by_pickle_protocol(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception as error:
        raise CannotCopy(f"a {type(value).__module__}.{type(value).__name__} ({error})") from None
