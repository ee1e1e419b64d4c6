"""Progress bars, heard by what the program does to them: the text of a bar depends on the time that passed."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from . import capture, finder

_SAID = ("update", "set_postfix", "set_postfix_str", "set_description", "set_description_str", "reset", "close")
_PROTOCOL = ("update", "close", "set_postfix", "__iter__")
_HEARD = "__jitmod_heard__"


def listen() -> None:
    """Hear the bars of tqdm, also where a function imports them late, and those of every module that is loaded."""
    finder.listeners.append(hear)
    if importlib.util.find_spec("tqdm") is not None:
        hear(importlib.import_module("tqdm"))


def hear(module: ModuleType) -> None:
    """Hear every class of the module's names that behaves like a bar, whoever wrote it."""
    for value in list(vars(module).values()):
        if isinstance(value, type) and all(callable(getattr(value, name, None)) for name in _PROTOCOL):
            _hear(value)


def _hear(bar: type) -> None:
    if _HEARD in vars(bar):
        return
    setattr(bar, _HEARD, True)
    for name in _SAID:
        if name in vars(bar):
            setattr(bar, name, _speaking(name, vars(bar)[name]))
    if "__init__" in vars(bar):
        setattr(bar, "__init__", _speaking("bar", vars(bar)["__init__"], ("desc", "total")))  # noqa: B010
    if "__iter__" in vars(bar):
        setattr(bar, "__iter__", _ticking(vars(bar)["__iter__"]))  # noqa: B010


def _speaking(name: str, function: Any, attributes: tuple[str, ...] = ()) -> Any:
    if not callable(function):
        return function

    @functools.wraps(function)
    def spoken(self: Any, *args: Any, **kwargs: Any) -> Any:
        with capture.quiet_inside():
            result = function(self, *args, **kwargs)
        said = [f"{key}={getattr(self, key, None)}" for key in attributes]
        said += [str(value) for value in args] if not attributes else []
        said += [f"{key}={value}" for key, value in kwargs.items() if not attributes and key != "refresh"]
        capture.emit("bar", " ".join([name, *said]))
        return result

    return spoken


def _ticking(function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    @functools.wraps(function)
    def ticking(self: Any) -> Iterator[Any]:
        for item in function(self):
            yield item
            capture.emit("bar", "tick")

    return ticking
