"""How often the gate is wrong: false accepts of equal arms, and its power, on windows of really measured samples.

`collect` runs equal arms in many processes and stores their samples; `judge` makes decisions of the gate from them,
with the stopping rule that a trial has. A gain is put in by dividing the candidate's seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from jitmod.model import Status
from jitmod.source.config import GateSettings, Workload
from jitmod.trial import gate
from jitmod.trial.child import stats
from jitmod.trial.job import candidate_of, digest, make_job
from jitmod.trial.process import run_child

MODULE = """\
import jax.numpy as jnp


def work(w, xs):
    return jnp.stack([jnp.tanh(w @ x) for x in xs])
"""
BENCH = """\
import jax

from items import work


def setup():
    one, two = jax.random.split(jax.random.key(0))
    return jax.random.normal(one, (48, 48)), list(jax.random.normal(two, (24, 48)))


def run(w, xs):
    return work(w, xs)
"""
EXPLORED: dict[str, Any] = {
    "takes_rep": False, "chosen": 0, "baseline_execution": {"placed": 1, "entered": 1, "trips": None},
    "candidate_execution": {"entered": {"x": 1}, "missed": []}, "parity": {"failure": None},
    "sabotage": {"scaled": "seen"},
}  # fmt: skip
COMPILING = {"equal": (0.5, 0.5), "shorter": (3.0, 1.0)}


def job() -> dict[str, Any]:
    """A trial of a change that changes nothing."""
    return make_job(
        [candidate_of({"items.py": MODULE + "# the same\n"})], baseline={}, base_commit="",
        workload=Workload("equal arms", "bench.py:run", "bench.py:setup"), settings=GateSettings(), seed=0,
        budget=600.0, require_gpu=False, site=None, new_functions=(), fingerprint="",
    )  # fmt: skip


def collect(processes: int, pairs: int) -> list[dict[str, Any]]:
    """The warm samples of equal arms, from several processes."""
    windows = []
    with tempfile.TemporaryDirectory() as folder:
        for path, text in (("items.py", MODULE), ("bench.py", BENCH)):
            (Path(folder) / path).write_text(text, encoding="utf-8")
        for seed in range(processes):
            request = {"role": "measure", "job": job(), "code_root": folder, "user_root": folder, "chosen": 0,
                       "seed": seed, "steps": [pairs], "patient": True}  # fmt: skip
            measured = run_child(
                request, python=Path(sys.executable), folder=Path(folder), seconds=600.0, environ=os.environ
            )
            windows.append({"seconds": measured["warm"]["seconds"], "load": os.getloadavg()[0]})
    return windows


def decide(windows: list[dict[str, Any]], gain: float, cold: str, seed: int) -> Status:
    """One decision of the gate, on windows of two processes."""
    chance = random.Random(seed)
    document = job()
    judges = []
    for window in chance.sample(windows, 2):
        judges.append(_measured(window["seconds"], gain, cold, chance, document))
    evidence = {"job": digest(document), "explore": EXPLORED, "judges": judges}
    return gate.judge(document, evidence).status


def _measured(
    seconds: dict[str, list[float]], gain: float, cold: str, chance: random.Random, document: dict[str, Any]
) -> dict[str, Any]:
    """What a measuring process would have reported, had it started at a random place of the window."""
    most = stats.STEPS[-1]
    start = chance.randrange(len(seconds["baseline"]) - most + 1)
    baseline = seconds["baseline"][start : start + most]
    candidate = [value / gain for value in seconds["candidate"][start : start + most]]
    if chance.random() < 0.5:  # which of two equal arms is which is open
        baseline, candidate = [value * gain for value in candidate], [value / gain for value in baseline]
    number = next(
        (n for n in range(1, most) if stats.stops(
            baseline[:n], candidate[:n], document["gate"], chance.randrange(1000), stats.STEPS, cold == "shorter")),
        most,
    )  # fmt: skip
    times = {"baseline": baseline[:number], "candidate": candidate[:number]}
    one, two = COMPILING[cold]
    colds = {name: [{"seconds": value, "trace": 0.0, "lower": 0.0, "compile": value, "compilations": 1}] * 3
             for name, value in (("baseline", one), ("candidate", two))}  # fmt: skip
    calls = dict.fromkeys(times, number)
    functions = {"functions": {name: {} for name in times}, "functions_behind": {name: {} for name in times}}
    return {"cold": colds, "warm": {"seconds": times, "calls": calls, **functions}}


def judge(windows: list[dict[str, Any]], decisions: int) -> dict[str, Any]:
    """The figures: how many of so many decisions ended in which way."""
    found: dict[str, Any] = {"decisions": decisions, "processes": len(windows)}
    for name, gain, cold in (
        ("equal arms", 1.0, "equal"), ("1.05x faster", 1.05, "equal"), ("1.10x faster", 1.10, "equal"),
        ("1.20x faster", 1.20, "equal"), ("equal arms, compiles in a third of the time", 1.0, "shorter"),
    ):  # fmt: skip
        ended = Counter(str(decide(windows, gain, cold, seed)) for seed in range(decisions))
        found[name] = dict(ended)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("collect", "judge"))
    parser.add_argument("windows", type=Path)
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--pairs", type=int, default=160)
    parser.add_argument("--decisions", type=int, default=300)
    given = parser.parse_args()
    if given.what == "collect":
        given.windows.write_text(json.dumps(collect(given.processes, given.pairs)) + "\n", encoding="utf-8")
    else:
        windows = json.loads(given.windows.read_text(encoding="utf-8"))
        print(json.dumps(judge(windows, given.decisions), indent=2))


if __name__ == "__main__":
    main()
