"""Recording a program of a temporary folder, beside its plain run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from jitmod.source.files import discover
from jitmod.source.project import Project
from jitmod.source.recording import Recording, load_all
from jitmod.trial.recording.command import parse
from jitmod.trial.recording.run import record
from jitmod.trial.recording.targets import targets

Write = Callable[[dict[str, str]], None]


@dataclass(frozen=True)
class Run:
    """What a run printed, how it ended, and the recording that it left."""

    out: str
    err: str
    status: int
    recording: Recording | None = None


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(files: dict[str, str]) -> None:
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(dedent(text), encoding="utf-8")

    return put


@pytest.fixture
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture
def plain(tmp_path: Path) -> Callable[..., Run]:
    """Run a command as it is."""

    def run(*words: str, **environ: str) -> Run:
        done = subprocess.run(
            _exact(words), cwd=tmp_path, env={**os.environ, **environ}, capture_output=True, text=True, check=False
        )
        return Run(done.stdout, done.stderr, done.returncode)

    return run


@pytest.fixture
def recorded(tmp_path: Path, state: Path) -> Callable[..., Run]:
    """Run it with the recorder in it, as a process of its own, so that its output can be compared."""

    def run(*words: str, **environ: str) -> Run:
        code = f"from conftest import main; main({str(tmp_path)!r}, {str(state)!r}, {_exact(words)!r})"
        path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path, **environ},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        found = load_all(state)
        return Run(done.stdout, done.stderr, done.returncode, found[0] if found else None)

    return run


def _exact(words: Sequence[str]) -> list[str]:
    return [str(sys.executable) if word == "python" else word for word in words]


def main(root: str, state: str, words: Sequence[str]) -> None:
    """Record a command of the project at `root`, whose environment has no path to jitmod."""
    folder = Path(root)
    project = Project.build(folder, discover(folder, [folder]))
    os.environ.pop("PYTHONPATH")
    watched = targets(project, folder, ())
    done = record(parse(words, Path(sys.executable)), watched, root=folder, state=Path(state), stop=False)
    sys.exit(done.status)


__all__ = ["Run", "main"]
