"""The JSON report. Its schema is published in docs/schema/findings.json; `schema_version` changes with it."""

from __future__ import annotations

import json
from typing import Any

from jitmod.delivery.judged import judged
from jitmod.delivery.queue import Entry
from jitmod.model import Outcome, Patch, SourceError, Verdict
from jitmod.report.run import Run
from jitmod.trial.job import plain

SCHEMA_VERSION = 1


def render(run: Run) -> str:
    return json.dumps(document(run), indent=2, allow_nan=False) + "\n"


def document(run: Run) -> dict[str, Any]:
    """The report as plain data."""
    return {
        "schema_version": SCHEMA_VERSION,
        "jitmod": run.version,
        "findings": [_finding(entry) for entry in run.entries],
        "errors": [_error(error) for error in run.errors],
        "summary": run.summary(),
        "whole": [{"workload": _text(one.workload), "trial": _trial(one.verdict, None)} for one in run.whole],
    }


def _finding(entry: Entry) -> dict[str, Any]:
    finding, outcome = entry.outcome.finding, entry.outcome
    site = finding.site
    fields: dict[str, Any] = {
        "id": entry.id,
        "codemod": finding.codemod,
        "path": _text(site.path),
        "cell": site.seen.cell if site.seen is not None else None,
        "line": site.shown_line,
        "column": site.column,
        "end_line": site.shown_end_line,
        "symbol": site.symbol,
    }
    if isinstance(finding, Patch):
        knobs = {knob.name: list(knob.candidates) for variant in finding.variants for knob in variant.knobs}
        fields |= {
            "status": "patch",
            "applicability": str(finding.applicability),
            "reason": None,
            "message": finding.message,
            "assumptions": [assumption.text for assumption in finding.assumptions],
            "compared": [_text(place) for place in finding.compared],
            "knobs": knobs,
        }
    else:
        fields |= {
            "status": "advice" if finding.is_advice else "refused",
            "applicability": "manual",
            "reason": finding.reason,
            "message": finding.message,
            "assumptions": [],
            "compared": [],
            "knobs": {},
        }
    trial = None if outcome.verdict is None else _trial(outcome.verdict, outcome)
    return {**fields, "diff": _text(outcome.diff), "trial": trial}


def _trial(verdict: Verdict, outcome: Outcome | None) -> dict[str, Any]:
    return {
        **judged(verdict),
        "measured": plain(verdict.measured),
        "evidence": verdict.evidence_digest,
        "commit": outcome.commit if outcome is not None else None,
        "guard": outcome.guard if outcome is not None else None,
        "unguarded": outcome.unguarded if outcome is not None else None,
    }


def _error(error: SourceError) -> dict[str, Any]:
    return {
        "path": _text(error.path),
        "cell": error.cell or None,
        "line": error.line,
        "column": error.column,
        "message": error.message,
        "is_foreign": error.is_foreign,
    }


def _text(text: str) -> str:
    """Bytes of a file that are not UTF-8 cannot be said in JSON: a replacement character stands for each."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
