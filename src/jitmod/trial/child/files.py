"""Files that a call writes: into a scratch folder that looks like the user's, so that nothing of the user's changes."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from . import contents, guard
from .writes import Write

_FOREIGN = tuple(os.path.realpath(p) + os.sep for p in (sys.prefix, sys.base_prefix, *sysconfig.get_paths().values()))


@dataclass
class _Watch:
    """The scratch folders that exist, the files that were ever opened for writing in them, and the paths that the
    recorded call has touched, if one is recorded."""

    scratches: list[str] = field(default_factory=list)
    opened: set[str] = field(default_factory=set)
    touched: set[str] | None = None
    listens: bool = False
    temporary: str = ""  # where nothing is an effect


_watch = _Watch()


def scratch(user_root: str, parent: str) -> str:
    """A new folder in `parent` with a link to every entry of `user_root`; links are replaced before writing."""
    _watch.temporary = tempfile.gettempdir() + os.sep
    if not _watch.listens:
        guard.listen(_touch)
        _watch.listens = True
    folder = os.path.join(parent, f"cwd{len(_watch.scratches)}", os.path.basename(user_root) or "root")
    os.makedirs(folder)
    for entry in os.scandir(user_root):
        os.symlink(entry.path, os.path.join(folder, entry.name))
    _watch.scratches.append(folder)
    return folder


def own_folder(scratch: str, relative: str) -> str:
    """The folder at `relative` in a scratch folder, no link to the user's any more."""
    folder = os.path.join(scratch, *relative.split("/"))
    if relative and os.path.isdir(folder):
        with guard.silently():
            _own(scratch, os.path.join(folder, "inside"), keeps=True)
    return folder


@contextlib.contextmanager
def written(folder: str) -> Iterator[dict[str, Any]]:
    """Fills the dictionary, when the block ends, with what it wrote: text by lines, arrays, or what kind it is."""
    found: dict[str, Any] = {}
    before = {path: _stamp(path) for path in [*_flushed(folder), *_own_files(folder)]}
    _watch.touched = set()
    try:
        yield found
    finally:
        touched, _watch.touched = _watch.touched, None
        later = {path for path in _flushed(folder) if path in before}  # by files that were open
        later.update(_own_files(folder))  # by other programs and libraries, which nobody hears
        for path in sorted(touched | {path for path in later if _stamp(path) != before.get(path)}):
            name = os.path.relpath(path, folder) if path.startswith(folder + os.sep) else path
            found.update(contents.read(path, name))


def _flushed(folder: str) -> list[str]:
    """The files in `folder` that were ever opened for writing; what their buffers hold is written out."""
    paths = [path for path in _watch.opened if path.startswith(folder + os.sep)]
    if not paths:
        return []
    for item in gc.get_objects():
        if issubclass(type(item), io.TextIOWrapper | io.BufferedWriter | io.BufferedRandom):
            with contextlib.suppress(Exception):  # closed, detached, or read-only
                if os.path.realpath(os.fsdecode(item.name)) in paths or os.path.abspath(item.name) in paths:
                    item.flush()
    return paths


def _own_files(folder: str) -> Iterator[str]:
    """The files in a scratch folder that are no links to the user's."""
    for place, _, names in os.walk(folder):
        if os.path.basename(place) != "__pycache__":
            paths = (os.path.join(place, name) for name in names)
            yield from (path for path in paths if not os.path.islink(path))


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _touch(write: Write) -> None:
    """Before a file is written."""
    path = os.path.normpath(write.path)
    if path.startswith(("/dev/", "/proc/", "/sys/", *_FOREIGN)) or "__pycache__" in path.split(os.sep):
        return
    inside = [folder for folder in _watch.scratches if path.startswith(folder + os.sep)]
    for folder in inside:
        _own(folder, path, write.keeps)
        _watch.opened.add(path)
    if _watch.touched is not None and (inside or not path.startswith(_watch.temporary)):
        _watch.touched.add(path)


def _own(folder: str, path: str, keeps: bool) -> None:
    """Turn every link on the way from `folder` to `path` into a folder or file of the scratch's own."""
    parts = os.path.relpath(path, folder).split(os.sep)
    here = folder
    for number, part in enumerate(parts):
        here = os.path.join(here, part)
        if not os.path.islink(here):
            continue
        target = os.path.realpath(here)
        last = number == len(parts) - 1
        os.unlink(here)
        if os.path.isdir(target):
            os.mkdir(here)
            for entry in os.scandir(target):
                os.symlink(entry.path, os.path.join(here, entry.name))
        elif os.path.exists(target) and (keeps or not last):
            shutil.copy2(target, here)
