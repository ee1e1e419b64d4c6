"""The second and third process: cold and warm times of the baseline and of the chosen candidate, interleaved."""

from __future__ import annotations

import contextlib
import random
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from . import compare, stats
from .channel import Channel
from .hosts import Arm, Host
from .program import Observation
from .served import Opening

_COLD_PAIRS = 3
_COLD_SECONDS = 6.0  # where a pair is slow, fewer will do: the bounds for cold times are wide
_NOVEL_CALLS = 6  # that have to be affordable, however slow they are
_LAST_REP = 999  # of those that the first process may draw: beyond, a workload may become another
_NAMES = ("baseline", "candidate")


def measure(
    host: Host, channel: Channel, deadline: float, chosen: int, seed: int, steps: Sequence[int], patient: bool
) -> None:
    """Measure both arms and report raw samples. `steps` are the numbers of pairs after which to look; `patient`
    takes the last of them without looking."""
    order = random.Random(seed)
    changed, functions = host.bench.fresh_functions(chosen)
    channel.put("fresh_functions", functions)
    first: dict[str, float] = {}
    firsts: dict[str, Observation] = {}
    cold: dict[str, list[dict[str, Any]]] = {}
    with contextlib.ExitStack() as opened:
        arms: dict[str, Arm] = {}
        for name in _NAMES:
            channel.stage(f"{name}: first call")
            arms[name] = arm = opened.enter_context(host.open(Opening(name, chosen, cold=True)))
            start = time.monotonic()
            observed, taken = arm.first_call()
            firsts[name] = observed
            first[name], cold[name] = time.monotonic() - start, [taken]
            if observed.error:
                channel.put("error", {"arm": name, **observed.error})
                return
            arm.prepare(observed.mutates, changed)
        channel.put("loading", {name: arm.loading() for name, arm in arms.items()})
        _cold(arms, channel, order, sum(first.values()), deadline, cold)
        to_24 = _saves_compile_time(cold, host.bench.job["gate"])
        last = _warm(arms, channel, order, host.bench.job["gate"], steps, deadline, seed, patient, to_24)
        if deadline - time.monotonic() > _NOVEL_CALLS * sum(first.values()):
            channel.stage("both arms: calls after all samples")
            channel.put("late", {"failure": _late(arms, firsts["baseline"], min(last, _LAST_REP))})
        if deadline - time.monotonic() > _NOVEL_CALLS * sum(first.values()):
            channel.stage("both arms: values that they have not had before")
            channel.put("novelty", {name: arm.novelty() for name, arm in arms.items()})


def _cold(
    arms: dict[str, Arm], channel: Channel, order: random.Random, pair_seconds: float, deadline: float,
    results: dict[str, list[dict[str, Any]]],
) -> None:  # fmt: skip
    """Further cold calls beside the first ones, if they are affordable."""
    affordable = min(_COLD_SECONDS, 0.4 * (deadline - time.monotonic()))
    for _ in range(min(_COLD_PAIRS - 1, int(affordable / pair_seconds))):
        for name in order.sample(_NAMES, 2):
            channel.stage(f"{name}: cold call")
            results[name].append(arms[name].cold())
    channel.put("cold", results)


def _saves_compile_time(cold: dict[str, list[dict[str, Any]]], gate: dict[str, Any]) -> bool:
    """Then the warm times matter in another way, and all pairs up to 24 are wanted."""
    before, after = (statistics.median(c["trace"] + c["lower"] + c["compile"] for c in cold[name]) for name in _NAMES)
    return bool(before - after >= gate["min_cold_seconds"] and before >= gate["min_cold_speedup"] * after)


def _warm(
    arms: dict[str, Arm], channel: Channel, order: random.Random, gate: dict[str, Any], steps: Sequence[int],
    deadline: float, seed: int, patient: bool, to_24: bool,
) -> int:  # fmt: skip
    """The samples; returns the last value that `rep` had."""
    batch: dict[str, int] = {}
    paces: list[float] = []
    for name in _NAMES:
        channel.stage(f"{name}: warming up")
        pace = arms[name].warm_up()
        batch[name] = pace.batch
        paces.append(pace.seconds)
    fewer, more = min(batch.values()), max(batch.values())
    takes_rep = arms["baseline"].takes_rep
    if takes_rep or max(paces) <= 3 * min(paces):  # both see the same values of `rep`; equal arms are treated equally
        batch = dict.fromkeys(_NAMES, fewer if takes_rep else more)
    for arm in arms.values():
        arm.settle()
    rep = 100
    seconds: dict[str, list[float]] = {name: [] for name in _NAMES}
    faults: dict[str, list[int]] = {name: [] for name in _NAMES}
    calls, scripts = (dict.fromkeys(_NAMES, 0) for _ in range(2))
    compiled, behind = ({name: Counter[str]() for name in _NAMES} for _ in range(2))
    stopped, pair_seconds = "all pairs taken", 0.0
    for _ in range(steps[-1]):
        start = time.monotonic()
        if start + pair_seconds > deadline:
            stopped = "budget"
            break
        for place, name in enumerate(order.sample(_NAMES, 2)):
            channel.stage(f"{name}: warm calls")
            sample = arms[name].sample(batch[name], rep)
            seconds[name].append(sample.seconds)
            faults[name].append(sample.faults)
            compiled[name].update(sample.compiled)
            if place > 0:  # the other arm has just had the same values
                behind[name].update(sample.compiled)
            calls[name] += sample.calls
            scripts[name] += sample.scripts
        rep += batch["candidate"]
        pair_seconds = time.monotonic() - start
        found = stats.stops(seconds["baseline"], seconds["candidate"], gate, seed, steps, to_24)
        if found is not None and not patient:
            stopped = found
            break
    channel.put("warm", {
        "seconds": seconds, "faults": faults, "stopped": stopped,
        "batch": batch,
        "calls": calls,
        "scripts": scripts,
        "functions": compiled,
        "functions_behind": behind,
    })  # fmt: skip
    return rep


def _late(arms: dict[str, Arm], first: Observation, rep: int) -> dict[str, Any] | None:
    """How the candidate's calls differ from the baseline's by now. Only rough errors count.

    None are looked for where the baseline's results depend on how many calls there were, or where a metric judges them.
    """
    if first.globals or first.metric is not None:
        return None
    for number in dict.fromkeys((0, rep)):
        expected, got = (arms[name].observe(number) for name in _NAMES)
        apart = number == 0 and compare.compare(first.output, expected.output, compare.MAX_FACTOR / 2).failure
        if expected.error or apart:
            return None
        failure = {"test": "exception", **got.error} if got.error else None
        failure = failure or compare.compare(expected.output, got.output, compare.MAX_FACTOR).failure
        if failure is not None:
            return failure
    return None
