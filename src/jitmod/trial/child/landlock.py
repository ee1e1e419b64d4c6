"""Linux can forbid a process, and all that it starts, to change files in a folder: no rights and no tools are needed.

https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterator

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # system calls, with the same numbers on all architectures
_VERSION_FLAG, _PATH_BENEATH, _NO_NEW_PRIVILEGES = 1, 1, 38
_WRITE, _TRUNCATE, _REFER = 1 << 1, 1 << 14, 1 << 13
_CHANGES = _WRITE | sum(1 << bit for bit in range(4, 13))  # remove and make entries of every kind


def forbid_changes(root: str, allowed: str) -> bool:
    """From now on nothing below `root` can be written but `allowed`; True where the system sees to that.

    The rules are a list of what is allowed: all that lies beside the way to `root`. New entries of the folders on that
    way are therefore forbidden as well.
    """
    if sys.platform != "linux":
        return False
    system = ctypes.CDLL(None, use_errno=True).syscall
    version = system(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(_VERSION_FLAG))
    if version < 1:
        return False
    rights = _CHANGES | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    handled = struct.pack("=Q", rights)
    rules = system(_CREATE, handled, ctypes.c_size_t(len(handled)), ctypes.c_uint(0))
    if rules < 0:
        return False
    try:
        for place in (*_beside(root), allowed):
            _allow(system, rules, place, rights)
        if ctypes.CDLL(None).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
            return False
        return bool(system(_RESTRICT, ctypes.c_int(rules), ctypes.c_uint(0)) == 0)
    finally:
        os.close(rules)


def _beside(root: str) -> Iterator[str]:
    """Everything that lies in a folder above `root` and does not hold it."""
    here = os.path.realpath(root)
    while here != os.path.dirname(here):
        above, name = os.path.split(here)
        with contextlib.suppress(OSError):  # in a folder that cannot be listed nothing is allowed
            yield from (entry.path for entry in os.scandir(above) if entry.name != name and not entry.is_symlink())
        here = above


def _allow(system: ctypes._NamedFuncPointer, rules: int, place: str, rights: int) -> None:
    try:
        descriptor = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        allowed = rights if is_folder else rights & (_WRITE | _TRUNCATE)
        rule = struct.pack("=Qi", allowed, descriptor)
        system(_ADD, ctypes.c_int(rules), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint(0))
    finally:
        os.close(descriptor)
