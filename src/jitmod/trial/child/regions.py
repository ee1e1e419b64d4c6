"""One run of one version of a changed function, and how two such runs differ."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from . import compare, text
from .capture import Router, muted
from .snapshot import Entry, snapshot

Given = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Run:
    """The result and the arguments afterwards, the text it showed, the type of the exception it raised.

    `unbound` is the name that a NameError misses.
    """

    output: list[Entry] = field(default_factory=list)
    arguments: list[Entry] = field(default_factory=list)
    lines: list[tuple[str, str]] = field(default_factory=list)
    error: str | None = None
    unbound: str | None = None


def run(
    function: Callable[..., Any], given: Given, routers: tuple[Router, Router]
) -> tuple[Run, Any, Exception | None]:
    """Call `function`, keep what it shows to ourselves, and write down what came of it."""
    result, raised = None, None
    with muted(routers) as seen:
        try:
            result = function(*given[0], **given[1])
            jax.effects_barrier()  # type: ignore[no-untyped-call]
        except Exception as error:
            raised = error
    kind = None if raised is None else f"{type(raised).__module__}.{type(raised).__qualname__}"
    unbound = raised.name if type(raised) is NameError else None
    return Run(snapshot(result), snapshot(given, "arguments"), seen.lines, kind, unbound), result, raised


def difference(
    first: Run, again: Run, got: Run, factor: float, slack: compare.Slack | None = None
) -> compare.Comparison:
    """How `got` differs from `first`; `again` is a second run of what gave `first`. Text is the part `text`."""
    if first.error != got.error:
        said = [f"raises {e}" if e else "no exception" for e in (first.error, got.error)]
        failure = {"test": "exception", "expected": said[0], "got": said[1]}
        return compare.Comparison(failure, math.inf, errors={"exception": math.inf})
    output = compare.compare(first.output, got.output, factor, slack=slack)
    arguments = compare.compare(first.arguments, got.arguments, factor, slack=slack)
    errors = {**output.errors, **arguments.errors}
    bound = (slack or {}).get("text", factor)
    said_otherwise = text.compare(first.lines, again.lines, got.lines, factor if math.isinf(bound) else bound)
    if said_otherwise is not None:
        errors["text"] = math.inf
    changed = arguments.failure and {**arguments.failure, "test": "effects"}
    failures = [output.failure, changed, said_otherwise if math.isfinite(bound) else None]
    return compare.Comparison(next((f for f in failures if f), None), max(errors.values(), default=0.0), errors=errors)


@dataclass(frozen=True)
class Generators:
    """The state of the host's random generators: every version draws the same."""

    python: Any
    numpy: Any

    @classmethod
    def now(cls) -> Generators:
        return cls(random.getstate(), np.random.get_state())

    def restore(self) -> None:
        random.setstate(self.python)
        np.random.set_state(self.numpy)
