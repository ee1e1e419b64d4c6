"""`jitmod init`: the tables of pyproject.toml for a project that has none yet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jitmod.cli.options import Paths
from jitmod.cli.session import UsageError, configuration, failing_clearly, jitmod_version, look_at


def init(
    paths: Paths = None,
    ci: Annotated[
        list[str] | None,
        typer.Option("--ci", metavar="NAME", help="Write a workflow instead: github-{bot,guard,matrix} or gitlab."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be added; write nothing.")] = False,
) -> None:
    """Find the benchmarks and tests that run what could be rewritten, and name them in pyproject.toml.

    With --ci it writes workflows for a service that runs jobs: pull requests on a schedule, or a guard on each of them.
    """
    with failing_clearly():
        if ci:
            _write_ci(paths, ci, dry_run)
            return
        from jitmod.delivery.starting import add_to, as_toml, workloads_for
        from jitmod.delivery.untried import findings
        from jitmod.model import Patch
        from jitmod.report import text
        from jitmod.report.run import Run
        from jitmod.source.files import discover
        from jitmod.source.project import Project

        asked = look_at(paths, None, None)
        file = asked.root / "pyproject.toml"
        configured = configuration(asked.root, None).workloads
        if configured:
            raise UsageError(f"{file} has workloads already: {', '.join(w.name for w in configured)}")
        found = findings(asked)
        run = Run(jitmod_version(), found.entries, found.errors)
        for line in text.error_lines(run):
            typer.echo(line, err=True)
        patched = {e.outcome.finding.site.path for e in found.entries if isinstance(e.outcome.finding, Patch)}
        project = Project.build(asked.root, discover(asked.root, [asked.root], asked.exclude))
        workloads = workloads_for(project, patched)
        covered = {path for workload in workloads for path in workload.covers}
        for path in sorted(patched - covered):
            typer.echo(f"jitmod: no benchmark and no test imports {path}: write a function that runs it", err=True)
        if not workloads:
            what = "nothing there could be rewritten" if not patched else "nothing was found that runs it"
            typer.echo(f"jitmod: {what}; pyproject.toml stays as it is", err=True)
            raise typer.Exit(2 if run.is_incomplete else int(bool(patched)))
        tables = as_toml(workloads)
        if dry_run:
            typer.echo(tables, nl=False)
        else:
            add_to(file, tables)
            names = ", ".join(workload.name for workload in workloads)
            typer.echo(f"pyproject.toml names {len(workloads)} workloads ({names}); commit it, then: jitmod apply .")
        if run.is_incomplete:
            raise typer.Exit(2)


def _write_ci(paths: list[Path] | None, names: list[str], dry_run: bool) -> None:
    from jitmod.delivery.starting import Ci, write_ci
    from jitmod.source.files import project_root

    unknown = [name for name in names if name not in list(Ci)]
    if unknown:
        raise UsageError(f"--ci: {', '.join(Ci)}, not {unknown[0]}")
    root = project_root((paths or [Path(".")])[0])
    for which in map(Ci, names):
        done = f"would write {root / which.place}" if dry_run else f"wrote {write_ci(which, root)}: read and commit it"
        typer.echo(done)
