"""`jitmod check`: every finding and every refusal, as a linter lists them. Nothing of the project is imported."""

from __future__ import annotations

import sys

import typer

from jitmod.cli.options import CodemodNames, ConfigFile, Format, FormatOption, Paths
from jitmod.cli.session import failing_clearly, jitmod_version, open_session, print_report


def check(
    paths: Paths = None,
    codemod: CodemodNames = None,
    config: ConfigFile = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """List what could be rewritten, and what is left alone and why. Exit code 1 where something could be rewritten."""
    with failing_clearly():
        from jitmod.delivery.job import findings
        from jitmod.report import text
        from jitmod.report.run import Run

        session = open_session(paths, codemod, config)
        found = findings(session.request, session.root)
        run = Run(jitmod_version(), found.entries, found.errors)
        if format is Format.TEXT:
            text.write_findings(run, sys.stdout)
        else:
            print_report(run, format)
        raise typer.Exit(run.exit_code())
