"""What project code changes in the process beside `sys.modules`: jax's configuration, logging, paths, environment."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import jax

from . import surroundings

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
    settings: dict[str, Any]

    @classmethod
    def capture(cls) -> ProcessState:
        known = surroundings.loggers()
        loggers = {name: _Logger(tuple(x.handlers), x.level, x.propagate, x.disabled) for name, x in known}
        return cls(
            dict(jax.config.values), loggers, tuple(sys.path), tuple(sys.meta_path), os.getcwd(), dict(os.environ),
            tuple(warnings.filters), surroundings.settings(),
        )  # fmt: skip

    def restore(self) -> None:
        values = dict(jax.config.values)
        for name, value in self.jax_config.items():
            if values.get(name) is not value and values.get(name) != value:
                with contextlib.suppress(Exception):  # some options are fixed once a backend runs
                    jax.config.update(name, value)  # type: ignore[no-untyped-call]
        for name, logger in surroundings.loggers():
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
        surroundings.restore(self.settings)
