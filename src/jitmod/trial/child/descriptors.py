"""Text that does not come through Python's streams: of programs that a call starts, of forked workers, of C code.

Descriptor 1 is listened to all the time. Descriptor 2 is only from the moment on when a program is started, or when it
is opened by its name: XLA writes its own warnings there, as often as it compiles, and what it says before a crash has
to arrive.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field

from . import guard
from .writes import PROGRAMS

_STARTS = PROGRAMS | {"os.fork", "os.forkpty"}
_BY_NAME = (2, "/dev/stderr", "/dev/fd/2", "/proc/self/fd/2")
_OF_XLA = re.compile(r"^[IWEF]\d{4} \d\d:\d\d:\d\d.*\n?", re.MULTILINE)


@dataclass
class Taken:
    """What the descriptors stand for while a call is recorded, and afterwards the `texts` of both."""

    saved: dict[int, int] = field(default_factory=dict)
    files: dict[int, int] = field(default_factory=dict)
    programs: int = 0
    texts: tuple[str, str] = ("", "")

    def take(self, number: int) -> None:
        """Send what is written to a descriptor into a file, if it is open."""
        if number not in self.saved:
            with contextlib.suppress(OSError), guard.silently():
                self.saved[number] = os.dup(number)
                self.files[number] = _file()
                fcntl.fcntl(self.files[number], fcntl.F_SETFL, os.O_APPEND)
                os.dup2(self.files[number], number)

    def end(self) -> None:
        """Give the descriptors back. The lines of several programs at once come in no order."""
        texts = {}
        for number, saved in self.saved.items():
            os.dup2(saved, number)
            os.close(saved)
            if number in self.files:
                with open(self.files[number], "rb") as file:
                    file.seek(0)
                    said = file.read().decode(errors="replace")
                texts[number] = "".join(sorted(said.splitlines(keepends=True))) if self.programs > 1 else said
        self.texts = texts.get(1, ""), _OF_XLA.sub("", texts.get(2, ""))


_taken: list[Taken] = []
_installed: list[bool] = []


@contextlib.contextmanager
def listening(taken: Taken) -> Iterator[None]:
    """Listen to the descriptors inside the block. What the process has in its own buffers is to be written before."""
    if not _installed:
        sys.addaudithook(_audit)
        _installed.append(True)
    taken.take(1)
    _taken.append(taken)
    try:
        yield
    finally:
        _taken.pop()
        taken.end()


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if event in _STARTS and _taken:
        _taken[-1].programs += 1
        _taken[-1].take(2)
    elif event == "open" and _taken and arguments[0] in _BY_NAME:
        _taken[-1].take(2)


def _file() -> int:
    """A file that no folder has."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("shown")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
