"""Notebooks on the command line: where a finding is, what is shown, what is committed, what is left alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from toy import TrialLog
from typer.testing import Result

sys.path.insert(0, str(Path(__file__).parents[1] / "source"))

from notebooks import cell, text

Run = Callable[..., Result]
Git = Callable[..., str]

SCHEMA = Path(__file__).parents[2] / "docs" / "schema" / "findings.json"
SLOW = "%time 1\n\ndef first(x):\n    return slow(x)"


@pytest.fixture
def book(checkout: Path, git: Git) -> Path:
    """A committed notebook with one patch in its third cell."""
    file = checkout / "src" / "book.ipynb"
    cells = [cell("# A title", 1, kind="markdown"), cell("from speed import slow", 2), cell(SLOW, 3)]
    file.write_text(text(cells))
    (checkout / "src" / "app.py").write_text("")
    git("add", ".")
    git("commit", "--quiet", "-m", "notebook")
    return file


def test_findings_name_the_cell(run: Run, book: Path) -> None:
    assert "src/book.ipynb:cell 3:4:12 toy hurry the call" in run(book.parent, "check", ".").stdout
    report = json.loads(run(book.parent, "check", "--format", "json", "book.ipynb").stdout)
    jsonschema.validate(report, json.loads(SCHEMA.read_text()))
    (found,) = report["findings"]
    assert (found["path"], found["cell"], found["line"], found["end_line"]) == ("src/book.ipynb", 3, 4, 4)
    line = next(n for n, one in enumerate(book.read_text().splitlines(), 1) if "return slow" in one)
    annotations = run(book.parent, "check", "--format", "github").stdout
    assert f"file=src/book.ipynb,line={line},endLine={line},col=1" in annotations
    (result,) = json.loads(run(book.parent, "check", "--format", "sarif").stdout)["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": line}


def test_the_diff_can_be_read_and_applied(run: Run, book: Path, checkout: Path) -> None:
    before = book.read_text()
    result = run(checkout, "apply", "--dry-run", ".")
    assert result.exit_code == 1 and book.read_text() == before
    assert "# cell 3:\n" in result.stdout and "# +    return fast(x, 4)\n" in result.stdout
    subprocess.run(["git", "apply", "-"], cwd=checkout, check=True, input=result.stdout_bytes)
    expected = before.replace('return slow(x)"', 'return fast(x, 4)"').replace(
        '"from speed import slow"', '"from speed import fast\\n",\n    "from speed import slow"')  # fmt: skip
    assert book.read_text() == expected
    assert run(checkout, "apply", "--dry-run", ".").stdout == ""


def test_a_commit_changes_nothing_but_the_lines(
    run: Run, book: Path, checkout: Path, git: Git, trial: TrialLog
) -> None:
    assert run(checkout, "apply", "--branch", "fast", ".").exit_code == 0
    assert git("diff", "--numstat", "HEAD", "fast").split() == ["2", "1", "src/book.ipynb"]
    assert "src/book.ipynb:cell 3:4" in git("log", "-1", "--format=%B", "fast")
    assert [call["same"] for call in trial.calls] == [True]


def test_a_notebook_that_nothing_else_runs_is_its_own_workload(
    run: Run, book: Path, checkout: Path, trial: TrialLog
) -> None:
    (checkout / "pyproject.toml").unlink()
    assert run(checkout, "apply", "--write", "src/book.ipynb").exit_code == 0
    assert [call["workload"].run for call in trial.calls] == ["src/book.ipynb"]
    assert 'return fast(x, 8)"' in book.read_text()


def test_changes_that_are_not_committed_are_seen(run: Run, book: Path, checkout: Path) -> None:
    (checkout / "other.ipynb").write_text(text([cell("x = 1")]))
    assert "changes in other.ipynb" in run(checkout, "apply", ".").stderr
    book.write_text(text([cell(SLOW)]))
    result = run(checkout, "apply", "--write", "src")
    assert result.exit_code == 2 and "src/book.ipynb: not committed" in result.stderr


def test_what_cannot_be_read(run: Run, book: Path, checkout: Path) -> None:
    (checkout / "r.ipynb").write_text(text([cell("x <- 1")], metadata={"language_info": {"name": "R"}}))
    result = run(checkout, "check", ".")
    assert result.exit_code == 1
    assert "r.ipynb:1:1: left alone: is a notebook of R, not of Python\n" in result.stdout
    (checkout / "src" / "broken.ipynb").write_text(text([cell("x = 1"), cell("for x in")]))
    (checkout / "src" / "none.ipynb").write_text("{}")
    result = run(checkout, "check", ".")
    assert result.exit_code == 2
    assert "src/broken.ipynb:cell 2:1:9: error: cannot be parsed: " in result.stdout
    assert "src/none.ipynb:1:1: error: is no notebook: it has no list of cells\n" in result.stdout
    assert "src/book.ipynb:cell 3:4:12 toy" in result.stdout
    report = json.loads(run(checkout, "check", "--format", "json", ".").stdout)
    jsonschema.validate(report, json.loads(SCHEMA.read_text()))
    assert {(one["path"], one["cell"], one["is_foreign"]) for one in report["errors"]} == {
        ("r.ipynb", None, True), ("src/broken.ipynb", 2, False), ("src/none.ipynb", None, False)}  # fmt: skip
