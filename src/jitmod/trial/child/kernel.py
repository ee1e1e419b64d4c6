"""What a kernel gives to a notebook, where there is none: `display`, and `get_ipython` for its magics.

The folder and the environment change as the notebook wants it. What other magics and shell lines do to the machine is
left out; what they would have given to the code is an error that says so.
"""

from __future__ import annotations

import os
from typing import Any

SUFFIX = ".ipynb"
_GIVES = frozenset({"run", "pylab", "store", "load", "cython", "sql", "macro"})  # magics that bind names


class NotRun(Exception):
    """The notebook wants what only a kernel, or a shell, could give it."""


class Shell:
    """Stands for IPython's shell."""

    def run_line_magic(self, name: str, line: str) -> str | None:
        match name:
            case "cd":
                os.chdir(os.path.expanduser(line or "~"))
            case "env" | "set_env" if line:
                variable, _, value = line.partition("=" if "=" in line else " ")
                os.environ[variable.strip()] = value.strip()
            case "pwd":
                return os.getcwd()
            case _ if name in _GIVES:
                raise NotRun(f"%{name} is not run without a kernel: {line}".rstrip(" :"))
        return None

    def run_cell_magic(self, name: str, line: str) -> None:
        if name in _GIVES or "--out" in line or "--err" in line:
            raise NotRun(f"a cell of %%{name} is not run without a kernel")

    def system(self, command: str) -> None:
        """Nothing: `!pip install` has been run by the user."""

    def getoutput(self, command: str) -> None:
        raise NotRun(f"shell commands are not run, so what they print is not known: {command}")


def names() -> dict[str, Any]:
    """What a notebook finds among its names. Plots are drawn where nobody sees them."""
    os.environ.setdefault("MPLBACKEND", "agg")
    shell = Shell()
    return {"get_ipython": lambda: shell, "display": _display}


def _display(*values: Any, **_: Any) -> None:
    for value in values:
        print(repr(value))
