"""Planted candidates that are right and cost more. One of each kind in CI; the others are slow, for they are timed."""

from __future__ import annotations

import pytest

from jitmod.model import Status

from .planted.bench import Trials, trials
from .planted.costs import COSTS

__all__ = ["trials"]
IN_CI = {"retrace: a static argument that varies", "slower by a tenth"}
NAMES = [pytest.param(name, marks=() if name in IN_CI else pytest.mark.slow) for name in COSTS.wrong]


@pytest.mark.parametrize("name", NAMES)
def test_candidate_that_costs_more_is_rejected(name: str, trials: Trials) -> None:
    trials.write({"items.py": COSTS.before, "bench.py": COSTS.bench})
    verdict = trials.judge({"items.py": COSTS.candidate(name)})
    assert (verdict.status, verdict.test) == (Status.REJECTED, COSTS.wrong[name][2]), verdict.why


def test_candidate_that_halves_the_time_is_accepted(trials: Trials) -> None:
    trials.write({"items.py": COSTS.before, "bench.py": COSTS.bench})
    verdict = trials.judge({"items.py": COSTS.right})
    assert verdict.status is Status.ACCEPTED, verdict.why
