"""Counting and timing compilations, through jax's monitoring events."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import jax

_EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "trace",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
    "/jax/core/compile/backend_compile_duration": "compile",
}


class CompileLog:
    """Seconds of tracing, lowering and compiling since `reset`, and the number of compilations by function name."""

    def __init__(self) -> None:
        self.reset()
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def reset(self) -> None:
        self.seconds = dict.fromkeys(_EVENTS.values(), 0.0)
        self.compiled: Counter[str] = Counter()

    @property
    def count(self) -> int:
        return sum(self.compiled.values())

    def _listen(self, event: str, duration_secs: float, **details: Any) -> None:
        phase = _EVENTS.get(event)
        if phase is not None:
            self.seconds[phase] += duration_secs
        if phase == "compile":
            self.compiled[str(details.get("fun_name", "?"))] += 1


@functools.cache
def compile_log() -> CompileLog:
    """The one of this process: jax keeps every listener for good."""
    return CompileLog()
