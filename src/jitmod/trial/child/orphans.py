"""A child ends when its parent does, however that ended, and before it where there is no room for both."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from pathlib import Path

NAME = "jitmod-orphans"
_PR_SET_PDEATHSIG = 1
_EVERY = 1.0  # seconds


def end_with_parent() -> None:
    """Linux tells at once; everywhere a thread looks now and then, and ends what the workload started as well."""
    parent = os.getppid()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: _end())
    threading.Thread(target=_watch, args=(parent,), daemon=True, name=NAME).start()


def go_first() -> None:
    """Where memory runs out, Linux ends a trial's process, and none that waits for it. Children inherit that."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_EVERY)
    _end()


def _end() -> None:
    os.killpg(0, signal.SIGKILL)
