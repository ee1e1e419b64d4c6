"""`jitmod apply`: try every patch and commit the accepted ones to a branch, or show the diff."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jitmod.cli.command import run_recorded, understood, words
from jitmod.cli.jobs import CpusOption, EvidenceFolder, Executor, ExecutorOption, check_remote, run_elsewhere
from jitmod.cli.options import (
    Budget,
    CodemodNames,
    ConfigFile,
    Format,
    FormatOption,
    MinSpeedup,
    NoCache,
    Paths,
    Quiet,
    Verbose,
)
from jitmod.cli.progress import progress
from jitmod.cli.session import (
    Session,
    Talk,
    UsageError,
    failing_clearly,
    interpreter,
    jitmod_version,
    look_at,
    open_session,
    print_report,
)
from jitmod.cli.terms import memory, of_project, recorded_first, terms_of

if TYPE_CHECKING:
    from jitmod.delivery.attempt import Terms
    from jitmod.delivery.queue import Preview
    from jitmod.trial.recording.command import Command

_DIRTY_NAMED = 3
_CALLS = 3  # of every function; `jitmod record --calls` keeps others


def apply(
    context: typer.Context,
    paths: Paths = None,
    codemod: CodemodNames = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print a diff that git apply takes; write nothing.")
    ] = False,
    trial: Annotated[bool, typer.Option("--trial", help="With --dry-run: try every patch, commit nothing.")] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Write accepted patches into the files instead of a branch; keep a backup.")
    ] = False,
    safe: Annotated[bool, typer.Option("--safe", help="Only patches that rest on no assumption.")] = False,
    workload: Annotated[
        list[str] | None,
        typer.Option(
            "--workload",
            metavar="TARGET",
            help="What a trial runs: FILE.py:FUNCTION, a test (FILE.py::test_x), or a script. May be repeated.",
        ),
    ] = None,
    branch: Annotated[
        str | None, typer.Option("--branch", metavar="NAME", help="The branch to write; jitmod/NAMES if not given.")
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option("--bundle", metavar="DIR", help="Write accepted patches to a new folder, for jitmod pr --from."),
    ] = None,
    base: Annotated[str | None, typer.Option("--base", metavar="REV", help="Start from this commit, not HEAD.")] = None,
    signoff: Annotated[
        bool, typer.Option("--signoff", help="Add Signed-off-by to every commit, as git commit --signoff does.")
    ] = False,
    require_gpu: Annotated[bool, typer.Option("--require-gpu", help="A trial on a CPU proves nothing.")] = False,
    min_speedup: MinSpeedup = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Try again what the same workload rejected before, of the same code.")
    ] = False,
    with_test: Annotated[
        bool, typer.Option("--with-test", help="Add a test that fails when what a patch has won is lost.")
    ] = False,
    budget: Budget = 600.0,
    python: Annotated[
        Path | None, typer.Option("--python", metavar="PATH", help="The interpreter that has the project's jax.")
    ] = None,
    evidence: EvidenceFolder = None,
    executor: ExecutorOption = Executor.LOCAL,
    cpus: CpusOption = None,
    config: ConfigFile = None,
    no_cache: NoCache = False,
    format: FormatOption = Format.TEXT,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Try every patch in an A/B trial and commit the accepted ones to a branch. The working tree is not touched.

    With a command at the end, `jitmod apply src/ -- python train.py --steps 50`, that program is recorded first, until
    every site was seen, and the recorded calls are what the trials run.
    """
    with failing_clearly():
        if trial and not dry_run:
            raise UsageError("--trial goes with --dry-run: without it every patch is tried anyway")
        if write and (dry_run or branch or base or signoff):
            raise UsageError(
                "--write changes the files as they are: it goes without --dry-run, --branch, --base and --signoff"
            )
        if bundle is not None and (dry_run or write or branch or with_test or signoff):
            raise UsageError(
                "--bundle goes without --dry-run, --write, --branch, --with-test and --signoff: it has patches alone"
            )
        given = words(context)
        if given is not None and dry_run and not trial:
            raise UsageError("--dry-run runs nothing: add --trial, or leave the command after -- out")
        if with_test and dry_run:
            raise UsageError("--with-test goes with a commit or --write: a test counts only once it was seen to fail")
        if dry_run or write:
            check_remote(evidence, executor)
        if executor is not Executor.LOCAL and bundle is not None:
            raise UsageError("--bundle goes without --executor: plan, run the jobs, and bundle with --evidence")
        if evidence is not None and (given is not None or executor is not Executor.LOCAL):
            raise UsageError("--evidence runs no patch here: it goes without --executor and without a command after --")
        talk = Talk(quiet, verbose)
        if dry_run and not trial:
            from jitmod.delivery.untried import diff

            asked = look_at(paths, codemod, config, safe, keeps_results=not no_cache)
            raise typer.Exit(_show_diff(diff(asked), format, talk, tried=False))
        session = open_session(paths, codemod, config, safe)
        own = interpreter(python)
        command = understood(given, own) if given is not None else None
        if write:
            _check_writable(session)
        elif not dry_run:
            _check_commits(session)
        terms = terms_of(session, workload, min_speedup, budget, of_project(session, command, python), require_gpu)
        terms = replace(terms, with_test=with_test, memory=memory(session, terms.python, fresh))
        if command is not None:
            session = _with_recording(session, command, talk)
            terms = replace(terms, choose=recorded_first)
        if dry_run:
            from jitmod.delivery.job import tried_diff

            with progress(talk) as tell:
                tried = tried_diff(session.request, session.root, terms, tell)
            raise typer.Exit(_show_diff(tried, format, talk, tried=True))
        if write:
            raise typer.Exit(_write(session, terms, format, talk))
        name = branch or f"jitmod/{session.label}"
        if executor is not Executor.LOCAL:
            evidence = run_elsewhere(session, terms, name, base, executor, cpus, talk, fresh=fresh)
        terms = replace(terms, evidence=evidence)
        raise typer.Exit(_commit(session, terms, name if bundle is None else bundle, base, signoff, format, talk))


