"""Planted candidates that are right and cost more. Their seconds are those of a clock that only sleeping moves."""

from __future__ import annotations

import time

import pytest

from jitmod.model import Status
from jitmod.source.config import GateSettings
from jitmod.trial.child import sampling

from .conftest import one_of_each_kind
from .planted.bench import Clock, Trials, trials
from .planted.costs import COSTS

__all__ = ["trials"]


@pytest.fixture(autouse=True)
def virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "sleep", clock.sleep)
    monkeypatch.setattr(sampling, "time", clock)


@pytest.mark.parametrize("name", one_of_each_kind(COSTS.wrong))
def test_candidate_that_costs_more_is_rejected(name: str, trials: Trials) -> None:
    trials.write({"items.py": COSTS.before, "bench.py": COSTS.bench})
    settings = GateSettings(max_breakeven=10.0)
    verdict = trials.judge({"items.py": COSTS.candidate(name)}, settings=settings)
    assert (verdict.status, verdict.test) == (Status.REJECTED, COSTS.wrong[name][2]), verdict.why


def test_candidate_that_halves_the_time_is_accepted(trials: Trials) -> None:
    trials.write({"items.py": COSTS.before, "bench.py": COSTS.bench})
    verdict = trials.judge({"items.py": COSTS.right})
    assert verdict.status is Status.ACCEPTED, verdict.why
