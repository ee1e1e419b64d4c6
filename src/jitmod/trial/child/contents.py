"""What a file holds, so that two of them can be compared: text by lines, arrays, or what kind it is."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from . import text
from .snapshot import Entry, snapshot

UNFINISHED = "(no line break at the end)"
_PACKED: Mapping[bytes, Callable[[bytes], bytes]] = {
    b"\x1f\x8b": gzip.decompress, b"BZh": bz2.decompress, b"\xfd7zXZ\0": lzma.decompress,
}  # fmt: skip
_BROKEN = (OSError, ValueError, EOFError, KeyError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile)


class Binary(str):
    """The digest of a file that is neither text nor arrays. Where two runs of the baseline differ, it says nothing."""

    __slots__ = ()


def read(path: str, name: str) -> Iterator[tuple[str, Any]]:
    """What lies at a path by now, under its name, and the members of an archive under theirs."""
    if os.path.isdir(path):
        yield name, "a folder"
    else:
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            yield name, "gone"
            return
        yield from _opened(data, name)
    with contextlib.suppress(OSError):
        yield f"{name} (rights)", oct(os.stat(path).st_mode & 0o7777)


def _opened(data: bytes, name: str) -> Iterator[tuple[str, Any]]:
    """Archives and compressed files say when they were made: that is no part of what they hold."""
    for start, unpack in _PACKED.items():
        if data.startswith(start):
            with contextlib.suppress(*_BROKEN):
                data = unpack(data)
            break
    arrays = _arrays(data)
    if arrays is not None:
        yield name, arrays
        return
    members = _members(data)
    if members is None:
        yield name, _one(data)
        return
    yield name, "an archive"
    for member, held in members:
        yield f"{name}/{member}", "a folder" if held is None else _one(held)


def _one(data: bytes) -> Any:
    arrays = _arrays(data)
    if arrays is not None:
        return arrays
    try:
        said = data.decode("utf-8")
    except UnicodeDecodeError:
        said = "\0"
    if "\0" in said:
        return Binary(hashlib.sha256(data).hexdigest())
    *lines, rest = said.split("\n")
    return [*lines, rest, UNFINISHED] if rest else lines


def _arrays(data: bytes) -> Any:
    """The arrays of a .npy or .npz file, or of several .npy files one after the other, as equinox writes them."""
    try:
        if data.startswith(b"PK"):
            with zipfile.ZipFile(io.BytesIO(data)) as packed:
                if not all(member.endswith(".npy") for member in packed.namelist()):
                    return None
            with np.load(io.BytesIO(data)) as archive:
                return {name: archive[name] for name in archive.files}
        if not data.startswith(b"\x93NUMPY"):
            return None
        stream, found = io.BytesIO(data), []
        while stream.tell() < len(data):
            found.append(np.load(stream))
        return tuple(found)
    except _BROKEN:
        return None


def _members(data: bytes) -> list[tuple[str, bytes | None]] | None:
    """The files in an archive, folders as None; None where it is no archive."""
    try:
        if data.startswith(b"PK"):
            with zipfile.ZipFile(io.BytesIO(data)) as packed:
                return [(one.filename, None if one.is_dir() else packed.read(one)) for one in packed.infolist()]
        if data[257:262] != b"ustar":
            return None
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            held = [(one.name, tar.extractfile(one)) for one in tar.getmembers()]
            return [(name, None if file is None else file.read()) for name, file in held]
    except (*_BROKEN, RuntimeError):  # a password is asked for
        return None


def entries(files: Mapping[str, Any], name: str) -> list[Entry]:
    """The arrays of a file; text is compared as text is."""
    held = files[name]
    if isinstance(held, Binary):
        return snapshot(f"binary, SHA-256 {held}", f"file {name}")
    return snapshot(held, f"file {name}") if not is_text(held) else []


def lines(files: Mapping[str, Any], name: str) -> list[tuple[str, str]]:
    return [(f"{text.FILE}{name}", line) for line in files[name]] if is_text(files[name]) else []


def is_text(held: Any) -> bool:
    return isinstance(held, list) and all(isinstance(line, str) for line in held)
