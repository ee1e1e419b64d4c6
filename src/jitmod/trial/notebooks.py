"""Notebooks in a trial: a child knows Python alone, so every notebook that it may load comes to it as a module."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from jitmod.source.notebook import SUFFIX, Notebook
from jitmod.source.notebook_json import NotANotebook

_BOM = b"\xef\xbb\xbf"


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


def module_text(data: bytes) -> str:
    """The code of the notebook in `data`. What cannot be read will not load, and that is a verdict."""
    try:
        return Notebook.read(data.removeprefix(_BOM).decode()).module
    except NotANotebook as error:
        return f"raise SyntaxError({error.message!r})\n"
    except UnicodeDecodeError as error:
        return f"raise SyntaxError({str(error)!r})\n"
