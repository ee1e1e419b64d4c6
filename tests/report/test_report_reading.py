"""A file that is no run of jitmod is told from one that is, and the message says what is wrong and where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from jitmod.report.html.reading import BadRun, read, schema


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_run_comes_back(tmp_path: Path, report: dict[str, Any]) -> None:
    assert read(written(tmp_path / "run.json", json.dumps(report))) == report
    assert read(written(tmp_path / "run.json", b"\xef\xbb\xbf" + json.dumps(report).encode())) == report


def test_runs_of_before_samples_went_in_are_read(tmp_path: Path, report: dict[str, Any]) -> None:
    for finding in report["findings"]:
        (finding["trial"] or {}).pop("measured", None)
    assert read(written(tmp_path / "run.json", json.dumps(report))) == report


def test_the_installed_schema_is_the_published_one() -> None:
    published = Path(__file__).parents[2] / "docs" / "schema" / "findings.json"
    assert schema() == json.loads(published.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", "is empty", id="empty"),
        pytest.param("{", "run.json:1:2: is not JSON", id="cut off"),
        pytest.param('{"schema_version": NaN}', "NaN is no number", id="NaN"),
        pytest.param('{"schema_version": 1e999}', "1e999 is too large", id="infinite"),
        pytest.param('{"schema_version": ' + "9" * 30 + "}", "is too large", id="a number that no float holds"),
        pytest.param("[" * 100_000, "is not JSON that jitmod writes", id="deep"),
        pytest.param("[]", "is no run of jitmod: the whole: [] is not of type 'object'", id="a list"),
        pytest.param('{"schema_version": 2}', "has schema_version 2", id="a later version"),
        pytest.param('{"verdict": "accepted", "evidence": {}}', "holds the evidence of one trial", id="evidence"),
        pytest.param(b'{"x": "\xe9"}', "it is not in UTF-8", id="latin-1"),
    ],
)
def test_what_is_no_run(tmp_path: Path, text: str | bytes, said: str) -> None:
    with pytest.raises(BadRun) as caught:
        read(written(tmp_path / "run.json", text))
    assert str(caught.value).startswith(str(tmp_path / "run.json")) and said in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadRun, match=r"run\.json: cannot be read: No such file"):
        read(tmp_path / "run.json")


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (["findings", 0, "trial", "speedup"], "8x", r"findings\[0\]\.trial"),
        (["findings", 1, "applicability"], "done", r"findings\[1\]\.applicability: 'done' is not one of"),
        (["summary", "patches"], -1, r"summary\.patches: -1 is less than"),
        (["findings", 0, "trial", "measured", "warm", "baseline"], [["fast"]], r"findings\[0\]\.trial"),
        (["findings", 0, "message"], ["x" * 1000], r"findings\[0\]\.message: .{0,220}$"),
    ],
)
def test_the_place_is_named(tmp_path: Path, report: dict[str, Any], place: list[Any], value: Any, said: str) -> None:
    inner: Any = report
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(BadRun, match=said):
        read(written(tmp_path / "run.json", json.dumps(report)))


def test_hostile_runs_keep_to_the_schema(hostile: dict[str, Any]) -> None:
    for finding in hostile["findings"]:  # the schema allows numbers alone
        if finding["trial"] is not None:
            assert set(finding["trial"]["knobs"].values()) == {3}
    jsonschema.Draft202012Validator(schema()).validate(hostile)
