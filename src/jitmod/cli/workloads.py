"""Workloads that a command line names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from jitmod.cli.session import UsageError

if TYPE_CHECKING:
    from jitmod.source.config import Workload


def named(texts: Sequence[str], root: Path) -> list[Workload]:
    """What `--workload` gives, once for each of `texts`. Raises `ConfigError`."""
    from jitmod.source.config import parse_workload

    return [replace(parse_workload(text), run=from_root(text, root)) for text in texts]


def from_root(target: str, root: Path) -> str:
    """A target is written from the current folder, as paths on a command line are, or from the project's root."""
    from jitmod.source.config import target_file

    file = target_file(target)
    here = Path(file).resolve()
    if here.is_file() and here.is_relative_to(root):
        return here.relative_to(root).as_posix() + target.removeprefix(file)
    return target


def check_files(workload: Workload, root: Path) -> None:
    """Raise `UsageError` where a file that the workload names is not there."""
    from jitmod.source.config import target_file

    for target in (workload.run, workload.setup, workload.metric):
        if target is not None and not (root / target_file(target)).is_file():
            raise UsageError(f"workload {workload.name}: no such file in {root}: {target_file(target)}")
