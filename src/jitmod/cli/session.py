"""What every command does first and last: check its arguments, say why it cannot work, print for programs."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from jitmod.cli.options import Format
from jitmod.model import UserError

if TYPE_CHECKING:
    from jitmod.delivery.job import Request
    from jitmod.delivery.untried import Asked
    from jitmod.report.run import Run
    from jitmod.rewrite.codemod import Codemod
    from jitmod.source.config import Config

CANNOT_WORK = 2
INTERRUPTED = 130


class UsageError(UserError):
    """An argument that cannot be used; the message says why and what could be."""


@contextlib.contextmanager
def failing_clearly() -> Iterator[None]:
    """Turn the errors that a user can act on into one line on stderr and exit code 2."""
    try:
        yield
    except UserError as error:
        typer.echo(f"jitmod: error: {inert(str(error))}", err=True)
        raise typer.Exit(CANNOT_WORK) from None
    except BrokenPipeError:
        raise
    except OSError as error:  # a full disk, no rights
        where = f"{error.filename}: " if error.filename is not None else ""
        typer.echo(f"jitmod: error: {inert(f'{where}{error.strerror or error}')}", err=True)
        raise typer.Exit(CANNOT_WORK) from None
    except KeyboardInterrupt:
        typer.echo("jitmod: interrupted; what was accepted before is kept", err=True)
        raise typer.Exit(INTERRUPTED) from None


def inert(text: str) -> str:
    """A message on one line, whatever of a project is in it: a line of its own may be a command where it is printed."""
    from jitmod.delivery.figures import one_line

    return one_line(text).encode("utf-8", "replace").decode()


@dataclass(frozen=True)
class Talk:
    """What goes to stderr: words about the run. `verbose` asks for its progress also where no terminal shows it."""

    quiet: bool
    verbose: bool

    def say(self, text: str) -> None:
        if not self.quiet:
            typer.echo(f"jitmod: {text}", err=True)


@dataclass(frozen=True)
class Session:
    """The checked arguments: the project's root, its configuration, and what is asked for. `label` names a branch."""

    root: Path
    config: Config
    request: Request
    label: str


def open_session(
    paths: Sequence[Path] | None, codemods: Sequence[str] | None, config_file: Path | None, only_safe: bool = False
) -> Session:
    """Check the arguments. Raises `UsageError`, `ConfigError` and `UnknownCodemod`."""
    from jitmod.delivery.job import Request
    from jitmod.source.recording import load_all, state_folder

    asked = look_at(paths, codemods, config_file, only_safe)
    chosen = asked.load()
    recordings = load_all(state_folder(asked.root))
    request = Request(chosen, asked.paths, asked.exclude, only_safe, recordings, asked.ignored)
    wanted = asked.codemods[0].split(",")
    label = "all" if "all" in map(str.strip, wanted) else "-".join(codemod.id for codemod in chosen)
    return Session(asked.root, configuration(asked.root, config_file), request, label)


def look_at(
    paths: Sequence[Path] | None,
    codemods: Sequence[str] | None,
    config_file: Path | None,
    only_safe: bool = False,
    keeps_results: bool = True,
) -> Asked:
    """What is to be looked at. Raises `UsageError` and `ConfigError`; its `load` raises `UnknownCodemod`."""
    from jitmod.delivery.untried import Asked
    from jitmod.source.files import SUFFIXES, project_root

    given = list(paths or [Path(".")])
    for path in given:
        if not path.exists():
            raise UsageError(f"no such file or folder: {path}")
        if path.is_file() and path.suffix not in SUFFIXES:
            raise UsageError(f"not a Python file: {path} (give .py files, notebooks, or folders that hold some)")
    root = project_root(given[0])
    relative = []
    for path in given:
        if not path.resolve().is_relative_to(root):
            raise UsageError(f"{path} is outside of {root}: run jitmod once for each project")
        relative.append(path.resolve().relative_to(root).as_posix())
    configured = configuration(root, config_file)
    wanted = ",".join(codemods or configured.select) or "all"
    ignored = () if codemods else configured.ignore

    def load() -> tuple[Codemod, ...]:
        from jitmod.rewrite.codemod import select
        from jitmod.rewrite.suppressed import check_names

        chosen = tuple(codemod for codemod in select(wanted) if codemod.id not in ignored)
        check_names(configured.per_file_ignores, [codemod.id for codemod in chosen])
        return chosen

    names = (wanted, *ignored)
    return Asked(root, tuple(relative), configured.exclude, names, load, only_safe, keeps_results,
                 ignored=configured.per_file_ignores)  # fmt: skip


def configuration(root: Path, config_file: Path | None) -> Config:
    """The project's configuration. Raises `ConfigError`."""
    from jitmod.source import config

    return config.load(root, config_file)


def interpreter(python: Path | None) -> Path:
    """The interpreter that `--python` names, or the one that runs jitmod. Raises `UsageError`."""
    if python is None:
        return Path(sys.executable)
    found = shutil.which(python)
    if found is None:
        raise UsageError(f"--python: no such program: {python}")
    return Path(found).absolute()  # not resolved: a virtual environment's python is a link, and its place matters


def print_report(run: Run, style: Format) -> None:
    """Write a run to stdout in a format for programs."""
    from jitmod.report import github, json, sarif

    match style:
        case Format.JSON:
            typer.echo(json.render(run), nl=False)
        case Format.SARIF:
            typer.echo(sarif.render(run), nl=False)
        case Format.GITHUB:
            typer.echo(github.render(run), nl=False)
        case Format.TEXT:
            raise ValueError("text is written by the command, which knows what belongs on stdout")


def jitmod_version() -> str:
    return version("jitmod")
