"""The user's command, and the same command with the recorder between the interpreter and the program."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jitmod.source.files import SUFFIXES

RECORD = Path(__file__).parents[1] / "child" / "record.py"
_PYTHON = re.compile(r"(python|pypy)[0-9.]*t?d?(\.exe)?")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_SHEBANG = re.compile(rb"#!\s*(\S*/env\s+)?(\S*(?:python|pypy)[0-9.]*)")
_LONG_SHEBANG = re.compile(rb"'''exec'\s+\"?([^\"\s]*(?:python|pypy)[0-9.]*)")
_LAUNCHERS = ("uv", "poetry", "pdm", "hatch", "pixi", "conda", "make", "bash", "sh")


class NotPython(Exception):
    """The command cannot be recorded; the message says which could."""


@dataclass(frozen=True)
class Command:
    """A Python program: the interpreter with its own options, and the program (a file, `-m NAME` or `-c CODE`)."""

    interpreter: Path
    options: tuple[str, ...]
    program: tuple[str, ...]

    def recorded(self, request: Path) -> list[str]:
        return [str(self.interpreter), *self.options, str(RECORD), str(request), *self.program]

    @property
    def label(self) -> str:
        """What it is called in reports: without its arguments, which may hold secrets."""
        match self.program:
            case ("-m", name, *_):
                return f"-m {name}"
            case ("-c", *_):
                return "-c ..."
        return Path(self.program[0]).name


def parse(words: Sequence[str], default: Path) -> Command:
    """Understand `python x.py`, `python -m mod`, `x.py`, `x.ipynb`, and programs written in Python, such as `pytest`.

    `default` is the interpreter of a bare `x.py`, and of `python` where none is on the path. Raises `NotPython`.
    """
    name = Path(words[0]).name
    if _PYTHON.fullmatch(name):
        found = shutil.which(words[0])
        if found is None and os.sep in words[0]:
            raise NotPython(f"no such program: {words[0]}")
        options, program = _split(words[1:])
        return Command(Path(found).absolute() if found else default, options, program)
    if words[0].endswith(SUFFIXES) and Path(words[0]).is_file():
        return Command(default, (), tuple(words))
    script = shutil.which(words[0])
    if script is None:
        raise NotPython(f"no such program: {words[0]}")
    interpreter = _interpreter(Path(script))
    if interpreter is None:
        within = f", the one that {name} runs" if name in _LAUNCHERS else ""
        raise NotPython(f"{name} is not a Python program: give the Python command itself{within} (python x.py, pytest)")
    return Command(interpreter, (), (script, *words[1:]))


def _split(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The interpreter's own options, and the program with its arguments."""
    index = 0
    while index < len(words):
        word = words[index]
        if word in _WITH_VALUE:
            index += 2
        elif word.startswith("-") and len(word) > 1 and not word.startswith(("-m", "-c")):
            ending = re.fullmatch(r"-([bBdEiIOPqsSuvx]*)([mc])(.*)", word)  # flags may come in one word: -um mod
            if ending is not None:
                flags = (f"-{ending[1]}",) if ending[1] else ()
                value = (ending[3],) if ending[3] else ()
                return (*words[:index], *flags), (f"-{ending[2]}", *value, *words[index + 1 :])
            index += 1
        else:
            break
    program = list(words[index:])
    if not program or program[0] == "-":
        raise NotPython("no program to record: give a file, -m NAME or -c CODE after python")
    if program[0][:2] in ("-m", "-c") and len(program[0]) > 2:
        program[:1] = [program[0][:2], program[0][2:]]
    if program[0] in ("-m", "-c") and len(program) < 2:
        raise NotPython(f"no program to record: {shlex.join(words)} ends too early")
    return tuple(words[:index]), tuple(program)


def _interpreter(script: Path) -> Path | None:
    """The Python that a script's first lines name."""
    try:
        with script.open("rb") as file:
            head = file.read(1024)
    except OSError:
        return None
    first, _, rest = head.partition(b"\n")
    found = _SHEBANG.match(first)
    path = found[2] if found else None
    if path is None and first.startswith(b"#!"):
        longer = _LONG_SHEBANG.match(rest)
        path = longer[1] if longer else None
    known = shutil.which(path.decode()) if path else None
    return Path(known).absolute() if known else None
