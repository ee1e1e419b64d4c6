"""Unified diffs that `git apply` takes from the repository's root, byte for byte."""

from __future__ import annotations

import difflib
import re

_TO_QUOTE = re.compile(r'[\x00-\x1f"\\\x7f]')
_ESCAPES = {"\n": "\\n", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def file_diff(path: str, before: bytes, after: bytes) -> str:
    """The diff of one file, empty where nothing changed.

    Lines end at `\\n` alone: a form feed or a lone `\\r` does not end a line for git. Bytes that are not UTF-8 become
    surrogate escapes, so that `raw` gives back what the file holds.
    """
    buffer: list[str] = []
    for line in difflib.unified_diff(_lines(before), _lines(after), _name("a", path), _name("b", path)):
        buffer.append(line)
        if not line.endswith("\n"):
            buffer.append("\n\\ No newline at end of file\n")
    return "".join(buffer)


def raw(diff: str) -> bytes:
    """The bytes of a diff as they go to a pipe."""
    return diff.encode("utf-8", "surrogateescape")


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "surrogateescape")
    return [line for line in re.split(r"(?<=\n)", text) if line]


def _name(side: str, path: str) -> str:
    """A path in a header: quoted as git does where a plain one would be misread; a tab ends a name with blanks."""
    name = f"{side}/{path}"
    if _TO_QUOTE.search(name):
        return '"' + _TO_QUOTE.sub(lambda m: _ESCAPES.get(m[0], f"\\{ord(m[0]):03o}"), name) + '"'
    return f"{name}\t" if " " in name else name
