"""Scratch folders that name their process: what a killed run leaves behind, the next one on that machine removes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from jitmod.source.config import ConfigError
from jitmod.trial import descendants

_NAME = re.compile(r"jitmod-run-([0-9a-f]{8})-(\d+)-")
_LEAST = 1 << 20  # bytes: less is nothing


class ScratchError(ConfigError):
    """The machine gives no room for temporary files: how it is set up, so every command says it and stops."""


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A new folder, gone at the end; folders of processes that are no more go with it. Raises `ScratchError`."""
    try:
        parent = Path(tempfile.gettempdir())
        remove_stale(parent)
        folder = Path(tempfile.mkdtemp(prefix=f"jitmod-run-{_machine()}-{os.getpid()}-", dir=parent)).resolve()
    except OSError as error:
        raise no_room(error) from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def no_room(error: OSError) -> ScratchError:
    """What to say where `error` came up while a temporary file was written."""
    return ScratchError(f"no room for temporary files: {error}; make some, or set TMPDIR to another folder")


def is_full(folder: Path) -> bool:
    """Is there nothing left of the disk that holds `folder`?"""
    return shutil.disk_usage(folder).free < _LEAST


def remove_stale(parent: Path) -> None:
    """Remove our own scratch folders in `parent` whose process has ended."""
    for entry in parent.glob("jitmod-run-*"):
        named = _NAME.match(entry.name)
        with contextlib.suppress(OSError):
            ours = named and named[1] == _machine() and not entry.is_symlink() and entry.stat().st_uid == os.getuid()
            if named and ours and not _runs(int(named[2])):
                descendants.end(entry.resolve())
                shutil.rmtree(entry, ignore_errors=True)


def _machine() -> str:
    """Where numbers of processes are those of this one: others may share the folder, machines as well as containers."""
    numbered = ""
    with contextlib.suppress(OSError):
        numbered = os.readlink("/proc/self/ns/pid")
    return hashlib.sha256(f"{platform.node()} {numbered}".encode()).hexdigest()[:8]


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
