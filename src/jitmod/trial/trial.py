"""A trial from outside: a patch goes in, a verdict with its evidence comes out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jitmod.model import Patch, Site, Status, Variant, Verdict, fingerprint
from jitmod.rewrite.edits import EditConflict
from jitmod.source.config import GateSettings, Workload
from jitmod.source.document import Document
from jitmod.trial import apart, gate, gpu, needs, notebooks
from jitmod.trial.child import stats
from jitmod.trial.job import SCHEMA_VERSION, Overlay, candidate_of, candidates_of, digest, make_job, plain
from jitmod.trial.process import run_child

_EXPLORE_SHARE = 0.6
_JUDGES = 2
_LOST = 3  # candidates that may end their process before it is the patch that crashes
_LONG_ENOUGH = 6.0  # seconds of the budget that looking at each arm alone is worth,
_ALONE = 120.0  # and that it may take for an arm


@dataclass(frozen=True)
class Trial:
    """One patch's trial. `variant` and `knobs` are what was judged; a candidate given as text has no variant."""

    verdict: Verdict
    job: Mapping[str, Any]
    evidence: Mapping[str, Any]
    variant: Variant | None = None
    knobs: Mapping[str, int] | None = None


def try_patch(
    patch: Patch,
    document: Document,
    *,
    code_root: Path,
    user_root: Path,
    base_commit: str,
    workload: Workload,
    settings: GateSettings,
    python: Path,
    budget: float = 120.0,
    seed: int = 0,
    require_gpu: bool = False,
) -> Trial:
    """Try `patch` of `document` against the commit checked out at `code_root`.

    Data files and whatever git does not know come from `user_root`. `budget` is in seconds of wall time. Never raises
    for what the project's code does: that is a verdict.
    """
    places = {"code_root": code_root, "user_root": user_root}
    try:
        job = job_of(
            patch, document, **places, base_commit=base_commit, workload=workload, settings=settings, seed=seed,
            budget=budget, require_gpu=require_gpu,
        )  # fmt: skip
    except EditConflict as error:
        return Trial(Verdict(Status.CRASHED, f"the patch cannot be composed: {error}"), {}, {})
    return with_variant(try_job(job, **places, python=python), patch)


def job_of(
    patch: Patch,
    document: Document,
    *,
    code_root: Path,
    user_root: Path,
    base_commit: str,
    workload: Workload,
    settings: GateSettings,
    budget: float,
    seed: int = 0,
    require_gpu: bool = False,
) -> dict[str, Any]:
    """The job that tries `patch`, as `try_patch` does. Raises `EditConflict`."""
    site = patch.site
    read = notebooks.overlay(code_root, user_root, [document.path, workload.run])
    lines = "\n".join(document.line(number) for number in range(site.line, site.end_line + 1))
    return make_job(
        candidates_of(patch, document), baseline=read, base_commit=base_commit, workload=workload, settings=settings,
        seed=seed, budget=budget, require_gpu=require_gpu, site=None if patch.neutral else site,
        new_functions=patch.new_functions, fingerprint=fingerprint(patch, lines),
        needs_fresh_values=patch.needs_fresh_values, neutral=patch.neutral,
    )  # fmt: skip


def try_job(job: Mapping[str, Any], *, code_root: Path, user_root: Path, python: Path) -> Trial:
    """Run one job here. Never raises for what the project's code does: that is a verdict."""
    evidence = gather(job, code_root=code_root, user_root=user_root, python=python)
    chosen = job["candidates"][evidence["explore"].get("chosen", 0)]
    return Trial(judged(job, evidence, code_root), job, evidence, None, chosen["knobs"])


def with_variant(trial: Trial, patch: Patch) -> Trial:
    """The trial of a job that was made from `patch`, with the variant that was judged."""
    chosen = trial.job["candidates"][trial.evidence["explore"].get("chosen", 0)]
    return replace(trial, variant=patch.variants[chosen["variant"]])


def try_arms(
    candidate: Overlay,
    *,
    code_root: Path,
    user_root: Path,
    workload: Workload,
    settings: GateSettings,
    python: Path,
    baseline: Overlay | None = None,
    base_commit: str = "",
    budget: float = 120.0,
    seed: int = 0,
    require_gpu: bool = False,
    site: Site | None = None,
    new_functions: Sequence[str] = (),
    reference: str = "baseline",
    partial: bool = False,
    guard: bool = False,
) -> Trial:
    """Try files given as text: `candidate` over `baseline` over the tree at `code_root`. Else as `try_patch`.

    `reference` "float64" judges the values of both arms by their distance from the baseline in double precision;
    `partial`: the workload need not run all that is changed; `guard`: results may differ, but nothing may get worse.
    """
    read = notebooks.overlay(code_root, user_root, [*candidate, workload.run])
    job = make_job(
        [candidate_of(candidate)], baseline={**read, **(baseline or {})}, base_commit=base_commit, workload=workload,
        settings=settings, seed=seed, budget=budget, require_gpu=require_gpu, site=site, new_functions=new_functions,
        fingerprint="", reference=reference, partial=partial, guard=guard,
    )  # fmt: skip
    return replace(try_job(job, code_root=code_root, user_root=user_root, python=python), knobs={})


