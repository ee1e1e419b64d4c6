"""The user's files are never changed by a trial: what would write below the project's root is refused, and named.

Writes below a world's own current folder go to copies (`files.py`). All others are stopped twice: by Python's audit
events, which know the path, and by the system where it can do that, also for programs that the workload starts.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from . import workers, writes
from .landlock import forbid_changes
from .writes import Write


class Refused(PermissionError):
    """The workload wants to write to the user's files."""


@dataclass
class _Guard:
    """`listeners` hear of every write first, and may put a copy in the place of a link."""

    root: str | None = None
    scratch: str = ""
    confined: bool = False
    refused: list[str] = field(default_factory=list)
    listeners: list[Callable[[Write], None]] = field(default_factory=list)
    installed: bool = False


_guard = _Guard()
_own = threading.local()  # what listeners do is not the program's doing


def protect(root: str, scratch: str) -> None:
    """For the rest of this process nothing below `root` is written, except what lies in `scratch`."""
    _guard.root, _guard.scratch = os.path.realpath(root), os.path.realpath(scratch)
    _guard.confined = forbid_changes(_guard.root, _guard.scratch)
    _install()
    workers.watch(_refuse)


def listen(listener: Callable[[Write], None]) -> None:
    """Tell `listener` of every write before it happens."""
    _guard.listeners.append(listener)
    _install()


@contextlib.contextmanager
def silently() -> Iterator[None]:
    """What is written in the block is not the program's doing."""
    _own.now = True
    try:
        yield
    finally:
        _own.now = False


def take_refused() -> str | None:
    """What was refused since the last time, in words; a program may have gone on after the exception."""
    found = list(dict.fromkeys(_guard.refused))
    _guard.refused.clear()
    return found[0] if found else None


def _install() -> None:
    if not _guard.installed:
        sys.addaudithook(_audit)
        _guard.installed = True


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Python calls this before it opens or changes a file."""
    if getattr(_own, "now", False):
        return
    if event in writes.PROGRAMS and _guard.root is not None and not _guard.confined:
        program = _name(event, arguments)
        _refuse(f"the workload starts a program ({program}), and this system cannot keep that off the project's files")
    if event in writes.PROGRAMS and _guard.root is not None:
        why = workers.project_program(event, arguments, _guard.root)
        if why is not None:
            _refuse(why)
    _own.now = True
    try:
        announced = list(writes.of_event(event, arguments))
        for write in announced:
            for listener in _guard.listeners:
                listener(write)
        outside = [write for write in announced if _is_users(write)]
    finally:
        _own.now = False
    for write in outside:
        name = os.path.relpath(write.real(), _guard.root)
        _refuse(f"the workload writes {name} by its full path; only what it writes relative to its current folder can "
                "be kept apart from the project's files")  # fmt: skip


def _refuse(why: str) -> None:
    _guard.refused.append(why)
    raise Refused(why)


def _is_users(write: Write) -> bool:
    if _guard.root is None:
        return False
    real = write.real()
    return _is_below(real, _guard.root) and not _is_below(real, _guard.scratch)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _name(event: str, arguments: tuple[Any, ...]) -> str:
    first = arguments[0] if arguments else event
    shown = first if isinstance(first, str | bytes | os.PathLike) else event
    return os.path.basename(os.fsdecode(shown).split(" ")[0])