def _commit(
    session: Session, terms: Terms, where: str | Path, base: str | None, signoff: bool, format: Format, talk: Talk
) -> int:
    """Commit what is accepted to a branch, or to a bundle, which is a folder."""
    from jitmod.delivery.job import into_bundle, onto_branch
    from jitmod.delivery.repository import Repository, scrubbed_environment
    from jitmod.report import text
    from jitmod.report.run import Run

    with scrubbed_environment():
        repository = Repository.around(session.root)
        dirty = repository.dirty_files()
        if dirty:
            talk.say(_about_dirty(dirty, base))
        with progress(talk) as tell:
            if isinstance(where, Path):
                done = into_bundle(session.request, repository, where, base, terms, tell)
            else:
                done = onto_branch(session.request, repository, where, base, terms, tell, signoff)
        for file, why in done.refused:
            talk.say(f"{file}: refused: {why}")
    run = Run(
        jitmod_version(),
        done.entries,
        done.errors,
        branch=where if isinstance(where, str) else None,
        bundle=str(where) if isinstance(where, Path) else None,
        base_commit=done.start.base,
        resumed=done.start.resumed,
        dirty=bool(dirty),
        tried=True,
        whole=done.whole,
    )
    if format is Format.TEXT:
        text.write(run, sys.stdout)
    else:
        print_report(run, format)
    return run.exit_code()


def _write(session: Session, terms: Terms, format: Format, talk: Talk) -> int:
    from jitmod.delivery.job import into_tree
    from jitmod.report import text
    from jitmod.report.run import Run
    from jitmod.source.recording import state_folder

    with progress(talk) as tell:
        done = into_tree(session.request, session.root, state_folder(session.root), terms, tell)
    run = Run(jitmod_version(), done.entries, done.errors, tried=True)
    if format is Format.TEXT:
        text.write(run, sys.stdout)
    else:
        print_report(run, format)
    if done.files:
        talk.say(f"wrote {', '.join(done.files)}; as it was before: {done.backup}")
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
    return 2 if run.is_incomplete else int(bool(preview.diff))


def _with_recording(session: Session, command: Command, talk: Talk) -> Session:
    """Run the command until every site was seen; the session that knows its recording first. Raises `UsageError`."""
    talk.say(f"recording {command.label} until every site was seen")
    done = run_recorded(session, command, stop=True, calls=_CALLS)
    if done.interrupted:
        raise KeyboardInterrupt
    if done.recording is None:
        why = "its workers are not recorded; pytest -n 0 has none"
        raise UsageError(f"no function of the project ran in {command.label} itself, exit status {done.status} ({why})")
    if done.status != 0 and not done.stopped:
        talk.say(f"{command.label} ended with exit status {done.status}; what it did before is used")
    recordings = (done.recording, *session.request.recordings)
    return replace(session, request=replace(session.request, recordings=recordings))


def _check_commits(session: Session) -> None:
    """Find out before a program runs that nothing could be committed. Raises `DeliveryError`."""
    from jitmod.delivery.repository import Repository, scrubbed_environment

    with scrubbed_environment():
        repository = Repository.around(session.root)
        repository.resolve("HEAD")
        repository.check_identity()
        repository.check_writable()


def _check_writable(session: Session) -> None:
    """Find out before a program runs that its files could not be written. Raises `DeliveryError`."""
    from jitmod.delivery.job import check_tree

    check_tree(session.request, session.root)


def _about_dirty(dirty: list[str], base: str | None) -> str:
    from jitmod.delivery.figures import one_line

    named = ", ".join(one_line(path) for path in dirty[:_DIRTY_NAMED])
    more = f" and {len(dirty) - _DIRTY_NAMED} more" if len(dirty) > _DIRTY_NAMED else ""
    return f"not part of this run, because not committed: changes in {named}{more}; {base or 'HEAD'} is tried"
