"""Records of loggers, also those that nobody has asked for here: whoever uses the project may ask for them."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any

from . import capture
from .finder import Tree

_LOGGING = logging.Logger.isEnabledFor.__code__.co_filename
_unasked = threading.local()  # the record that comes next is there because of us
_USUAL = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


def listen(tree: Tree) -> None:
    """Hear what the code of `tree` logs while a call is recorded, at whatever level. Handlers get what they would."""
    is_enabled, handle = logging.Logger.isEnabledFor, logging.Logger.handle

    def is_wanted(logger: logging.Logger, level: int) -> bool:
        enabled = is_enabled(logger, level)
        _unasked.now = not enabled and capture.is_recording() and _is_asked_to_log()
        return enabled or _unasked.now

    def heard(logger: logging.Logger, record: logging.LogRecord) -> None:
        if capture.is_recording() and tree.has_code(record.pathname):
            capture.emit("log", _said(record))
        if not getattr(_unasked, "now", False):
            handle(logger, record)
        _unasked.now = False

    logging.Logger.isEnabledFor = is_wanted  # type: ignore[method-assign, assignment]
    logging.Logger.handle = heard  # type: ignore[method-assign, assignment]


def _is_asked_to_log() -> bool:
    """Does a method that logs ask? Code that asks by itself is to go its usual way."""
    frame = sys._getframe(2)
    while frame.f_code.co_name == "isEnabledFor" and frame.f_back is not None:  # of an adapter
        frame = frame.f_back
    return frame.f_code.co_filename == _LOGGING


def _said(record: logging.LogRecord) -> str:
    """Level, name, message, and whatever the caller has added."""
    try:
        message = record.getMessage()
    except Exception:  # of a format that nobody has tried so far
        message = repr((record.msg, record.args))
    more: dict[str, Any] = {name: held for name, held in vars(record).items() if name not in _USUAL}
    if record.exc_info:
        more["exc_info"] = getattr(record.exc_info[0], "__qualname__", None)
    added = [f"{name}={more[name]!r}" for name in sorted(more)]
    return " ".join([record.levelname, f"{record.name}:", message, *added])
