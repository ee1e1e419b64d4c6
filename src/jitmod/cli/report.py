"""`jitmod report`: a run as a page that opens anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jitmod.cli.options import Quiet
from jitmod.cli.output import is_stream, write_whole
from jitmod.cli.session import UsageError, failing_clearly


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN.json", help="What apply or check printed with --format json.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page.")] = Path("report.html"),
    quiet: Quiet = False,
) -> None:
    """Make one self-contained page of a run: diffs, samples of both arms, parity, and what is left alone and why."""
    with failing_clearly():
        from jitmod.report.html.page import render
        from jitmod.report.html.reading import BadRun, read

        try:
            document = read(run)
        except BadRun as error:
            raise UsageError(str(error)) from None
        write_whole(output, render(document), made_of=run)
        if not quiet and not is_stream(output):
            typer.echo(f"{output} is written; open it in a browser")
