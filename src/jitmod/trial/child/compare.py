"""Parity of two snapshots: structure exactly, floating values within bounds that follow their precision."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
_ITEM = re.compile(r"\[\d+\]")
_SAMPLE = 1 << 16  # elements, which are enough for a scale
COUNTS = 1 << 17  # floats that are whole numbers below this count something
_MISCOUNTED = 10 * MAX_FACTOR
DOUBLE = " in double"  # what the names of such parts end in


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
    allowed, pools = slack or {}, _pools(expected)
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
        size, where = _error(left, right, pools.get(left.path))
        name, bound = left.path, allowed.get(left.path, factor)
        if _is_double(left, right):
            name = left.path + DOUBLE
            bound = double_bound(left.path, factor, allowed)
        if size > 0:
            errors[name] = size
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
            return _order(left, right)
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


def _order(left: Entry, right: Entry) -> dict[str, Any] | None:
    """Keys come in the order of the baseline, or sorted, as compiled functions give them."""
    if not right.order or left.order == right.order:
        return None
    expected = f"the keys {', '.join(left.order)}" if left.order else "sorted keys"
    return {"test": "structure", "path": left.path, "expected": expected, "got": f"the keys {', '.join(right.order)}"}


def widened(name: str, factor: float, size: float) -> float:
    """The bound of a part in which rounding makes an error of `size`; infinite where that is beyond all bounds."""
    if 2 * size > MAX_FACTOR:
        return math.inf
    if name.endswith(DOUBLE):  # a double that depends on results of single precision is no better than they are
        return max(_FINE, min(factor, _SPARED * size), 2 * size)
    return max(factor, 2 * size)


def stable(
    expected: Sequence[Entry],
    again: Sequence[Entry],
    got: Sequence[Entry],
    factor: float = 1.0,
    values: bool = True,
    slack: Slack | None = None,
) -> Comparison:
    """As `compare`, without what changes from run to run: clocks, addresses, what has been drawn from the system.

    `expected` and `again` are two runs of the baseline.
    """
    varying = {
        name.removesuffix(DOUBLE)
        for name, size in compare(expected, again, factor).errors.items()
        if size > (double_bound(name.removesuffix(DOUBLE), factor, {}) if name.endswith(DOUBLE) else factor)
    }
    ignored = dict.fromkeys([*varying, *(name + DOUBLE for name in varying)], math.inf)
    found = compare(expected, got, factor, values, {**(slack or {}), **ignored})
    errors = {name: size for name, size in found.errors.items() if name not in ignored}
    return replace(found, error=max(errors.values(), default=0.0), errors=errors)


def double_bound(name: str, factor: float, allowed: Slack) -> float:
    """The bound of the doubles in a part. Where runs differ, doubles differ as the rest does."""
    return allowed.get(name + DOUBLE, allowed.get(name, _FINE if factor <= 1 else factor))


def _is_double(left: Entry, right: Entry) -> bool:
    """Does the host compute it in double precision? A number that fits into float32 may be a result of jax's."""
    if left.kind not in _HOST or left.dtype not in {"", "float64", "complex128"}:
        return False
    both = [np.asarray(entry.data) for entry in (left, right)]
    if any(array.dtype.kind not in "fc" for array in both):
        return False
    with np.errstate(over="ignore"):
        narrow = [array.astype(np.complex64 if array.dtype.kind == "c" else np.float32) for array in both]
    return not all(np.array_equal(x, y, equal_nan=True) for x, y in zip(both, narrow, strict=True))


def _bounds(entry: Entry) -> tuple[float, float, float]:
    """Relative bound, absolute bound in units of the leaf's scale, and the precision's unit of rounding."""
    if entry.kind in _HOST and entry.dtype in {"", "float64", "complex128"}:
        return 1e-4, 1e-5, 2.0**-23  # the errors of doubles are told in the bounds of float32
    unit = float(jnp.finfo(entry.dtype).eps)  # type: ignore[no-untyped-call]
    if unit < 1e-12:
        return 1e-9, 1e-10, unit
    return (1e-4, 1e-5, unit) if unit < 1e-6 else (max(1e-2, 1.01 * unit), 1e-2, unit)


