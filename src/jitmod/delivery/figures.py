"""Measurements in words: the same in commit messages, tables and annotations."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Mapping
from typing import Any

from jitmod.model import Status, Verdict
from jitmod.trial.needs import size

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_IDLE, _MOST = 30, 0.5  # per cent of the time in which a GPU works; share of the time in which the site runs
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def one_line(text: str) -> str:
    """Text from code or from a child process on one line: no escapes, no control characters, no line ends."""
    return " ".join(_CONTROL.sub(" ", _ESCAPE.sub("", text)).split())


def describe(verdict: Verdict) -> str:
    """`accepted 8.1x (7.6 to 8.8)`, `rejected: slower - ...`."""
    if verdict.status is Status.ACCEPTED:
        return f"accepted {speedup(verdict)}".rstrip()
    why = one_line(verdict.why)
    if verdict.test and not why.startswith(verdict.test):
        why = f"{verdict.test} - {why}"
    return f"{verdict.status}: {why}"


def seconds(value: float) -> str:
    """A time in the unit that suits it, to three digits."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if value * factor >= 1 or unit == "us":
            return f"{three_digits(value * factor)} {unit}"
    raise AssertionError("the last unit takes every value")


def speedup(verdict: Verdict) -> str:
    """`8.1x (7.6 to 8.8)`, empty where nothing was timed."""
    if verdict.speedup is None:
        return ""
    if verdict.speedup_ci is None:
        return f"{three_digits(verdict.speedup)}x"
    low, high = map(three_digits, verdict.speedup_ci)
    return f"{three_digits(verdict.speedup)}x ({low} to {high})"


def three_digits(value: float) -> str:
    """`8.12`, `0.929`, `2910`: never in powers of ten where people read it."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{float(f'{value:.3g}'):.0f}"


def cold(verdict: Verdict) -> str:
    """Trace, lower and compile: `0.52 s -> 0.61 s`."""
    return _change(verdict.cold, seconds)


def compiles(verdict: Verdict) -> str:
    """Compilations of a first call: `12 -> 1`; and of the warm calls, where there are any: `12 -> 1, warm 20 -> 0`."""
    first = _change(_of_each_arm(verdict.compiles, "cold"), _count)
    warm = _of_each_arm(verdict.compiles, "warm")
    return f"{first}, warm {_change(warm, _count)}" if any(warm.values()) else first


def parity(verdict: Verdict) -> str:
    """How close the outputs are, and whether a wrong one would have been noticed."""
    found = verdict.parity
    parts = []
    if isinstance(found.get("calls"), int):
        parts.append(f"{found['calls']} calls agree")
    if isinstance(found.get("error_in_bounds"), float):
        parts.append(f"largest difference {found['error_in_bounds']:.2g} of what is allowed")
    if "seen" in dict(found.get("sabotage") or {}).values():
        parts.append("spoiled results are noticed")
    return ", ".join(parts)


def knobs(verdict: Verdict) -> str:
    """`batch_size 64`; and, where others do not fit: `batch_size 64 (the fastest that fits 70 % of 139 GiB of ...)`."""
    chosen = ", ".join(f"{name} {value}" for name, value in verdict.knobs.items())
    found = verdict.memory
    if not chosen or not found.get("ruled_out") or not found.get("room"):
        return chosen
    share = f"{found['limit'] / found['room']:.0%}".replace("%", " %")
    return f"{chosen} (the fastest that fits {share} of {size(found['room'])} of {found['what']})"


def warm_medians(evidence: Mapping[str, Any]) -> dict[str, float]:
    """The median seconds of a warm call of each arm, over all samples of a trial's evidence; empty without samples."""
    samples: dict[str, list[float]] = {}
    for judge in evidence.get("judges", []):
        for arm, times in judge.get("warm", {}).get("seconds", {}).items():
            samples.setdefault(arm, []).extend(times)
    return {arm: statistics.median(times) for arm, times in samples.items() if times}


def gpu(evidence: Mapping[str, Any]) -> str:
    """The GPU of the measurements and what it did: `NVIDIA H200, driver 570.1, 37 % busy, 1755 of 1980 MHz`."""
    found = [judge["gpu"] for judge in evidence.get("judges", []) if judge.get("gpu")]
    if not found:
        return ""
    parts = [str(found[0]["name"]), f"driver {found[0]['driver']}"]
    busy = [one["busy"] for one in found if "busy" in one]
    if busy:
        share = evidence.get("explore", {}).get("wall_share")
        waits = statistics.median(busy) < _IDLE and share is not None and share > _MOST
        parts.append(f"{statistics.median(busy):.0f} % busy{', so mostly waiting for the host' if waits else ''}")
    clocks = [one["clock"]["median"] for one in found if isinstance(one.get("clock"), Mapping)]
    if clocks:
        most = f" of {found[0]['highest_clock']}" if found[0].get("highest_clock") else ""
        parts.append(f"{statistics.median(clocks):.0f}{most} MHz")
    slowed = max((one.get("slowed", 0.0) for one in found), default=0.0)
    if slowed > 0:
        parts.append(f"slowed down by heat or power for {100 * slowed:.0f} % of the time")
    return one_line(", ".join(parts))


def comparison(verdict: Verdict, evidence: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Rows of a table with both arms: what, baseline, candidate, remark. Rows without a measurement are left out."""
    counts = _of_each_arm(verdict.compiles, "cold")
    calls = verdict.cold.get("breakeven_calls")
    remark = f"paid back after {calls:.0f} calls" if calls else ""
    shared = sum(count or 0 for count in _of_each_arm(verdict.compiles, "warm_shared").values())
    in_warm = f"in all warm calls, beside {shared} that both share" if shared else "in all warm calls"
    rows = [
        _row("warm call", warm_medians(evidence), seconds, speedup(verdict)),
        _row("cold", verdict.cold, seconds, remark),
        _row("compiles", counts, _count, "in the first call"),
        _row("retraces", _of_each_arm(verdict.compiles, "warm"), _count, in_warm),
        _row("memory", verdict.memory, size, "needed by a call"),
    ]
    return [row for row in rows if row is not None]


def _row(
    label: str, arms: Mapping[str, Any], show: Callable[[Any], str], remark: str
) -> tuple[str, str, str, str] | None:
    if arms.get("baseline") is None or arms.get("candidate") is None:
        return None
    return label, show(arms["baseline"]), show(arms["candidate"]), remark


def _change(arms: Mapping[str, Any], show: Callable[[Any], str]) -> str:
    row = _row("", arms, show, "")
    return f"{row[1]} -> {row[2]}" if row else ""


def _of_each_arm(compiles: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {arm: compiles[arm].get(key) for arm in ("baseline", "candidate") if isinstance(compiles.get(arm), Mapping)}


def _count(value: float) -> str:
    return f"{value:g}"
