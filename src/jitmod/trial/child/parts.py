"""What a Python object consists of, as far as it can be looked into."""

from __future__ import annotations

import array
import collections
import contextvars
import copyreg
import dataclasses
import enum
import functools
import io
import re
import threading
import types
import warnings
import weakref
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any

import jax
import numpy as np

Parts = Iterator[tuple[str, Any]]

CODE = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType)
_SCALARS = (int, float, complex, str, bytes)
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+|\bid=\d+")
LIBRARIES = {"jax", "jaxlib"}
_OF_FRAMES = "JAX has removed its internal frames"
KEY = "<key>"  # how the key of an entry is reached that no text names
_OPEN = (tuple, list, Mapping, functools.partial, BaseException)


def attributes(value: Any) -> dict[str, Any]:
    """What an object holds in its dictionary and its slots; asked of `object`, because classes may answer otherwise."""
    found: dict[str, Any] = {}
    try:
        held = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        held = {}
    if isinstance(held, dict):
        found |= {name: item for name, item in held.items() if isinstance(name, str)}
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            member = kind.__dict__.get(_mangled(kind, name))
            if isinstance(member, types.MemberDescriptorType):
                try:
                    found[name] = member.__get__(value, type(value))
                except AttributeError:  # not set
                    continue
    return found


def count(value: Any) -> int | None:
    """How many items a container has that is compared item by item."""
    sized = isinstance(value, list | tuple | set | frozenset | collections.deque | Mapping)
    return len(value) if sized else None


def parts(value: Any) -> Parts | None:
    """The parts of a value that is no leaf, with how each is reached; None where there is no way into it."""
    names = getattr(type(value), "_fields", None) if isinstance(value, tuple) else None
    if names is not None:
        return ((f".{name}", item) for name, item in zip(names, value, strict=True))
    if isinstance(value, functools.partial):
        return iter([(".func", value.func), (".args", value.args), (".keywords", value.keywords), *_named(value)])
    items = _items(value)
    if items is not None:
        return iter([*items, *_named(value)])
    if isinstance(value, BaseException):
        return iter([(".args", value.args), *_noted(value)])
    if isinstance(value, contextvars.ContextVar):
        return iter([(".value", value.get(None))])
    if isinstance(value, threading.local):
        return iter([(f".{name}", item) for name, item in sorted(vars(value).items())])
    if isinstance(value, weakref.ref):
        return iter([(".referent", value())])
    if isinstance(value, types.GeneratorType):
        held = None if value.gi_frame is None else dict(value.gi_frame.f_locals)
        return iter([(".name", value.gi_code.co_qualname), (".locals", held), (".code", value.gi_code)])
    if dataclasses.is_dataclass(value):
        names = [f.name for f in dataclasses.fields(value)]  # static fields as well
        held = {name: getattr(value, name) for name in names if hasattr(value, name)}
        return ((f".{name}", item) for name, item in (held | attributes(value)).items())
    # To jax an iterator is a leaf, of a kind that it is going to refuse.
    return (None if isinstance(value, Iterator) else _registered(value)) or _inside(value)


def leaf(value: Any) -> str | None:
    """Text that says all there is to say about a value of a kind that Python or jax fully describe; else None."""
    kind = type(value)
    if isinstance(value, enum.Enum):
        said = repr(value.value)
        return f"{kind.__qualname__}.{value.name or ''}" + (f" = {said}" if is_plain(said) else "")
    if isinstance(value, np.dtype | range | slice | re.Pattern):
        return repr(value)
    if isinstance(value, bytearray | memoryview):
        return repr(bytes(value))
    if isinstance(value, io.IOBase) and not isinstance(value, io.BytesIO | io.StringIO):
        return f"file {getattr(value, 'name', '')} {'closed' if value.closed else 'open'}"
    if isinstance(value, _LOCKS):
        return "lock"
    if kind is object:
        return "object"
    if kind.__module__.partition(".")[0] in LIBRARIES and not isinstance(value, _OPEN) and _registered(value) is None:
        return _ADDRESS.sub("", repr(value))  # executables, shardings, devices, tree definitions: none of them changes
    return None


