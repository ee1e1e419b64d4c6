"""Module globals of the project that a call changes. Names that only one version has are its own business."""

from __future__ import annotations

import dis
import functools
import gc
import math
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from . import compare
from .parts import CODE, KEY, LIBRARIES
from .snapshot import Entry, is_filled, is_function, outline, snapshot

_LARGE = 1 << 26  # bytes of an array beyond which its contents are not read
_CACHED = type(functools.lru_cache(len))
_RESULTS = {"python float", "python complex"}
_STORE = dis.opmap["STORE_GLOBAL"]
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
            held = [entry for entry in entries if entry.kind != "container"]
            if not held or any(map(_is_data, held)):
                found[name] = entries
    return found


def _is_data(entry: Entry) -> bool:
    """Not code, not what jax has compiled, and not the key under which something is found."""
    compiled = entry.kind == "python" and entry.type.partition(".")[0] in LIBRARIES
    return entry.kind not in _NOT_DATA and not compiled and f".{KEY}" not in entry.path


def held(modules: Mapping[str, types.ModuleType], name: str) -> Any:
    """What a global, or the attribute of one, holds now; None where it is gone."""
    module = max((m for m in modules if name.startswith(f"{m}.")), key=len, default="")
    found: Any = modules.get(module)
    for part in name[len(module) + 1 :].split("."):
        found = getattr(found, part, None)
    return found


def replace(modules: Mapping[str, types.ModuleType], names: Collection[str], by: Callable[[Any], Any]) -> None:
    """Put `by` of what they hold into the globals of these names."""
    for module_name, module in modules.items():
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if f"{module_name}.{name}" in names and not isinstance(value, CODE) and not is_function(value):
                setattr(module, name, by(value))


def rebound(modules: Mapping[str, types.ModuleType]) -> frozenset[str]:
    """The globals that functions and methods of their own module set, whether or not these are ever called."""
    found: set[str] = set()
    for module_name, module in modules.items():
        for value in list(getattr(module, "__dict__", {}).values()):
            own = isinstance(value, type) and value.__module__ == module_name
            for one in [value, *(vars(value).values() if own else ())]:
                function = getattr(one, "__func__", one)
                function = getattr(function, "__wrapped__", function) if is_function(function) else None
                if isinstance(function, types.FunctionType) and function.__module__ == module_name:
                    found |= {f"{module_name}.{name}" for name in _set_by(function.__code__)}
    return frozenset(found)


def _set_by(code: types.CodeType) -> set[str]:
    names: set[str] = set()
    if _STORE in code.co_code[::2]:
        names = {step.argval for step in dis.get_instructions(code) if step.opcode == _STORE}
    return names.union(*(_set_by(inner) for inner in code.co_consts if isinstance(inner, types.CodeType)))


def opaque(modules: Mapping[str, types.ModuleType]) -> list[str]:
    """The globals that hold something which nothing can look into: a call may change that unseen."""
    return [name for name, value in _data(modules) if any(kind.startswith("opaque ") for _, kind, _ in outline(value))]


def cached(modules: Mapping[str, types.ModuleType]) -> frozenset[str]:
    """The functions and methods whose `functools` cache holds data by now.

    Caches of functions and classes are none of results, and whole numbers may be sizes.
    """
    found: list[str] = []
    for module_name, module in modules.items():
        for name, value in list(getattr(module, "__dict__", {}).items()):
            place = f"{module_name}.{name}"
            own = isinstance(value, type) and value.__module__ == module_name
            inner = {f"{place}.{n}": one for n, one in vars(value).items()} if own else {}
            for where, one in {place: value, **inner}.items():
                function = getattr(one, "__func__", one)
                if isinstance(function, _CACHED) and getattr(function, "__module__", "") == module_name:
                    kinds = [kind for item in _cache(function) for _, kind, _ in outline(item)]
                    if any(kind.split()[0] in {"jax", "numpy"} or kind in _RESULTS for kind in kinds):
                        found.append(where)
    return frozenset(found)


