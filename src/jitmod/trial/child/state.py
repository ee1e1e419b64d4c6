"""What project code changes in the process beside `sys.modules`: jax's configuration, logging, the import path."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from dataclasses import dataclass
from typing import Any

import jax


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

    @classmethod
    def capture(cls) -> ProcessState:
        loggers = {name: _Logger(tuple(x.handlers), x.level, x.propagate, x.disabled) for name, x in _loggers()}
        return cls(dict(jax.config.values), loggers, tuple(sys.path), tuple(sys.meta_path), os.getcwd())

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


def _loggers() -> list[tuple[str, logging.Logger]]:
    known = list(logging.Logger.manager.loggerDict.items())
    return [("", logging.getLogger()), *((name, x) for name, x in known if isinstance(x, logging.Logger))]
