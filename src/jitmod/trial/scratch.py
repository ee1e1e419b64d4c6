"""Scratch folders that name their process: what a killed run leaves behind, the next one removes."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from jitmod.source.config import ConfigError
from jitmod.trial import descendants

_NAME = re.compile(r"jitmod-run-(\d+)-")
_LEAST = 1 << 20  # bytes: less is nothing


class ScratchError(ConfigError):
    """The machine gives no room for temporary files: how it is set up, so every command says it and stops."""


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A new folder, gone at the end; folders of processes that are no more go with it. Raises `ScratchError`."""
    try:
        parent = Path(tempfile.gettempdir())
        remove_stale(parent)
        folder = Path(tempfile.mkdtemp(prefix=f"jitmod-run-{os.getpid()}-", dir=parent)).resolve()
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
            if named and not entry.is_symlink() and entry.stat().st_uid == os.getuid() and not _runs(int(named[1])):
                descendants.end(entry.resolve())
                shutil.rmtree(entry, ignore_errors=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
