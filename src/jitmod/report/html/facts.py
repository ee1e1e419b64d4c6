"""What a trial found out about equality, as rows of a table: what was compared, how close it is, what is noticed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jitmod.delivery.figures import one_line
from jitmod.report.html.judged import is_number

_NOTICED = {"seen": "noticed", "unseen": "not noticed", "raised": "raises"}
_NAMED = 3


@dataclass(frozen=True)
class Fact:
    """A row. `is_good` is None where it is neither good nor bad."""

    what: str
    found: str
    is_good: bool | None = None


def facts(parity: Mapping[str, Any]) -> Iterator[Fact]:
    """The rows. `parity` is that of a verdict."""
    failure = parity.get("failure")
    if isinstance(failure, Mapping):
        yield from _failure(failure)
    elif is_number(parity.get("calls")):
        yield Fact("whole calls", f"{parity['calls']:g} agree", True)
    yield from _closeness("largest difference", parity)
    site = parity.get("site")
    if isinstance(site, Mapping):
        yield from _site(site)
    sabotage = parity.get("sabotage")
    if isinstance(sabotage, Mapping):
        for how, became in sabotage.items():
            noticed = _NOTICED.get(str(became), one_line(str(became)))
            yield Fact(f"spoiled results, {one_line(str(how))}", noticed, became == "seen" or None)
    if parity.get("calibrated") is True:
        yield Fact("bounds", "widened: rounding alone moves the results")
    if parity.get("reference") == "float64":
        yield Fact("reference", "double precision")
    yield from _paths("weak types that differ", parity.get("weak_types"), None)
    yield from _paths("not compared", parity.get("not_compared"), False)


def _failure(failure: Mapping[str, Any]) -> Iterator[Fact]:
    text = {name: one_line(str(value)) for name, value in failure.items()}
    place = [text.get("path", ""), f"line {text['line']}" if "line" in text else ""]
    place += [f"of {text['function']}" if "function" in text else "", text.get("how", "")]
    yield Fact("differs in", " ".join([text.get("test", ""), *(part for part in place if part)]), False)
    if "dtype" in text and "shape" in text:
        yield Fact("of type", f"{text['dtype']}{text['shape']}" + (f" at {text['index']}" if "index" in text else ""))
    for name in ("expected", "got", "type", "text", "at"):
        if name in text:
            yield Fact(name, text[name])


def _site(site: Mapping[str, Any]) -> Iterator[Fact]:
    compared, executions = site.get("compared"), site.get("executions")
    if is_number(compared) and is_number(executions) and executions:
        agrees = compared > 0 and not isinstance(site.get("failure"), Mapping)
        yield Fact("changed code alone", f"{compared:g} of {executions:g} executions compared", agrees or None)
        yield from _closeness("largest difference there", site)
    trips = site.get("trip_counts")
    if isinstance(trips, list) and trips:
        yield Fact("lengths tried", ", ".join(f"{count:g}" for count in trips if is_number(count)))
    skipped = site.get("skipped")
    if isinstance(skipped, Mapping):
        for why, count in list(skipped.items())[:_NAMED]:
            yield Fact("not run alone", f"{count} times: {one_line(str(why))}")


def _closeness(label: str, of: Mapping[str, Any]) -> Iterator[Fact]:
    error = of.get("error_in_bounds")
    if is_number(error):
        yield Fact(label, "none" if error == 0 else f"{error:.2g} of what is allowed", error <= 1)


def _paths(label: str, paths: Any, is_good: bool | None) -> Iterator[Fact]:
    if isinstance(paths, list) and paths:
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        yield Fact(label, ", ".join(one_line(str(path)) for path in paths[:_NAMED]) + more, is_good)
