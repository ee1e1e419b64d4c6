"""The toy codemod and trial of tests/delivery, installed where the command line looks for them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner, Result

_DELIVERY = Path(__file__).parents[1] / "delivery"
sys.path.insert(0, str(_DELIVERY))

from fixtures_git import checkout, git, isolated_git  # noqa: E402, F401
from toy import Toy, TrialLog, WholeTrial  # noqa: E402

Run = Callable[..., Result]


@pytest.fixture
def trial() -> TrialLog:
    return TrialLog()


@pytest.fixture
def run(trial: TrialLog, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `jitmod ARGUMENTS` in a folder, with the toys."""
    from jitmod.cli.main import app

    module = ModuleType("jitmod.trial.trial")
    module.try_patch, module.try_arms = trial, WholeTrial()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jitmod.trial.trial", module)
    monkeypatch.setattr("jitmod.rewrite.codemod.available", lambda: {"toy": Toy})

    def invoke(folder: Path, *arguments: str) -> Result:
        monkeypatch.chdir(folder)
        return CliRunner().invoke(app, list(arguments))

    return invoke
