"""Planted candidates: every wrong one is turned away for the right reason, the right ones are not."""

from __future__ import annotations

import pytest

from jitmod.model import Status

from .conftest import one_of_each_kind
from .planted.bench import Program, Trials, trials
from .planted.effects import EFFECTS
from .planted.per_item import PER_ITEM
from .planted.rollouts import ROLLOUTS

__all__ = ["trials"]
PROGRAMS = {"per item": PER_ITEM, "rollout": ROLLOUTS, "effects": EFFECTS}
WRONG = [
    pytest.param(program, *one.values, id=f"{kind}, {one.values[0]}", marks=one.marks)
    for kind, program in PROGRAMS.items()
    for one in one_of_each_kind(program.wrong)
]


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_right_candidate_is_not_turned_away(program: Program, trials: Trials) -> None:
    trials.write({"items.py": program.before, "bench.py": program.bench})
    verdict = trials.screen({"items.py": program.right})
    assert verdict is None, verdict


@pytest.mark.parametrize(("program", "name"), WRONG)
def test_wrong_candidate_is_rejected(program: Program, name: str, trials: Trials) -> None:
    trials.write({"items.py": program.before, "bench.py": program.bench})
    verdict = trials.screen({"items.py": program.candidate(name)})
    assert verdict is not None
    assert (verdict.status, verdict.test) == (Status.REJECTED, program.wrong[name][2]), verdict.why
