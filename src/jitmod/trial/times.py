"""What the samples of a trial say: how much faster, warm and cold, and whether that earns a commit."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jitmod.model import Status, Verdict
from jitmod.trial.child import stats

_ARMS = ("baseline", "candidate")
_PHASES = ("trace", "lower", "compile")
_DEARER = 1.5  # times: calls with new values that cost so much more than the baseline's do show that results are kept
_LITTLE = 0.9  # of the speed is left to a patch that compiles faster, if it takes so many times `max_breakeven` calls
_MANY = 100  # until that costs more than was saved: seconds against microseconds
_KEPT = 0.5  # of what is gained with known values


class Times:
    """Cold and warm times of both arms, and what they say together."""

    def __init__(self, job: Mapping[str, Any], judges: Sequence[Mapping[str, Any]]) -> None:
        self._gate = job["gate"]
        self._threshold = math.log(self._gate["min_speedup"])
        self._neutral = job.get("neutral", False)
        self._each = [stats.log_ratios(m["warm"]["seconds"]["baseline"], m["warm"]["seconds"]["candidate"])
                      for m in judges]  # fmt: skip
        self._pooled = np.concatenate(self._each)
        self._medians = stats.medians(self._pooled, job["seed"])
        self._seconds = {arm: statistics.median(s for m in judges for s in m["warm"]["seconds"][arm])
                         for arm in ("baseline", "candidate")}  # fmt: skip
        self._cold = [{arm: _compiling(m, arm) for arm in _ARMS} for m in judges]
        self._loading = {arm: statistics.median(_loading(m, arm) for m in judges) for arm in _ARMS}
        self._new = _with_new_values(judges)
        itself = np.concatenate([stats.even_against_odd(m["warm"]["seconds"]["baseline"]) for m in judges])
        self._noise = stats.false_gain(itself, self._gate["min_speedup"], self._gate["confidence"], job["seed"])
        self._cold_pairs = min(len(m["cold"]["candidate"]) for m in judges)

    @property
    def speedup(self) -> float:
        return math.exp(float(np.median(self._pooled)))

    @property
    def interval(self) -> tuple[float, float]:
        confidence = self._gate["confidence"]
        low, high = stats.lower(self._medians, confidence), stats.upper(self._medians, confidence)
        return math.exp(low), math.exp(high)

    @property
    def cold(self) -> dict[str, Any]:
        """Seconds of tracing, lowering and compiling, also while the changed files are loaded, and after how many calls
        what is longer is paid back."""
        before, after = (statistics.median(c[arm] for c in self._cold) for arm in _ARMS)
        saved = self._seconds["baseline"] - self._seconds["candidate"]
        longer = self._loading["candidate"] - self._loading["baseline"]
        cost = after - before + (longer if abs(longer) >= self._gate["min_cold_seconds"] else 0.0)
        breakeven = 0.0 if cost <= 0 else cost / saved if saved > 0 else None
        return {"baseline": before, "candidate": after, "pairs": self._cold_pairs, "breakeven_calls": breakeven}

    def verdict(self) -> Verdict:
        low = stats.lower(self._medians, self._gate["confidence"])
        wins = all(float(np.median(ratios)) > self._threshold for ratios in self._each)
        said = f"{self.speedup:.2f}x [{self.interval[0]:.2f}, {self.interval[1]:.2f}]"
        middle = float(np.median(self._pooled))
        if wins and low > self._threshold and middle > self._noise:
            return self._warm_win(said)
        if self._is_cold_win():
            cold = self.cold
            why = f"compiles in {cold['candidate']:.2f} s instead of {cold['baseline']:.2f} s, warm {said}"
            if self._low < math.log(self._gate["min_warm_for_cold"]):
                why += f", so that {self._spent():,.0f} calls would cost what is saved"
            return Verdict(Status.ACCEPTED, why)
        if self._neutral:
            return self._as_fast(said)
        if stats.upper(self._medians, 0.95) < self._threshold and (not self._noise or middle < -self._noise):
            why = f"slower: {said}, and more than {self._gate['min_speedup']:.2f}x is asked for"
            return Verdict(Status.REJECTED, why, test="slower")
        why = f"{said} after {len(self._pooled)} pairs does not decide about {self._gate['min_speedup']:.2f}x"
        if self._noise:
            why += f"; the baseline against itself shows {math.exp(self._noise):.2f}x"
        return Verdict(Status.INCONCLUSIVE, why)

    def _as_fast(self, said: str) -> Verdict:
        """Of a patch that need not be faster: what proves it is parity, and nothing may show that it is slower."""
        least = self._gate["min_warm_for_cold"]
        if float(np.median(self._pooled)) >= math.log(least):
            return Verdict(Status.ACCEPTED, f"as fast as before: {said}")
        if stats.upper(self._medians, 0.95) < math.log(least):
            return Verdict(Status.REJECTED, f"slower: {said}", test="slower")
        why = f"{said} after {len(self._pooled)} pairs does not decide about {least:.2f}x"
        return Verdict(Status.INCONCLUSIVE, why)

    def _warm_win(self, said: str) -> Verdict:
        if self._new is not None and self._new < self._gate["min_speedup"]:
            why = f"slower: {said} with values that it has had before, {self._new:.2f}x with new ones"
            return Verdict(Status.REJECTED, why, test="slower")
        calls = self.cold["breakeven_calls"]
        if calls is not None and calls > self._gate["max_breakeven"]:
            why = f"cold: {said} when warm, but its compilation is paid back only after {calls:.0f} calls"
            return Verdict(Status.REJECTED, why, test="cold")
        later = f", paid back after {calls:.0f} calls" if calls else ""
        known = "" if self._new is None else f", with values that it has not had before {self._new:.2f}x"
        return Verdict(Status.ACCEPTED, f"{said} faster{later}{known}")

    @property
    def _low(self) -> float:
        return stats.lower(self._medians, 0.95)

    def _spent(self) -> float:
        """After how many calls, each as much slower as may be, what is saved in the first one is gone."""
        lost = self._seconds["baseline"] * (math.exp(-self._low) - 1)
        cold = self.cold
        return math.inf if lost <= 0 else float((cold["baseline"] - cold["candidate"]) / lost)

    def _is_cold_win(self) -> bool:
        lasts = self._low >= math.log(_LITTLE) and self._spent() >= _MANY * self._gate["max_breakeven"]
        return (lasts or self._low >= math.log(self._gate["min_warm_for_cold"])) and all(
            c["baseline"] >= self._gate["min_cold_speedup"] * c["candidate"]
            and c["baseline"] - c["candidate"] >= self._gate["min_cold_seconds"]
            for c in self._cold
        )


def _compiling(measured: Mapping[str, Any], arm: str) -> float:
    """Of a first call, and of loading the changed files."""
    loading = measured.get("loading", {}).get(arm, {})
    calls = [sum(cold[phase] for phase in _PHASES) for cold in measured["cold"][arm]]
    return float(statistics.median(calls) + sum(loading.get(phase, 0.0) for phase in _PHASES))


def _loading(measured: Mapping[str, Any], arm: str) -> float:
    """Seconds that loading the changed files takes beside tracing, lowering and compiling."""
    loading = measured.get("loading", {}).get(arm, {})
    return float(loading.get("seconds", 0.0) - sum(loading.get(phase, 0.0) for phase in _PHASES))


def _with_new_values(judges: Sequence[Mapping[str, Any]]) -> float | None:
    """The speedup of calls with new values, where every process shows that the candidate keeps results of old ones."""
    found: list[float] = []
    for measured in judges:
        novelty = measured.get("novelty", {})
        before, after = (novelty.get(arm) for arm in _ARMS)
        if before is None or after is None:
            return None
        gain = before["known"] - after["known"]
        extra = after["new"] - after["known"] - max(0.0, before["new"] - before["known"])
        dearer = after["new"] * before["known"] > _DEARER * before["new"] * after["known"]
        if gain <= 0 or extra < _KEPT * gain or not dearer:
            return None
        found.append(before["new"] / after["new"])
    return statistics.median(found)
