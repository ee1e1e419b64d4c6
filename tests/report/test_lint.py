"""What `jitmod check` prints: places, excerpts, counts, and the checklist."""

from __future__ import annotations

import io
import textwrap
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jitmod.cli.main import app
from jitmod.delivery.preview import Wanted, find
from jitmod.delivery.queue import Entry
from jitmod.model import Outcome, Refusal, Site
from jitmod.report import checklist, lint
from jitmod.report.run import Run
from jitmod.rewrite.codemod import select
from jitmod.source.document import Document
from jitmod.source.project import Project

TEXT = textwrap.dedent(
    """\
    import equinox as eqx
    import jax


    def predict(net: eqx.nn.MLP, xs: jax.Array):
        größe = "日本"; out = [net(x) for x in xs]
        return out


    def walk(net: eqx.nn.MLP, xs: jax.Array):
    \tout = []
    \tfor x in xs:
    \t\tif float(x[0]) > 0:
    \t\t\tbreak
    \t\tout.append(net(x))
    \treturn out
    """
)


def checked(text: str = TEXT, path: str = "app.py", codemods: str = "vmapify") -> Run:
    document = Document.parse(path, text.encode())
    found = find(Wanted(tuple(select(codemods)), (path,)), Project.of({path: document}))
    return Run("0", found.entries, found.errors)


def shown(run: Run, brief: bool = False) -> str:
    stream = io.StringIO()
    lint.write(run, stream, brief=brief)
    return stream.getvalue()


def test_a_finding_shows_its_line_a_mark_below_it_and_what_to_do() -> None:
    text = shown(checked())
    patch, refusal, closing = text.split("\n\n")
    first, edge, line, mark, help_line = patch.splitlines()
    assert first.startswith("app.py:6:25 vmapify ") and first.endswith("[safe]")
    assert (edge, line) == ("  |", '6 |     größe = "日本"; out = [net(x) for x in xs]')
    assert mark == "  | " + " " * 26 + "^" * len("[net(x) for x in xs]")  # two characters are two columns wide
    assert help_line == "  = help: jitmod apply --codemod vmapify --dry-run app.py shows the rewrite"
    first, _, line, mark, help_line = refusal.splitlines()
    assert first.startswith("app.py:12:2 vmapify data-dependent-exit ")
    assert (line, mark) == ("12 | \tfor x in xs:", "   | \t^^^^^^^^^^^^")
    assert help_line == "   = help: jitmod explain data-dependent-exit"
    assert closing == "1 patch possible, 1 left alone\n"


def test_brief_is_one_line_each() -> None:
    lines = shown(checked(), brief=True).splitlines()
    assert len(lines) == 3 and not any("|" in line for line in lines)


def test_what_would_steer_a_terminal_is_replaced() -> None:
    text = "import equinox as eqx\n\n\ndef f(net: eqx.nn.MLP, xs):\n    return [net(x) for x in xs]  # \x1b[2J\x07\n"
    assert "\x1b" not in shown(checked(text)) and "[2J" in shown(checked(text))


def test_statistics_count_the_most_frequent_first() -> None:
    stream = io.StringIO()
    lint.write_statistics(checked(TEXT + TEXT.partition("\n\n\n")[2]), stream)
    counts = [line.split()[:2] for line in stream.getvalue().splitlines()[:-1]]
    assert [count for count, _ in counts] == sorted((count for count, _ in counts), reverse=True)
    assert {name for _, name in counts} == {"vmapify"}


def test_the_checklist_says_what_speaks_against_a_line() -> None:
    stream = io.StringIO()
    checklist.write(checked(), stream)
    predict, walk, closing = stream.getvalue().split("\n\n")
    assert predict.startswith("app.py predict: 11 of 12\n") and "\n  no  no model is called once per item" in predict
    assert walk.startswith("app.py walk: 11 of 12\n") and "\n  ?   no model is called once per item" in walk
    assert "line 12, vmapify data-dependent-exit" in walk and closing.startswith("2 functions")


def test_what_is_settled_is_well() -> None:
    site = Site("app.py", 3, 1, 4, "predict")
    entries = [Entry("1", Outcome(Refusal("vmapify", site, "already-compiled", "it is inside of a jit")))]
    lines = list(checklist.card(entries))
    assert all(line.startswith("  ok") for line in lines)
    assert "  ok  no model is called once per item in a Python loop (already-compiled)" in lines


@pytest.mark.parametrize("options", [["--statistics", "--checklist"], ["--statistics", "--format", "json"]])
def test_one_report_at_a_time(options: list[str], tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["check", str(tmp_path), *options]).exit_code == 2


def test_a_comment_of_no_use_is_no_matter_of_the_checklist() -> None:
    stream = io.StringIO()
    checklist.write(checked("def f(x):\n    return x  # jitmod: ignore[vmapify]\n"), stream)
    assert stream.getvalue().startswith("0 functions with something to look at")
