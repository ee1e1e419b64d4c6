"""CPUs of its own for every trial of a machine: whoever comes takes the first that nobody has."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def pinned(count: int, folder: Path | None = None) -> Iterator[frozenset[int]]:
    """Run on `count` CPUs that no other trial of this user has; on all there are where none are left, or on a system
    that cannot pin. Children inherit it. What was taken is free again when the process ends, however that happens.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield frozenset()
        return
    allowed = sorted(os.sched_getaffinity(0))
    place = folder or Path(tempfile.gettempdir()) / f"jitmod-cpus-{os.getuid()}"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    groups = [allowed[start : start + count] for start in range(0, len(allowed) - count + 1, count)]
    with contextlib.ExitStack() as held:
        for group in groups:
            file = held.enter_context((place / f"{group[0]}").open("a"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            os.sched_setaffinity(0, group)
            try:
                yield frozenset(group)
            finally:
                os.sched_setaffinity(0, allowed)
            return
        yield frozenset(allowed)
