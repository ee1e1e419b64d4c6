"""`jitmod trial`: an A/B trial of two revisions or two folders, whoever wrote the change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jitmod.cli.jobs import CpusOption, Executor, ExecutorOption, run_jobs
from jitmod.cli.options import Budget, ConfigFile, MinSpeedup, Quiet
from jitmod.cli.output import write_whole
from jitmod.cli.session import UsageError, failing_clearly, interpreter, jitmod_version
from jitmod.cli.workloads import from_root, named

if TYPE_CHECKING:
    from jitmod.source.config import Workload
    from jitmod.trial.trial import Trial


class Printed(StrEnum):
    """How the result of one trial is printed."""

    TEXT = "text"
    JSON = "json"


class Reference(StrEnum):
    """What both arms are compared with."""

    BASELINE = "baseline"
    FLOAT64 = "float64"


def trial(
    base: Annotated[
        str | None, typer.Argument(metavar="BASE", help="The baseline: a revision, or a folder.", show_default=False)
    ] = None,
    candidate: Annotated[
        str, typer.Argument(metavar="CANDIDATE", help="The change: a revision, a folder, or '.', the working tree.")
    ] = ".",
    workload: Annotated[
        list[str] | None,
        typer.Option(
            "--workload",
            metavar="TARGET",
            help="What is run: FILE.py:FUNCTION, a test of pytest (FILE.py::test_x), or a script. May be repeated.",
        ),
    ] = None,
    setup: Annotated[
        str | None, typer.Option("--setup", metavar="FILE.py:FUNCTION", help="Makes the arguments of the workload.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option("--metric", metavar="FILE.py:FUNCTION", help="A number of the output that decides about values."),
    ] = None,
    metric_tolerance: Annotated[
        float | None, typer.Option("--metric-tolerance", min=0.0, help="How far it may move, relatively.")
    ] = None,
    reference: Annotated[
        Reference, typer.Option("--reference", help="float64: judge both arms by their distance from double precision.")
    ] = Reference.BASELINE,
    require_gpu: Annotated[bool, typer.Option("--require-gpu", help="A trial on a CPU proves nothing.")] = False,
    min_speedup: MinSpeedup = None,
    budget: Budget = 600.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of generators, of the order of samples.")] = 0,
    python: Annotated[
        Path | None, typer.Option("--python", metavar="PATH", help="The interpreter that has the project's jax.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the evidence document here as well.")
    ] = None,
    guard: Annotated[
        bool,
        typer.Option("--guard", help="Results may differ: fail where a workload gets slower or compiles more often."),
    ] = False,
    job: Annotated[
        list[Path] | None,
        typer.Option("--job", metavar="FILE", help="Run a job of jitmod plan, or a folder of them, in this clone."),
    ] = None,
    executor: ExecutorOption = Executor.LOCAL,
    cpus: CpusOption = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="With --job: run also what has evidence already.")] = False,
    profile: Annotated[
        Path | None,
        typer.Option("--profile", metavar="DIR", help="Write a trace of jax's profiler for each arm to this folder."),
    ] = None,
    config: ConfigFile = None,
    format: Annotated[Printed, typer.Option("--format", help="How to print the result.")] = Printed.TEXT,
    quiet: Quiet = False,
) -> None:
    """Run a workload against two versions of a project and judge whether the second is right, and faster.

    Exit code 0: accepted; 1: rejected, unproven, inconclusive or crashed; 2: the trial could not be made. With --guard
    every workload runs, and 1 means that one of them was rejected or crashed. With --job, 0 means that there is
    evidence now, whatever it says.
    """
    with failing_clearly():
        from jitmod.delivery.sides import open_sides, project_of
        from jitmod.model import Status
        from jitmod.source import config as configuration

        if profile is not None and (job or guard):
            raise UsageError("--profile goes with two sides, and without --guard")
        if guard and (format is Printed.JSON or output is not None):
            raise UsageError("--guard judges every workload and prints text: leave --format json and --output out")
        if job:
            if base is not None or workload or guard:
                raise UsageError("--job says all of a trial: leave the two sides, --workload and --guard out")
            raise typer.Exit(run_jobs(job, output, executor, cpus, interpreter(python), fresh=fresh, quiet=quiet))
        if base is None:
            raise UsageError("what is to be tried? name the baseline, or a job of jitmod plan with --job")
        if executor is not Executor.LOCAL:
            raise UsageError("--executor goes with --job")
        here = Path.cwd()
        root = project_of(base, here)
        configured = configuration.load(root, config)
        settings = configured.gate if min_speedup is None else replace(configured.gate, min_speedup=min_speedup)
        workloads = _workloads(workload, setup, metric, metric_tolerance, root) or list(configured.workloads)
        if not workloads:
            raise UsageError("what is to be run? pass --workload FILE.py:function, or add [[tool.jitmod.workloads]]")
        own = interpreter(python)
        with open_sides(base, candidate, here) as sides:
            if not sides.candidate and not guard:
                raise UsageError(f"{base} and {candidate} hold the same Python files: there is nothing to try")
            options: dict[str, Any] = {
                "code_root": sides.code_root, "user_root": sides.user_root, "settings": settings, "python": own,
                "base_commit": sides.base_commit, "budget": budget, "seed": seed, "require_gpu": require_gpu,
                "reference": reference.value,
            }  # fmt: skip
            if guard:
                raise typer.Exit(_guard(workloads, sides.candidate, options))
            from jitmod.trial.trial import try_workloads

            result = try_workloads(workloads, sides.candidate, **options)
            _print(result, sides.unseen, format, output, quiet)
            if profile is not None:  # last, so that what was found is seen in any case
                _profile(result, profile, sides.code_root, sides.user_root, own)
        raise typer.Exit(int(result.verdict.status is not Status.ACCEPTED))


def _print(result: Trial, unseen: Sequence[str], format: Printed, output: Path | None, quiet: bool) -> None:
    """Print what came of the trial, and write it to a file where that is asked for."""
    from jitmod.report import evidence

    text = evidence.render(result.verdict, result.evidence, jitmod_version())
    if format is Printed.JSON:
        typer.echo(text, nl=False)
    else:
        for line in list(evidence.lines(result.verdict, result.evidence, unseen))[: 1 if quiet else None]:
            typer.echo(line)
    told = result.evidence.get("explore", {}).get("arms", {}).get("why")
    if told and not quiet and format is Printed.TEXT:
        typer.echo(f"  note       each arm ran in a process of its own: {told}")
    if output is not None:
        write_whole(output, text)


def _guard(workloads: Sequence[Workload], candidate: Mapping[str, str | None], options: Mapping[str, Any]) -> int:
    """Judge every workload, and say what became of it; 1 where one got worse."""
    from jitmod.delivery.figures import describe, one_line
    from jitmod.model import Status
    from jitmod.trial.trial import try_arms

    worse = False
    for workload in workloads if candidate else ():
        result = try_arms(candidate, workload=workload, guard=True, **options)
        verdict, differs = result.verdict, result.evidence.get("explore", {}).get("parity", {}).get("failure")
        other = "; its results differ" if differs and verdict.test != "exception" else ""
        typer.echo(f"{one_line(workload.name)}: {describe(verdict)}{other}")
        worse = worse or verdict.status in (Status.REJECTED, Status.CRASHED)
    return int(worse)


def _profile(result: Trial, folder: Path, code_root: Path, user_root: Path, python: Path) -> None:
    """Write the traces, and say where they are, or why there are none."""
    from jitmod.trial.profile import profile

    try:
        failed = profile(result.job, 0, folder, code_root=code_root, user_root=user_root, python=python)
    except OSError as error:
        raise UsageError(f"--profile {folder}: cannot be written: {error.strerror}") from None
    for arm in ("baseline", "candidate"):
        why = failed.get(arm)
        typer.echo(f"jitmod: {arm}: {f'no trace: {why}' if why else f'its trace is in {folder / arm}'}", err=True)


def _workloads(
    texts: list[str] | None, setup: str | None, metric: str | None, tolerance: float | None, root: Path
) -> list[Workload]:
    from jitmod.source.config import check_target

    if not texts and (setup or metric):
        raise UsageError("--setup and --metric go with --workload")
    for option, text in (("--setup", setup), ("--metric", metric)):
        if text is not None:
            check_target(text, f"{option} {text}")
    made, judged = (text and from_root(text, root) for text in (setup, metric))
    workloads = named(texts or (), root)
    return [replace(one, setup=made, metric=judged, metric_tolerance=tolerance) for one in workloads]
