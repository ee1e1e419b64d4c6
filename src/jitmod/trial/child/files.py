"""Files that a call writes: into a scratch folder that looks like the user's, so that nothing of the user's changes."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .snapshot import Entry, snapshot

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {"os.rename": (0, 1), "os.remove": (0,), "os.mkdir": (0,), "os.rmdir": (0,), "os.truncate": (0,),
            "os.symlink": (1,), "os.link": (1,), "shutil.rmtree": (0,)}  # fmt: skip
_MAX_LINES = 5000
_FOREIGN = tuple(os.path.realpath(p) + os.sep for p in (sys.prefix, sys.base_prefix, *sysconfig.get_paths().values()))


@dataclass
class _Watch:
    """The scratch folders that exist, and the paths that the recorded call has touched, if one is recorded."""

    scratches: list[str] = field(default_factory=list)
    touched: set[str] | None = None
    installed: bool = False
    busy: bool = False  # what we do here is not the program's doing


_watch = _Watch()


def scratch(user_root: str, parent: str) -> str:
    """A new folder in `parent` with a link to every entry of `user_root`; links are replaced before writing."""
    if not _watch.installed:
        sys.addaudithook(_audit)
        _watch.installed = True
    folder = os.path.join(parent, f"cwd{len(_watch.scratches)}", os.path.basename(user_root) or "root")
    os.makedirs(folder)
    for entry in os.scandir(user_root):
        os.symlink(entry.path, os.path.join(folder, entry.name))
    _watch.scratches.append(folder)
    return folder


@contextlib.contextmanager
def written(folder: str) -> Iterator[dict[str, Any]]:
    """Fills the dictionary, when the block ends, with what it wrote: text by lines, arrays, or what kind it is."""
    found: dict[str, Any] = {}
    _watch.touched = set()
    try:
        yield found
    finally:
        touched, _watch.touched = _watch.touched, None
        for path in sorted(touched):
            name = os.path.relpath(path, folder) if path.startswith(folder + os.sep) else path
            found[name] = _contents(path)


def entries(files: dict[str, Any], name: str) -> list[Entry]:
    """The arrays of a file; text is compared as text is."""
    return snapshot(files[name], f"file {name}") if not is_text(files[name]) else []


def lines(files: dict[str, Any], name: str) -> list[tuple[str, str]]:
    return [(f"file {name}", line) for line in files[name]] if is_text(files[name]) else []


def is_text(contents: Any) -> bool:
    return isinstance(contents, list) and all(isinstance(line, str) for line in contents)


def _contents(path: str) -> Any:
    if os.path.isdir(path):
        return "a folder"
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return "gone"
    arrays = _arrays(data)
    if arrays is not None:
        return arrays
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return "binary"
    return text.splitlines()[:_MAX_LINES] if "\0" not in text else "binary"


def _arrays(data: bytes) -> Any:
    """The arrays of a .npy or .npz file, or of several .npy files one after the other, as equinox writes them."""
    try:
        if data.startswith(b"PK"):
            with np.load(io.BytesIO(data)) as archive:
                return {name: archive[name] for name in archive.files}
        if not data.startswith(b"\x93NUMPY"):
            return None
        stream, found = io.BytesIO(data), []
        while stream.tell() < len(data):
            found.append(np.load(stream))
        return tuple(found)
    except (OSError, ValueError, EOFError, KeyError):
        return None


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Python calls this before it opens or changes a file."""
    if event == "open":
        path, mode, flags = (*arguments, None, None)[:3]
        writes = any(c in mode for c in "wax+") if isinstance(mode, str) else bool((flags or 0) & _WRITES)
        if writes and isinstance(path, str | bytes | os.PathLike):
            keeps = not (isinstance(mode, str) and ("w" in mode or "x" in mode)) and not (flags or 0) & os.O_TRUNC
            _touch(os.fsdecode(path), keeps)
    elif event in _CHANGES:
        for position in _CHANGES[event]:
            if isinstance(arguments[position], str | bytes | os.PathLike):
                _touch(os.fsdecode(arguments[position]), keeps=True)


def _touch(path: str, keeps: bool) -> None:
    path = os.path.normpath(os.path.join(os.getcwd(), path))
    if _watch.busy or path.startswith(("/dev/", "/proc/", "/sys/", *_FOREIGN)) or "__pycache__" in path:
        return
    _watch.busy = True
    try:
        for folder in _watch.scratches:
            if path.startswith(folder + os.sep):
                _own(folder, path, keeps)
    finally:
        _watch.busy = False
    if _watch.touched is not None:
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
