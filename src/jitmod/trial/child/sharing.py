"""Which parts of a result are one object, or lie in the same memory, so that whoever changes one changes another."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .snapshot import walk

_CHANGEABLE = (list, dict, set, collections.deque, bytearray)
_MOST = 10_000  # pairs that are looked at
_WORK = 10_000  # steps that two strided views are worth


@dataclass(frozen=True)
class Shared:
    """`path` and `other` are one changeable thing; `other` is empty for an array that must not be written to."""

    path: str
    other: str
    is_array: bool


def shared(output: Any, arguments: Any) -> frozenset[Shared]:
    """What the output shares within itself and with the arguments, and its read-only arrays."""
    found: set[Shared] = set()
    first: dict[int, str] = {}
    kept: list[Any] = []  # what is made when it is asked for stays alive, so that its id and memory stay its own
    arrays: list[tuple[str, np.ndarray[Any, Any]]] = []
    for of, value in (("arguments", arguments), ("output", output)):
        for path, held in walk(value, of):
            is_array = isinstance(held, np.ndarray)
            if not is_array and not isinstance(held, _CHANGEABLE):
                continue
            kept.append(held)
            if is_array and of == "output" and not held.flags.writeable:
                found.add(Shared(path, "", True))
            if id(held) in first and (not is_array or held.flags.writeable):
                found.add(Shared(path, first[id(held)], is_array))
            elif is_array and held.nbytes and held.dtype != object:
                arrays.append((path, held))
            first.setdefault(id(held), path)
    found.update(Shared(later, earlier, True) for earlier, later in _overlapping(arrays))
    return frozenset(one for one in found if one.path.startswith("output"))


def difference(one: frozenset[Shared], again: frozenset[Shared], got: frozenset[Shared]) -> dict[str, Any] | None:
    """What is shared now and was not, or the other way round; `one` and `again` are two runs of the baseline.

    Lists that are one object may become two: whatever is compiled gives new ones.
    """
    lost = {shared for shared in (one & again) - got if shared.is_array and shared.other}
    for number, found in enumerate((got - one - again, lost)):
        for shared in sorted(found, key=lambda s: (s.path, s.other)):
            said = f"shares its memory with {shared.other}" if shared.other else "is read-only"
            alone = "does not" if shared.other else "can be written to"
            expected, seen = (alone, said) if number == 0 else (said, alone)
            return {"test": "structure", "path": shared.path, "expected": expected, "got": seen}
    return None


def _overlapping(arrays: list[tuple[str, np.ndarray[Any, Any]]]) -> Iterator[tuple[str, str]]:
    """Pairs of different arrays, of which at least one can be written to, in the order in which they were met."""
    bounds = [_bounds(array) for _, array in arrays]
    order = sorted(range(len(arrays)), key=lambda number: bounds[number])
    active: list[int] = []
    looked = 0
    for number in order:
        active = [other for other in active if bounds[other][1] > bounds[number][0]]
        for other in active:
            looked += 1
            if looked > _MOST:
                return
            earlier, later = sorted((number, other))
            (place, a), (path, b) = arrays[earlier], arrays[later]
            if (a.flags.writeable or b.flags.writeable) and _overlap(a, b):
                yield place, path
        active.append(number)


def _bounds(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """The addresses of its first byte and of the one behind its last."""
    steps = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
    start = array.ctypes.data
    return start + sum(step for step in steps if step < 0), start + sum(s for s in steps if s > 0) + array.itemsize


def _overlap(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    try:
        return np.shares_memory(a, b, max_work=_WORK)  # type: ignore[arg-type]
    except (np.exceptions.TooHardError, RuntimeError):
        return False
