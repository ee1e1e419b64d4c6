"""What compiled functions will need, asked of the compiler before they run; the calls use what it has compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from . import wrap


class TooLarge(Exception):
    """The compiler says that a call needs more memory than there is for it."""


class Predictions:
    """Watches calls of compiled functions, until `stop`; one that needs more than `limit` bytes does not run.

    `largest` is the most bytes that one of them needs beside its arguments: for temporary values and results.
    """

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.largest: int | None = None
        self._watches = True

    @property
    def is_exceeded(self) -> bool:
        return self.limit is not None and self.largest is not None and self.largest > self.limit

    def stop(self) -> None:
        self._watches = False

    def injected(self) -> dict[str, Any]:
        return wrap.injected(functools.partial(_predicted, self))

    def ask(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raises `TooLarge`. What is no compiled function, or cannot be compiled ahead of its call, has no say."""
        lower = getattr(function, "lower", None)
        if not self._watches or lower is None or wrap.is_tracing():
            return
        try:
            compiled = lower(*args, **kwargs).compile()
            found = getattr(compiled, "compiled", compiled).memory_analysis()  # equinox has jax's inside of its own
            needs = found.temp_size_in_bytes + found.output_size_in_bytes - found.alias_size_in_bytes
        except Exception:
            return  # the call will say what is wrong with it
        self.largest = max(self.largest or 0, needs)
        if self.is_exceeded:
            raise TooLarge(f"a call needs {needs} bytes, and there are {self.limit} for it")


def _predicted(
    predictions: Predictions, mark: str, module: dict[str, Any], function: Callable[..., Any], args: Any,
    kwargs: dict[str, Any],
) -> Any:  # fmt: skip
    predictions.ask(function, args, kwargs)
    return function(*args, **kwargs)


wrap.unseen(_predicted)
