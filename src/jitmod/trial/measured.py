"""What a trial measured, short enough to go into a report: every sample, but not what it was made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_ARMS = ("baseline", "candidate")
_PHASES = ("trace", "lower", "compile")
_TUNING = "tuning "


def samples(explored: Mapping[str, Any], judges: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The samples of evidence; parts that it has not are left out.

    `warm`: seconds of a call, a list for each process of an arm. `cold`: seconds of tracing, lowering and compiling,
    one first call after the other. `tuning`: what each form and setting took when one was chosen.
    """
    warm = [one["warm"]["seconds"] for one in judges if "warm" in one]
    parts = {
        "warm": {arm: [[_short(s) for s in one[arm]] for one in warm] for arm in _ARMS} if warm else None,
        "cold": {
            arm: [_phases(call, one, arm) for one in judges if "cold" in one for call in one["cold"][arm]]
            for arm in _ARMS
        }
        if any("cold" in one for one in judges)
        else None,
        "tuning": [dict(tried) for key, tried in sorted(explored.items()) if key.startswith(_TUNING)],
        "device": explored.get("device", {}).get("kind"),
        "versions": dict(explored.get("versions", {})),
    }
    return {name: part for name, part in parts.items() if part}


def _phases(call: Mapping[str, Any], process: Mapping[str, Any], arm: str) -> dict[str, float]:
    """Of a first call, and of loading the changed files."""
    loading = process.get("loading", {}).get(arm, {})
    return {phase: _short(call[phase] + loading.get(phase, 0.0)) for phase in _PHASES}


def _short(seconds: float) -> float:
    """Six digits: clocks know no more."""
    return float(f"{seconds:.6g}")
