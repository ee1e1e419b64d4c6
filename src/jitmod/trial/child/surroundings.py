"""What a process has outside of the project's own objects, and what of it a call leaves changed, by name.

Whoever comes after the call meets that: random draws, files with other rights, a signal that is ignored.
"""

from __future__ import annotations

import atexit
import decimal
import gc
import hashlib
import locale
import logging
import os
import random
import re
import signal
import socket
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

_THREADS, _EXITS = "threads left running", "functions registered with atexit"
OF_IMPORTS = ("os.environ", "logger ", "warnings.filters", "sys.meta_path", _EXITS)
"""What the names of things begin with that libraries change when they are imported."""

LOADING = ", when it is loaded"
"""What the names of changes end in that loading a project leaves."""

_OWN = ("sys.path", "sys.meta_path", "current folder", "random.", "np.random.", "jax.config.jax_compilation_cache",
        "jax.config.jax_persistent_cache", "jax.config.jax_enable_compilation_cache")  # fmt: skip
_USUAL = (logging.NOTSET, True, False, (), ())  # what nobody has configured of a logger
weakref.finalize(random, int).detach()  # the first one of a process registers a function with atexit


@dataclass(frozen=True)
class Setting:
    """Something that is one for the whole process. `write` takes what `read` gave."""

    read: Callable[[], Any]
    write: Callable[[Any], object]


def _umask() -> int:
    now = os.umask(0o077)
    os.umask(now)
    return now


def _variable(module: Any, name: str) -> Setting:
    return Setting(lambda: getattr(module, name), lambda value: setattr(module, name, value))


def _handled(number: signal.Signals) -> Setting:
    """Of handlers that were not put there from Python, nothing is known."""

    def write(value: Any) -> None:
        if value is not None and threading.current_thread() is threading.main_thread():
            signal.signal(number, value)

    return Setting(lambda: signal.getsignal(number), write)


def _decimals() -> decimal.Context:
    """Without what earlier operations have flagged."""
    found = decimal.getcontext().copy()
    found.clear_flags()
    return found


def _switch_gc(on: bool) -> None:
    (gc.enable if on else gc.disable)()


_SIGNALS = {x for x in signal.valid_signals() if isinstance(x, signal.Signals)} - {signal.SIGKILL, signal.SIGSTOP}
SETTINGS: Mapping[str, Setting] = {
    "umask": Setting(_umask, os.umask),
    "locale": Setting(lambda: locale.setlocale(locale.LC_ALL), lambda value: locale.setlocale(locale.LC_ALL, value)),
    "recursion limit": Setting(sys.getrecursionlimit, sys.setrecursionlimit),
    "sys.getswitchinterval()": Setting(sys.getswitchinterval, sys.setswitchinterval),
    "gc.isenabled()": Setting(gc.isenabled, _switch_gc),
    "gc.get_threshold()": Setting(gc.get_threshold, lambda value: gc.set_threshold(*value)),
    "socket.getdefaulttimeout()": Setting(socket.getdefaulttimeout, socket.setdefaulttimeout),
    "decimal.getcontext()": Setting(_decimals, decimal.setcontext),
    "np.geterr()": Setting(lambda: dict(np.geterr()), lambda value: np.seterr(**value)),
    "np.get_printoptions()": Setting(lambda: dict(np.get_printoptions()), lambda value: np.set_printoptions(**value)),
    "logging.disable": _variable(logging.root.manager, "disable"),
    **{f"sys.{name}": _variable(sys, name)
       for name in ("stdin", "stdout", "stderr", "excepthook", "displayhook", "unraisablehook")},
    "threading.excepthook": _variable(threading, "excepthook"),
    **{f"handler of {number.name}": _handled(number) for number in sorted(_SIGNALS)},
}  # fmt: skip


def settings() -> dict[str, Any]:
    """What the settings are, by name."""
    return {name: setting.read() for name, setting in SETTINGS.items()}


