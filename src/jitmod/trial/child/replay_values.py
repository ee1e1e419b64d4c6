"""Reading what `record_values` wrote. Loading it runs code of whoever wrote it: only trusted folders are read."""

from __future__ import annotations

import importlib
import io
import pickle
import types
from collections.abc import Callable
from typing import IO, Any

import jax
import jax.numpy as jnp
import numpy as np

from . import record_references as references
from .record_values import TOOLS


def read(file: IO[bytes], load: Callable[[str], types.ModuleType] = importlib.import_module) -> Any:
    """The value in `file`; `load` imports the modules that it refers to."""
    with np.load(file, allow_pickle=False) as stored:
        contents = {name: stored[name] for name in stored.files}
    pickled = contents.pop("value").tobytes()
    return _Reader(io.BytesIO(pickled), contents, load).load()


class _Reader(pickle.Unpickler):
    def __init__(
        self, file: IO[bytes], contents: dict[str, np.ndarray], load: Callable[[str], types.ModuleType]
    ) -> None:
        super().__init__(file)
        self._contents = contents
        self._load = load
        self._made: dict[int, Any] = {}

    def find_class(self, module: str, name: str) -> Any:
        return references.resolve(module, name, self._load)

    def persistent_load(self, key: Any) -> Any:
        kind, *rest = key
        match kind:
            case "name":
                module, name = rest
                return references.resolve(module, name, self._load)
            case "module":
                return self._load(*rest)
            case "tool":
                tool = TOOLS[rest[0]]
                return tool if tool is references.fill else lambda place: references.make_function(place, self._load)
        number = rest[0]
        if number not in self._made:
            self._made[number] = self._array(kind, *rest)
        return self._made[number]

    def _array(self, kind: str, number: int, name: str, shape: tuple[int, ...], weak: bool = False) -> Any:
        raw = self._contents[f"a{number}"]
        if kind == "key":
            return jax.random.wrap_key_data(jnp.asarray(raw.view(np.uint32).reshape(shape)), impl=name)
        host = raw.view(_dtype(name)).reshape(shape)
        if kind == "ndarray":
            return host.copy()
        return _weak(host) if weak else jnp.asarray(host)


def _dtype(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:  # bfloat16 and its like
        found: np.dtype[Any] = np.dtype(getattr(jnp, name))
        return found


def _weak(host: np.ndarray) -> jax.Array:
    """A weakly typed array: only Python numbers make them."""
    items = host.ravel().tolist()
    if host.shape == ():
        return jnp.asarray(items[0])
    if all(item == items[0] for item in items):
        return jnp.full(host.shape, items[0] if items else 0.0)
    return jnp.stack([jnp.asarray(item) for item in items]).reshape(host.shape)