def _cache(function: Any) -> list[Any]:
    """The results in a cache, and its keys."""
    inner = (function.__wrapped__, vars(function), type(function))
    return [item for item in gc.get_referents(function) if not any(item is other for other in inner)]


def difference(
    expected: Mapping[str, list[Entry]],
    again: Mapping[str, list[Entry]],
    got: Mapping[str, list[Entry]],
    known: Collection[str],
    factor: float,
    slack: compare.Slack | None = None,
) -> tuple[dict[str, Any] | None, dict[str, float]]:
    """How the changed globals differ: the failure, and the errors. `known` are the names of the baseline.

    What two of its runs, `expected` and `again`, do not have in common says nothing.
    """
    errors: dict[str, float] = {}
    for name in sorted({*expected, *(n for n in got if n in known)}):
        if (name in expected) != (name in again):
            continue
        if name not in got or name not in expected:
            said = ("changed by the call", "left alone") if name in expected else ("left alone", "changed by the call")
            return {"test": "effects", "path": name, "expected": said[0], "got": said[1]}, errors | {name: math.inf}
        compared = compare.stable(expected[name], again[name], got[name], factor, True, slack)
        errors |= compared.errors
        if compared.failure is not None:
            return {**compared.failure, "test": "effects"}, errors
    return None, errors


def _data(modules: Mapping[str, types.ModuleType]) -> Iterator[tuple[str, Any]]:
    """The globals, and what the project's own classes and functions carry."""
    for module_name, module in modules.items():
        for name, value in list(getattr(module, "__dict__", {}).items()):
            place = f"{module_name}.{name}"
            if _is_dunder(name):
                continue
            if _is_data_of(value):
                yield place, value
            elif isinstance(value, type | types.FunctionType) and value.__module__ == module_name:
                yield from ((f"{place}.{attribute}", held) for attribute, held in _carried(value))


def _carried(value: type | types.FunctionType) -> list[tuple[str, Any]]:
    """Attributes that hold data, and what a call finds in default arguments and in outer variables."""
    if isinstance(value, types.FunctionType):
        return [*_attributes(value), *_bound(value)]
    methods = [(name, getattr(held, "__func__", held)) for name, held in list(vars(value).items())]
    inner = [(f"{name}.{path}", held) for name, method in methods if isinstance(method, types.FunctionType)
             for path, held in _bound(method)]  # fmt: skip
    return [*_attributes(value), *inner]


def _attributes(value: type | types.FunctionType) -> list[tuple[str, Any]]:
    """Descriptors and methods are code."""
    return [
        (name, held) for name, held in list(vars(value).items())
        if not (_is_dunder(name) or callable(held) or hasattr(type(held), "__get__") or hasattr(held, "__get__"))
    ]  # fmt: skip


def _bound(function: types.FunctionType) -> list[tuple[str, Any]]:
    """What outlives a call."""
    found = [*enumerate(function.__defaults__ or ()), *sorted((function.__kwdefaults__ or {}).items())]
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    found += [(name, cell.cell_contents) for name, cell in cells if is_filled(cell)]
    kept = [(f"<{name}>", held) for name, held in found if _is_data_of(held)]
    return [(name, held) for name, held in kept if type(held) is not dict or "__builtins__" not in held]


def _is_data_of(value: Any) -> bool:
    """Something that a call may change, also by way of a method that is bound to it; globals are told by themselves."""
    if isinstance(value, types.MethodType | types.BuiltinFunctionType):
        return value.__self__ is not None and not isinstance(value.__self__, type | types.ModuleType)
    return not isinstance(value, CODE) and not is_function(value)


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _hash(value: Any) -> int:
    return hash(tuple((kind, path, _hash_of_leaf(leaf)) for path, kind, leaf in outline(value)))


def _hash_of_leaf(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array):
        return id(leaf)
    if isinstance(leaf, np.ndarray):
        return leaf.shape, leaf.tobytes() if leaf.nbytes < _LARGE else id(leaf)
    return repr(leaf)
