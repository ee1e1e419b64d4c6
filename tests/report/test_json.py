"""The JSON report keeps to its published schema."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from jitmod.analysis.reasons import REASONS
from jitmod.delivery.queue import Entry
from jitmod.delivery.whole import Whole
from jitmod.model import ADVICE, Applicability, Outcome, Refusal, Site, Status, Verdict
from jitmod.report import text
from jitmod.report.json import SCHEMA_VERSION, render
from jitmod.report.run import Run

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "schema" / "findings.json").read_text())


def strict(text: str) -> Any:
    """JSON as every reader takes it: no NaN."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def validate(report: Any) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(report)


def test_report_is_valid(run: Run) -> None:
    validate(strict(render(run)))


def test_empty_report_is_valid() -> None:
    report = strict(render(Run("0.1.0", ())))
    validate(report)
    assert report["findings"] == [] and report["errors"] == [] and report["summary"]["patches"] == 0


def test_keys_come_in_the_order_of_the_contract(run: Run) -> None:
    report = strict(render(run))
    assert list(report) == ["schema_version", "jitmod", "findings", "errors", "summary", "whole"]
    assert report["schema_version"] == SCHEMA_VERSION == SCHEMA["properties"]["schema_version"]["const"]


def test_a_patch(run: Run) -> None:
    finding = strict(render(run))["findings"][0]
    trial = finding.pop("trial")
    assert finding == {
        "id": "0" * 16,
        "codemod": "vmapify",
        "path": "src/a, b.py",
        "cell": None,
        "line": 3,
        "column": 5,
        "end_line": 6,
        "symbol": "score",
        "status": "patch",
        "applicability": "trial",
        "reason": None,
        "message": "batch the loop",
        "assumptions": ["equal items"],
        "compared": ["tests/test_x.py:4"],
        "knobs": {"batch_size": [1, 4, 16]},
        "diff": "--- a/x\n+++ b/x\n+caf\N{REPLACEMENT CHARACTER}\n",
    }
    assert trial["verdict"] == "accepted" and trial["speedup_ci"] == [7.6, 8.8] and trial["commit"] == "a" * 40
    assert trial["memory"] == {"peak": None} and trial["parity"] == {"pair": [1, 2]}


def test_text_of_a_child_process_holds_no_escapes(run: Run) -> None:
    assert strict(render(run))["findings"][1]["trial"]["why"].isprintable()


def test_a_refusal_and_an_untried_patch_have_no_trial(run: Run) -> None:
    untried, refused = strict(render(run))["findings"][2:]
    assert untried["status"] == "patch" and untried["trial"] is None
    assert (refused["status"], refused["reason"], refused["trial"]) == ("refused", "carried-state", None)


def test_advice_is_told_from_refusals(run: Run) -> None:
    found = Refusal("honest-timing", Site("src/c.py", 2, 1, 4), "unblocked-timing", "nothing waits (line 2)")
    advised = replace(run, entries=(*run.entries, Entry("e" * 16, Outcome(found))))
    assert strict(render(advised))["findings"][-1]["status"] == "advice"
    assert [advised.summary()[key] for key in ("refused", "advice")] == [1, 1]
    assert text.closing_line(advised).endswith("; 1 left alone, 1 piece of advice")
    assert REASONS.keys() >= ADVICE


def test_summary_counts(run: Run) -> None:
    summary = strict(render(run))["summary"]
    assert summary == {
        "patches": 3,
        "refused": 1,
        "advice": 0,
        "errors": 1,
        "accepted": 1,
        "rejected": 1,
        "unproven": 0,
        "inconclusive": 0,
        "crashed": 0,
        "commits": 1,
        "branch": "jitmod/vmapify",
        "bundle": None,
        "base_commit": "b" * 40,
        "dirty": True,
        "device": "cpu",
    }


def test_schema_knows_every_verdict_and_applicability() -> None:
    finding = SCHEMA["$defs"]["finding"]["properties"]
    assert set(SCHEMA["$defs"]["trial"]["properties"]["verdict"]["enum"]) == {str(status) for status in Status}
    assert set(finding["applicability"]["enum"]) == {str(one) for one in Applicability}
    assert "carried-state" in REASONS


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["schema_version"], 2),
        (["findings", 0, "status"], "done"),
        (["findings", 3, "reason"], None),
        (["findings", 0, "trial", "speedup"], "8x"),
        (["findings", 0, "id"], "X"),
        (["extra"], 1),
    ],
)
def test_schema_refuses_what_is_wrong(run: Run, path: list[Any], value: Any) -> None:
    report = strict(render(run))
    inner = report
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        validate(report)


def test_a_branch_as_a_whole(run: Run) -> None:
    verdict = Verdict(Status.ACCEPTED, "faster", speedup=3.0, speedup_ci=(2.0, 4.0),
                      cold={"baseline": 2.0, "candidate": 3.0, "breakeven_calls": 12.2})  # fmt: skip
    whole = replace(run, branch="jitmod/all", whole=(Whole("bench/work.py:run", verdict),))
    report = strict(render(whole))
    validate(report)
    assert [(one["workload"], one["trial"]["verdict"], one["trial"]["commit"]) for one in report["whole"]] == [
        ("bench/work.py:run", "accepted", None)
    ]
    assert list(text.whole_lines(whole)) == [
        "jitmod/all as a whole, bench/work.py:run: accepted 3x (2 to 4); cold 2 s -> 3 s; paid back after 12 calls"
    ]
