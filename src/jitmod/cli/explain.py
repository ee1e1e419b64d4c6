"""`jitmod explain`: the rule page of a codemod, or what a reason code means."""

from __future__ import annotations

from typing import Annotated

import typer

from jitmod.cli.session import UsageError, failing_clearly


def explain(
    name: Annotated[str | None, typer.Argument(metavar="CODEMOD|REASON", help="What to explain.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List every codemod and every reason code.")] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure what the page of fuse-jits says of inner jits, on your jax.")
    ] = False,
) -> None:
    """Print the rule page of a codemod, or the meaning of a reason code."""
    with failing_clearly():
        from jitmod.analysis.reasons import REASONS
        from jitmod.delivery.message import page
        from jitmod.report.registry import explained
        from jitmod.rewrite.codemod import available
        from jitmod.source.nearest import suggestion

        codemods = available()
        if list_all:
            width = max(len(known) for known in [*codemods, *REASONS])
            for known, codemod in codemods.items():
                typer.echo(f"{known:<{width}}  {codemod.summary}")
            for known, meaning in REASONS.items():
                typer.echo(f"{known:<{width}}  {meaning}")
        elif measure:
            if name != "fuse-jits":
                raise UsageError("only fuse-jits has something to measure: jitmod explain fuse-jits --measure")
            from jitmod.trial.nested import as_text, nested_jits

            for line in as_text(nested_jits()):
                typer.echo(line)
        elif name is None:
            raise UsageError("name a codemod or a reason code; jitmod explain --list shows them")
        elif name in codemods:
            typer.echo(page(codemods[name]))
        elif name in REASONS:
            typer.echo(explained(name))
        else:
            names = [*codemods, *REASONS]
            raise UsageError(
                f"no codemod and no reason code is called {name}{suggestion(name, names)} "
                "(jitmod explain --list shows all of them)"
            )
