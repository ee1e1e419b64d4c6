"""Whether the arms of a trial need a process each, as far as a child that held both can tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jitmod.trial.child.memory import is_memory

_ALONE = ("starting", "baseline: loading", "baseline: first calls")  # stages in which there is one arm only
_FIT = "two versions do not fit beside each other"


def reason(found: Mapping[str, Any]) -> str | None:
    """Why the trial has to go on with a process for each arm; None where it need not, or has them already."""
    if found.get("arms", {}).get("processes") == 2:
        return None
    if "apart" in found:
        return str(found["apart"])
    failure = found.get("failure")
    if failure is not None and "SIGKILL" in failure["how"] and not failure["stage"].startswith(_ALONE):
        return f"{_FIT}: the child {failure['how']}"
    error = found.get("error")
    if error is not None and is_memory(error):
        return f"{_FIT}: {error['type']}: {error['text']}"
    return None
