"""SARIF 2.1.0, for code scanning."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from jitmod.delivery.figures import describe, one_line
from jitmod.model import Patch, SourceError, Status
from jitmod.report.fixes import replacements
from jitmod.report.json import SCHEMA_VERSION
from jitmod.report.run import Run

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_UNREADABLE = "unparsable"


def render(run: Run) -> str:
    return json.dumps(document(run), indent=2) + "\n"


def document(run: Run) -> dict[str, Any]:
    """The report as plain data: patches are warnings, refusals and committed patches notes, bad files errors."""
    results = [_error(error) for error in run.errors]
    for entry in run.entries:
        finding, verdict = entry.outcome.finding, entry.outcome.verdict
        message, level, rule = finding.message, "note", finding.codemod
        if isinstance(finding, Patch):
            accepted = verdict is not None and verdict.status is Status.ACCEPTED
            level = "note" if accepted else "warning"
            message += f" ({describe(verdict)})" if verdict is not None else ""
        else:
            rule = f"{finding.codemod}/{finding.reason}"
        site = finding.site
        region = {"startLine": site.line, "startColumn": site.column, "endLine": site.end_line}
        if site.seen is not None:
            region = {"startLine": site.seen.file_line}
            message = f"cell {site.seen.cell}, line {site.seen.line}: {message}"
        result = _result(rule, level, message, site.path, region)
        changed = replacements(entry.outcome.diff) if site.seen is None and entry.outcome.diff else None
        if changed:
            artifact = {"artifactLocation": {"uri": _uri(site.path)}, "replacements": changed}
            result["fixes"] = [{"description": {"text": one_line(finding.message)}, "artifactChanges": [artifact]}]
        results.append(result | {"partialFingerprints": {f"jitmod/v{SCHEMA_VERSION}": entry.id}})
    rules = sorted({result["ruleId"] for result in results})
    driver = {
        "name": "jitmod",
        "version": run.version,
        "rules": [{"id": rule, "shortDescription": {"text": rule}} for rule in rules],
    }
    # Columns count characters, not UTF-16 units.
    one = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [one]}


def _error(error: SourceError) -> dict[str, Any]:
    region, message = {"startLine": error.line, "startColumn": max(error.column, 1)}, error.message
    if error.cell:
        region, message = {"startLine": 1}, f"cell {error.cell}, line {error.line}: {message}"
    return _result(_UNREADABLE, "note" if error.is_foreign else "error", message, error.path, region)


def _result(rule: str, level: str, message: str, path: str, region: dict[str, int]) -> dict[str, Any]:
    place = {"physicalLocation": {"artifactLocation": {"uri": _uri(path)}, "region": region}}
    return {"ruleId": rule, "level": level, "message": {"text": one_line(message)}, "locations": [place]}


def _uri(path: str) -> str:
    return quote(path.encode("utf-8", "surrogateescape"))
