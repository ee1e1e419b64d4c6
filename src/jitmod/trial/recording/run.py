"""Running the user's command as it is, with the recorder in it, to its end or until enough was seen."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jitmod.source.recording import Recording
from jitmod.trial.environment import secret_names
from jitmod.trial.recording import store
from jitmod.trial.recording.command import Command
from jitmod.trial.recording.targets import Targets

_POLL = 0.25
_GRACES = ((10.0, signal.SIGTERM), (5.0, signal.SIGKILL))  # seconds after the program was asked to stop


@dataclass(frozen=True)
class Limits:
    """Calls kept of one function, bytes of one call, bytes of the recording."""

    calls: int = 3
    call_bytes: int = 512 * 2**20
    total_bytes: int = 2 * 2**30


@dataclass(frozen=True)
class RecordedRun:
    """How the command ended: its exit status as a shell has it, whether it was stopped because enough was seen, and
    whether the user interrupted it. `recording` is None where nothing of the project ran."""

    recording: Recording | None
    status: int
    stopped: bool
    interrupted: bool


def record(
    command: Command, targets: Targets, *, root: Path, state: Path, stop: bool, limits: Limits | None = None
) -> RecordedRun:
    """Run `command` in the current folder and environment. With `stop` it ends when every site has been seen with calls
    enough, and its output goes to stderr. Raises OSError where it cannot be started."""
    folder = store.new_folder(state)
    kept = limits or Limits()
    request = folder / "request.json"
    request.write_text(json.dumps({
        "root": str(root.resolve()), "folder": str(folder), "files": targets.files, "sites": len(targets.sites),
        "stop": stop and not targets.whole, "secret_names": secret_names(os.environ),
        "limits": {"calls": kept.calls, "call_bytes": kept.call_bytes, "total_bytes": kept.total_bytes},
    }), encoding="utf-8")  # fmt: skip
    with _waiting_through_interrupts() as interrupts:
        child = subprocess.Popen(command.recorded(request), stdout=sys.stderr.fileno() if stop else None)
        try:
            while (status := _poll(child)) is None:
                if stop and store.is_enough(folder):
                    status = _end(child)
                    break
        finally:
            if child.poll() is None:  # jitmod itself was told to end
                child.terminate()
                child.wait()
    stopped = store.is_enough(folder)
    ended = store.Ended(command.label, str(command.interpreter), status == 0 and not stopped)
    recording = store.finish(folder, targets, root, ended)
    return RecordedRun(recording, status if status >= 0 else 128 - status, stopped, bool(interrupts))


def _poll(child: subprocess.Popen[bytes]) -> int | None:
    try:
        return child.wait(_POLL)
    except subprocess.TimeoutExpired:
        return None


def _end(child: subprocess.Popen[bytes]) -> int:
    """Wait for a program that has interrupted itself; one that will not end is ended."""
    for seconds, harder in _GRACES:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            status = _poll(child)
            if status is not None:
                return status
        child.send_signal(harder)
    return child.wait()


@contextlib.contextmanager
def _waiting_through_interrupts() -> Iterator[list[int]]:
    """Ctrl-C reaches the program, which shares the terminal; here it is only noted, so that its end can be seen."""
    noted: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        yield noted
        return
    signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)
