"""What each arm needs in memory: gathered in processes of their own, and judged.

On a CPU it is how far a call makes the process grow, on a GPU the peak of all that lies there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from jitmod.model import Status, Verdict
from jitmod.trial.child.memory import is_memory

ARMS = ("baseline", "candidate")
_TUNING = re.compile(r"candidate (\d+): tuning")
_LIKE = 1.05  # times what the baseline needs: no more than noise
_LEAST = 1 << 20  # bytes: below, the figures are the allocator's
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")

# Big blocks come from the system and go back to it at once, so that a peak shows what was needed.
ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}  # fmt: skip


def gather(child: Callable[..., dict[str, Any]], chosen: int) -> dict[str, Any]:
    """What a process found out about each arm alone. `child` runs one with such a request."""
    return {arm: child(role="solo", opening={"how": arm, "number": chosen, "limit": 0}) for arm in ARMS}


def victim(explored: Mapping[str, Any]) -> int | None:
    """The candidate that ended its process while it was tuned, as one does that takes all memory there is."""
    failure = explored.get("failure")
    tuned = None if failure is None else _TUNING.fullmatch(failure["stage"])
    if failure is None or tuned is None or failure["how"].startswith("did not finish"):
        return None
    return int(tuned[1]) - 1


def summary(explored: Mapping[str, Any], alone: Mapping[str, Any]) -> dict[str, Any]:
    """For a verdict: what each arm needs, the room that there was, and the candidates that do not fit into it."""
    found: dict[str, Any] = {arm: alone[arm]["needs"] for arm in ARMS if alone.get(arm, {}).get("needs") is not None}
    if "predicted" in alone.get("candidate", {}):
        found["predicted"] = alone["candidate"]["predicted"]
    if "memory" in explored:
        found |= explored["memory"]
    if explored.get("ruled_out"):
        found["ruled_out"] = [{"form": one["form"], **one["knobs"]} for one in explored["ruled_out"]]
    return found


def judge(job: Mapping[str, Any], alone: Mapping[str, Any]) -> Verdict | None:
    """The rejection of a candidate that needs more than there is for it, and more than the baseline."""
    candidate, baseline = (alone.get(arm, {}) for arm in ("candidate", "baseline"))
    error = candidate.get("error")
    if error is not None and is_memory(error) and "error" not in baseline and "failure" not in baseline:
        why = f"memory: alone, the candidate runs out of it: {error['type']}: {error['text']}"
        return Verdict(Status.REJECTED, why, test="memory")
    needs, room, before = candidate.get("needs"), candidate.get("room"), baseline.get("needs")
    if needs is None or room is None or before is None or needs <= max(_LIKE * before, _LEAST):
        return None
    share = job["gate"]["memory_share"]
    if needs <= share * room["size"]:
        return None
    least = f"{size(before)} in the baseline, and {share:.0%} of {size(room['size'])} of {room['what']} may be used"
    return Verdict(Status.REJECTED, f"memory: a call needs {size(needs)}, against {least}", test="memory")


def size(count: float) -> str:
    """`1.5 GiB`."""
    number = 0
    while abs(count) >= 1024 and number < len(_UNITS) - 1:
        count, number = count / 1024, number + 1
    return f"{count:.3g} {_UNITS[number]}" if abs(count) < 100 else f"{count:.0f} {_UNITS[number]}"
