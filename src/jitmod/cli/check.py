"""`jitmod check`: every finding and every refusal, as a linter lists them. Nothing of the project is imported."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from jitmod.cli.options import CodemodNames, ConfigFile, Format, FormatOption, NoCache, Paths, Quiet
from jitmod.cli.session import UsageError, failing_clearly, jitmod_version, look_at, print_report


def check(
    paths: Paths = None,
    codemod: CodemodNames = None,
    config: ConfigFile = None,
    format: FormatOption = Format.TEXT,
    statistics: Annotated[bool, typer.Option("--statistics", help="Print how often everything was found.")] = False,
    checklist: Annotated[
        bool, typer.Option("--checklist", help="Print the checklist of a hot path for every function with a finding.")
    ] = False,
    no_cache: NoCache = False,
    quiet: Quiet = False,
) -> None:
    """List what could be rewritten, and what is left alone and why. Exit code 1 where something could be rewritten."""
    with failing_clearly():
        from jitmod.delivery.untried import findings
        from jitmod.report import checklist as cards
        from jitmod.report import lint
        from jitmod.report.run import Run

        if (statistics or checklist) and (format is not Format.TEXT or statistics == checklist):
            raise UsageError("--statistics and --checklist print text, one of them at a time")
        found = findings(look_at(paths, codemod, config, keeps_results=not no_cache))
        run = Run(jitmod_version(), found.entries, found.errors)
        if format is not Format.TEXT:
            print_report(run, format)
        elif statistics:
            lint.write_statistics(run, sys.stdout)
        elif checklist:
            cards.write(run, sys.stdout)
        else:
            lint.write(run, sys.stdout, brief=quiet)
        raise typer.Exit(run.exit_code())
