"""Parity of two snapshots: structure exactly, floating values within bounds that follow their precision."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

from .snapshot import Entry

MAX_FACTOR = 100.0
_TINY = float(np.finfo(np.float32).tiny)
_STRUCTURE = {"container", "opaque", "tracer", "deleted", "code"}
_HOST = {"python", "numpy array", "numpy scalar"}
_FINE = 1e-5  # of the bounds of float32: those of doubles that the host computes
_SPARED = 1000.0  # bounds of float32 are about so many times its unit of rounding
_CANCELLED = 8  # units in the last place of a leaf's largest value, if that is below 1: what is left of a difference
_SAMPLE = 1 << 16  # elements, which are enough for a scale
_COUNTS = 1 << 17  # floats that are whole numbers below this count something
_MISCOUNTED = 10 * MAX_FACTOR


Slack = Mapping[str, float]
"""Factors for the bounds of single leaves, by path; infinite where anything goes."""


@dataclass(frozen=True)
class Comparison:
    """`failure` says where and how parity broke. Errors are in units of their bounds; `errors` are those of leaves."""

    failure: dict[str, Any] | None
    error: float = 0.0
    weak_types: tuple[str, ...] = ()
    opaque: tuple[str, ...] = ()
    errors: Mapping[str, float] = field(default_factory=dict)


def compare(
    expected: Sequence[Entry],
    got: Sequence[Entry],
    factor: float = 1.0,
    values: bool = True,
    slack: Slack | None = None,
) -> Comparison:
    """Compare what the baseline gave with what the candidate gave.

    `factor` widens every bound, `slack` that of some leaves instead; without `values` only the structure counts.
    """
    allowed = slack or {}
    errors: dict[str, float] = {}
    weak: list[str] = []
    opaque: list[str] = []
    worst: dict[str, Any] | None = None
    excess = 1.0
    for left, right in itertools.zip_longest(expected, got):
        failure = _structure(left, right)
        if failure is not None:
            place = f"structure of {failure['path']}"  # only another structure excuses one
            errors[place] = math.inf
            failed = failure if allowed.get(place, factor) < math.inf else None
            return Comparison(failed, math.inf, tuple(weak), tuple(opaque), errors)
        if left.weak != right.weak:
            weak.append(left.path)
        if left.kind == "opaque" or (left.kind == "code" and left.data != right.data):
            opaque.append(left.path)
        size, where = _error(left, right)
        if size > 0:
            errors[left.path] = size
        bound = allowed.get(left.path, factor)
        if _is_host_double(left):
            bound = min(bound, spared(factor, size_of_rounding)) if False else bound
        if math.isfinite(bound) and size > excess * bound:
            excess = size / bound
            worst = {"test": "values", **_located(left, right, where), "error_in_bounds": _finite(size)}
    return Comparison(worst if values else None, max(errors.values(), default=0.0), tuple(weak), tuple(opaque), errors)


def _structure(left: Entry | None, right: Entry | None) -> dict[str, Any] | None:
    if left is not None and right is not None:
        same = (left.path, left.kind, left.type, left.dtype, left.shape) == (
            right.path, right.kind, right.type, right.dtype, right.shape,
        )  # fmt: skip
        counted = left.kind == "container" and left.data != right.data
        if same and not counted:
            return None
        if counted:
            expected, got = f"{left.type} of {left.data}", f"{right.type} of {right.data}"
            return {"test": "structure", "path": left.path, "expected": expected, "got": got}
    some = left or right
    assert some is not None
    return {
        "test": "structure",
        "path": some.path,
        "expected": "nothing" if left is None else left.describe(),
        "got": "nothing" if right is None else f"{right.path} {right.describe()}".removeprefix(f"{some.path} "),
    }


def _bounds(entry: Entry) -> tuple[float, float]:
    """Relative bound, and absolute bound in units of the leaf's largest magnitude."""
    if entry.dtype in _COARSE:
        return 1e-2, 1e-2
    # Where jax has no 64-bit types, a host double that depends on jax results is as good as float32 at best; one that
    # does not depend on them comes from the same host arithmetic in both arms, which no patch may move to the device.
    if entry.dtype in {"float64", "complex128", ""} and jax.config.values["jax_enable_x64"]:
        return 1e-9, 1e-10
    return 1e-4, 1e-5


def _error(left: Entry, right: Entry) -> tuple[float, int | None]:
    """The worst element's error in units of its bound, and its flat index; infinite where no error is allowed."""
    if left.kind in {"container", "opaque", "cycle", "tracer", "deleted"}:
        return 0.0, None
    if left.kind == "callable" or not isinstance(left.data, float | complex | np.ndarray):
        return (0.0, None) if left.data == right.data else (math.inf, None)
    a, b = np.atleast_1d(_wide(left.data)), np.atleast_1d(_wide(right.data))
    if a.size == 0:
        return 0.0, None
    if a.dtype.kind not in "fc":
        different = np.flatnonzero(a != b)
        return (math.inf, int(different[0])) if different.size else (0.0, None)
    finite = np.isfinite(a) & np.isfinite(b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    broken = np.flatnonzero(~finite & ~same)
    if broken.size:
        return math.inf, int(broken[0])
    relative, absolute = _bounds(left)
    magnitude = np.where(finite, np.abs(a), 0.0)
    bound = relative * magnitude + absolute * max(float(magnitude.max()), _TINY)
    errors = np.where(finite, np.abs(np.where(finite, a, 0) - np.where(finite, b, 0)), 0.0) / bound
    at = int(np.argmax(errors))
    return float(errors.flat[at]), at


def _wide(data: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(data)
    if array.dtype.kind in "biufcUSMm" and array.dtype != np.float16:
        return array.astype(np.float64) if array.dtype == np.float32 else array
    return array.astype(np.float64)  # float16, and bfloat16 and its kin, which numpy files under kind V


def _located(left: Entry, right: Entry, at: int | None) -> dict[str, Any]:
    place: dict[str, Any] = {"path": left.path, "dtype": left.dtype or left.type, "shape": list(left.shape)}
    if at is None:
        return place | {"expected": str(left.data)[:200], "got": str(right.data)[:200]}
    a, b = np.atleast_1d(np.asarray(left.data)), np.atleast_1d(np.asarray(right.data))
    index = [int(i) for i in np.unravel_index(at, left.shape)] if left.shape else []
    return place | {"index": index, "expected": str(a.flat[at]), "got": str(b.flat[at])}


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None  # JSON knows no infinity
