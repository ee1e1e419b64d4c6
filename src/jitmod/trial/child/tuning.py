"""Choosing the form and the knobs: measured quickly in the first process, judged later on fresh samples.

What the compiler says needs more memory than there is for it does not run, and neither does what is larger than a
candidate that ran out of memory.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping
from typing import Any

from .channel import Channel
from .hosts import Host
from .memory import is_memory
from .parity import Reference
from .program import describe
from .served import Opening

_MAX_TUNED = 6
_GAIN = 1.05


def tune(
    host: Host, channel: Channel, reference: Reference, deadline: float, ruled_out: Mapping[str, str]
) -> int | None:
    """The number of the candidate to judge: best form at default knobs first, then its knobs by hill climbing.

    None where there is no room for any. `ruled_out` has those that ended the process of an earlier try, and how.
    """
    candidates = host.bench.job["candidates"]
    if len(candidates) == 1:
        return 0
    return _Tuning(host, channel, reference, deadline, ruled_out).best()


class _Tuning:
    """The seconds of each candidate that was measured, and why others do not fit."""

    def __init__(
        self, host: Host, channel: Channel, reference: Reference, deadline: float, ruled_out: Mapping[str, str]
    ) -> None:
        self._host, self._channel, self._reference = host, channel, reference
        self._candidates: list[dict[str, Any]] = host.bench.job["candidates"]
        self._clock = time.monotonic() + 0.4 * (deadline - time.monotonic())
        self._seconds: dict[int, float] = {}
        self._out: dict[int, str] = {int(number): why for number, why in ruled_out.items()}
        found = host.room()
        self._limit = 0 if found is None else int(host.bench.job["gate"]["memory_share"] * found.size)
        if found is not None:
            channel.put("memory", {"room": found.size, "what": found.what, "limit": self._limit})

    def best(self) -> int | None:
        defaults = [number for number, c in enumerate(self._candidates) if c["default"]]
        starts = [self._fitting(number) for number in defaults]
        best = starts[0]
        for number in starts:
            if self._measure(number) * _GAIN < self._measure(best):
                best = number
        for knob in self._candidates[best]["knobs"]:
            best = self._climb(best, knob)
        names = ("form", "knobs")
        out = [{**{k: c[k] for k in names}, "candidate": number, "why": self._why(number)}
               for number, c in enumerate(self._candidates) if self._is_out(number)]  # fmt: skip
        self._channel.put("ruled_out", out)
        return None if self._is_out(best) else best

    def _fitting(self, number: int) -> int:
        """The candidate, or one that is smaller in every number, if that does not fit: the largest that does."""
        self._measure(number)
        while self._is_out(number):
            smaller = [n for n, c in enumerate(self._candidates) if self._is_within(c, self._candidates[number])
                       and not self._is_out(n)]  # fmt: skip
            if not smaller:
                break
            number = max(smaller, key=lambda n: tuple(self._candidates[n]["knobs"].values()))
            self._measure(number)
        return number

    def _measure(self, number: int) -> float:
        if self._is_out(number):
            return math.inf
        in_time = not self._seconds or time.monotonic() < self._clock
        if number not in self._seconds and len(self._seconds) < _MAX_TUNED and in_time:
            self._channel.stage(f"candidate {number + 1}: tuning")
            seconds, failure, predicted = self._quick(number)
            self._seconds[number] = seconds
            if failure is not None and failure["test"] == "memory":
                self._out[number] = failure["text"]
            entry = {k: self._candidates[number][k] for k in ("form", "knobs")}
            timed = seconds if failure is None else None
            told = {**entry, "candidate": number, "seconds": timed, "failure": failure, "predicted": predicted}
            self._channel.put(f"tuning {number}", told)
        return self._seconds.get(number, math.inf)

    def _is_out(self, number: int) -> bool:
        mine = self._candidates[number]
        return any(n == number or self._is_within(self._candidates[n], mine) for n in self._out)

    def _why(self, number: int) -> str:
        return self._out.get(number, "larger than one that does not fit")

    def _is_within(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        """Whether it is another of the same form, and larger in none of its numbers."""
        knobs = other["knobs"]
        return one["variant"] == other["variant"] and one["knobs"] != knobs and all(
            value <= knobs[name] for name, value in one["knobs"].items())  # fmt: skip

    def _climb(self, best: int, knob: str) -> int:
        """Up from the start until a step gains less than 5 %; down only where the first step up did not gain."""

        def others(number: int) -> tuple[Any, ...]:
            c = self._candidates[number]
            return c["variant"], {k: v for k, v in c["knobs"].items() if k != knob}

        line = sorted((n for n in range(len(self._candidates)) if others(n) == others(best)),
                      key=lambda n: self._candidates[n]["knobs"][knob])  # fmt: skip
        start = best
        for step in (1, -1):
            if best != start:
                break
            while 0 <= line.index(best) + step < len(line):
                following = line[line.index(best) + step]
                if not self._measure(following) * _GAIN < self._measure(best):
                    break
                best = following
        return best

    def _quick(self, number: int) -> tuple[float, dict[str, Any] | None, int | None]:
        """Seconds of a warm call, how its first call failed, if it did, and what the compiler said that it needs."""
        predicted: int | None = None
        try:
            with self._host.open(Opening("candidate", number, limit=self._limit)) as arm:
                observed = arm.observe(0)
                predicted = arm.predicted()
                if self._limit and predicted is not None and predicted > self._limit:
                    text = f"needs {predicted} bytes, and there are {self._limit} for it"
                    return math.inf, {"test": "memory", "text": text}, predicted
                if observed.error:
                    return math.inf, _failure(observed.error), predicted
                failure = self._reference.judge(0, observed).failure
                if failure:
                    return math.inf, failure, predicted
                arm.prepare(observed.mutates, ())
                pace = arm.warm_up()
                return statistics.median(arm.sample(pace.batch, rep).seconds for rep in range(2, 5)), None, predicted
        except (Exception, SystemExit) as error:
            return math.inf, _failure(describe(error)), predicted


def _failure(error: Mapping[str, str]) -> dict[str, Any]:
    return {"test": "memory" if is_memory(error) else "exception", **error}
