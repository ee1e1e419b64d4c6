"""A verdict as plain data: the same in a report and in a file of evidence."""

from __future__ import annotations

from typing import Any

from jitmod.delivery.figures import one_line
from jitmod.model import Verdict
from jitmod.trial.job import plain


def judged(verdict: Verdict) -> dict[str, Any]:
    return {
        "verdict": str(verdict.status),
        "test": verdict.test,
        "why": one_line(verdict.why),
        "device": verdict.device,
        "speedup": plain(verdict.speedup),
        "speedup_ci": plain(verdict.speedup_ci),
        "cold": plain(verdict.cold),
        "compiles": plain(verdict.compiles),
        "parity": plain(verdict.parity),
        "memory": plain(verdict.memory),
        "knobs": plain(verdict.knobs),
    }
