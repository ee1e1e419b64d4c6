"""Arguments of a call written to one file: arrays raw, callables by reference, everything else by structure."""

from __future__ import annotations

import hashlib
import importlib
import io
import os
import pickle
import sys
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

from . import record_references as references

TOOLS = {tool.__name__: tool for tool in (references.make_function, references.fill)}
MAX_WEAK = 4096  # a weakly typed array can only be made again item by item, unless all its items are equal
_SHOWN = 120


class Unrecordable(Exception):
    """A value that cannot be stored; the message names it."""


@dataclass(frozen=True)
class Written:
    """A value as bytes. `digest` names its contents; `uses_main`: it refers to something of the main script."""

    pickled: bytes
    arrays: tuple[Any, ...]
    digest: str
    uses_main: bool

    @property
    def size(self) -> int:
        return len(self.pickled) + sum(int(a.nbytes) for a in self.arrays)

    def save(self, file: IO[bytes]) -> None:
        import numpy as np

        raw = {f"a{number}": _bytes_of(array) for number, array in enumerate(self.arrays)}
        np.savez(file, allow_pickle=False, value=np.frombuffer(self.pickled, np.uint8), **raw)


def write(value: Any, max_bytes: int, secrets: Sequence[bytes] = ()) -> Written:
    """Copy `value` as it is now. Raises `Unrecordable`, also where one of `secrets` would be stored."""
    buffer = _Bounded(max_bytes)
    pickler: _Rules = _Plain(buffer, max_bytes)
    try:
        try:
            pickler.dump(value)
        except (pickle.PicklingError, TypeError, AttributeError, references.NotFound):
            richer = _rich_pickler()
            if richer is None:
                raise
            buffer = _Bounded(max_bytes)
            pickler = richer(buffer, max_bytes)
            pickler.dump(value)
    except Unrecordable:
        raise
    except (Exception, RecursionError) as error:
        raise Unrecordable(f"{type(error).__name__}: {error}"[:_SHOWN]) from None
    pickled = buffer.getvalue()
    if any(secret in pickled for secret in secrets):
        raise Unrecordable("holds a secret of the environment")
    digest = hashlib.sha256(pickled)
    for array in pickler.arrays:
        digest.update(_bytes_of(array))
    return Written(pickled, tuple(pickler.arrays), digest.hexdigest(), pickler.uses_main)


class _Bounded(io.BytesIO):
    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def write(self, data: Any, /) -> int:
        if self.tell() + len(data) > self._limit:
            raise Unrecordable(_too_large(self._limit))
        return int(super().write(data))


class _Rules:
    """What is stored in which way; mixed into a pickler."""

    def __init__(self, file: IO[bytes], max_bytes: int) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)  # type: ignore[call-arg]
        self.arrays: list[Any] = []
        self.uses_main = False
        self._limit = max_bytes
        self._room = max_bytes
        self._known: dict[int, tuple[Any, ...]] = {}
        self._kept: list[Any] = []  # so that no id is used twice

    def dump(self, value: Any) -> None:
        super().dump(value)  # type: ignore[misc]

    def persistent_id(self, value: Any) -> tuple[Any, ...] | None:
        if id(value) in self._known:
            return self._known[id(value)]
        found = self._special(value)
        if found is not None:
            self._known[id(value)] = found
            self._kept.append(value)
        return found

    def _special(self, value: Any) -> tuple[Any, ...] | None:
        if value is None or isinstance(value, str | bytes | int | float | list | dict | tuple):
            return None
        jax, np = sys.modules.get("jax"), sys.modules.get("numpy")
        if jax is not None and isinstance(value, jax.Array):
            return self._jax_array(value, jax)
        if np is not None and type(value) is np.ndarray and (name := _raw_name(value.dtype)) is not None:
            return ("ndarray", self._keep(np.array(value, copy=True)), name, value.shape)
        if value is os.environ or (value is getattr(os, "environb", None)):
            raise Unrecordable("the environment of the process")
        if isinstance(value, types.ModuleType):
            return ("module", value.__name__)
        if isinstance(value, Iterator):
            raise Unrecordable(f"a {type(value).__name__}, which reading would use up")
        for name, tool in TOOLS.items():
            if value is tool:
                return ("tool", name)
        if isinstance(value, type | types.FunctionType) or (callable(value) and hasattr(value, "__wrapped__")):
            reference = references.reference_of(value)
            self.uses_main |= reference is not None and reference[0] == "__main__"
            return ("name", *reference) if reference is not None else None
        return None

    def _jax_array(self, value: Any, jax: Any) -> tuple[Any, ...]:
        import numpy as np

        if isinstance(value, jax.core.Tracer):
            raise Unrecordable("a tracer: the call is part of a compiled function")
        if value.is_deleted():
            raise Unrecordable("a deleted (donated) buffer")
        if not value.is_fully_addressable:
            raise Unrecordable("an array that other processes hold a part of")
        if jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key):
            raw = np.array(jax.random.key_data(value), copy=True)
            return ("key", self._keep(raw), str(jax.random.key_impl(value)), raw.shape)
        raw = np.array(value, copy=True)
        weak = bool(value.weak_type)
        if weak and raw.size > MAX_WEAK and not (raw == raw.flat[0]).all():
            raise Unrecordable("a large weakly typed array")
        return ("array", self._keep(raw), _raw_name(raw.dtype), raw.shape, weak)

    def _keep(self, array: Any) -> int:
        self._room -= array.nbytes
        if self._room < 0:
            raise Unrecordable(_too_large(self._limit))
        self.arrays.append(array)
        return len(self.arrays) - 1

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, types.FunctionType):
            place = references.place_of(value)
            self.uses_main |= place[0] == "__main__"
            state = references.state_of(value)
            return references.make_function, (place,), state, None, None, references.fill
        inherited = getattr(super(), "reducer_override", None)
        return inherited(value) if inherited is not None else NotImplemented


class _Plain(_Rules, pickle.Pickler):
    pass


def _rich_pickler() -> type[_Rules] | None:
    """A pickler that also takes local classes and the like, where cloudpickle is installed."""
    try:
        cloudpickle: Any = importlib.import_module("cloudpickle")
    except ImportError:
        return None
    base: Any = cloudpickle.Pickler

    class Rich(_Rules, base):  # type: ignore[misc]
        def reducer_override(self, value: Any) -> Any:
            try:
                return super().reducer_override(value)
            except references.NotFound:
                return base.reducer_override(self, value)

    return Rich


def _raw_name(dtype: Any) -> str | None:
    """The name under which a dtype's items can be stored as bytes; None for texts, records and objects."""
    if dtype.kind in "biufcmM":
        return str(dtype.str)
    return str(dtype.name) if dtype.isbuiltin == 2 else None  # bfloat16 and its like


def _bytes_of(array: Any) -> Any:
    import numpy as np

    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)


def _too_large(limit: int) -> str:
    return f"more than {limit // 2**20} MiB"
