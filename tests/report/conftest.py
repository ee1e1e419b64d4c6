"""A run with one of everything; its JSON with samples; and the same whose every text is hostile."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from run_documents import DIFF, HOSTILE, MEASURED, PARITY

from jitmod.delivery.queue import Entry
from jitmod.model import Assumption, Edit, Knob, Outcome, Patch, Refusal, Site, SourceError, Status, Variant, Verdict
from jitmod.report.json import document
from jitmod.report.run import Run


def patch(line: int, path: str = "src/a, b.py", message: str = "batch the loop") -> Patch:
    variant = Variant("vmap", (Edit(0, 0, "x"),), (Knob("batch_size", 16, (1, 4, 16)),))
    return Patch(
        "vmapify",
        Site(path, line, 5, line + 3, "score"),
        message,
        (variant,),
        (Assumption("g", "equal items"),),
        compared=("tests/test_x.py:4",),
    )


@pytest.fixture
def run() -> Run:
    accepted = Verdict(
        Status.ACCEPTED,
        "8x",
        device="cpu",
        speedup=8.1234,
        speedup_ci=(7.6, 8.8),
        knobs={"batch_size": 16},
        cold={"baseline": 0.5, "candidate": 0.25},
        memory={"peak": float("nan")},
        compiles={"baseline": {"cold": 3}, "candidate": {"cold": 1}},
        parity={"pair": (1, 2)},
        evidence_digest="d" * 64,
    )
    hostile = "100% no\r\n::error::forged \x1b[31mred\x1b[0m [bold]not markup[/bold]"
    outcomes = [
        Outcome(patch(3), "--- a/x\n+++ b/x\n+caf\udce9\n", accepted, "a" * 40),
        Outcome(patch(9, message=hostile), "diff", Verdict(Status.REJECTED, hostile, test="values", speedup_ci=None)),
        Outcome(patch(15), "diff"),
        Outcome(Refusal("vmapify", Site("src/c.py", 2, 1, 4), "carried-state", "x depends on the item before: line 3")),
    ]
    entries = tuple(Entry(f"{number:016x}", outcome) for number, outcome in enumerate(outcomes))
    errors = (SourceError("src/bad.py", 3, 7, "cannot be parsed: invalid syntax"),)
    return Run("0.1.0", entries, errors, branch="jitmod/vmapify", base_commit="b" * 40, dirty=True, tried=True)


@pytest.fixture
def report(run: Run) -> dict[str, Any]:
    """The JSON of the run of tests/report, with samples."""
    made: dict[str, Any] = json.loads(json.dumps(document(run)))
    first = made["findings"][0]
    first["diff"] = DIFF
    first["trial"] |= copy.deepcopy({"measured": MEASURED, "parity": PARITY, "knobs": {"batch_size": 16}})
    first["trial"]["memory"] = {"baseline": 3 << 20, "candidate": 9 << 20, "limit": 64 << 20, "what": "free memory"}
    made["whole"] = [{"workload": "bench/x.py:run", "trial": copy.deepcopy(first["trial"])}]
    return made


@pytest.fixture
def hostile(report: dict[str, Any]) -> dict[str, Any]:
    """The same with hostile text in the place of every text that the schema leaves open."""
    closed = {"id", "status", "applicability", "verdict", "commit", "schema_version"}

    def spoiled(value: Any, key: str = "") -> Any:
        match value:
            case dict():
                return {name: spoiled(item, name) for name, item in value.items()}
            case list():
                return [spoiled(item, key) for item in value]
            case "" if key == "diff":
                return value
            case str() if key == "diff":
                return value.replace("append", HOSTILE.replace("\n", " ")) + " " + HOSTILE
            case str() if key not in closed:
                return value + HOSTILE
            case _:
                return value

    made: dict[str, Any] = spoiled(report)
    for finding in made["findings"]:
        if finding["trial"] is not None:
            finding["trial"]["parity"]["failure"] = {"test": HOSTILE, "path": HOSTILE, "expected": HOSTILE, "got": "x"}
            finding["trial"]["knobs"] = {HOSTILE: 3}
            finding["trial"]["cold"] = {"baseline": HOSTILE, "candidate": 1}
            finding["trial"]["compiles"] = {"baseline": HOSTILE, HOSTILE: []}
    return made
