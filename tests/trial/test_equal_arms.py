"""Equal code against itself: the trial must not find a gain where there is none."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from jitmod.model import Status
from jitmod.source.config import GateSettings
from jitmod.trial import gate
from jitmod.trial.job import candidate_of, digest, make_job
from jitmod.trial.process import run_child

from .conftest import NET, WORKLOAD, Try

SESSIONS = 20
PAIRS = 8


def test_twenty_sessions_of_equal_arms_accept_one_at_most(project: Path) -> None:
    same = NET.replace("y = layer", "z = layer").replace("append(y)", "append(z)")
    job = make_job(
        [candidate_of({"app/net.py": same})], baseline={}, base_commit="", workload=WORKLOAD, settings=GateSettings(),
        seed=0, budget=90.0, require_gpu=False, site=None, new_functions=(), fingerprint="",
    )  # fmt: skip
    request = {"role": "measure", "job": job, "code_root": str(project), "user_root": str(project), "chosen": 0,
               "seed": 1, "steps": [2 * SESSIONS * PAIRS], "patient": True}  # fmt: skip
    measured = run_child(request, python=Path(sys.executable), folder=project, seconds=80.0, environ=os.environ)
    assert len(measured["warm"]["seconds"]["candidate"]) == 2 * SESSIONS * PAIRS

    explored = {"takes_rep": False, "chosen": 0, "baseline_execution": {"placed": 1, "entered": 1, "trips": None},
                "candidate_execution": {"entered": {"x": 1}, "missed": []}, "parity": {"failure": None},
                "sabotage": {"scaled": "seen"}}  # fmt: skip
    verdicts = []
    for session in range(SESSIONS):
        judges = [_slice(measured, (2 * session + half) * PAIRS) for half in (0, 1)]
        verdicts.append(gate.judge(job, {"job": digest(job), "explore": explored, "judges": judges}))
    accepted = [verdict.why for verdict in verdicts if verdict.status is Status.ACCEPTED]
    assert len(accepted) <= 1, accepted  # the gate may be wrong once in a hundred decisions
    assert all(verdict.speedup is not None for verdict in verdicts)


def _slice(measured: dict[str, Any], start: int) -> dict[str, Any]:
    warm = measured["warm"]
    seconds = {arm: times[start : start + PAIRS] for arm, times in warm["seconds"].items()}
    return {"cold": measured["cold"], "warm": {**warm, "seconds": seconds}}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_whole_trial_of_equal_arms_is_not_accepted(seed: int, try_text: Try) -> None:
    same = NET.replace("y = layer", "z = layer").replace("append(y)", "append(z)")
    verdict = try_text(same, seed=seed).verdict
    assert verdict.status in {Status.REJECTED, Status.INCONCLUSIVE}, verdict.why
    assert verdict.speedup is not None and verdict.test in {None, "slower"}
