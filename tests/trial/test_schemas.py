"""The published schemas describe what trials really write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from jitmod.report.evidence import render
from jitmod.source.config import Workload
from jitmod.trial.trial import Trial

from .conftest import NET, Try

SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"


def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


CANDIDATES = {
    "wrong": NET.replace("jnp.stack(out)", "jnp.stack(out, axis=1)"),
    "crashing": "raise RuntimeError('planted')\n" + NET,
}


@pytest.mark.parametrize("name", CANDIDATES)
def test_documents_of_a_trial_are_valid(name: str, try_text: Try) -> None:
    assert_valid(try_text(CANDIDATES[name]))


def assert_valid(trial: Trial) -> None:
    validator("job").validate(trial.job)
    document: dict[str, Any] = json.loads(render(trial.verdict, trial.evidence, "1.0"))
    validator("evidence").validate(document)
    assert next(iter(document)) == "schema_version"
    assert document["verdict"] == str(trial.verdict.status) and document["why"]


@pytest.mark.parametrize(
    ("schema", "change"),
    [("job", {"schema_version": 2}), ("job", {"candidates": []}), ("evidence", {"verdict": "fine"})],
)
def test_schemas_turn_other_documents_away(schema: str, change: dict[str, Any], try_text: Try) -> None:
    trial = try_text("", Workload("absent", "absent.py:run"))
    documents = {"job": dict(trial.job), "evidence": json.loads(render(trial.verdict, trial.evidence, "1.0"))}
    with pytest.raises(jsonschema.ValidationError):
        validator(schema).validate(documents[schema] | change)
