"""What is seen of a run while it goes on: on a terminal, in a pipe, and where nobody wants to see anything."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import Result

from jitmod.cli.progress import live

Run = Callable[..., Result]
DRIVER = Path(__file__).parents[1] / "delivery" / "toy_driver.py"


def on_terminal(folder: Path, *arguments: str, **environment: str) -> tuple[str, str, int]:
    """What a run shows on a terminal of 100 columns that is its stderr, what it prints, and its exit code."""
    leader, follower = pty.openpty()
    command = [sys.executable, str(DRIVER), *arguments]
    variables = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "NO_COLOR": "1", **environment}
    run = subprocess.Popen(command, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=follower, text=True)
    os.close(follower)
    shown = b""
    try:
        while part := os.read(leader, 65536):
            shown += part
    except OSError:  # how Linux says that the other side is closed
        pass
    finally:
        os.close(leader)
    assert run.stdout is not None
    printed = run.stdout.read()
    return shown.decode(), printed, run.wait()


def test_a_terminal_shows_what_is_tried_and_what_came_of_it(checkout: Path) -> None:
    shown, printed, code = on_terminal(checkout, "apply")
    lines = [
        line for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown).replace("\r", "\n").splitlines() if line.strip()
    ]
    assert any(re.search(r"toy src/app\.py:\d+  trying .* 1 of ", line) for line in lines), lines
    assert any(re.match(r"✓ toy src/app\.py:\d+  accepted", line) for line in lines), lines
    assert "as a whole" not in printed.split("accepted")[0] and "\x1b" not in printed and code in (0, 1)
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") > 0  # the cursor is back


@pytest.mark.parametrize(("options", "environment"), [((), {"TERM": "dumb"}), (("--quiet",), {})])
def test_no_live_line_where_it_cannot_be_or_is_not_wanted(
    checkout: Path, options: tuple[str, ...], environment: dict[str, str]
) -> None:
    shown, _, _ = on_terminal(checkout, "apply", *options, **environment)
    assert "\x1b" not in shown and ("jitmod: toy src/app.py" in shown) is (options == ())


def test_a_pipe_hears_it_only_if_it_asks(run: Run, checkout: Path) -> None:
    assert "trying" not in run(checkout, "apply", "--branch", "a").stderr
    told = run(checkout, "apply", "--branch", "b", "--verbose").stderr.splitlines()
    assert re.fullmatch(r"jitmod: toy src/app\.py:\d+: trying", told[0]) and ": accepted" in told[1]


def test_what_is_told_is_counted_and_is_no_markup() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=90, color_system=None)
    with live(console) as told:
        told.expect(2)
        told.begin("vmapify [red]a.py[/red]:3")
        told.end("vmapify [red]a.py[/red]:3", "rejected: values - [bold]x[/bold]")
        told.end("donate a.py:9", "rejected: slower (as before; --fresh tries it again)")
        told.begin("jitify a.py:12")
        told.begin("jitify a.py:12", "writing its test")
        (task,) = told._shown.tasks
        assert task.description == "jitify a.py:12  writing its test" and task.fields["place"] == "3 of 3"
        told.expect(0)
        told.begin("the branch as a whole", "trying bench.py:run")
        assert told._shown.tasks[0].fields["place"] == ""
    assert isinstance(console.file, io.StringIO)
    assert "✗ vmapify [red]a.py[/red]:3  rejected: values - [bold]x[/bold]\n" in console.file.getvalue()


def test_a_narrow_terminal_keeps_the_time_and_the_count() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=40, color_system=None)
    with live(console) as told:
        told.expect(12)
        told.begin("vmapify src/package/with/a/long/path.py:3")
        told._shown.refresh()
    assert isinstance(console.file, io.StringIO)
    assert re.search(r"vmapify src/pa\S*… +0:00:0\d 1 of 12", console.file.getvalue())
