"""The text report, annotations of GitHub Actions, SARIF, and the exit code."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace

import pytest

from jitmod.model import Outcome, Status, Verdict
from jitmod.report import github, sarif, text
from jitmod.report.run import Run


def written(run: Run) -> str:
    stream = io.StringIO()
    text.write(run, stream)
    return stream.getvalue()


def test_text_has_a_row_for_each_trial(run: Run) -> None:
    table = written(run).split("src/c.py")[0]
    row = next(line for line in table.splitlines() if ":3:5" in line)
    cells = " ".join(row.split())
    assert cells == "src/a, b.py:3:5 vmapify accepted 8.12x (7.6 to 8.8) 500 ms -> 250 ms 3 -> 1 aaaaaaa"


def test_text_says_why_what_is_left_alone_and_what_was_committed(run: Run) -> None:
    lines = written(run).splitlines()
    assert "src/c.py:2:1 vmapify carried-state x depends on the item before: line 3" in lines
    assert "src/bad.py:3:7: error: cannot be parsed: invalid syntax" in lines
    assert "jitmod/vmapify  aaaaaaa  vmapify: batch the loop in score (src/a, b.py)" in lines
    assert "src/a, b.py:9:5 vmapify rejected: values - 100% no ::error::forged red [bold]not markup[/bold]" in lines
    assert lines[-1] == "3 patches tried on cpu: 1 accepted, 1 rejected; 1 left alone"


def test_text_holds_no_escape_codes_outside_of_a_terminal(run: Run) -> None:
    assert "\x1b" not in written(run)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_colours_and_bars(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("NO_COLOR", raising=False)
    first, second = run.entries[:2]
    verdict = replace(first.outcome.verdict, speedup=2.0, speedup_ci=None) if first.outcome.verdict else None
    half = replace(second, outcome=replace(second.outcome, verdict=verdict))
    stream = Terminal()
    text.write(replace(run, entries=(first, half)), stream)
    shown = stream.getvalue()
    assert "\x1b[32maccepted\x1b[0m" in shown and "\x1b[32m██████ \x1b[0m8.12x" in shown
    assert "\x1b[32m██     \x1b[0m2x" in shown  # a third of the way, by ratios
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    text.write(run, plain)
    assert "██████ 8.12x (7.6 to 8.8)" in plain.getvalue() and "\x1b[3" not in plain.getvalue()


@pytest.mark.parametrize("columns", [20, 40, 60, 80])
def test_a_terminal_gets_whole_words(run: Run, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    text.write(run, stream)
    shown = re.sub("\x1b[^m]*m", "", stream.getvalue())
    table = shown.partition("src/a, b.py:9:5 vmapify rejected: values - ")[0]
    for word in ("vmapify", "accepted", "rejected:", "values", "8.12x", "compiles", "aaaaaaa"):
        assert word in table, word
    assert ("src/a, b.py:3:5 vmapify accepted\n  speedup 8.12x (7.6 to 8.8)\n" in table) is (columns < 70)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"resumed": True}, "nothing more to do on jitmod/vmapify (0 left alone)"),
        ({"resumed": False}, "no patch found (0 left alone)"),
    ],
)
def test_closing_line_of_an_empty_run(run: Run, changes: dict[str, bool], line: str) -> None:
    empty = replace(run, entries=(), errors=(), **changes)
    assert written(empty) == f"{line}\n"


def test_github_escapes_what_comes_from_code(run: Run) -> None:
    lines = github.render(run).splitlines()
    assert lines == [
        "::error file=src/bad.py,line=3,col=7,title=jitmod::cannot be parsed: invalid syntax",
        "::notice file=src/a%2C b.py,line=3,endLine=6,col=5,title=jitmod vmapify"
        "::batch the loop (accepted 8.12x (7.6 to 8.8))",
        "::warning file=src/a%2C b.py,line=9,endLine=12,col=5,title=jitmod vmapify"
        "::100%25 no ::error::forged red [bold]not markup[/bold] "
        "(rejected: values - 100%25 no ::error::forged red [bold]not markup[/bold])",
        "::warning file=src/a%2C b.py,line=15,endLine=18,col=5,title=jitmod vmapify::batch the loop",
        "::notice file=src/c.py,line=2,endLine=4,col=1,title=jitmod vmapify carried-state"
        "::x depends on the item before: line 3",
    ]


def test_sarif_has_what_the_standard_requires(run: Run) -> None:
    log = json.loads(sarif.render(run))
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
    (one,) = log["runs"]
    rules = [rule["id"] for rule in one["tool"]["driver"]["rules"]]
    assert one["tool"]["driver"]["name"] == "jitmod" and rules == ["unparsable", "vmapify", "vmapify/carried-state"]
    assert [result["level"] for result in one["results"]] == ["error", "note", "warning", "warning", "note"]
    for result in one["results"]:
        assert result["ruleId"] in rules and result["message"]["text"].isprintable()
        (location,) = result["locations"]
        region = location["physicalLocation"]["region"]
        assert min(region.values()) >= 1 and region["startLine"] <= region.get("endLine", region["startLine"])
    uri = one["results"][1]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "src/a%2C%20b.py"
    assert one["results"][1]["partialFingerprints"] == {"jitmod/v1": "0" * 16}


@pytest.mark.parametrize(
    ("statuses", "errors", "code"),
    [
        pytest.param([], 0, 0, id="nothing found"),
        pytest.param([Status.ACCEPTED, Status.ACCEPTED], 0, 0, id="all accepted"),
        pytest.param([Status.ACCEPTED, None], 0, 1, id="one not tried"),
        *[pytest.param([Status.ACCEPTED, s], 0, 1, id=f"one {s}") for s in Status if s is not Status.ACCEPTED],
        pytest.param([Status.ACCEPTED], 1, 2, id="an unreadable file"),
    ],
)
def test_exit_code(run: Run, statuses: list[Status | None], errors: int, code: int) -> None:
    patch, refusal = run.entries[0], run.entries[3]
    entries = [refusal]
    for status in statuses:
        verdict = Verdict(status, "x") if status else None
        entries.append(replace(patch, outcome=Outcome(patch.outcome.finding, verdict=verdict)))
    assert replace(run, entries=tuple(entries), errors=run.errors[:errors]).exit_code() == code
