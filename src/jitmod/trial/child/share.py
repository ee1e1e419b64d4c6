"""Wall share: how much of a call the changed code takes."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import jax

from . import wrap
from .snapshot import arrays


class Clock:
    """Seconds inside the outermost of the wrapped functions. In a trace nothing is computed, so time says nothing."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._traced = False
        self._ran = False
        self._inside = False

    def injected(self) -> dict[str, Any]:
        return wrap.injected(functools.partial(_timed, self))

    def reset(self) -> None:
        self._seconds, self._ran = 0.0, False

    def share(self, seconds: float) -> float | None:
        """The part of the `seconds` since `reset`; None where it cannot be told."""
        return self._seconds / seconds if self._ran and not self._traced and seconds > 0 else None

    def start(self) -> float | None:
        """The time, where this is the outermost function and something is computed."""
        if self._inside:
            return None
        if wrap.is_tracing():
            self._traced = True
            return None
        self._inside = self._ran = True
        return time.perf_counter()

    def stop(self, start: float) -> None:
        self._seconds += time.perf_counter() - start
        self._inside = False


def _timed(
    clock: Clock, mark: str, module: dict[str, Any], function: Callable[..., Any], args: Any, kwargs: dict[str, Any]
) -> Any:
    start = clock.start()
    if start is None:
        return function(*args, **kwargs)
    try:
        result = function(*args, **kwargs)
        jax.block_until_ready(arrays(result))  # type: ignore[no-untyped-call]
        return result
    finally:
        clock.stop(start)


wrap.unseen(_timed)
