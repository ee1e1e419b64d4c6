"""Scripts whose own statements changed: there is no function to run on other live-ins, so the script runs on others."""

from __future__ import annotations

from typing import Any

from . import compare, targets
from .hosts import Host
from .parity import Reference
from .served import Opening
from .snapshot import Entry

_FACTOR = 20.0  # of the tight bounds: scaled values make rounding grow otherwise, and a constant is off by 100 or more


def compare_scaled(host: Host, reference: Reference, chosen: int, allowed: compare.Slack | None) -> dict[str, Any]:
    """Both arms with what unchanged statements bind scaled: a result that is right for one input may be a constant."""
    if not targets.is_script(host.bench.job["workload"]["run"]):
        return {}
    outputs: list[list[Entry]] = []
    for how in ("scaled baseline", "scaled candidate"):
        try:
            with host.open(Opening(how, chosen)) as arm:
                observed = arm.observe(0)
        except (Exception, SystemExit):
            return {"scaled_script": "raises"}
        if observed.error and how == "scaled baseline":
            return {"scaled_script": "raises"}
        if observed.error:
            return {"scaled_script": "differs", "failure": {"test": "exception", **observed.error}}
        outputs.append(observed.output)
    failure = compare.compare(outputs[0], outputs[1], max(_FACTOR, reference.factor), slack=allowed).failure
    if failure is None:
        return {"scaled_script": "agrees"}
    return {"scaled_script": "differs", "failure": {**failure, "how": "with the script's values scaled by 1.01"}}
