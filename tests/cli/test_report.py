"""`jitmod report`: a page of what `--format json` has printed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Run = Callable[..., Result]


def test_a_run_becomes_a_page(run: Run, checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(run(checkout, "apply", "--format", "json").stdout, encoding="utf-8")
    made = run(tmp_path, "report", "run.json", "-o", "page.html")
    assert made.exit_code == 0 and made.stdout == "page.html is written; open it in a browser\n"
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>") and "src/app.py" in text
    quiet = run(tmp_path, "report", "run.json", "--quiet")
    assert (quiet.exit_code, quiet.stdout) == (0, "") and (tmp_path / "report.html").read_text(encoding="utf-8") == text


@pytest.mark.parametrize("text", ["", "{}", "not JSON"])
def test_a_bad_file_is_exit_code_2(run: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text, encoding="utf-8")
    made = run(tmp_path, "report", "run.json")
    assert made.exit_code == 2 and made.stderr.startswith("jitmod: error: run.json")
    assert not (tmp_path / "report.html").exists()


def test_a_page_that_cannot_be_written_is_exit_code_2(run: Run, checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(run(checkout, "check", "--format", "json").stdout, encoding="utf-8")
    made = run(tmp_path, "report", "run.json", "-o", "none/page.html")
    assert made.exit_code == 2 and "none/page.html: cannot be written" in made.stderr


@pytest.mark.parametrize("output", ["run.json", "link.json"])
def test_the_run_is_not_written_over(run: Run, checkout: Path, tmp_path: Path, output: str) -> None:
    text = run(checkout, "check", "--format", "json").stdout
    (tmp_path / "run.json").write_text(text, encoding="utf-8")
    (tmp_path / "link.json").symlink_to("run.json")
    made = run(tmp_path, "report", "run.json", "-o", output)
    assert made.exit_code == 2 and f"--output {output}: is the file that is read" in made.stderr
    assert (tmp_path / "run.json").read_text(encoding="utf-8") == text and (tmp_path / "link.json").is_symlink()


def test_a_stream_gets_the_page_and_nothing_else(run: Run, checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(run(checkout, "check", "--format", "json").stdout, encoding="utf-8")
    made = run(tmp_path, "report", "run.json", "-o", "/dev/null")
    assert (made.exit_code, made.stdout) == (0, "")
