"""Module globals of the project that a call changes. Names that only one version has are its own business."""

from __future__ import annotations

import functools
import gc
import math
import types
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from . import compare
from .parts import CODE
from .snapshot import Entry, is_function, outline, snapshot

_LARGE = 1 << 26  # bytes of an array beyond which its contents are not read
_CACHED = type(functools.lru_cache(len))
_NOT_DATA = {"callable", "code", "opaque", "tracer", "cycle", "shared"}

State = Mapping[str, int]


def state(modules: Mapping[str, types.ModuleType]) -> State:
    """A hash of every global that holds data. Nothing is copied; jax arrays cannot change, so identity will do."""
    return {name: _hash(value) for name, value in _data(modules)}


def changed(before: State, modules: Mapping[str, types.ModuleType]) -> dict[str, list[Entry]]:
    """The globals of `before` whose hash has changed since, written down; those that hold only code are caches."""
    found: dict[str, list[Entry]] = {}
    for name, value in _data(modules):
        if name in before and before[name] != _hash(value):
            entries = snapshot(value, name)
            held = [entry.kind for entry in entries if entry.kind != "container"]
            if not held or not _NOT_DATA.issuperset(held):
                found[name] = entries
    return found


def opaque(modules: Mapping[str, types.ModuleType]) -> list[str]:
    """The globals that hold something which nothing can look into: a call may change that unseen."""
    return [name for name, value in _data(modules) if any(kind.startswith("opaque ") for _, kind, _ in outline(value))]


def cached(modules: Mapping[str, types.ModuleType]) -> frozenset[str]:
    """The functions whose `functools` cache holds data by now. Caches of functions and classes are none of results."""
    found: list[str] = []
    for module_name, module in modules.items():
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if isinstance(value, _CACHED) and getattr(value, "__module__", "") == module_name:
                held = [entry for item in _cache(value) for entry in outline(item)]
                if any(kind.split()[0] in {"jax", "numpy"} for _, kind, _ in held):
                    found.append(f"{module_name}.{name}")
    return frozenset(found)


def _cache(function: Any) -> list[Any]:
    """The results in a cache, and its keys."""
    inner = (function.__wrapped__, vars(function), type(function))
    return [item for item in gc.get_referents(function) if not any(item is other for other in inner)]


def difference(
    expected: Mapping[str, list[Entry]],
    got: Mapping[str, list[Entry]],
    known: Collection[str],
    factor: float,
    slack: compare.Slack | None = None,
) -> tuple[dict[str, Any] | None, dict[str, float]]:
    """How the changed globals differ: the failure, and the errors. `known` are the names of the baseline."""
    errors: dict[str, float] = {}
    for name in sorted({*expected, *(n for n in got if n in known)}):
        if name not in got or name not in expected:
            said = ("changed by the call", "left alone") if name in expected else ("left alone", "changed by the call")
            return {"test": "effects", "path": name, "expected": said[0], "got": said[1]}, errors | {name: math.inf}
        compared = compare.compare(expected[name], got[name], factor, slack=slack)
        errors |= compared.errors
        if compared.failure is not None:
            return {**compared.failure, "test": "effects"}, errors
    return None, errors


def _data(modules: Mapping[str, types.ModuleType]) -> Iterator[tuple[str, Any]]:
    """The globals, and what the project's own classes and functions carry."""
    for module_name, module in modules.items():
        for name, value in list(getattr(module, "__dict__", {}).items()):
            place = f"{module_name}.{name}"
            if name.startswith("__"):
                continue
            if not isinstance(value, CODE) and not is_function(value):
                yield place, value
            elif isinstance(value, type | types.FunctionType) and value.__module__ == module_name:
                yield from ((f"{place}.{attribute}", held) for attribute, held in _carried(value))


def _carried(value: type | types.FunctionType) -> list[tuple[str, Any]]:
    """Attributes that hold data; descriptors and methods are code."""
    return [
        (name, held) for name, held in list(vars(value).items())
        if not (name.startswith("_") or callable(held) or hasattr(type(held), "__get__") or hasattr(held, "__get__"))
    ]  # fmt: skip


def _hash(value: Any) -> int:
    return hash(tuple((kind, path, _hash_of_leaf(leaf)) for path, kind, leaf in outline(value)))


def _hash_of_leaf(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array):
        return id(leaf)
    if isinstance(leaf, np.ndarray):
        return leaf.shape, leaf.tobytes() if leaf.nbytes < _LARGE else id(leaf)
    return repr(leaf)
