"""The second and third process: cold and warm times of the baseline and of the chosen candidate, interleaved."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from . import stats
from .arms import Bench
from .channel import Channel
from .compiles import CompileLog
from .sampling import Arm

_COLD_PAIRS = 3
_COLD_SECONDS = 6.0  # where a pair is slow, fewer will do: the bounds for cold times are wide
_NAMED = 20  # functions whose compilations are told apart
_NAMES = ("baseline", "candidate")


def measure(
    bench: Bench, channel: Channel, deadline: float, chosen: int, seed: int, steps: Sequence[int], patient: bool
) -> None:
    """Measure both arms and report raw samples. `steps` are the numbers of pairs after which to look; `patient`
    takes the last of them without looking."""
    order = random.Random(seed)
    log = CompileLog()
    arms: dict[str, Arm] = {}
    changed, functions = bench.fresh_functions(chosen)
    channel.put("fresh_functions", functions)
    first: dict[str, float] = {}
    for name, overlay in zip(_NAMES, (bench.baseline, bench.candidate(chosen)), strict=True):
        channel.stage(f"{name}: first call")
        program = bench.load(overlay)
        start = time.monotonic()
        observed = program.observe(0)
        first[name] = time.monotonic() - start
        if observed.error:
            channel.put("error", {"arm": name, **observed.error})
            return
        arms[name] = Arm(program, observed.mutates, changed)
    cold = _cold(arms, channel, log, order, sum(first.values()), deadline)
    patient_steps = _saves_compile_time(cold, bench.job["gate"])
    _warm(arms, channel, log, order, bench.job["gate"], steps, deadline, seed, patient, patient_steps)


def _cold(
    arms: dict[str, Arm], channel: Channel, log: CompileLog, order: random.Random, pair_seconds: float, deadline: float
) -> dict[str, list[dict[str, Any]]]:
    affordable = min(_COLD_SECONDS, 0.4 * (deadline - time.monotonic()))
    pairs = max(1, min(_COLD_PAIRS, int(affordable / pair_seconds)))
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in _NAMES}
    for _ in range(pairs):
        for name in order.sample(_NAMES, 2):
            channel.stage(f"{name}: cold call")
            results[name].append(arms[name].cold(log))
    channel.put("cold", results)
    return results


def _saves_compile_time(cold: dict[str, list[dict[str, Any]]], gate: dict[str, Any]) -> bool:
    """Then the warm times matter in another way, and all pairs up to 24 are wanted."""
    before, after = (statistics.median(c["trace"] + c["lower"] + c["compile"] for c in cold[name]) for name in _NAMES)
    return bool(before - after >= gate["min_cold_seconds"] and before >= gate["min_cold_speedup"] * after)


def _warm(
    arms: dict[str, Arm], channel: Channel, log: CompileLog, order: random.Random, gate: dict[str, Any],
    steps: Sequence[int], deadline: float, seed: int, patient: bool, to_24: bool,
) -> None:  # fmt: skip
    for name in _NAMES:
        channel.stage(f"{name}: warming up")
        arms[name].warm_up()
    fewer, more = sorted(arm.batch for arm in arms.values())
    takes_rep = arms["baseline"].program.takes_rep
    quick, slow = sorted(arm.seconds for arm in arms.values())
    if takes_rep or slow <= 3 * quick:  # both arms see the same values of `rep`, and equal arms are treated equally
        for arm in arms.values():
            arm.batch = fewer if takes_rep else more
    gc.collect()
    gc.freeze()
    rep = 100
    seconds: dict[str, list[float]] = {name: [] for name in _NAMES}
    faults: dict[str, list[int]] = {name: [] for name in _NAMES}
    compilations, calls, scripts = (dict.fromkeys(_NAMES, 0) for _ in range(3))
    compiled: dict[str, Counter[str]] = {name: Counter() for name in _NAMES}
    stopped, pair_seconds = "all pairs taken", 0.0
    for _ in range(steps[-1]):
        start = time.monotonic()
        if start + pair_seconds > deadline:
            stopped = "budget"
            break
        for name in order.sample(_NAMES, 2):
            channel.stage(f"{name}: warm calls")
            log.reset()
            sample = arms[name].sample(arms[name].batch, rep)
            seconds[name].append(sample.seconds)
            faults[name].append(sample.faults)
            compilations[name] += log.count
            compiled[name] += log.compiled
            calls[name] += sample.calls
            scripts[name] += sample.scripts
        rep += arms["candidate"].batch
        pair_seconds = time.monotonic() - start
        found = stats.stops(seconds["baseline"], seconds["candidate"], gate, seed, steps, to_24)
        if found is not None and not patient:
            stopped = found
            break
    channel.put("warm", {
        "seconds": seconds, "faults": faults, "stopped": stopped,
        "batch": {name: arms[name].batch for name in _NAMES},
        "compilations": compilations,
        "calls": calls,
        "scripts": scripts,
        "functions": {name: dict(compiled[name].most_common(_NAMED)) for name in _NAMES},
    })  # fmt: skip
