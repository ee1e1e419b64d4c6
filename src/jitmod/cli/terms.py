"""How patches are tried, as the options of a command line say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from jitmod.cli.session import Session, interpreter
from jitmod.cli.workloads import check_files, named

if TYPE_CHECKING:
    from jitmod.delivery.attempt import Terms
    from jitmod.delivery.memory import Memory
    from jitmod.model import Patch
    from jitmod.source.config import Workload
    from jitmod.source.document import Document
    from jitmod.source.recording import Recorded
    from jitmod.trial.recording.command import Command


def terms_of(
    session: Session,
    workloads: list[str] | None,
    min_speedup: float | None,
    budget: float,
    python: Path,
    require_gpu: bool,
) -> Terms:
    from jitmod.delivery.attempt import Terms
    from jitmod.trial.trial import try_arms, try_patch

    settings = session.config.gate
    if min_speedup is not None:
        settings = replace(settings, min_speedup=min_speedup)
    chosen = tuple(named(workloads, session.root)) if workloads else session.config.workloads
    for one in chosen:
        check_files(one, session.root)
    return Terms(
        try_patch, session.root, chosen, settings, python, budget, require_gpu, recorded_last, whole=try_arms
    )


def memory(session: Session, python: Path, is_fresh: bool) -> Memory:
    from jitmod.delivery.memory import Memory, environment
    from jitmod.source.recording import state_folder

    return Memory(state_folder(session.root) / "rejected", environment(python), is_fresh)


def of_project(session: Session, command: Command | None, python: Path | None) -> Path:
    """The interpreter that has the project's jax: as the user says, else the program's own, else a recorded one's."""
    if python is not None or (command is None and not session.request.recordings):
        return interpreter(python)
    if command is not None:
        return command.interpreter
    recorded = Path(session.request.recordings[0].python)
    return recorded if recorded.is_file() else interpreter(None)


def recorded_first(patch: Patch, document: Document, known: Recorded, given: Sequence[Workload]) -> Sequence[Workload]:
    """A command that the user gave goes before what is configured; invented arguments come last."""
    from jitmod.trial.recording.workload import recorded, synthesised

    return [*recorded(patch, document, known), *given] or synthesised(patch, document)


def recorded_last(patch: Patch, document: Document, known: Recorded, given: Sequence[Workload]) -> Sequence[Workload]:
    """Recordings of earlier days come after what is configured."""
    from jitmod.trial.recording.workload import recorded, synthesised

    return [*given, *recorded(patch, document, known)] or synthesised(patch, document)
