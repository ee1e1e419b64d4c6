"""`jitmod debug-config`: every setting, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jitmod.cli.options import CodemodNames, ConfigFile, Paths
from jitmod.cli.session import failing_clearly, interpreter, open_session

if TYPE_CHECKING:
    from jitmod.cli.session import Session

Row = tuple[str, str, str]
"""What it is, where it comes from, and its value."""


def debug_config(
    paths: Paths = None,
    codemod: CodemodNames = None,
    python: Annotated[
        Path | None, typer.Option("--python", metavar="PATH", help="The interpreter that has the project's jax.")
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Print every setting, where it comes from, and its value. The arguments are those of other commands."""
    with failing_clearly():
        from jitmod.delivery.figures import one_line
        from jitmod.source.origins import settings

        session = open_session(paths, codemod, config)
        own = [(one.name, one.origin, one.value) for one in settings(session.root, config)]
        rows = [*_around(session, python, config), *own, *_found(session, codemod)]
        widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
        for name, origin, value in rows:
            typer.echo(f"{name:<{widths[0]}}  {one_line(origin):<{widths[1]}}  {one_line(value)}")


def _around(session: Session, python: Path | None, config: Path | None) -> Iterator[Row]:
    from jitmod.source.files import ROOT_MARKERS

    marker = next((name for name in ROOT_MARKERS if (session.root / name).exists()), None)
    yield "root", f"holds {marker}" if marker else "as given", str(session.root)
    file = config or session.root / "pyproject.toml"
    yield "file", "--config" if config else "in the root" if file.is_file() else "not there", str(file)
    yield "python", "--python" if python else "runs jitmod", str(interpreter(python))


def _found(session: Session, codemods: list[str] | None) -> Iterator[Row]:
    from jitmod.source.recording import state_folder

    names = ", ".join(codemod.id for codemod in session.request.codemods)
    chosen = session.config.select or session.config.ignore
    yield "codemods", "--codemod" if codemods else "select, ignore" if chosen else "default", names
    yield "state", "of the root", str(state_folder(session.root))
    labels = ", ".join(recording.label for recording in session.request.recordings)
    yield "recordings", "in the state", labels or "-"