def _error(left: Entry, right: Entry, pool: Sequence[float] | None = None) -> tuple[float, int | None]:
    """The worst element's error in units of its bound, and its flat index; infinite where no error is allowed.

    `pool` has the magnitudes of the numbers that are listed with this one.
    """
    if left.kind in _STRUCTURE:
        return 0.0, None
    if left.kind == "callable" or not isinstance(left.data, float | complex | np.ndarray):
        return (0.0, None) if left.data == right.data else (math.inf, None)
    if isinstance(left.data, np.ndarray) and left.data.dtype.kind in "fc" and np.array_equal(left.data, right.data):
        return 0.0, None
    a, b = np.atleast_1d(_wide(left.data)), np.atleast_1d(_wide(right.data))
    if a.size == 0:
        return 0.0, None
    if a.dtype.kind not in "fc":
        different = np.flatnonzero(a != b)
        return (math.inf, int(different[0])) if different.size else (0.0, None)
    finite = np.isfinite(a) & np.isfinite(b)
    broken = np.flatnonzero(~finite & ~(_same(a.real, b.real) & _same(a.imag, b.imag)))
    if broken.size:
        return math.inf, int(broken[0])
    relative, absolute, unit = _bounds(left)
    magnitude = np.where(finite, np.abs(a), 0.0)
    scale = magnitude if pool is None else np.asarray(pool)
    bound = relative * magnitude + _absolute(scale, absolute, unit)
    errors = np.where(finite, np.abs(np.where(finite, a, 0) - np.where(finite, b, 0)), 0.0) / bound
    at = int(np.argmax(errors))
    size = float(errors.flat[at])
    return (max(size, _MISCOUNTED) if size > 0 and unit < 1e-6 and _counts(a) and _counts(b) else size), at


def _pools(entries: Sequence[Entry]) -> dict[str, list[float]]:
    """The magnitudes of the numbers that a list has at the same place in each of its items, for each of them.

    A list of numbers has one scale, as an array of them has: one that is next to nothing is not a scale of its own.
    """
    lists = {entry.path for entry in entries if entry.kind == "container" and entry.type == "list"}
    pools: dict[str, list[float]] = {}
    found: dict[str, list[float]] = {}
    for entry in entries if lists else ():
        if entry.shape or not _is_number(entry):
            continue
        place = _ITEM.sub(lambda item: "[*]" if item.string[: item.start()] in lists else item[0], entry.path)
        if place != entry.path:
            found[entry.path] = pool = pools.setdefault(place, [])
            size = abs(complex(entry.data))
            if math.isfinite(size):
                pool.append(size)
    return found


def _is_number(entry: Entry) -> bool:
    if entry.kind == "python":
        return isinstance(entry.data, float | complex)
    return isinstance(entry.data, np.ndarray) and entry.data.dtype.kind in "fc"


def _same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    same: np.ndarray[Any, Any] = (a == b) | (np.isnan(a) & np.isnan(b))
    return same


def _absolute(magnitude: np.ndarray[Any, Any], absolute: float, unit: float) -> float:
    """The part of the bound that is the same for all elements.

    A fill value of -1e9 is not the scale of a leaf: that is the middle one of the values that occur. Zeros that
    rounding makes, beside ones, are no values.
    """
    flat = magnitude[magnitude > 0]
    if not flat.size:
        return absolute * _TINY
    distinct = np.unique(flat[:: flat.size // _SAMPLE + 1])
    middle, largest = float(distinct[(distinct.size - 1) // 2]), float(flat.max())
    return max(absolute * middle, min(_CANCELLED * unit, absolute) * min(largest, 1.0), _TINY)


def _counts(array: np.ndarray[Any, Any]) -> bool:
    return array.dtype.kind == "f" and bool(np.all((np.abs(array) < COUNTS) & (array == np.round(array))))


def _wide(data: Any) -> np.ndarray[Any, Any]:
    """In a type that numpy computes with; whatever is no number as integers or text, which are compared exactly."""
    array = np.asarray(data)
    match array.dtype.kind:
        case "c":
            return array.astype(np.complex128)
        case "f":
            return array.astype(np.float64)
        case "M" | "m":
            return array.view(np.int64)  # NaT is equal to itself there
        case "b" | "i" | "u" | "U" | "S":
            return array
        case "V" if jnp.issubdtype(array.dtype, jnp.inexact):  # bfloat16 and its kin
            return array.astype(np.float64)
        case "V" if jnp.issubdtype(array.dtype, jnp.integer):  # int4 and its kin
            return array.astype(np.int64)
        case "V":
            return np.frombuffer(array.tobytes(), np.uint8)
    return np.array([str(item) for item in array.ravel()])


def _located(left: Entry, right: Entry, at: int | None) -> dict[str, Any]:
    place: dict[str, Any] = {"path": left.path, "dtype": left.dtype or left.type, "shape": list(left.shape)}
    if at is None:
        return place | {"expected": str(left.data)[:200], "got": str(right.data)[:200]}
    a, b = np.atleast_1d(np.asarray(left.data)), np.atleast_1d(np.asarray(right.data))
    index = [int(i) for i in np.unravel_index(at, left.shape)] if left.shape else []
    return place | {"index": index, "expected": str(a.flat[at]), "got": str(b.flat[at])}


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None  # JSON knows no infinity
