"""How much memory there is for what a call needs: of the device, or of the machine, whichever limit is the nearest."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_GROUPS = Path("/sys/fs/cgroup")
_FILES = (("memory.max", "memory.current", "inactive_file"),  # of both versions of control groups: limit, use,
          ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"))  # what is given up if needed
_PAUSE, _PATIENCE = 0.02, 20  # seconds, and how often
_BOUNDLESS = 1 << 60  # bytes: what the first version of control groups says where there is no limit


@dataclass(frozen=True)
class Room:
    """So many bytes of what."""

    size: int
    what: str


def room(device: Any) -> Room | None:
    """What is there now for a call on `device`; None where nobody can tell.

    A GPU is taken as a whole, with what lies on it already: jax tells how much of it this process may have.
    """
    if device.platform != "cpu":
        limit = (device.memory_stats() or {}).get("bytes_limit")
        return Room(int(limit), "device memory") if limit else None
    return min(_of_machine(), key=lambda one: one.size, default=None)


def _of_machine() -> Iterator[Room]:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    used = status("VmSize")
    if soft != resource.RLIM_INFINITY and used is not None:
        yield Room(max(0, soft - used), "address space")
    yield from _of_groups(Path("/proc/self/cgroup"), _GROUPS)
    free = _field("/proc/meminfo", "MemAvailable")
    if free is not None:
        yield Room(free, "free memory")


def _of_groups(membership: Path, mounted: Path) -> Iterator[Room]:
    """What the control groups of this process leave: its own one, and those around it up to what can be seen here."""
    try:
        lines = [line.split(":", 2) for line in membership.read_text().splitlines()]
    except OSError:
        return
    for _, controllers, name in (line for line in lines if len(line) == 3):
        if controllers and "memory" not in controllers.split(","):
            continue
        top = mounted / "memory" if controllers else mounted
        own = top / name.lstrip("/")
        # A container may have its own group as the top, and names that are those of the machine.
        for group in dict.fromkeys([*(one for one in (own, *own.parents) if one.is_relative_to(top)), top]):
            for limit, used, spare in _FILES:
                with contextlib.suppress(OSError, ValueError):
                    most = int((group / limit).read_text())
                    if most < _BOUNDLESS:
                        taken = int((group / used).read_text()) - _spare(group / "memory.stat", spare)
                        yield Room(max(0, most - max(0, taken)), "memory of the control group")


def _spare(file: Path, name: str) -> int:
    """Bytes of files that are kept only as long as nobody needs their room."""
    lines = (line.split() for line in file.read_text().splitlines())
    return next((int(line[1]) for line in lines if line[0] == name), 0)


def memory_in_use(device: Any) -> int | None:
    """The most bytes of a GPU that this process has had; None on a CPU, where jax does not count them."""
    most = (device.memory_stats() or {}).get("peak_bytes_in_use")
    return int(most) if most and device.platform != "cpu" else None


def status(name: str) -> int | None:
    """A size in bytes of this process, as /proc has it; None on a system without."""
    return _field("/proc/self/status", name)


class Peak:
    """The most memory of this process since `restart`. Make it before files are out of bounds."""

    def __init__(self) -> None:
        try:
            self._descriptor: int | None = os.open("/proc/self/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            self._descriptor = None
        self._start: int | None = None

    def restart(self) -> None:
        """From here on. What went before may give memory back a little later, so wait for that."""
        self._start = None
        gc.collect()
        now = status("VmRSS") or 0
        for _ in range(_PATIENCE):
            time.sleep(_PAUSE)
            before, now = now, status("VmRSS") or 0
            if now >= before:
                break
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.pwrite(self._descriptor, b"5", 0)
                self._start = status("VmRSS")

    @property
    def growth(self) -> int | None:
        """Bytes of the peak above what there was at the restart."""
        most = status("VmHWM")
        return None if self._start is None or most is None else max(0, most - self._start)


def _field(file: str, name: str) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        for line in Path(file).read_text().splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return 1024 * int(value.split()[0])
    return None
