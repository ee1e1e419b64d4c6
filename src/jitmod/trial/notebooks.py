"""Notebooks in a trial: a child knows Python alone, so every notebook that it may load comes to it as a module."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jitmod.source.notebook import SUFFIX, Notebook
from jitmod.source.notebook_json import NotANotebook

_BOM = b"\xef\xbb\xbf"
_PLACE = re.compile(r"(\S+\.ipynb):(\d+)")


def overlay(code_root: Path, user_root: Path, targets: Iterable[str]) -> dict[str, str]:
    """The code of the notebooks that `targets` name (`a/b.ipynb`, `a/b.ipynb:function`), relative to the roots.

    It is that of the commit, or the user's where git does not know the notebook.
    """
    found: dict[str, str] = {}
    for target in targets:
        name, suffix, rest = target.partition(SUFFIX)
        path = name + suffix
        files = [file for root in (code_root, user_root) if (file := root / path).is_file()]
        if suffix and rest[:1] in ("", ":") and files:
            found[path] = module_text(files[0].read_bytes())
    return found


def in_cells(why: str, job: Mapping[str, Any], code_root: Path) -> str:
    """What a verdict says of lines of a notebook's module, in terms of its cells.

    What it says of the baseline is about the baseline's lines, and all else about those of the candidate.
    """
    arm = {} if "baseline" in why or not job["candidates"] else job["candidates"][0]["files"]

    def placed(found: re.Match[str]) -> str:
        for path, text in {**job["baseline"], **arm}.items():
            if found[1].endswith(path) and text is not None and (code_root / path).is_file():
                with contextlib.suppress(NotANotebook, UnicodeDecodeError):
                    notebook = Notebook.read((code_root / path).read_bytes().removeprefix(_BOM).decode())
                    cell, line = notebook.place(int(found[2]), text)
                    return f"{found[1]}:cell {cell}:{line}"
        return found[0]

    return _PLACE.sub(placed, why)


def module_text(data: bytes) -> str:
    """The code of the notebook in `data`. What cannot be read will not load, and that is a verdict."""
    try:
        return Notebook.read(data.removeprefix(_BOM).decode()).module
    except NotANotebook as error:
        return f"raise SyntaxError({error.message!r})\n"
    except UnicodeDecodeError as error:
        return f"raise SyntaxError({str(error)!r})\n"
