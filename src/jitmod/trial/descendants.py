"""What a child started and left running: found by a mark in its environment, whoever its parent is by now."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

MARK = "JITMOD_SCRATCH"
_ROUNDS = 5  # a process may start another one while we look
_PAUSE = 0.02  # seconds


def end(folder: Path) -> None:
    """End all our processes that were started with `folder` as their mark. Where there is no /proc, nothing happens."""
    mark = os.fsencode(f"{MARK}={folder}")
    for _ in range(_ROUNDS):
        found = [process for process in _ours() if mark in _environment(process)]
        if not found:
            return
        for process in found:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(_PAUSE)


def _ours() -> list[int]:
    """Processes of this user, without this one."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for entry in os.scandir("/proc"):
            with contextlib.suppress(OSError):
                if entry.name.isdecimal() and entry.stat().st_uid == os.getuid() and int(entry.name) != os.getpid():
                    found.append(int(entry.name))
    return found


def _environment(process: int) -> list[bytes]:
    """As the process was started with; empty for one that has ended and was not waited for."""
    try:
        return Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
