"""End-to-end parity: what the baseline's calls gave, and whether a candidate's calls gave the same."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import compare, contents, module_state, outside, sharing, surroundings, text
from .program import Observation


@dataclass(frozen=True)
class Judged:
    """The failure of one call, or None; the errors of its parts in units of their bounds; the output's comparison.

    `unseen` are the paths of what nothing could look into. An argument may do something else in each version: what
    its code is does not count, only what it carries.
    """

    failure: dict[str, Any] | None
    errors: Mapping[str, float]
    output: compare.Comparison
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reference:
    """The baseline's calls, twice each, and by how much the bounds widen because they differ."""

    first: tuple[Observation, ...]
    again: tuple[Observation, ...]
    factor: float
    metric_tolerance: float | None
    judges_values: bool = True

    @property
    def reps(self) -> tuple[int, ...]:
        """What the workload was called with, where it takes `rep`."""
        return tuple(call.rep for call in self.first)

    def judge(self, number: int, got: Observation, slack: compare.Slack | None = None) -> Judged:
        """How a call differs from the baseline's call of the same number. `slack` widens the bounds of some parts."""
        expected, again = self.first[number], self.again[number]
        bounds = self.factor, self.judges_values, slack
        earlier = compare.stable(expected.earlier, again.earlier, got.earlier, *bounds)
        by_metric = expected.metric is not None
        values = self.judges_values and not by_metric
        output = compare.compare(expected.output, got.output, self.factor, values, slack)
        arguments = compare.stable(expected.arguments, again.arguments, got.arguments, *bounds)
        failures = [output.failure, *({**c.failure, "test": "effects"} for c in (arguments, earlier) if c.failure)]
        if by_metric and got.metric is not None:
            failures.insert(1, _metric_failure(expected, got, self.metric_tolerance or 1e-4))
        errors = {**output.errors, **arguments.errors, **earlier.errors}
        for found in (
            module_state.difference(expected.globals, again.globals, got.globals, expected.known, self.factor, slack),
            _process_failure(expected, again, got),
            _lines_failure("text", (expected.lines, again.lines, got.lines), self.factor, slack),
            _files_failure(expected, again, got, self.factor, slack),
        ):
            failures.append(found[0])
            errors |= found[1]
        failures.append(sharing.difference(expected.shared, again.shared, got.shared))
        failure = next((f for f in failures if f), None)
        unseen = {*output.opaque, *(path for path in arguments.opaque if not path.endswith(".code"))}
        return Judged(failure and {**failure, "call": number + 1}, errors, output, tuple(sorted(unseen)))


def slack(factor: float, rounding: Mapping[str, float]) -> dict[str, float]:
    """The bounds that the errors which rounding makes allow; none where they are beyond all bounds."""
    return {name: compare.widened(name, factor, size) for name, size in rounding.items()}


def new_warning(expected: Sequence[Observation], got: Sequence[Observation]) -> dict[str, Any] | None:
    """Warnings of libraries come once a trace in one arm and once a step in the other: only new kinds count."""
    known = set(itertools.chain.from_iterable(o.library_warnings for o in expected))
    new = sorted(set(itertools.chain.from_iterable(o.library_warnings for o in got)) - known)
    for category, said in new:
        return {"test": "effects", "expected": "no such warning", "got": f"{category}: {said}"[:300]}
    return None


def _metric_failure(expected: Observation, got: Observation, tolerance: float) -> dict[str, Any] | None:
    a, b = expected.metric, got.metric
    assert a is not None and b is not None
    if a == b or (math.isnan(a) and math.isnan(b)) or (math.isfinite(a) and abs(a - b) <= tolerance * abs(a)):
        return None
    return {"test": "values", "path": "metric", "expected": str(a), "got": str(b), "tolerance": tolerance}


_SINGLE = 1e-2  # bounds, some units of rounding in single precision: a double may rest on a result of that
Found = tuple[dict[str, Any] | None, dict[str, float]]


def _lines_failure(
    name: str, lines: tuple[text.Lines, text.Lines, text.Lines], factor: float, slack: compare.Slack | None
) -> Found:
    """Text as one part: it has no error between none and any. But every double in it is a part of its own.

    Those that rest on results of single precision are no better than they are: a few units of its rounding are no
    difference, and what rounding makes of them in the baseline explains others.
    """
    bound = (slack or {}).get(name, factor)
    failure = text.compare(*lines, factor if math.isinf(bound) else bound)
    errors = {name: math.inf} if failure else {}
    for (line, position), size in text.errors_in_double(*lines).items():
        part = f"{name} {line + 1}.{position + 1}"
        errors[part + compare.DOUBLE] = size
        if failure is None and size > max(_SINGLE, compare.double_bound(part, factor, slack or {})):
            failure = {**text.difference(line, lines[0][line], lines[2][line]), "in_double": True}
    return (failure if math.isfinite(bound) else None), errors


def _process_failure(expected: Observation, again: Observation, got: Observation) -> Found:
    """What both runs of the baseline leave changed in the process, or both leave alone, counts.

    What comes with a library stays with the process: it is there once, whoever imports that first.
    """
    one, two, three = expected.process, again.process, got.process
    for name in sorted(one.keys() | three.keys()):
        imported = got.imports if name.endswith(surroundings.LOADING) else got.loads
        excused = imported and name not in one and name.startswith(surroundings.OF_IMPORTS)
        if one.get(name) == two.get(name) != three.get(name) and not excused:
            same = "none" if name == outside.NAME else "as it was before"
            said = [found.get(name, same) for found in (one, three)]
            failure = {"test": "effects", "path": name, "expected": said[0][:200], "got": said[1][:200]}
            return failure, {name: math.inf}
    return None, {}


def _files_failure(
    expected: Observation, again: Observation, got: Observation, factor: float, slack: compare.Slack | None
) -> Found:
    """Files that both runs of the baseline wrote count; names that vary from run to run do not."""
    stable = sorted(expected.files.keys() & again.files.keys())
    varying = expected.files.keys() ^ again.files.keys()
    errors: dict[str, float] = {}
    for name in stable:
        if name not in got.files:
            missing = {"test": "effects", "path": f"file {name}", "expected": "written", "got": "not written"}
            return missing, {f"file {name}": math.inf}
        if isinstance(expected.files[name], contents.Binary) and expected.files[name] != again.files[name]:
            continue
        before, twin, after = (contents.entries(o.files, name) for o in (expected, again, got))
        arrays = compare.stable(before, twin, after, factor, slack=slack)
        errors |= arrays.errors
        if arrays.failure is not None:
            return {**arrays.failure, "test": "effects"}, errors
        one, two, three = (contents.lines(o.files, name) for o in (expected, again, got))
        failure, more = _lines_failure(f"file {name}", (one, two, three), factor, slack)
        errors |= more
        if failure is not None:
            return {**failure, "path": f"file {name}"}, errors
    new = sorted(got.files.keys() - expected.files.keys() - again.files.keys())
    if new and not varying:
        return {"test": "effects", "path": f"file {new[0]}", "expected": "not written", "got": "written"}, errors
    return None, errors
