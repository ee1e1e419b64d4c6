"""Trials elsewhere: `jitmod plan` writes jobs, `jitmod trial --job` runs them, `jitmod apply --evidence` commits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jitmod.cli.options import Budget, CodemodNames, ConfigFile, MinSpeedup, Paths, Quiet, Verbose
from jitmod.cli.progress import progress
from jitmod.cli.session import CANNOT_WORK, Session, Talk, UsageError, failing_clearly, open_session
from jitmod.cli.terms import of_project, terms_of

if TYPE_CHECKING:
    from jitmod.delivery.attempt import Terms
    from jitmod.delivery.executor import Runner, Task


class Executor(StrEnum):
    """Where trials run: one after the other here, or on the machines of a Ray cluster."""

    LOCAL = "local"
    RAY = "ray"


EvidenceFolder = Annotated[
    Path | None,
    typer.Option("--evidence", metavar="DIR", help="Commit what trials elsewhere have proved; no patch is tried here."),
]
ExecutorOption = Annotated[
    Executor, typer.Option("--executor", help="ray: on the cluster at RAY_ADDRESS, else on one of this machine alone.")
]
CpusOption = Annotated[
    int | None, typer.Option("--cpus", min=1, help="With --executor ray: the CPUs of one trial, which has them alone.")
]


def plan(
    paths: Paths = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="The folder for the jobs, one file for each patch.")
    ] = Path("jobs"),
    codemod: CodemodNames = None,
    safe: Annotated[bool, typer.Option("--safe", help="Only patches that rest on no assumption.")] = False,
    workload: Annotated[
        list[str] | None, typer.Option("--workload", metavar="TARGET", help="What a trial runs, as for jitmod apply.")
    ] = None,
    branch: Annotated[
        str | None, typer.Option("--branch", metavar="NAME", help="The branch that jitmod apply will write.")
    ] = None,
    base: Annotated[str | None, typer.Option("--base", metavar="REV", help="Start from this commit, not HEAD.")] = None,
    require_gpu: Annotated[bool, typer.Option("--require-gpu", help="A trial on a CPU proves nothing.")] = False,
    min_speedup: MinSpeedup = None,
    budget: Budget = 600.0,
    python: Annotated[
        Path | None, typer.Option("--python", metavar="PATH", help="The interpreter that has the project's jax.")
    ] = None,
    config: ConfigFile = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write one job file for each patch. `jitmod trial --job` runs one in any clone that has the commit, and
    `jitmod apply --evidence` commits what that proves. Nothing runs here.
    """
    with failing_clearly():
        from jitmod.delivery.figures import describe, one_line
        from jitmod.delivery.job import planned
        from jitmod.delivery.plan import write_jobs
        from jitmod.delivery.repository import Repository, scrubbed_environment

        session, talk = open_session(paths, codemod, config, safe), Talk(quiet, verbose)
        terms = terms_of(session, workload, min_speedup, budget, of_project(session, None, python), require_gpu)
        with scrubbed_environment():
            repository = Repository.around(session.root)
        found, start = planned(session.request, repository, branch or f"jitmod/{session.label}", base, terms)
        for file in write_jobs(found, output):
            typer.echo(file)
        for one in found.planned:
            if one.verdict is not None:
                site = one.one.shown.site
                talk.say(f"{one_line(site.shown_path)}:{site.shown_line} has no job: {describe(one.verdict)}")
        for error in found.errors:
            typer.echo(str(error), err=True)
        talk.say(f"{len(found.jobs)} jobs against {start.tip[:10]} in {output}")
        raise typer.Exit(CANNOT_WORK if any(not error.is_foreign for error in found.errors) else 0)


def run_jobs(
    jobs: Sequence[Path], output: Path | None, executor: Executor, cpus: int | None, python: Path, *, fresh: bool,
    quiet: bool,
) -> int:  # fmt: skip
    """Run job files in the clone around the current folder: 0 where all have evidence now, whatever it says."""
    from jitmod.delivery.executor import run_all

    tasks, unread = _tasks(jobs, output)
    runner = _runner(executor, Path.cwd(), python, cpus)
    missing = [*unread, *run_all(tasks, runner, _printer(quiet), fresh=fresh)]
    for line in missing:
        typer.echo(f"jitmod: not run: {line}", err=True)
    return CANNOT_WORK if missing else 0


def run_elsewhere(
    session: Session, terms: Terms, branch: str, base: str | None, executor: Executor, cpus: int | None, talk: Talk,
    *, fresh: bool,
) -> Path:  # fmt: skip
    """Plan what `apply` would try, and run it with an executor; the folder of the evidence."""
    from jitmod.delivery.executor import Task, run_all
    from jitmod.delivery.job import planned
    from jitmod.delivery.memory import versions
    from jitmod.delivery.repository import Repository, scrubbed_environment
    from jitmod.source.recording import state_folder
    from jitmod.trial.job import digest

    with scrubbed_environment():
        repository = Repository.around(session.root)
    found, start = planned(session.request, repository, branch, base, terms)
    folder = state_folder(session.root) / "elsewhere" / start.tip / digest(versions(terms.python))[:16]
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [Task(name, job, folder / name) for name, job in found.jobs.items()]
    with progress(talk) as tell:
        tell.expect(len(tasks))
        missing = run_all(tasks, _runner(executor, session.root, terms.python, cpus), tell.end, fresh=fresh)
    for line in missing:
        talk.say(f"not run: {line}")
    return folder


def check_remote(evidence: Path | None, executor: Executor) -> None:
    """Raise `UsageError` where trials elsewhere are asked for without a branch that they could go to."""
    if evidence is not None or executor is not Executor.LOCAL:
        raise UsageError("--evidence and --executor are for commits: leave --dry-run and --write out")


def _runner(executor: Executor, folder: Path, python: Path, cpus: int | None) -> Runner:
    if executor is Executor.RAY:
        from jitmod.delivery.cluster import Share, on_ray

        return on_ray(folder, python, Share(cpus))
    if cpus is not None:
        raise UsageError("--cpus goes with --executor ray")
    from jitmod.delivery.executor import here

    return here(folder, python)


def _tasks(jobs: Sequence[Path], output: Path | None) -> tuple[list[Task], list[str]]:
    """The tasks that files and folders of jobs are, and why some files are none. Raises `UsageError`."""
    from jitmod.delivery.executor import Task
    from jitmod.delivery.plan import read_job
    from jitmod.delivery.repository import DeliveryError

    files: list[Path] = []
    for given in jobs:
        if not given.exists():
            raise UsageError(f"--job {given}: no such file or folder")
        files += sorted(given.glob("*.json")) if given.is_dir() else [given]
    if output is None:
        raise UsageError("where shall the evidence go? pass -o FILE, or -o DIR for several jobs")
    single = len(files) == 1 and not jobs[0].is_dir() and not output.is_dir() and output.suffix == ".json"
    names = [file.name for file in files]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two jobs are called {twice}: run them one after the other")
    tasks: list[Task] = []
    unread: list[str] = []
    for file in files:
        try:
            tasks.append(Task(str(file), read_job(file), output if single else output / file.name))
        except DeliveryError as error:
            unread.append(str(error))
    return tasks, unread


def _printer(quiet: bool) -> Callable[[str, str], None]:
    def tell(name: str, how: str) -> None:
        if not quiet:
            typer.echo(f"{name}: {how}")

    return tell
