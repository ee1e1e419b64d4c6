"""What Python says before it changes a file: every audit event of that kind, as the paths that it is about."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# By event: positions of paths, and of the open folders that they are relative to.
_ITSELF = {"os.rename": ((0, 2), (1, 3)), "os.remove": ((0, 1),), "os.mkdir": ((0, 2),), "os.rmdir": ((0, 1),),
           "os.symlink": ((1, 2),), "shutil.rmtree": ((0, 1),)}  # fmt: skip
_TARGET = {"os.truncate": ((0, None),), "os.chmod": ((0, 2),), "os.chown": ((0, 3),), "os.utime": ((0, 3),),
           "os.link": ((0, 2), (1, 3)), "os.setxattr": ((0, None),), "os.removexattr": ((0, None),),
           "os.chflags": ((0, None),)}  # fmt: skip
_BESIDE = ("", "-journal", "-wal", "-shm")  # files that sqlite keeps together
PROGRAMS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn"}


@dataclass(frozen=True)
class Write:
    """`path` is absolute and not resolved. `keeps`: some of the old contents stays; `follows`: links are followed."""

    path: str
    keeps: bool = True
    follows: bool = True

    def real(self) -> str:
        """Where the change would happen."""
        if self.follows:
            return os.path.realpath(self.path)
        return os.path.join(os.path.realpath(os.path.dirname(self.path)), os.path.basename(self.path))


def of_event(event: str, arguments: tuple[Any, ...]) -> Iterator[Write]:
    """The changes that an audit event announces."""
    if event == "open":
        path, mode, flags = (*arguments, None, None)[:3]
        if any(c in mode for c in "wax+") if isinstance(mode, str) else bool((flags or 0) & _FLAGS):
            keeps = not (isinstance(mode, str) and ("w" in mode or "x" in mode)) and not (flags or 0) & os.O_TRUNC
            if not isinstance(path, int):
                yield from _writes(path, None, keeps, True)
    elif event == "sqlite3.connect":
        yield from _database(arguments[0])
    else:
        for table, follows in ((_ITSELF, False), (_TARGET, True)):
            for position, folder in table.get(event, ()):
                beside = arguments[folder] if folder is not None and folder < len(arguments) else None
                yield from _writes(arguments[position], beside, True, follows)


def _writes(path: Any, folder: Any, keeps: bool, follows: bool) -> Iterator[Write]:
    if isinstance(path, bool) or not isinstance(path, int | str | bytes | os.PathLike):
        return
    place = _opened(path) if isinstance(path, int) else os.fsdecode(path)
    if place is None:
        return
    base = _opened(folder) if isinstance(folder, int) and folder >= 0 else None
    place = os.path.join(base or os.getcwd(), place)
    yield Write(place.rstrip(os.sep) or os.sep, keeps, follows)


def _opened(descriptor: int) -> str | None:
    """The path of an open file, where the system says it."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return None


def _database(name: Any) -> Iterator[Write]:
    if not isinstance(name, str | bytes | os.PathLike):
        return
    place = os.fsdecode(name)
    if place.startswith("file:"):
        place, _, options = place.removeprefix("file:").partition("?")
        if "mode=ro" in options or "mode=memory" in options or "immutable=1" in options:
            return
        place = "/" + place.lstrip("/") if place.startswith("//") else place
    if place and place != ":memory:":
        for ending in _BESIDE:
            yield from _writes(place + ending, None, True, True)
