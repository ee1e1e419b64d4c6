"""Results that are kept: what a scan found in files of these contents, with this program and these settings.

A result lies under a name that is the digest of all that it depends on, so that it can be missing, but not stale. It is
kept where recordings are, which no clone or pull request supplies (`source/recording.py`), and read back as data: only
the classes of findings are made. What cannot be read or written is done without.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pickle
import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

from jitmod.delivery.queue import Preview

_LIMIT = 64 << 20  # bytes that all results of a project may take
_PACKAGE = Path(__file__).parent.parent
_CLASSES = {
    "jitmod.delivery.queue": {"Entry", "Preview"},
    "jitmod.model": {"Assumption", "Edit", "InCell", "Knob", "Outcome", "Patch", "Refusal", "Site", "SourceError",
                     "Variant"},
}


def key(*parts: str | bytes) -> str:
    """The name of the result that depends on `parts`, and on the program."""
    digest = hashlib.sha256()
    for part in (*_program(), *parts):
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


def load(folder: Path, name: str) -> Preview | None:
    """The result of that name; None where there is none, or none that can be used."""
    try:
        with open(folder / name, "rb") as file:
            if hasattr(os, "getuid") and os.fstat(file.fileno()).st_uid != os.getuid():
                return None
            data = file.read()
        if hashlib.sha256(data[32:]).digest() != data[:32]:
            return None
        found = _Reader(io.BytesIO(data[32:])).load()
    except Exception:  # whatever lies there
        return None
    with contextlib.suppress(OSError):
        os.utime(folder / name)  # used just now
    return found if isinstance(found, Preview) else None


def store(folder: Path, name: str, found: Preview) -> None:
    """Keep a result; those that were not used for longest make room."""
    data = pickle.dumps(found, protocol=5)
    data = hashlib.sha256(data).digest() + data
    if len(data) > _LIMIT // 2:
        return
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(prefix=".", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(part, folder / name)
        except BaseException:
            os.unlink(part)
            raise
        _make_room(folder)


def _make_room(folder: Path) -> None:
    entries = [(entry.stat(), entry.path) for entry in os.scandir(folder)]
    left = sum(status.st_size for status, _ in entries)
    for status, path in sorted(entries, key=lambda entry: entry[0].st_mtime):
        if left <= _LIMIT:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
            left -= status.st_size


class _Reader(pickle.Unpickler):
    """Makes findings, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if name in _CLASSES.get(module, ()):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is no finding")


def _program() -> Iterator[str]:
    """What is installed: versions, and in an editable installation the files themselves; and the codemods."""
    yield from (version("jitmod"), version("libcst"), sys.version)
    yield from (f"{point.name}={point.value}" for point in sorted(entry_points(group="jitmod.codemods")))
    for folder in (_PACKAGE, *_codemod_folders()):
        for root, folders, files in os.walk(folder):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(files):
                status = os.stat(os.path.join(root, name))
                yield f"{root}/{name} {status.st_size} {status.st_mtime_ns}"


def _codemod_folders() -> Iterable[Path]:
    from importlib.util import find_spec

    spec = find_spec("jitmod.codemods")
    return map(Path, spec.submodule_search_locations or ()) if spec is not None else ()
