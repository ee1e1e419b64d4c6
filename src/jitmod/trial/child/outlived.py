"""What outlives a call: a call with new values after another one, and the same as the first in its world."""

from __future__ import annotations

from collections.abc import Callable

from . import compare
from .hosts import Arm, Host
from .parity import Reference
from .program import Observation
from .served import BASELINE, Opening

_CALLS = 4


def outlives(host: Host, reference: Reference, chosen: int, seconds: float) -> bool:
    """Does what the candidate gives for new values depend on the call before, and not so in the baseline?

    New values are those of arguments and of globals that both versions have. `seconds` is what that may take.
    """
    if _CALLS * reference.first[0].seconds > seconds:
        return False
    names = sorted(reference.first[0].known)
    return _only_candidate(host, chosen, reference, lambda arm: arm.observe_moved(0, names))


def frozen(host: Host, reference: Reference, chosen: int, seconds: float) -> list[str]:
    """The globals that functions of the project set, if the candidate goes on with the values that they had before.

    Those that the workload sets by itself have been compared. `seconds` is what this may take.
    """
    first = reference.first[0]
    names = sorted(first.rebound.difference(*(call.globals for call in reference.first)))
    if not names or _CALLS * first.seconds > seconds:
        return []
    return names if _only_candidate(host, chosen, reference, lambda arm: arm.observe_set(0, names)) else []


def _only_candidate(host: Host, chosen: int, reference: Reference, call: Callable[[Arm], Observation]) -> bool:
    """Does what `call` gives depend on the call before in the candidate, and not so in the baseline?"""
    if _depends(host, Opening("candidate", chosen), call, reference.factor) is not True:
        return False
    return _depends(host, BASELINE, call, reference.factor) is False


def _depends(host: Host, opening: Opening, call: Callable[[Arm], Observation], factor: float) -> bool | None:
    """None where the workload does not take such values."""
    found = []
    for calls_before in (0, 1):
        try:
            with host.open(opening) as arm:
                for _ in range(calls_before):
                    arm.observe(0)
                found.append(call(arm))
        except (Exception, SystemExit):
            return None
    if any(one.error for one in found):
        return None
    return compare.compare(found[0].output, found[1].output, factor).failure is not None
