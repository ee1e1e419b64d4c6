"""A job and evidence that the gate accepts, as a trial of one patch would give them."""

from __future__ import annotations

from typing import Any

from jitmod.model import Site
from jitmod.source.config import GateSettings, Workload
from jitmod.trial.job import candidate_of, digest, make_job


def documents(symbol: str, baseline: float = 0.02, candidate: float = 0.01) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both arms take so many seconds a call, within one percent."""
    job = make_job(
        [candidate_of({"src/app.py": f"# {symbol}\n"})], baseline={}, base_commit="c", settings=GateSettings(), seed=0,
        workload=Workload("work", "bench/work.py:run"), budget=60.0, require_gpu=False, site=Site(symbol, 1, 1, 2),
        new_functions=("_f",), fingerprint=symbol,
    )  # fmt: skip
    wiggle = [1 + (number % 5 - 2) / 400 for number in range(24)]
    cold = [{"seconds": 0.1, "trace": 0.0, "lower": 0.0, "compile": 0.1, "compilations": 1}] * 3
    none: dict[str, dict[str, int]] = {"baseline": {}, "candidate": {}}
    judge = {
        "cold": {"baseline": cold, "candidate": cold},
        "warm": {
            "seconds": {"baseline": [baseline * w for w in wiggle], "candidate": [candidate * w for w in wiggle]},
            "calls": {"baseline": 24, "candidate": 24},
            "functions": none, "functions_behind": none,
        },
    }  # fmt: skip
    explored = {
        "device": {"platform": "cpu"}, "takes_rep": True, "chosen": 0, "noise": {"factor": 1.0},
        "baseline_execution": {"placed": 1, "entered": 3, "trips": 5},
        "candidate_execution": {"entered": {"_f": 2}, "missed": []},
        "parity": {"failure": None, "calls": 2}, "sabotage": {"scaled": "seen"},
    }  # fmt: skip
    return job, {"schema_version": 1, "job": digest(job), "explore": explored, "judges": [judge, judge]}
