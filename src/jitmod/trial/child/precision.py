"""`--reference float64`: how far each arm is from the baseline computed in double precision."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import compare
from .parity import Reference
from .program import Observation, Program
from .snapshot import Entry

_WIDE = {"float32": "float64", "float16": "float64", "bfloat16": "float64", "complex64": "complex128"}
_CODE = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)


def distances(
    reference: Reference, observed: Sequence[Observation], in_double: Callable[[int], Observation]
) -> list[dict[str, Any]]:
    """For each call the largest relative distance of a leaf from double precision, in both arms.

    Where they differ in what precision does not change, that is a failure.

    `in_double` makes a call of the baseline in double precision.
    """
    found: list[dict[str, Any]] = []
    for one, other in zip(reference.first, observed, strict=True):
        exact = in_double(one.rep)
        if exact.error is not None:
            found.append({"problem": f"{exact.error['type']}: {exact.error['text']}"})
            continue
        arms = {"baseline": one.output, "candidate": other.output}
        failure = _exact_failure(one.output, other.output)
        if failure is not None:
            found.append({"failure": failure})
            continue
        found.append({name: _distance(exact.output, output) for name, output in arms.items()})
    return found


def in_double(program: Program, rep: int) -> Observation:
    """The inputs are those of single precision, widened: made anew in double precision, random ones would be others."""
    given = program.arguments(rep)
    with program.world:
        narrow = jax.config.values["jax_enable_x64"]
        jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]
        kept = _widen_globals(program)
        widened = widen(given)
    try:
        return program.observe(rep, widened)
    finally:
        with program.world:
            jax.config.update("jax_enable_x64", narrow)  # type: ignore[no-untyped-call]
            for names, name, value in kept:
                names[name] = value


def widen(value: Any) -> Any:
    """Floating leaves in double precision. 64-bit types must be enabled."""

    def leaf(x: Any) -> Any:
        if isinstance(x, jax.Array | np.ndarray) and str(x.dtype) in _WIDE:
            return x.astype(_WIDE[str(x.dtype)])
        return x

    return jax.tree_util.tree_map(leaf, value)


def _widen_globals(program: Program) -> list[tuple[dict[str, Any], str, Any]]:
    """Widen the project's module globals; returns how to take that back. Its world must be active."""
    kept: list[tuple[dict[str, Any], str, Any]] = []
    for module in program.world.modules.values():
        names = vars(module)
        for name, value in list(names.items()):
            if not name.startswith("__") and not isinstance(value, _CODE):
                kept.append((names, name, value))
                names[name] = widen(value)
    return kept


def _inexact(entry: Entry) -> bool:
    """Is it a floating leaf?"""
    if entry.kind in {"jax array", "numpy array", "numpy scalar"}:
        return (
            entry.dtype != "object"
            and not entry.dtype.startswith("[")
            and bool(jnp.issubdtype(entry.dtype, jnp.inexact))
        )
    return isinstance(entry.data, float | complex)


def _exact_failure(one: Sequence[Entry], other: Sequence[Entry]) -> dict[str, Any] | None:
    """How the arms differ in what no precision changes: structure, whole numbers, text, the places of NaN."""
    before, after = ([_marks(e) if _inexact(e) else e for e in side] for side in (one, other))
    return compare.compare(before, after).failure


def _marks(entry: Entry) -> Entry:
    """Where it is not a number, or infinite."""
    data = np.asarray(entry.data)
    wide = data.astype(np.complex128)
    marks = np.stack([np.isnan(wide), np.isposinf(wide.real), np.isneginf(wide.real)])
    return replace(entry, data=marks)


def _distance(exact: Sequence[Entry], got: Sequence[Entry]) -> float | None:
    """Relative to the largest magnitude of each leaf; None where the two do not have the same leaves."""
    worst = 0.0
    if len(exact) != len(got):
        return None
    for one, two in zip(exact, got, strict=True):
        if (one.path, one.shape) != (two.path, two.shape) or _inexact(one) != _inexact(two):
            return None
        if _inexact(two):
            a, b = np.asarray(one.data, np.complex128), np.asarray(two.data, np.complex128)
            finite = np.isfinite(a) & np.isfinite(b)
            if (np.isfinite(a) != np.isfinite(b)).any():
                return None
            if finite.any():
                scale = float(np.max(np.abs(a[finite]))) or 1.0
                worst = max(worst, float(np.max(np.abs(a[finite] - b[finite]))) / scale)
    return worst
