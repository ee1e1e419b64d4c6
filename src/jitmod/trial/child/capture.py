"""What a call shows: lines on stdout and stderr (prints, log handlers), and warnings."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TextIO

from . import descriptors
from .finder import Tree

_LIBRARY_LOGS = {"jax", "jaxlib"}
_WARNINGS = warnings.catch_warnings.__init__.__code__.co_filename
_muted = threading.local()


@dataclass(eq=False)  # recordings that show the same are two recordings
class Shown:
    """Visible events in one order over all channels; `library_warnings` have none, they are a set."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    library_warnings: set[tuple[str, str]] = field(default_factory=set)


_heard: list[Shown] = []  # the recordings that are running; the last one gets what happens
_inside: list[bool] = []


def emit(channel: str, text: str) -> None:
    """Something happened that is neither text nor a warning: a bar moved. Lost where nobody records."""
    if is_recording():
        _heard[-1].lines.append((channel, text))


def is_recording() -> bool:
    return bool(_heard) and not _inside


@contextlib.contextmanager
def quiet_inside() -> Iterator[None]:
    """What one event does by way of others is not said again."""
    _inside.append(True)
    try:
        yield
    finally:
        _inside.pop()


class Router:
    """Stands for `sys.stdout` or `sys.stderr` all the time, so that handlers made at import are heard as well."""

    def __init__(self, name: str, real: TextIO) -> None:
        self._name = name
        self._real = real
        self._partial = ""
        self.sink: list[tuple[str, str]] | None = None

    @property
    def hears(self) -> bool:
        """Does what is written go to a recording?"""
        return self.sink is not None and not getattr(_muted, "now", False)

    @property
    def buffer(self) -> _Bytes:
        return _Bytes(self, self._real.buffer)

    def write(self, text: str) -> int:
        if self.sink is None or not self.hears:
            return self._real.write(text)
        *lines, rest = text.replace("\r\n", "\n").split("\n")
        for line in lines:
            self.sink.append((self._name, _continued(self._partial, line)))
            self._partial = ""
        self._partial = _continued(self._partial, rest)
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def redirect(
        self, sink: list[tuple[str, str]] | None, partial: str = ""
    ) -> tuple[list[tuple[str, str]] | None, str]:
        """Send text to another sink; returns the arguments that undo it."""
        before = self.sink, self._partial
        self.sink, self._partial = sink, partial
        return before

    def add(self, text: str) -> None:
        """What another program, or other code, has written meanwhile."""
        if self.sink is not None and text:
            self.write(f"\n{text}" if self._partial else text)

    def end(self) -> None:
        """An unfinished last line counts as a line; later text goes to the real stream."""
        if self.sink is not None and self._partial:
            self.sink.append((self._name, self._partial))
        self._partial, self.sink = "", None

    def __getattr__(self, name: str) -> Any:  # fileno, flush, encoding, isatty
        return getattr(self._real, name)


class _Bytes:
    """The binary stream of a router."""

    def __init__(self, router: Router, real: Any) -> None:
        self._router, self._real = router, real

    def write(self, data: bytes) -> int:
        if not self._router.hears:
            return int(self._real.write(data))
        return self._router.write(bytes(data).decode(errors="replace"))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def install() -> tuple[Router, Router]:
    """Put routers in the place of both streams, however they are reached, and keep jax's own log records (compile
    logs) out of them. A forked process speaks for itself."""
    routers = Router("stdout", sys.stdout), Router("stderr", sys.stderr)
    sys.stdout, sys.stderr = routers
    sys.__stdout__, sys.__stderr__ = routers  # type: ignore[misc, assignment]
    write, handle = os.write, logging.Logger.handle

    def write_text(descriptor: int, data: Any, /) -> int:
        if descriptor in (1, 2) and routers[descriptor - 1].hears:
            return routers[descriptor - 1].buffer.write(data)
        return write(descriptor, data)

    os.write = write_text
    for router in routers:
        os.register_at_fork(after_in_child=router.end)

    def handle_aside(logger: logging.Logger, record: logging.LogRecord) -> None:
        if str(record.name).partition(".")[0] not in _LIBRARY_LOGS:
            handle(logger, record)
            return
        _muted.now = True
        try:
            handle(logger, record)
        finally:
            _muted.now = False

    logging.Logger.handle = handle_aside  # type: ignore[method-assign, assignment]
    return routers


@contextlib.contextmanager
def shown(routers: tuple[Router, Router], tree: Tree) -> Iterator[Shown]:
    """Record what is shown inside the block. Warnings count once a line and call, as Python's default filter has it."""
    result = Shown()
    taken = descriptors.Taken()
    for router in routers:
        router.flush()
        router.sink = result.lines
    _heard.append(result)
    try:
        with descriptors.listening(taken), _warned(result, tree):
            yield result
    finally:
        _heard.remove(result)
        for router, text in zip(routers, taken.texts, strict=True):
            router.add(text)
            router.end()
    result.lines[:] = _without_bars(result.lines)


@contextlib.contextmanager
def _warned(result: Shown, tree: Tree) -> Iterator[None]:
    """Add the warnings of the block to a recording."""
    with warnings.catch_warnings(record=True) as caught:
        record = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], filename: str, *rest: Any, **named: Any) -> None:
            text = re.sub(r"\s+", " ", str(message))
            if tree.has_code(_warner()):
                result.lines.append(("warning", f"{category.__name__}: {text}"))
            else:
                result.library_warnings.add((category.__name__, re.sub(r"\d+", "#", text)))
            record(message, category, filename, *rest, **named)

        warnings.showwarning = show
        try:
            yield
        finally:
            warnings.showwarning = record
    caught.clear()


def _warner() -> str:
    """The file whose code warns, whichever one it lays the warning to."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename == _WARNINGS:
        frame = frame.f_back
    return frame.f_code.co_filename


@contextlib.contextmanager
def muted(routers: tuple[Router, Router]) -> Iterator[Shown]:
    """Keep what a part of a recorded call shows to itself; warnings are dropped, but still raise where they would."""
    result = Shown()
    outer = [router.redirect(result.lines) for router in routers]
    _heard.append(result)
    try:
        with warnings.catch_warnings(record=True):
            yield result
    finally:
        _heard.remove(result)
        for router, before in zip(routers, outer, strict=True):
            router.end()
            router.redirect(*before)
        result.lines[:] = _without_bars(result.lines)


def _continued(line: str, text: str) -> str:
    """A line so far, and more of it. Of a progress bar only that there was one is kept, and what is written behind it.

    It redraws its line; how often it does depends on the time that passed.
    """
    return "\r" if "\r" in text else line + text


def _without_bars(lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(channel, line.removeprefix("\r")) for channel, line in lines if line.strip() or "\r" not in line]