def is_plain(text: str) -> bool:
    """Does a `repr` say what a thing is, and not where it lies?"""
    return _ADDRESS.search(text) is None


def _items(value: Any) -> list[tuple[str, Any]] | None:
    if isinstance(value, list | tuple | collections.deque):
        found = [(f"[{i}]", item) for i, item in enumerate(value)]
        return found + ([(".maxlen", value.maxlen)] if isinstance(value, collections.deque) else [])
    if isinstance(value, Mapping):
        keys = {key: repr(key) for key in value}
        missing = [(".default_factory", value.default_factory)] if isinstance(value, collections.defaultdict) else []
        if all(map(is_plain, keys.values())):
            return missing + [(f"[{keys[key]}]", value[key]) for key in sorted(keys, key=keys.__getitem__)]
        pairs = list(value.items())
        return missing + [(f"[{i}].{'value' if n else KEY}", pair[n]) for i, pair in enumerate(pairs) for n in (0, 1)]
    if isinstance(value, KeysView | ValuesView | ItemsView):
        return [(f"[{i}]", item) for i, item in enumerate(value)]
    if isinstance(value, array.array):
        return [(".typecode", value.typecode), (".values", np.array(value))]
    if isinstance(value, _SCALARS):  # of a class of its own
        base: Any = next(kind for kind in _SCALARS if isinstance(value, kind))
        return [(".value", base.__getnewargs__(value)[0])]
    return None


def _named(value: Any) -> list[tuple[str, Any]]:
    return [(f".{name}", item) for name, item in sorted(attributes(value).items())]


def _noted(error: BaseException) -> list[tuple[str, Any]]:
    """The attributes of an exception, and what it was raised from. What jax says about its own frames is left out."""
    named = dict(_named(error))
    notes = [note for note in getattr(error, "__notes__", ()) if _OF_FRAMES not in str(note)]
    named |= {".__notes__": notes}
    cause = error.__cause__
    if cause is not None and type(cause).__module__.partition(".")[0] not in LIBRARIES:
        named[".__cause__"] = cause
    return sorted((name, held) for name, held in named.items() if name != ".__notes__" or notes)


def _registered(value: Any) -> Parts | None:
    """The children and the static data of a class that is registered as a pytree node, and what it has besides."""
    children, tree = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda node: node is not value)
    if len(children) == 1 and children[0][1] is value:
        return None
    found = [(jax.tree_util.keystr(keys), child) for keys, child in children]
    data = tree.node_data()  # type: ignore[attr-defined]
    known = {id(child) for _, child in found}
    own = type(value).__module__.partition(".")[0] not in LIBRARIES
    hidden = [(name, item) for name, item in _named(value) if id(item) not in known] if own else []
    return iter(found + ([] if data is None or data[1] is None else [(".static", data[1])]) + hidden)


def _inside(value: Any) -> Parts | None:
    """What a class gives to be copied by, if it says so itself; else its attributes."""
    kind = type(value)
    names = _named(value)
    own = any(getattr(kind, name, None) is not getattr(object, name, None)
              for name in ("__reduce__", "__reduce_ex__", "__getstate__"))  # fmt: skip
    if own or not names:
        reduced = _reduced(value)
        if reduced is not None:
            return reduced
    return iter(names) if kind.__dictoffset__ != 0 or _has_slots(kind) else None


def _has_slots(kind: type) -> bool:
    return any(base.__dict__.get("__slots__") for base in kind.__mro__)


def _reduced(value: Any) -> Parts | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = value.__reduce_ex__(4)
    except Exception:
        return None
    if not isinstance(made, tuple):
        return iter([(".global", made)])
    function, given, *rest = made
    if function is copyreg.__newobj__ and len(given) == 1 and not any(item is not None for item in rest):  # type: ignore[attr-defined]
        return None  # nothing but its class
    state = [list(item) if isinstance(item, Iterator) else item for item in rest]
    return iter([(".made_by", function), (".made_of", given), (".state", tuple(state))])


def _mangled(kind: type, name: str) -> str:
    private = name.startswith("__") and not name.endswith("__")
    return f"_{kind.__name__.lstrip('_')}{name}" if private else name