def restore(wanted: Mapping[str, Any]) -> None:
    """Set them to what `settings` gave, where they are something else."""
    for name, setting in SETTINGS.items():
        if _differ(setting.read(), wanted[name]):
            setting.write(wanted[name])


def loggers() -> list[tuple[str, logging.Logger]]:
    known = list(logging.Logger.manager.loggerDict.items())
    return [("", logging.getLogger()), *((name, x) for name, x in known if isinstance(x, logging.Logger))]


def now(folder: str) -> dict[str, Any]:
    """All of it as it is, for `changes`. `folder` is where the call began."""
    try:
        here = os.path.relpath(os.getcwd(), folder)
    except OSError:
        here = "gone"
    configured = {
        f"logger {name or 'root'}": (x.level, x.propagate, x.disabled, tuple(x.handlers), tuple(x.filters))
        for name, x in loggers()
    }
    return {
        **settings(), "current folder": here, "sys.path": tuple(sys.path), "sys.meta_path": tuple(sys.meta_path),
        "warnings.filters": tuple(warnings.filters), "time.tzname": time.tzname,
        "random.getstate()": random.getstate(), "np.random.get_state()": _drawn(),
        **{f"os.environ[{name!r}]": value for name, value in os.environ.items()},
        **{f"jax.config.{name}": value for name, value in jax.config.values.items()},
        **{name: said for name, said in configured.items() if said != _USUAL},
        _EXITS: atexit._ncallbacks(), _THREADS: frozenset(t for t in threading.enumerate() if _is_plain(t)),
    }  # fmt: skip


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str]:
    """What is not as it was: by name, what it is by now, in words that say the same in every world and process."""
    found: dict[str, str] = {}
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if isinstance(new, frozenset):
            started = sorted(re.sub(r"\d+", "#", thread.name) for thread in new - before[name])
            found |= {name: ", ".join(started)} if started else {}
        elif _differ(old, new):
            found[name] = f"{new - before[name]:+d}" if name == _EXITS and new is not None else _said(new)
    return found


def of_loading(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str]:
    """What loading a project leaves changed, as `changes` says it, but for what makes no difference to others.

    Paths are for its own imports, generators are seeded after that, and where compiled code is kept changes only times.
    """
    found = changes(before, after)
    return {name + LOADING: said for name, said in found.items() if not name.startswith(_OWN)}


def _drawn() -> tuple[Any, ...]:
    name, keys, *rest = np.random.get_state(legacy=True)
    return name, np.asarray(keys).tobytes(), *rest


def _is_plain(thread: threading.Thread) -> bool:
    """Helpers of libraries have classes of their own, and a thread of another language is known as a dummy."""
    kind = type(thread)
    return kind.__module__.partition(".")[0] not in sys.stdlib_module_names | {"tqdm"} or kind is threading.Thread


def _differ(one: Any, other: Any) -> bool:
    if one is other:
        return False
    if isinstance(one, decimal.Context) and isinstance(other, decimal.Context):
        return repr(one) != repr(other)
    return bool(one != other)


def _said(value: Any) -> str:
    """A value in words, without its address."""
    if value is None:
        return "nothing"
    if isinstance(value, logging.Handler):
        return f"{type(value).__qualname__}({value.level}, {getattr(value.formatter, '_fmt', None)})"
    if isinstance(value, re.Pattern):
        return repr(value.pattern)
    if isinstance(value, dict):
        return ", ".join(f"{name} = {_said(item)}" for name, item in value.items())
    if isinstance(value, tuple) and len(value) > 100:  # states of generators
        return f"SHA-256 {hashlib.sha256(repr(value).encode()).hexdigest()[:12]}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_said, value))})"
    if isinstance(value, bytes):
        return f"SHA-256 {hashlib.sha256(value).hexdigest()[:12]}"
    label = getattr(value, "__qualname__", None)
    if label is not None:
        return f"{getattr(value, '__module__', '')}.{label}"
    kind: Any = type(value)
    return kind.__qualname__ if kind.__repr__ is object.__repr__ else re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