def judged(job: Mapping[str, Any], evidence: Mapping[str, Any], code_root: Path) -> Verdict:
    """What the gate says, in words for the reader of a notebook, too."""
    verdict = gate.judge(job, evidence)
    return replace(verdict, why=notebooks.in_cells(verdict.why, job, code_root))


def try_workloads(workloads: Sequence[Workload], candidate: Overlay, **options: Any) -> Trial:
    """`try_arms` with the first workload that has something to say; the first one's result where none has."""
    results: list[Trial] = []
    for workload in workloads:
        results.append(try_arms(candidate, workload=workload, **options))
        if results[-1].verdict.status is not Status.UNPROVEN:
            return results[-1]
    return results[0]


def gather(job: Mapping[str, Any], *, code_root: Path, user_root: Path, python: Path) -> dict[str, Any]:
    """The evidence of a job: one process explores; if its findings leave the times to decide, two more measure. What
    would be accepted is looked at once more, each arm alone, for the memory that it needs.

    Where both arms cannot live in one process, each gets its own, and the exploration begins anew.
    """
    end = time.monotonic() + job["budget"]
    places = {"code_root": str(code_root.resolve()), "user_root": str(user_root.resolve()), "job": job}

    device = gpu.pick(os.environ)
    pinned = gpu.pinned(device, os.environ)

    def child(seconds: float, settings: Mapping[str, str] | None = None, **request: Any) -> dict[str, Any]:
        with gpu.watched(device) as seen:
            found = run_child(
                {**places, **request}, python=python, folder=user_root, seconds=max(seconds, 1.0),
                environ=os.environ, settings={**pinned, **(settings or {})},
            )  # fmt: skip
        if device is not None and found.get("device", {}).get("platform") in {"gpu", "cuda"}:
            found["gpu"] = {**gpu.facts(device), **seen.summary}
        return found

    def alone(**request: Any) -> dict[str, Any]:
        return child(min(_ALONE, (end - time.monotonic()) / 2), needs.ENVIRONMENT, **request)

    explored, paired = _explored(child, job, end)
    judges: list[dict[str, Any]] = []
    while len(judges) < _JUDGES:
        if gate.screen(job, explored) is not None or any("failure" in m or "error" in m for m in judges):
            break
        request = {"role": "measure", "chosen": explored["chosen"], "seed": job["seed"] + len(judges) + 1,
                   "steps": stats.STEPS, "patient": False}  # fmt: skip
        seconds = (end - time.monotonic()) / (_JUDGES - len(judges))
        measured = child(seconds, **request, paired=paired)
        if paired is None:
            paired = apart.reason(measured)
            if paired is not None:
                continue
        judges.append(measured)
    found = {"schema_version": SCHEMA_VERSION, "job": digest(job), "explore": explored, "judges": judges}
    found = dict(plain(found))  # what is judged is what can be written down
    in_time = end - time.monotonic() > _LONG_ENOUGH
    if in_time and not job.get("guard") and gate.judge(job, found).status is Status.ACCEPTED:
        found["alone"] = plain(needs.gather(alone, explored["chosen"]))
    return found


def _explored(
    child: Callable[..., dict[str, Any]], job: Mapping[str, Any], end: float
) -> tuple[dict[str, Any], str | None]:
    """The first process, and why each arm is to have one of its own, if that is so.

    It begins anew where arms cannot live together, and where a candidate that was only one of several ended it.
    """
    paired: str | None = None
    ruled_out: dict[str, str] = {}
    while True:
        seconds = _EXPLORE_SHARE * (end - time.monotonic())
        explored = child(seconds, role="explore", paired=paired, ruled_out=ruled_out)
        victim = needs.victim(explored) if len(job["candidates"]) > 1 else None
        if victim is not None and len(ruled_out) < _LOST:
            ruled_out[str(victim)] = f"the child {explored['failure']['how']}"
            continue
        why = apart.reason(explored) if paired is None else None
        if why is None:
            return explored, paired
        paired = why
