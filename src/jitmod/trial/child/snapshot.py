"""A value written down so that it can be compared across worlds: paths, type names, and copies of the data.

Two worlds have two classes of every name, so `isinstance`, tree definitions and equality say nothing across them.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import parts

_EXPANDED = 20_000  # entries, after which an object that was seen is not looked into once more
_LONG = 2_000  # characters of a path
_PLAIN = (type(None), bool, int, float, complex, str, bytes)


@dataclass(frozen=True)
class Entry:
    """One container or leaf. `kind` tells jax arrays, numpy arrays and Python values apart; `data` is a host copy.

    `order` has the keys of a dictionary as they come, and is empty where they are sorted.
    """

    path: str
    kind: str
    type: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    weak: bool = False
    data: Any = None
    order: tuple[str, ...] = ()

    def describe(self) -> str:
        shape = f" {self.dtype}{list(self.shape)}" if self.dtype else ""
        return f"{self.kind} {self.type}{shape}"


def snapshot(value: Any, path: str = "output") -> list[Entry]:
    """Everything reachable from `value`, in an order that does not depend on the world."""
    return [entry for entry, _ in _Walk(_copied).steps(value, path)]


def outline(value: Any) -> list[tuple[str, str, Any]]:
    """As `snapshot`, without copies: path, kind, and the array itself or what is compared of other leaves."""
    found: list[tuple[str, str, Any]] = []
    for entry, held in _Walk(_uncopied).steps(value, ""):
        whole = entry.kind in {"jax array", "numpy array", "key", "deleted"}
        found.append((entry.path, f"{entry.kind} {entry.type}", held if whole else entry.data))
    return found


def walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every object inside `value`, with its path."""
    return ((entry.path, held) for entry, held in _Walk(_uncopied).steps(value, path))


def arrays(value: Any) -> list[jax.Array]:
    """The jax arrays inside `value`, also those inside objects that jax takes for leaves."""
    found: list[jax.Array] = []
    seen: set[int] = set()
    kept: list[Any] = []  # what an object makes anew when it is asked; kept alive, so that its id stays its own
    stack = [value]
    while stack:
        try:
            leaves = jax.tree_util.tree_leaves(stack.pop())
        except (TypeError, ValueError):  # keys that cannot be sorted
            continue
        for leaf in leaves:
            if isinstance(leaf, jax.Array):
                found.append(leaf)
            elif type(leaf) not in _PLAIN and id(leaf) not in seen:
                seen.add(id(leaf))
                with contextlib.suppress(Exception):  # a class that answers in its own way, and not well
                    inner = [item for _, item in _opened(leaf) or ()] if not _is_closed(leaf) else []
                    kept.append((leaf, inner))
                    stack += inner
    return found


def _is_closed(value: Any) -> bool:
    return (
        is_function(value) or isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.dtype != object)
    )


@dataclass
class _Walk:
    """What was met so far: by its id, where; kept alive meanwhile, so that an id stays one object's."""

    data: Callable[[Any], Any]  # what is kept of an array
    seen: dict[int, str] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)
    above: set[int] = field(default_factory=set)
    number: int = 0

    def steps(self, value: Any, path: str) -> Iterator[tuple[Entry, Any]]:
        """Every entry with its value. Depth first, without recursion: linked lists are long."""
        stack: list[tuple[Iterator[tuple[str, Any]], str, int]] = [(iter([("", value)]), path, 0)]
        while stack:
            siblings, above, owner = stack[-1]
            step = next(siblings, None)
            if step is None:
                self.above.discard(owner)
                stack.pop()
                continue
            place = above + step[0]
            self.number += 1
            if len(place) > _LONG:
                place = f"{place[: _LONG // 4]}...#{self.number}"
            entry, inner = self._entry(step[1], place)
            yield entry, step[1]
            if inner is not None:
                self.above.add(id(step[1]))
                stack.append((iter(inner), place, id(step[1])))

    def _entry(self, value: Any, path: str) -> tuple[Entry, list[tuple[str, Any]] | None]:
        known = self.seen.get(id(value))
        if known is not None and (id(value) in self.above or self.number > _EXPANDED):
            return Entry(path, "cycle" if id(value) in self.above else "shared", "", data=known), None
        try:
            entry = _leaf(value, path, self.data)
            inner = _opened(value) if entry is None or entry.kind == "callable" else _carried(value)
        except Exception:  # a class that answers in its own way, and not well
            return Entry(path, "opaque", _name(type(value))), None
        if inner is not None:
            self.seen.setdefault(id(value), path)
            self.kept.append((value, inner))
        if entry is None:
            kind = "opaque" if inner is None else "container"
            size = None if inner is None else parts.count(value)
            entry = Entry(path, kind, _name(type(value)) + _promises(type(value)), data=size, order=_order(value))
        return entry, inner


def _carried(value: Any) -> list[tuple[str, Any]] | None:
    """What an array of a class of its own has beside its items."""
    if not isinstance(value, np.ndarray) or type(value).__module__.partition(".")[0] == "numpy":
        return None
    return [(f".{name}", item) for name, item in sorted(parts.attributes(value).items())] or None


def _promises(kind: type) -> str:
    """What a dataclass says of its instances: how they compare, and whether they stay as they are."""
    found: Any = getattr(kind, "__dataclass_params__", None)
    names = [name for name in ("eq", "order", "frozen") if getattr(found, name, False)]
    return f" ({', '.join(names)})" if names else ""


def _order(value: Any) -> tuple[str, ...]:
    """Compiled functions give dictionaries with sorted keys, but for those whose class says that order matters."""
    if not isinstance(value, dict) or len(value) < 2:
        return ()
    keys = list(value)
    if type(value) in (dict, collections.defaultdict):
        with contextlib.suppress(TypeError):  # keys that cannot be sorted
            if keys == sorted(keys):
                return ()
    said = tuple(map(repr, keys))
    return said if all(map(parts.is_plain, said)) else ()  # without a name, they are compared as they come


