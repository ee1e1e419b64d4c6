"""Ways into project code that do not ask the import system: scripts run by path, modules loaded from a file."""

from __future__ import annotations

import importlib.machinery
import os
import runpy
import sys
from collections.abc import Mapping
from types import CodeType, ModuleType
from typing import Any, Protocol


class Source(Protocol):
    """Where the active world's code comes from."""

    def code_of(self, file: str) -> CodeType | None:
        """The code of the file at this place; None where it is not the project's."""


_active: list[Source] = []
_run_path = runpy.run_path
_get_code = importlib.machinery.SourceFileLoader.get_code


def enter(source: Source) -> None:
    """From now on files of the project come from `source`, whoever asks for them by path."""
    if not _active:
        runpy.run_path = run_path
        importlib.machinery.SourceFileLoader.get_code = _code  # type: ignore[assignment, method-assign]
    _active.append(source)


def leave() -> None:
    _active.pop()
    if not _active:
        runpy.run_path = _run_path
        importlib.machinery.SourceFileLoader.get_code = _get_code  # type: ignore[method-assign]


def run_path(
    path_name: str | os.PathLike[str], init_globals: Mapping[str, Any] | None = None, run_name: str | None = None
) -> dict[str, Any]:
    """`runpy.run_path`, for the arm's text of a project's script."""
    path = os.fsdecode(path_name)
    code = _active[-1].code_of(path) if path.endswith((".py", ".ipynb")) else None
    if code is None:
        return _run_path(os.fspath(path_name), dict(init_globals or {}), run_name)
    name = run_name or "<run_path>"
    module = ModuleType(name)
    vars(module).update(init_globals or {}, __name__=name, __file__=path, __cached__=None, __package__="")
    before, argument = sys.modules.get(name), sys.argv[0]
    sys.modules[name], sys.argv[0] = module, path
    try:
        exec(code, vars(module))
        return dict(vars(module))
    finally:
        sys.argv[0] = argument
        if before is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = before


def _code(loader: importlib.machinery.SourceFileLoader, fullname: str) -> CodeType | None:
    code = _active[-1].code_of(loader.path)
    return _get_code(loader, fullname) if code is None else code
