"""Kinds of values: what the analysis knows of a value without running anything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce

from jitmod.source.project import Class, Function, SourceModule

# The length of a leading axis or list. An int is proved; a str is a token: equal tokens mean equal lengths.
Length = int | str | None


@dataclass(frozen=True)
class Unknown:
    """Nothing is known."""


@dataclass(frozen=True)
class Array:
    """A jax array on the device. `is_key`: a PRNG key or an array of them."""

    length: Length = None
    is_key: bool = False


@dataclass(frozen=True)
class NdArray:
    """A numpy array on the host: its arithmetic is numpy's, and it can be changed in place."""

    length: Length = None


@dataclass(frozen=True)
class Device:
    """A result of traced code whose structure is not known: an array or a pytree of arrays."""


@dataclass(frozen=True)
class Number:
    """A Python number; `type` is int, float, bool or complex."""

    type: str


@dataclass(frozen=True)
class Constant:
    """A str, bytes, None, slice or Ellipsis: Python values that a jit holds static."""


@dataclass(frozen=True)
class Sequence:
    """A list or tuple of items of one kind. `uniform`: the items are known to have one shape and dtype."""

    item: Kind
    length: Length = None
    uniform: bool = False


@dataclass(frozen=True)
class Record:
    """A tuple or list of a known number of items, each of its own kind."""

    items: tuple[Kind, ...]
    is_tuple: bool = True


@dataclass(frozen=True)
class Mapping:
    """A dict; `value` is the kind of every value."""

    value: Kind


@dataclass(frozen=True)
class Range:
    """A `range` object."""

    length: Length = None


@dataclass(frozen=True)
class Iterator:
    """A generator, or another object that is used up by iterating."""

    item: Kind


@dataclass(frozen=True)
class Instance:
    """An object of a class: one of the project, or a library's by its dotted name."""

    cls: Class | str


@dataclass(frozen=True)
class ClassRef:
    """A class itself."""

    cls: Class | str


@dataclass(frozen=True)
class Routine:
    """A callable: a function of the project, or a library's by dotted name; `receiver` where it is a bound method."""

    target: Function | str
    receiver: Kind | None = None


@dataclass(frozen=True)
class Transformed:
    """A callable made by a transform (`jax.jit`, `jax.vmap`, `functools.partial`, ...) of another callable."""

    base: Kind
    transform: str


@dataclass(frozen=True)
class Namespace:
    """An imported module: one of the project, or a library's by dotted name."""

    module: SourceModule | str


Kind = (
    Unknown
    | Array
    | NdArray
    | Device
    | Number
    | Constant
    | Sequence
    | Record
    | Mapping
    | Range
    | Iterator
    | Instance
    | ClassRef
    | Routine
    | Transformed
    | Namespace
)

UNKNOWN = Unknown()


def join(a: Kind, b: Kind) -> Kind:
    """The kind of a value that is one of two: what both agree on."""
    if a == b:
        return a
    match a, b:
        case Array(), Array():
            return Array(a.length if a.length == b.length else None, a.is_key and b.is_key)
        case NdArray(), NdArray():
            return NdArray()
        case (Array() | Device(), Array() | Device()):
            return Device()
        case (Sequence(Unknown(), 0 | "=0"), Sequence()):
            return Sequence(b.item)  # an empty display says nothing of its items
        case (Sequence(), Sequence(Unknown(), 0 | "=0")):
            return Sequence(a.item)
        case Sequence(), Sequence():
            same = a.length if a.length == b.length else None
            return Sequence(join(a.item, b.item), same, a.uniform and b.uniform and same is not None)
        case (Record(), Record()) if len(a.items) == len(b.items) and a.is_tuple == b.is_tuple:
            return Record(tuple(join(x, y) for x, y in zip(a.items, b.items, strict=True)), a.is_tuple)
        case Number(), Number():
            return Number("float")
        case Mapping(), Mapping():
            return Mapping(join(a.value, b.value))
    return UNKNOWN


def joined(kinds: Iterable[Kind]) -> Kind:
    """What all of several kinds agree on; unknown where there are none."""
    found = list(kinds)
    return reduce(join, found) if found else UNKNOWN


def unpacked(kind: Kind, path: tuple[int, ...]) -> Kind:
    """The kind of the part of a value that tuple unpacking at `path` takes."""
    for index in path:
        kind = element(kind, index)
    return kind


def length_of(kind: Kind) -> Length:
    match kind:
        case Array(length) | NdArray(length) | Sequence(_, length, _) | Range(length):
            return length
        case Record(items):
            return len(items)
    return None


def with_length_token(kind: Kind, token: str | None) -> Kind:
    """`kind` with a proved or missing length replaced by a token: the length is the same wherever the token is."""
    match kind:
        case Array() | NdArray() | Sequence() | Range():
            known = kind.length
            mark = f"={known}" if isinstance(known, int) else known if isinstance(known, str) else token
            return replace(kind, length=mark)
    return kind


def item_of(kind: Kind) -> Kind:
    """The kind of what iterating over `kind` yields."""
    match kind:
        case Array():
            return Array(is_key=kind.is_key)
        case NdArray():
            return NdArray()
        case Device():
            return Device()
        case Sequence() | Iterator():
            return kind.item
        case Record():
            items = kind.items
            result = items[0] if items else UNKNOWN
            for other in items[1:]:
                result = join(result, other)
            return result
        case Range():
            return Number("int")
    return UNKNOWN


def element(kind: Kind, index: int) -> Kind:
    """The kind of `value[index]` for a constant index, as tuple unpacking takes it."""
    match kind:
        case Record() if -len(kind.items) <= index < len(kind.items):
            return kind.items[index]
        case Record():
            return UNKNOWN
    return item_of(kind)


def function_behind(kind: Kind) -> Function | None:
    """The project's own function that a value of this kind calls, through whatever transforms."""
    while isinstance(kind, Transformed):
        kind = kind.base
    return kind.target if isinstance(kind, Routine) and isinstance(kind.target, Function) else None


def is_device(kind: Kind) -> bool:
    """Whether a value is known to live on the device: an array, or a pytree of arrays."""
    match kind:
        case Array() | Device():
            return True
        case Record(items):
            return bool(items) and all(is_device(item) for item in items)
        case Mapping(value) | Sequence(value):
            return is_device(value)
    return False
