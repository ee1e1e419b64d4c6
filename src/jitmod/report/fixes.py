"""The fix of a SARIF result: what a unified diff replaces, by lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")
_LINE = re.compile(r".*\n|.+")  # a form feed or a lone carriage return ends no line
_UNENDED = "\\ No newline at end of file\n"


def replacements(diff: str) -> list[dict[str, Any]] | None:
    """The replacements, in order; None where a text cannot be written in JSON, because the file is not in UTF-8."""
    try:
        diff.encode()
    except UnicodeEncodeError:
        return None
    return list(_replacements(_LINE.findall(diff)))


def _replacements(lines: list[str]) -> Iterator[dict[str, Any]]:
    number, removed, added = 0, list[str](), list[str]()
    last = ""

    def pending() -> Iterator[dict[str, Any]]:
        if removed or added:
            yield _replacement(number - len(removed), removed, "".join(added))
        removed.clear()
        added.clear()

    for line in lines:
        hunk = _HUNK.match(line)
        if hunk is not None:
            yield from pending()
            number = int(hunk[1]) + (1 if hunk[2] == "0" else 0)
        elif line == _UNENDED:  # of the line before
            side = removed if last == "-" else added if last == "+" else []
            if side:
                side[-1] = side[-1].removesuffix("\n")
        elif number and line[0] == "-":
            removed.append(line[1:])
            number += 1
        elif number and line[0] == "+":
            added.append(line[1:])
        elif number:
            yield from pending()
            number += 1
        last = line[:1]
    yield from pending()


def _replacement(first: int, removed: list[str], text: str) -> dict[str, Any]:
    region = {"startLine": first, "startColumn": 1, "endLine": first + len(removed), "endColumn": 1}
    if removed and not removed[-1].endswith("\n"):  # the file ends there
        region |= {"endLine": first + len(removed) - 1, "endColumn": len(removed[-1]) + 1}
    return {"deletedRegion": region, "insertedContent": {"text": text}}
