"""A command after `--`: everything that follows belongs to the user's program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer
from typer.core import TyperCommand

from jitmod.cli.session import UsageError

if TYPE_CHECKING:
    from jitmod.cli.session import Session
    from jitmod.trial.recording.command import Command
    from jitmod.trial.recording.run import RecordedRun

_META = "jitmod.command"


class WithCommand(TyperCommand):
    """Takes `--` and what follows off the arguments, for `words` to give back."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[_META] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)


def words(context: typer.Context) -> tuple[str, ...] | None:
    """The words after `--`; None where there was none."""
    return cast("tuple[str, ...] | None", context.meta.get(_META))


def understood(given: Sequence[str], default: Path) -> Command:
    """The program that the words name. Raises `UsageError`."""
    from jitmod.trial.recording.command import NotPython, parse

    if not given:
        raise UsageError("no command after --: write one, such as -- python train.py --steps 50")
    try:
        return parse(given, default)
    except NotPython as error:
        raise UsageError(str(error)) from None


def run_recorded(session: Session, command: Command, *, stop: bool, calls: int) -> RecordedRun:
    """Record the command for the sites that are in the files as they are. Raises `UsageError`."""
    from jitmod.delivery.job import read
    from jitmod.rewrite.codemod import scan
    from jitmod.source.recording import state_folder
    from jitmod.trial.recording.run import Limits, record
    from jitmod.trial.recording.targets import targets

    wanted, project = read(session.request, session.root)
    found = scan(wanted.codemods, project, wanted.paths, wanted.ignored).findings
    watched = targets(project, session.root, found)
    state = state_folder(session.root)
    try:
        return record(command, watched, root=session.root, state=state, stop=stop, limits=Limits(calls=calls))
    except OSError as error:
        why = f"{command.interpreter} cannot be started, or nothing be written to {state}: {error}"
        raise UsageError(why) from None
