"""The options that commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"
    SARIF = "sarif"


def _completed(incomplete: str) -> list[str]:
    """The names of codemods that begin like the last one of a list."""
    from importlib.metadata import entry_points

    before, comma, last = incomplete.rpartition(",")
    known = sorted(["all", *(point.name for point in entry_points(group="jitmod.codemods"))])
    return [f"{before}{comma}{name}" for name in known if name.startswith(last)]


Paths = Annotated[
    list[Path] | None,
    typer.Argument(metavar="PATH", help="Files and folders to look at; the current folder if none is given."),
]
CodemodNames = Annotated[
    list[str] | None,
    typer.Option(
        "--codemod",
        metavar="NAMES",
        help="Codemods, separated by commas; may be given several times. 'all' (the default) is every one.",
        autocompletion=_completed,
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Read the table tool.jitmod from this file instead of the project's pyproject.toml.",
    ),
]
FormatOption = Annotated[Format, typer.Option("--format", help="How to print the result.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results and errors only.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say what is being done, also when not on a terminal.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Search again what was searched before, and keep no result.")]
Budget = Annotated[float, typer.Option("--budget", min=1.0, max=1_000_000.0, help="Seconds that one trial may take.")]
MinSpeedup = Annotated[
    float | None,
    typer.Option("--min-speedup", min=0.0, max=1_000_000.0, help="The warm speedup that earns a commit."),
]
