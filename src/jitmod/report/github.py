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
        line, column = (1, 1) if error.cell else (error.line, error.column)  # those of a cell are none of the file
        place = {"file": error.path, "line": str(line), "col": str(column), "title": "jitmod"}
        message = f"cell {error.cell}, line {error.line}: {error.message}" if error.cell else error.message
        yield _command("notice" if error.is_foreign else "error", place, message)
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
    first, last = site.line, site.end_line
    if site.seen is not None:
        first = last = site.seen.file_line
    return {
        "file": site.path,
        "line": str(first),
        "endLine": str(last),
        "col": str(site.column if site.seen is None else 1),
        "title": f"jitmod {title}",
    }


def _command(kind: str, properties: dict[str, str], message: str) -> str:
    pairs = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{kind} {pairs}::{_data(one_line(message))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
