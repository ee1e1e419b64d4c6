"""`jitmod apply`: try every patch and commit the accepted ones to a branch, or show the diff."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jitmod.cli.options import CodemodNames, ConfigFile, Format, FormatOption, Paths, Quiet, Verbose
from jitmod.cli.session import (
    Session,
    Talk,
    UsageError,
    failing_clearly,
    jitmod_version,
    open_session,
    print_report,
)

if TYPE_CHECKING:
    from jitmod.delivery.apply import Terms
    from jitmod.delivery.preview import Preview
    from jitmod.source.config import Workload

_DIRTY_NAMED = 3


def apply(
    paths: Paths = None,
    codemod: CodemodNames = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print a diff that git apply takes; write nothing.")
    ] = False,
    trial: Annotated[bool, typer.Option("--trial", help="With --dry-run: try every patch, commit nothing.")] = False,
    safe: Annotated[bool, typer.Option("--safe", help="Only patches that rest on no assumption.")] = False,
    workload: Annotated[
        list[str] | None,
        typer.Option("--workload", metavar="FILE.py:FUNCTION", help="What a trial runs; may be given several times."),
    ] = None,
    branch: Annotated[
        str | None, typer.Option("--branch", metavar="NAME", help="The branch to write; jitmod/NAMES if not given.")
    ] = None,
    base: Annotated[str | None, typer.Option("--base", metavar="REV", help="Start from this commit, not HEAD.")] = None,
    require_gpu: Annotated[bool, typer.Option("--require-gpu", help="A trial on a CPU proves nothing.")] = False,
    min_speedup: Annotated[
        float | None, typer.Option("--min-speedup", min=0.0, help="The warm speedup that earns a commit.")
    ] = None,
    budget: Annotated[float, typer.Option("--budget", min=1.0, help="Seconds that one trial may take.")] = 600.0,
    python: Annotated[
        Path | None, typer.Option("--python", metavar="PATH", help="The interpreter that has the project's jax.")
    ] = None,
    config: ConfigFile = None,
    format: FormatOption = Format.TEXT,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Try every patch in an A/B trial and commit the accepted ones to a branch. The working tree is never touched."""
    with failing_clearly():
        if trial and not dry_run:
            raise UsageError("--trial goes with --dry-run: without it every patch is tried anyway")
        session = open_session(paths, codemod, config, safe)
        talk = Talk(quiet, verbose)
        if dry_run and not trial:
            from jitmod.delivery.job import untried_diff

            raise typer.Exit(_show_diff(untried_diff(session.request, session.root), format, talk, tried=False))
        terms = _terms(session, workload, min_speedup, budget, python, require_gpu)
        if dry_run:
            from jitmod.delivery.job import tried_diff

            tried = tried_diff(session.request, session.root, terms, talk.progress)
            raise typer.Exit(_show_diff(tried, format, talk, tried=True))
        raise typer.Exit(_commit(session, terms, branch or f"jitmod/{session.label}", base, format, talk))


def _commit(session: Session, terms: Terms, branch: str, base: str | None, format: Format, talk: Talk) -> int:
    from jitmod.delivery.job import onto_branch
    from jitmod.delivery.repository import Repository, scrubbed_environment
    from jitmod.report import text
    from jitmod.report.run import Run

    with scrubbed_environment():
        repository = Repository.around(session.root)
        dirty = repository.dirty_files()
        if dirty:
            talk.say(_about_dirty(dirty, base))
        done = onto_branch(session.request, repository, branch, base, terms, talk.progress)
    run = Run(
        jitmod_version(),
        done.entries,
        done.errors,
        branch=branch,
        base_commit=done.start.base,
        resumed=done.start.resumed,
        dirty=bool(dirty),
        tried=True,
    )
    if format is Format.TEXT:
        text.write(run, sys.stdout)
    else:
        print_report(run, format)
    return run.exit_code()


def _show_diff(preview: Preview, format: Format, talk: Talk, *, tried: bool) -> int:
    """Print what `--dry-run` found: in text the diff alone on stdout, so that it can be piped into git apply."""
    from jitmod.delivery.diff import raw
    from jitmod.report import text
    from jitmod.report.run import Run

    run = Run(jitmod_version(), preview.entries, preview.errors, tried=tried)
    if format is Format.TEXT:
        for path, diff in preview.diffs:
            heading = "".join(f"{line}\n" for line in text.evidence_lines(run, path))
            typer.echo(heading.encode("utf-8", "replace") + raw(diff), nl=False)
        for line in text.error_lines(run):
            typer.echo(line, err=True)
        if not talk.quiet:
            for line in [*text.refusal_lines(run), text.closing_line(run)]:
                typer.echo(line, err=True)
    else:
        print_report(run, format)
    return 2 if preview.errors else int(bool(preview.diff))


def _terms(
    session: Session,
    workloads: list[str] | None,
    min_speedup: float | None,
    budget: float,
    python: Path | None,
    require_gpu: bool,
) -> Terms:
    from jitmod.delivery.apply import Terms
    from jitmod.trial.trial import try_patch

    settings = session.config.gate
    if min_speedup is not None:
        settings = replace(settings, min_speedup=min_speedup)
    chosen = tuple(_workload(text, session.root) for text in workloads) if workloads else session.config.workloads
    for one in chosen:
        _check_files(one, session.root)
    interpreter = _interpreter(python)
    return Terms(try_patch, session.root, chosen, settings, interpreter, budget, require_gpu)


def _workload(text: str, root: Path) -> Workload:
    """`--workload` is written from the current folder, as paths on a command line are, or from the project's root."""
    from jitmod.source.config import parse_workload

    parse_workload(text)
    file, _, function = text.rpartition(":")
    here = Path(file).resolve()
    if here.is_file() and here.is_relative_to(root):
        text = f"{here.relative_to(root).as_posix()}:{function}"
    return parse_workload(text)


def _check_files(workload: Workload, root: Path) -> None:
    for target in (workload.run, workload.setup, workload.metric):
        if target is not None and not (root / target.rpartition(":")[0]).is_file():
            raise UsageError(f"workload {workload.name}: no such file in {root}: {target.rpartition(':')[0]}")


def _interpreter(python: Path | None) -> Path:
    if python is None:
        return Path(sys.executable)
    found = shutil.which(python)
    if found is None:
        raise UsageError(f"--python: no such program: {python}")
    return Path(found).absolute()  # not resolved: a virtual environment's python is a link, and its place matters


def _about_dirty(dirty: list[str], base: str | None) -> str:
    from jitmod.delivery.figures import one_line

    named = ", ".join(one_line(path) for path in dirty[:_DIRTY_NAMED])
    more = f" and {len(dirty) - _DIRTY_NAMED} more" if len(dirty) > _DIRTY_NAMED else ""
    return f"not part of this run, because not committed: changes in {named}{more}; {base or 'HEAD'} is tried"
