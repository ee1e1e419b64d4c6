"""Every codemod's own examples, through one harness: the text, a second run, `git apply`, and its page."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from jitmod.analysis.reasons import REASONS
from jitmod.delivery.diff import file_diff
from jitmod.model import ADVICE, Patch
from jitmod.rewrite.codemod import Codemod, Example, Leaves, Refuses, Rewrites, available, scan
from jitmod.rewrite.edits import compose
from jitmod.rewrite.examples import failures
from jitmod.source.document import Document
from jitmod.source.project import Project

EXAMPLES = [
    pytest.param(codemod(), example, id=f"{name}-{number}-{type(example).__name__.lower()}")
    for name, codemod in available().items()
    for number, example in enumerate(codemod.examples)
]


def read(text: str | bytes) -> tuple[Document, Project]:
    document = Document.parse("app.py", text if isinstance(text, bytes) else text.encode())
    return document, Project.of({"app.py": document})


@pytest.mark.parametrize("codemod", [pytest.param(c(), id=n) for n, c in available().items()])
def test_examples_hold(codemod: Codemod) -> None:
    assert list(failures(codemod)) == []
    assert {e.reason for e in codemod.examples if isinstance(e, Refuses)} <= REASONS.keys()


@pytest.mark.parametrize(("codemod", "example"), [e for e in EXAMPLES if isinstance(e.values[1], Rewrites)])
def test_git_takes_the_diff(codemod: Codemod, example: Rewrites, tmp_path: Path) -> None:
    document, project = read(example.before)
    (patch,) = scan([codemod], project, ["app.py"]).findings
    assert isinstance(patch, Patch)
    written = compose(document, patch.variants[0].realise({}))
    (tmp_path / "app.py").write_text(example.before)
    diff = file_diff("app.py", example.before.encode(), written)
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=diff, text=True, check=True)
    assert (tmp_path / "app.py").read_bytes() == written


@pytest.mark.parametrize(("codemod", "example"), EXAMPLES)
@pytest.mark.parametrize(("mark", "newline"), [(b"", "\r\n"), (b"\xef\xbb\xbf", "\n"), (b"\xef\xbb\xbf", "\r\n")])
def test_line_ends_and_marks_survive(codemod: Codemod, example: Example, mark: bytes, newline: str) -> None:
    data = mark + example.before.replace("\n", newline).encode()
    document, project = read(data)
    assert document.encode(document.source) == data
    for found in scan([codemod], project, ["app.py"]).findings:
        if isinstance(found, Patch) and isinstance(example, Rewrites):
            written = compose(document, found.variants[0].realise({}))
            assert written == mark + example.after.replace("\n", newline).encode()


@pytest.mark.parametrize("codemod", [pytest.param(c, id=n) for n, c in available().items()])
def test_page(codemod: type[Codemod]) -> None:
    page = inspect.getdoc(sys.modules[codemod.__module__]) or ""
    of_rule = ("Why it matters", "When it is silent", "What to do")
    of_rewrite = ("Why it is slow", "When it refuses", "Safety")
    for heading in ("What it does", *(of_rule if codemod.advises else of_rewrite), "References"):
        assert f"\n{heading}\n" in page
    kinds = {type(example) for example in codemod.examples}
    assert kinds == {Leaves, Refuses} | (set() if codemod.advises else {Rewrites})
    refused = {example.reason for example in codemod.examples if isinstance(example, Refuses)}
    assert refused <= ADVICE if codemod.advises else refused
