"""Results that outlive a call: a call with new values after another one, and the same as the first in its world."""

from __future__ import annotations

from . import compare
from .hosts import Host
from .parity import Reference
from .served import BASELINE, Opening

_CALLS = 4


def outlives(host: Host, reference: Reference, chosen: int, seconds: float) -> bool:
    """Does what the candidate gives for new values depend on the call before, and not so in the baseline?

    New values are those of arguments and of globals that both versions have. `seconds` is what that may take.
    """
    if _CALLS * reference.first[0].seconds > seconds:
        return False
    names = sorted(reference.first[0].known)
    if _depends(host, Opening("candidate", chosen), names, reference.factor) is not True:
        return False
    return _depends(host, BASELINE, names, reference.factor) is False


def _depends(host: Host, opening: Opening, names: list[str], factor: float) -> bool | None:
    """None where the workload does not take such values."""
    found = []
    for calls_before in (0, 1):
        try:
            with host.open(opening) as arm:
                for _ in range(calls_before):
                    arm.observe(0)
                found.append(arm.observe_moved(0, names))
        except (Exception, SystemExit):
            return None
    if any(one.error for one in found):
        return None
    return compare.compare(found[0].output, found[1].output, factor).failure is not None
