"""What project code changes in the process beside `sys.modules`: jax's configuration, logging, paths, environment."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

_TRUE = {"1", "true", "yes", "on", "y", "t"}
_FALSE = {"0", "false", "no", "off", "n", "f"}


def _settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("JAX_") or name == "XLA_FLAGS"}


_at_start = _settings()


def set_too_late() -> list[str]:
    """Settings of jax that code has put into the environment since jax was imported here, and that it has not taken.

    A project does that above its first `import jax`; in a trial jax is there before.
    """
    return sorted(
        name for name, value in _settings().items() if _at_start.get(name) != value and not _holds(name, value)
    )


def _holds(name: str, value: str) -> bool:
    now = jax.default_backend() if name == "JAX_PLATFORMS" else jax.config.values.get(name.lower())
    match now:
        case bool():
            return value.lower() in (_TRUE if now else _FALSE)
        case None:
            return value == "" or (name != "XLA_FLAGS" and name.lower() not in jax.config.values)
    return value.partition(",")[0] == str(now)


@dataclass(frozen=True)
class _Logger:
    handlers: tuple[logging.Handler, ...] = ()
    level: int = logging.NOTSET
    propagate: bool = True
    disabled: bool = False


@dataclass(frozen=True)
class ProcessState:
    """A copy of that state. Every world keeps its own, so that what one arm configures does not reach the other."""

    jax_config: dict[str, Any]
    loggers: dict[str, _Logger]
    path: tuple[str, ...]
    meta_path: tuple[Any, ...]
    folder: str
    environ: dict[str, str]
    filters: tuple[Any, ...]
    numpy_errors: dict[str, Any]
    numpy_printing: dict[str, Any]
    log_below: int
    recursion: int

    @classmethod
    def capture(cls) -> ProcessState:
        loggers = {name: _Logger(tuple(x.handlers), x.level, x.propagate, x.disabled) for name, x in _loggers()}
        return cls(
            dict(jax.config.values), loggers, tuple(sys.path), tuple(sys.meta_path), os.getcwd(), dict(os.environ),
            tuple(warnings.filters), dict(np.geterr()), dict(np.get_printoptions()), logging.root.manager.disable,
            sys.getrecursionlimit(),
        )  # fmt: skip

    def restore(self) -> None:
        for name, value in self.jax_config.items():
            if jax.config.values.get(name) is not value and jax.config.values.get(name) != value:
                with contextlib.suppress(Exception):  # some options are fixed once a backend runs
                    jax.config.update(name, value)  # type: ignore[no-untyped-call]
        for name, logger in _loggers():
            wanted = self.loggers.get(name, _Logger())
            if logger.level != wanted.level:
                logger.setLevel(wanted.level)
            logger.handlers[:] = wanted.handlers
            logger.propagate, logger.disabled = wanted.propagate, wanted.disabled
        sys.path[:] = self.path
        sys.meta_path[:] = self.meta_path
        os.chdir(self.folder)
        self._restore_small()

    def _restore_small(self) -> None:
        if dict(os.environ) != self.environ:
            os.environ.clear()
            os.environ.update(self.environ)
        if tuple(warnings.filters) != self.filters:
            warnings.filters[:] = self.filters  # type: ignore[index]
            with warnings.catch_warnings():  # whose end says to the module that its filters are others
                pass
        np.seterr(**self.numpy_errors)
        np.set_printoptions(**self.numpy_printing)
        logging.root.manager.disable = self.log_below
        if sys.getrecursionlimit() != self.recursion:
            sys.setrecursionlimit(self.recursion)


def facts(folder: str) -> dict[str, Any]:
    """What of the process a call may change for everything that comes after it, by name. `folder` is where it began."""
    levels = {f"level of the logger {name or 'root'}": (x.level, x.disabled) for name, x in _loggers()}
    try:
        here = os.path.relpath(os.getcwd(), folder)
    except OSError:
        here = "gone"
    return levels | {
        "current folder": here, "logging.disable": logging.root.manager.disable, "np.geterr()": dict(np.geterr()),
        "np.get_printoptions()": {name: repr(value) for name, value in np.get_printoptions().items()},
        "recursion limit": sys.getrecursionlimit(), "SIGINT": repr(signal.getsignal(signal.SIGINT)),
    }  # fmt: skip


def _loggers() -> list[tuple[str, logging.Logger]]:
    known = list(logging.Logger.manager.loggerDict.items())
    return [("", logging.getLogger()), *((name, x) for name, x in known if isinstance(x, logging.Logger))]
