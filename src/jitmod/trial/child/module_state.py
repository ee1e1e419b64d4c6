"""Module globals of the project that a call changes. Names that only one version has are its own business."""

from __future__ import annotations

import math
import types
from collections.abc import Collection, Mapping
from typing import Any

import jax
import numpy as np

from . import compare
from .snapshot import Entry, snapshot

_DEEP = 6
_LARGE = 1 << 26  # bytes of an array beyond which its contents are not read
_CODE = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType)
_NOT_DATA = {"callable", "opaque", "tracer", "cycle"}

State = Mapping[str, int]


def state(modules: Mapping[str, types.ModuleType]) -> State:
    """A hash of every global that holds data. Nothing is copied; jax arrays cannot change, so identity will do."""
    found: dict[str, int] = {}
    for module_name, module in modules.items():
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if not name.startswith("__") and not isinstance(value, _CODE) and not hasattr(value, "lower"):
                found[f"{module_name}.{name}"] = _hash(value, 0)
    return found


def changed(before: State, modules: Mapping[str, types.ModuleType]) -> dict[str, list[Entry]]:
    """The globals of `before` whose hash has changed since, written down; those that hold code are caches."""
    found: dict[str, list[Entry]] = {}
    for name, number in state(modules).items():
        if name in before and before[name] != number:
            module, _, attribute = name.rpartition(".")
            entries = snapshot(getattr(modules[module], attribute), name)
            if not any(entry.kind in _NOT_DATA for entry in entries):
                found[name] = entries
    return found


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


def _hash(value: Any, depth: int) -> int:
    kind = type(value)
    if isinstance(value, str | bytes | int | float | complex | type(None)) or depth > _DEEP:
        return hash((kind.__name__, repr(value) if depth <= _DEEP else ""))
    if isinstance(value, (jax.Array, *_CODE)):
        return id(value)
    if isinstance(value, np.ndarray) and value.dtype != object:
        return hash((value.shape, value.tobytes() if value.nbytes < _LARGE else id(value)))
    if isinstance(value, Mapping):
        return hash((kind.__name__, *((repr(key)[:200], _hash(value[key], depth + 1)) for key in value)))
    if isinstance(value, list | tuple | set | frozenset):
        return hash((kind.__name__, *(_hash(item, depth + 1) for item in value)))
    held = getattr(value, "__dict__", None)
    return hash((kind.__name__, _hash(held, depth + 1) if isinstance(held, dict) else id(value)))
