"""Which program a command names, and what is said of commands that name none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jitmod.trial.recording.command import RECORD, NotPython, parse

PYTHON = sys.executable
DEFAULT = Path("/default/python")


@pytest.mark.parametrize(
    ("words", "options", "program", "label"),
    [
        pytest.param([PYTHON, "x.py", "-v"], [], ["x.py", "-v"], "x.py", id="script"),
        pytest.param([PYTHON, "-u", "a/x.py"], ["-u"], ["a/x.py"], "x.py", id="flag"),
        pytest.param([PYTHON, "-W", "error", "-Xdev", "x.py"], ["-W", "error", "-Xdev"], ["x.py"], "x.py", id="values"),
        pytest.param([PYTHON, "-m", "mod", "-m", "x"], [], ["-m", "mod", "-m", "x"], "-m mod", id="module"),
        pytest.param([PYTHON, "-mmod", "1"], [], ["-m", "mod", "1"], "-m mod", id="module in one word"),
        pytest.param([PYTHON, "-um", "mod"], ["-u"], ["-m", "mod"], "-m mod", id="flags and module in one word"),
        pytest.param([PYTHON, "-c", "print(1)"], [], ["-c", "print(1)"], "-c ...", id="code"),
        pytest.param([PYTHON, "-Bcprint(1)", "x"], ["-B"], ["-c", "print(1)", "x"], "-c ...", id="flags and code"),
    ],
)
def test_python_commands(words: list[str], options: list[str], program: list[str], label: str) -> None:
    command = parse(words, DEFAULT)
    assert command.interpreter == Path(PYTHON).absolute()
    assert (list(command.options), list(command.program), command.label) == (options, program, label)
    assert command.recorded(Path("/r.json")) == [str(command.interpreter), *options, str(RECORD), "/r.json", *program]


def test_a_bare_script_and_a_missing_python_take_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.py").write_text("")
    assert parse(["x.py", "1"], DEFAULT).program == ("x.py", "1")
    assert parse(["x.py"], DEFAULT).interpreter == DEFAULT
    monkeypatch.setenv("PATH", str(tmp_path))
    assert parse(["python3", "x.py"], DEFAULT).interpreter == DEFAULT


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(f"#!{PYTHON}\n", id="shebang"),
        pytest.param(f"#!{PYTHON} -sE\n", id="shebang with options"),
        pytest.param(f"#!/bin/sh\n'''exec' \"{PYTHON}\" \"$0\" \"$@\"\n' '''\n", id="shebang that was too long"),
    ],
)
def test_programs_written_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: str) -> None:
    tool = tmp_path / "tool"
    tool.write_text(f"{head}print(1)\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    command = parse(["tool", "-k", "x"], DEFAULT)
    assert (command.interpreter, command.program) == (Path(PYTHON).absolute(), (str(tool), "-k", "x"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["sh", "run.sh"], "sh is not a Python program.*the one that sh runs", id="shell"),
        pytest.param(["no-such-tool"], "no such program: no-such-tool", id="nothing"),
        pytest.param(["/no/such/python", "x.py"], "no such program: /no/such/python", id="no interpreter"),
        pytest.param([PYTHON], "no program to record", id="interactive"),
        pytest.param([PYTHON, "-m"], "ends too early", id="no module"),
        pytest.param([PYTHON, "-"], "no program to record", id="standard input"),
    ],
)
def test_what_cannot_be_recorded(words: list[str], message: str) -> None:
    with pytest.raises(NotPython, match=message):
        parse(words, DEFAULT)
