"""`jitmod check`: every finding and every refusal, as a linter lists them. Nothing of the project is imported."""

from __future__ import annotations

import sys

import typer

from jitmod.cli.options import CodemodNames, ConfigFile, Format, FormatOption, NoCache, Paths
from jitmod.cli.session import failing_clearly, jitmod_version, look_at, print_report


def check(
    paths: Paths = None,
    codemod: CodemodNames = None,
    config: ConfigFile = None,
    format: FormatOption = Format.TEXT,
    no_cache: NoCache = False,
) -> None:
    """List what could be rewritten, and what is left alone and why. Exit code 1 where something could be rewritten."""
    with failing_clearly():
        from jitmod.delivery.untried import findings
        from jitmod.report import text
        from jitmod.report.run import Run

        found = findings(look_at(paths, codemod, config, keeps_results=not no_cache))
        run = Run(jitmod_version(), found.entries, found.errors)
        if format is Format.TEXT:
            text.write_findings(run, sys.stdout)
        else:
            print_report(run, format)
        raise typer.Exit(run.exit_code())
