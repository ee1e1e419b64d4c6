"""`jitmod record`: run a program as it is, and keep the arguments with which the project's functions are called."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jitmod.cli.command import run_recorded, understood, words
from jitmod.cli.options import CodemodNames, ConfigFile, Quiet
from jitmod.cli.session import Session, Talk, UsageError, failing_clearly, interpreter, open_session

if TYPE_CHECKING:
    from jitmod.source.recording import Recording


def record(
    context: typer.Context,
    path: Annotated[
        list[Path] | None,
        typer.Option("--path", metavar="PATH", help="Files and folders with the code; the current folder by default."),
    ] = None,
    codemod: CodemodNames = None,
    calls: Annotated[int, typer.Option("--calls", min=1, help="Distinct calls to keep of each function.")] = 3,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="Pack the newest recording into a file.")
    ] = None,
    trust: Annotated[
        Path | None,
        typer.Option("--trust", metavar="FILE", help="Take a packed recording. Replaying it runs code that is in it."),
    ] = None,
    python: Annotated[
        Path | None, typer.Option("--python", metavar="PATH", help="The interpreter of a bare x.py.")
    ] = None,
    config: ConfigFile = None,
    quiet: Quiet = False,
) -> None:
    """Run a command, `jitmod record -- python train.py`, and keep real arguments, kinds and times for later trials.

    The program's output and exit status are its own. Recordings stay in git's own folder, or in the user's cache.
    """
    with failing_clearly():
        given = words(context)
        session = open_session(path, codemod, config)
        talk = Talk(quiet, False)
        if (given is not None) + (export is not None) + (trust is not None) != 1:
            raise UsageError("give a command after --, or --export FILE, or --trust FILE")
        if export is not None:
            _export(session, export, talk)
        elif trust is not None:
            _trust(session, trust, talk)
        elif given is not None:
            command = understood(given, interpreter(python))
            done = run_recorded(session, command, stop=False, calls=calls)
            if done.recording is None:
                talk.say("nothing was recorded: no function of the project ran in the program's own process "
                         "(its workers are not recorded; pytest -n 0 has none)")  # fmt: skip
            else:
                _tell(done.recording, talk)
            sys.stdout.flush()
            raise typer.Exit(done.status)


def _tell(recording: Recording, talk: Talk) -> None:
    """What was recorded, what could not be, and where the time went."""
    functions = recording.functions.values()
    stored = sum(len(function.calls) for function in functions)
    with_calls = sum(1 for function in functions if function.calls)
    calls = f"{stored} call{'s' * (stored != 1)} of {with_calls} function{'s' * (with_calls != 1)}"
    talk.say(f"recorded {calls}, and the kinds of {len(recording.functions)}")
    for path, loader in recording.foreign.items():
        talk.say(f"  {path} was loaded by {loader}, so its calls could not be recorded")
    for function in functions:
        if function.skipped and not function.calls and not function.callers:
            why = "; ".join(sorted(function.skipped))
            talk.say(f"  no call of {function.path} {function.qualname} is stored: {why}")
    for entry in sorted(recording.sites, key=lambda s: -s.seconds):
        if entry.entries:
            share = entry.seconds / recording.seconds if recording.seconds else 0.0
            place = f"{entry.site.shown_path}:{entry.site.shown_line}"
            talk.say(f"  {place} {share:.0%} of the time, {entry.entries} times, at most {entry.longest} iterations")


def _export(session: Session, file: Path, talk: Talk) -> None:
    from jitmod.trial.recording import store

    if not session.request.recordings:
        raise UsageError(f"{session.root} has no recording: make one with jitmod record -- COMMAND")
    try:
        store.export(session.request.recordings[0], file)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from None
    talk.say(f"the recording of {session.request.recordings[0].label} is in {file}")


def _trust(session: Session, file: Path, talk: Talk) -> None:
    from jitmod.source.recording import state_folder
    from jitmod.trial.recording import store

    try:
        taken = store.trust(file, state_folder(session.root))
    except store.NotARecording as error:
        raise UsageError(str(error)) from None
    talk.say(f"the recording of {taken.label} is now one of {session.root}")
