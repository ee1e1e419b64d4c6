"""The program `jitmod`: its commands, and what happens to a signal or an error that nobody foresaw."""

from __future__ import annotations

import gc
import signal
import sys
import traceback
from typing import Annotated

import typer

from jitmod.cli.apply import apply
from jitmod.cli.bot import bot
from jitmod.cli.check import check
from jitmod.cli.codemods import new_codemod, test
from jitmod.cli.command import WithCommand
from jitmod.cli.debug_config import debug_config
from jitmod.cli.explain import explain
from jitmod.cli.init import init
from jitmod.cli.jobs import plan
from jitmod.cli.pr import pr
from jitmod.cli.record import record
from jitmod.cli.report import report
from jitmod.cli.session import CANNOT_WORK, jitmod_version
from jitmod.cli.trial import trial

app = typer.Typer(
    name="jitmod",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # panels would cost half of the time that --help takes
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(cls=WithCommand)(apply)
app.command()(check)
app.command()(explain)
app.command()(plan)
app.command()(pr)
app.command()(bot)
app.command(cls=WithCommand)(record)
app.command()(trial)
app.command()(report)
app.command()(init)
app.command(name="new-codemod")(new_codemod)
app.command()(test)
app.command(name="debug-config")(debug_config)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"jitmod {jitmod_version()}")
        raise typer.Exit


@app.callback()
def jitmod(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Codemods that make JAX/Equinox code fast, and an A/B trial that proves it before anything is committed."""


class Terminated(BaseException):
    """A polite kill. It is no `SystemExit`, which somebody's codemod may raise and is then blamed for."""


def _terminate(number: int, frame: object) -> None:
    raise Terminated


def main() -> None:
    """Run the program. Exit codes: 0 all well, 1 findings or patches that earned no commit, 2 jitmod could not work."""
    gc.disable()  # trees are millions of objects that stay: going through them again took most of the time of a scan
    # So that a polite kill unwinds the stack, and the temporary worktree goes with it.
    signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")  # a path may hold anything, a terminal not
    try:
        app()
    except Terminated:
        sys.exit(128 + signal.SIGTERM)
    except Exception:
        traceback.print_exc()
        sys.exit(CANNOT_WORK)
