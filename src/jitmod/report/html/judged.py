"""The trial of a patch as a run's JSON has it, read back: what is no figure where one should be is as if it were not
there, because the schema leaves the inner parts of a trial open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from jitmod.delivery import figures
from jitmod.delivery.figures import one_line
from jitmod.model import Status, Verdict
from jitmod.report.html.charts import ARMS

_LEAST, _MOST = 1e-12, 1e12  # seconds and ratios that a picture can bear


@dataclass(frozen=True)
class Judged:
    """A verdict with its samples. `form` is the one that was chosen.

    `tuned` are seconds over each knob, a line for each form; `predicted` are bytes, as the compiler predicts them.
    """

    verdict: Verdict
    rows: tuple[tuple[str, str, str, str], ...]
    warm: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)
    first_calls: Mapping[str, Sequence[Mapping[str, float]]] = field(default_factory=dict)
    tuned: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]] = field(default_factory=dict)
    predicted: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]] = field(default_factory=dict)
    form: str = ""
    device: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def speeds(self) -> tuple[float, ...]:
        """The speedup and the ends of its interval; empty where nothing was timed."""
        speedup = self.verdict.speedup
        return () if speedup is None else (speedup, *(self.interval or ()))

    @property
    def interval(self) -> tuple[float, float] | None:
        return self.verdict.speedup_ci


def judged(trial: Mapping[str, Any] | None) -> Judged | None:
    """The trial of a finding; None where it was not tried."""
    if trial is None:
        return None
    measured = trial.get("measured", {})
    warm = {arm: [[value for value in row if _LEAST < value < _MOST] for row in measured.get("warm", {}).get(arm, ())]
            for arm in ARMS}  # fmt: skip
    seconds = [{"warm": {"seconds": dict(zip(ARMS, pair, strict=True))}} for pair in zip(*warm.values(), strict=False)]
    first = {arm: [call for call in measured.get("cold", {}).get(arm, ()) if all(0 <= s < _MOST for s in call.values())]
             for arm in ARMS}  # fmt: skip
    verdict = _verdict(trial)
    evidence = {"judges": seconds}
    tuning = measured.get("tuning", ())
    return Judged(
        verdict,
        tuple(figures.comparison(verdict, evidence)),
        warm,
        first,
        _tuned(tuning, "seconds"),
        _tuned(tuning, "predicted"),
        next((one_line(one["form"]) for one in tuning if one["knobs"] == trial["knobs"]), ""),
        one_line(measured.get("device") or trial["device"] or ""),
        {one_line(name): one_line(version) for name, version in measured.get("versions", {}).items()},
    )


def _verdict(trial: Mapping[str, Any]) -> Verdict:
    speedup, ends = trial["speedup"], [end for end in trial["speedup_ci"] or () if _is_ratio(end)]
    timed = _is_ratio(speedup)
    return Verdict(
        Status(trial["verdict"]),
        trial["why"],
        trial["test"],
        one_line(trial["device"] or ""),
        float(speedup) if timed else None,
        (min(ends), max(ends)) if timed and len(ends) == 2 else None,
        {one_line(name): value for name, value in trial["knobs"].items()},
        _numbers(trial["cold"]),
        {arm: _numbers(trial["compiles"].get(arm)) for arm in ARMS},
        trial["parity"],
        _numbers(trial["memory"]),
    )


def _tuned(tuning: Sequence[Mapping[str, Any]], what: str) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Of each knob, the points of a line for each form; where a form has several knobs, each is drawn for itself."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for one in tuning:
        if _is_ratio(one.get(what)):
            for knob, value in one["knobs"].items():
                if 0 < value < _MOST:
                    points = found.setdefault(one_line(knob), {}).setdefault(one_line(one["form"]), [])
                    points.append((float(value), float(one[what])))
    return found


def _numbers(found: Any) -> dict[str, float]:
    if not isinstance(found, Mapping):
        return {}
    return {str(name): value for name, value in found.items() if is_number(value) and abs(value) < _MOST}


def _is_ratio(value: Any) -> bool:
    return is_number(value) and _LEAST < value < _MOST


def is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