def _copied(array: Any) -> Any:
    return np.array(array, copy=True)


def _uncopied(array: Any) -> Any:
    return array


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def _leaf(value: Any, path: str, data: Callable[[Any], Any]) -> Entry | None:
    """The entry of a value that is compared as a whole; a function has parts besides."""
    kind, name = type(value), _name(type(value))
    if kind in _PLAIN:
        return Entry(path, "python", name, data=value)
    if isinstance(value, jax.Array):
        return _jax_array(value, path, data)
    if isinstance(value, np.generic) and value.dtype.names is None:
        return Entry(path, "numpy scalar", name, str(value.dtype), data=np.asarray(value))
    if isinstance(value, np.ma.MaskedArray):
        return None
    if isinstance(value, np.ndarray) and value.dtype != object and value.dtype.names in (None, ("float0",)):
        return Entry(path, "numpy array", name, str(value.dtype), value.shape, data=data(value))
    if is_function(value):
        inner = getattr(value, "__wrapped__", value)  # a compiled or cached function is a function
        where, label = getattr(value, "__module__", ""), getattr(value, "__qualname__", None)
        label = label or getattr(value, "__name__", "")
        kind_name = name if inner is value else "function"
        return Entry(path, "callable", kind_name, data=f"{where}.{label}")
    if isinstance(value, Code):
        return Entry(path, "code", name, data=value.digest)
    if isinstance(value, types.CodeType):
        return Entry(path, "code", name, data=digest(value))
    if isinstance(value, jax.stages.Compiled | jax.stages.Lowered):
        return Entry(path, "code", name, data=hashlib.sha256(str(value.as_text()).encode()).hexdigest())
    text = parts.leaf(value)
    return None if text is None else Entry(path, "python", name, data=text)


def is_function(value: Any) -> bool:
    """Also one that a library has compiled or cached."""
    if isinstance(value, parts.CODE):
        return True
    library = type(value).__module__.partition(".")[0] in {"jax", "jaxlib", "functools"}
    return library and callable(value) and hasattr(value, "__wrapped__")


def _opened(value: Any) -> list[tuple[str, Any]] | None:
    """The parts of a value, sets in an order of their contents."""
    if isinstance(value, parts.CODE) or is_function(value):
        return _closure(value)
    if isinstance(value, set | frozenset):
        return [(f"{{{i}}}", item) for i, item in enumerate(sorted(value, key=_sorting))] + [
            (f".{name}", item) for name, item in sorted(parts.attributes(value).items())
        ]
    if isinstance(value, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(value)
        data = np.where(mask, np.zeros((), value.dtype), value.data)
        return [(".data", data), (".mask", mask), (".fill_value", np.asarray(value.fill_value, value.dtype))]
    if isinstance(value, np.ndarray | np.void) and value.dtype.names is not None:
        return [(f"[{field!r}]", value[field]) for field in value.dtype.names]
    if isinstance(value, np.ndarray):
        return [(".shape", value.shape), *((f"[{i}]", item) for i, item in enumerate(value.ravel()))]
    found = parts.parts(value)
    return None if found is None else list(found)


def _sorting(value: Any) -> str:
    text = repr(value)
    if parts.is_plain(text):
        return text
    return repr([(e.kind, e.type, e.dtype, e.data) for e in snapshot(value)])


def _closure(value: Any) -> list[tuple[str, Any]] | None:
    """What a function carries along, beside its name."""
    if isinstance(value, types.MethodType | types.BuiltinFunctionType):
        owner = value.__self__
        return None if owner is None or isinstance(owner, type | types.ModuleType) else [(".self", owner)]
    function = value
    while hasattr(function, "__wrapped__") and not isinstance(function, type):
        function = function.__wrapped__
    if not isinstance(function, types.FunctionType):
        return None
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    found = [(f".<{name}>", cell.cell_contents) for name, cell in cells if is_filled(cell)]
    found += [(f".default{i}", item) for i, item in enumerate(function.__defaults__ or ())]
    found += [(f".default_{name}", item) for name, item in sorted((function.__kwdefaults__ or {}).items())]
    if found or function.__name__ == "<lambda>" or "<locals>" in function.__qualname__:
        found.append((".code", Code(digest(function.__code__))))
    return found or None


def is_filled(cell: types.CellType) -> bool:
    """Has the variable a value?"""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


class Code:
    """What a function does: where that differs, nothing tells whether its results do."""

    __slots__ = ("digest",)

    def __init__(self, digest: str) -> None:
        self.digest = digest


def digest(code: types.CodeType) -> str:
    """Of the instructions, names and constants, without line numbers."""
    inner = [digest(item) if isinstance(item, types.CodeType) else repr(item) for item in code.co_consts]
    said = repr((code.co_code, code.co_names, code.co_varnames, code.co_freevars, inner))
    return hashlib.sha256(said.encode()).hexdigest()


def _jax_array(value: jax.Array, path: str, data: Callable[[Any], Any]) -> Entry:
    dtype, shape, weak = str(value.dtype), tuple(value.shape), bool(getattr(value, "weak_type", False))
    if isinstance(value, jax.core.Tracer):
        return Entry(path, "tracer", "jax.Array", dtype, shape)
    if value.is_deleted():
        return Entry(path, "deleted", "jax.Array", dtype, shape)
    if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return Entry(path, "key", "jax.Array", dtype, shape, data=data(jax.random.key_data(value)))
    return Entry(path, "jax array", "jax.Array", dtype, shape, weak, data(value))
