"""Choosing the form and the knobs: measured quickly in the first process, judged later on fresh samples."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

from .channel import Channel
from .hosts import Host
from .parity import Reference
from .program import describe
from .served import Opening

_MAX_TUNED = 6
_GAIN = 1.05


def tune(host: Host, channel: Channel, reference: Reference, deadline: float) -> int:
    """The number of the candidate to judge: best form at default knobs first, then its knobs by hill climbing."""
    candidates = host.bench.job["candidates"]
    if len(candidates) == 1:
        return 0
    clock = time.monotonic() + 0.4 * (deadline - time.monotonic())
    seconds: dict[int, float] = {}

    def measure(number: int) -> float:
        if number not in seconds and len(seconds) < _MAX_TUNED and (not seconds or time.monotonic() < clock):
            channel.stage(f"candidate {number + 1}: tuning")
            seconds[number], failure = _quick(host, reference, number)
            entry = {k: candidates[number][k] for k in ("form", "knobs")}
            timed = seconds[number] if failure is None else None
            channel.put(f"tuning {number}", {**entry, "candidate": number, "seconds": timed, "failure": failure})
        return seconds.get(number, math.inf)

    defaults = [number for number, c in enumerate(candidates) if c["default"]]
    best = defaults[0]
    for number in defaults:
        if measure(number) * _GAIN < measure(best):
            best = number
    for knob in candidates[best]["knobs"]:
        best = _climb(candidates, best, knob, measure)
    return best


def _climb(candidates: list[dict[str, Any]], best: int, knob: str, measure: Callable[[int], float]) -> int:
    """Up from the default until a step gains less than 5 %; down only where the first step up did not gain."""

    def others(number: int) -> tuple[Any, ...]:
        c = candidates[number]
        return c["variant"], {k: v for k, v in c["knobs"].items() if k != knob}

    line = sorted((n for n in range(len(candidates)) if others(n) == others(best)),
                  key=lambda n: candidates[n]["knobs"][knob])  # fmt: skip
    start = best
    for step in (1, -1):
        if best != start:
            break
        while 0 <= line.index(best) + step < len(line):
            following = line[line.index(best) + step]
            if not measure(following) * _GAIN < measure(best):
                break
            best = following
    return best


def _quick(host: Host, reference: Reference, number: int) -> tuple[float, dict[str, Any] | None]:
    """Seconds of a warm call, and how its first call failed, if it did."""
    try:
        with host.open(Opening("candidate", number)) as arm:
            observed = arm.observe(0)
            if observed.error:
                return math.inf, {"test": "exception", **observed.error}
            failure = reference.judge(0, observed).failure
            if failure:
                return math.inf, failure
            arm.prepare(observed.mutates, ())
            pace = arm.warm_up()
            return statistics.median(arm.sample(pace.batch, rep).seconds for rep in range(2, 5)), None
    except (Exception, SystemExit) as error:
        return math.inf, {"test": "exception", **describe(error)}
