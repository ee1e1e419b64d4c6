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


KEEPS = COSTS.before.replace("x, rep", "x").replace("x + rep", "x")
KEEPING = KEEPS.replace("def work(x):\n", "_KNOWN = {}\n\n\ndef work(x):\n    if id(x) in _KNOWN:\n"
                        "        time.sleep(0.001)\n        return _KNOWN[id(x)][1]\n").replace(
    "    return y * 2.0", "    _KNOWN[id(x)] = x, y * 2.0\n    return y * 2.0")  # fmt: skip


def test_candidate_that_finds_its_results_again_is_rejected(trials: Trials) -> None:
    trials.write({"items.py": KEEPS, "bench.py": COSTS.bench.replace("x, rep", "x")})
    verdict = trials.judge({"items.py": KEEPING})
    assert (verdict.status, verdict.test) == (Status.REJECTED, "slower"), verdict.why
    assert "with new ones" in verdict.why


def test_candidate_that_halves_the_time_is_accepted(trials: Trials) -> None:
    trials.write({"items.py": COSTS.before, "bench.py": COSTS.bench})
    verdict = trials.judge({"items.py": COSTS.right})
    assert verdict.status is Status.ACCEPTED, verdict.why
