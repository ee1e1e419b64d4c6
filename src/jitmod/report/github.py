"""Annotations of GitHub Actions: one workflow command a line, everything from code escaped."""

from __future__ import annotations

from collections.abc import Iterator

from jitmod.delivery.figures import describe, one_line
from jitmod.model import Patch, Site, Status
from jitmod.report.run import Run


def render(run: Run) -> str:
    return "".join(f"{line}\n" for line in _lines(run))


def _lines(run: Run) -> Iterator[str]:
    for error in run.errors:
        place = {"file": error.path, "line": str(error.line), "col": str(error.column), "title": "jitmod"}
        yield _command("error", place, error.message)
    for entry in run.entries:
        finding, verdict = entry.outcome.finding, entry.outcome.verdict
        if isinstance(finding, Patch):
            accepted = verdict is not None and verdict.status is Status.ACCEPTED
            ending = f" ({describe(verdict)})" if verdict is not None else ""
            properties = _place(finding.site, finding.codemod)
            yield _command("notice" if accepted else "warning", properties, finding.message + ending)
        else:
            yield _command("notice", _place(finding.site, f"{finding.codemod} {finding.reason}"), finding.message)


def _place(site: Site, title: str) -> dict[str, str]:
    return {
        "file": site.path,
        "line": str(site.line),
        "endLine": str(site.end_line),
        "col": str(site.column),
        "title": f"jitmod {title}",
    }


def _command(kind: str, properties: dict[str, str], message: str) -> str:
    pairs = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{kind} {pairs}::{_data(one_line(message))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
