"""Python processes that a workload starts afresh: they would run the files as they lie in the user's folder, and not
the version that is tried. A forked one has the version's modules already."""

from __future__ import annotations

import functools
import multiprocessing
import os
import re
import shlex
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from typing import Any

_WHY = "which would run the files as they are in the project's folder, not the version that is tried"
_IMPORTED = re.compile(r"\b(?:import|from)\s+([\w.]+)")
_SHELLS = {"sh", "bash", "dash", "zsh"}


def watch(refuse: Callable[[str], None]) -> None:
    """From now on `refuse` is called before `multiprocessing` starts an interpreter."""
    start = BaseProcess.start

    @functools.wraps(start)
    def started(self: BaseProcess) -> None:
        method = getattr(type(self), "_start_method", None) or multiprocessing.get_start_method()
        if method != "fork":
            refuse(f"the workload starts worker processes by {method}, {_WHY}; use the start method fork, or threads")
        start(self)

    BaseProcess.start = started  # type: ignore[method-assign]


def project_program(event: str, arguments: tuple[Any, ...], root: str) -> str | None:
    """Why a program must not start, where it is an interpreter that runs a file or module of the project."""
    words = _words(event, arguments)
    if words and os.path.basename(words[0]) in _SHELLS and "-c" in words:
        words = _split(words[-1])
    if not words or not os.path.basename(words[0]).startswith("python"):
        return None
    folder = arguments[2] if event == "subprocess.Popen" and len(arguments) > 2 and arguments[2] else os.getcwd()
    for program in _programs(words[1:]):
        place = os.path.realpath(os.path.join(os.fsdecode(folder), program))
        if place.startswith(root + os.sep) and any(os.path.exists(path) for path in (place, place + ".py")):
            return f"the workload starts another interpreter for {os.path.relpath(place, root)}, {_WHY}"
    return None


def _programs(words: Sequence[str]) -> list[str]:
    """The files that an interpreter with these arguments runs; for modules, the files or folders they would be."""
    for number, word in enumerate(words):
        if word in {"-m", "-c"}:
            given = words[number + 1] if number + 1 < len(words) else ""
            modules = [given] if word == "-m" else _IMPORTED.findall(given)
            return [module.partition(".")[0] for module in modules if module]
        if not word.startswith("-"):
            return [word]
    return []


def _words(event: str, arguments: tuple[Any, ...]) -> list[str]:
    """The command line that an audit event announces."""
    match event, arguments:
        case "os.system", (command, *_):
            return _split(command)
        case ("subprocess.Popen" | "os.exec" | "os.posix_spawn"), (_, command, *_):
            return _split(command) if isinstance(command, str | bytes) else [os.fsdecode(word) for word in command]
        case ("os.spawn" | "pty.spawn"), (*_, command, _) | (command,):
            return [os.fsdecode(word) for word in command] if isinstance(command, list | tuple) else []
    return []


def _split(command: str | bytes) -> list[str]:
    try:
        return shlex.split(os.fsdecode(command))
    except ValueError:
        return []
