"""The pages of the codemods: made from what the code says, and never older than it."""

from __future__ import annotations

from pathlib import Path

import pytest

from jitmod.cli.pages import pages
from jitmod.report.page import markdown
from jitmod.rewrite.codemod import Refuses, Rewrites, available

FOLDER = Path(__file__).parents[2] / "docs" / "codemods"
MADE = pages()


@pytest.mark.parametrize("name", MADE)
def test_a_page_is_up_to_date(name: str) -> None:
    path = FOLDER.parent / name
    assert path.is_file() and path.read_text(encoding="utf-8") == MADE[name], "run: python docs/build.py"


def test_a_page_shows_every_example() -> None:
    codemod = available()["vmapify"]
    text = markdown(codemod)
    assert text.count("```diff") == sum(isinstance(e, Rewrites) for e in codemod.examples) >= 5
    for example in codemod.examples:
        match example:
            case Rewrites(before, after):
                last = before.rstrip().splitlines()[-1], after.rstrip().splitlines()[-1]
                assert all(f"{mark}{line}" in text for mark, line in zip("-+", last, strict=True) if last[0] != last[1])
            case Refuses(_, reason):
                assert f"`{reason}`" in text


def test_every_codemod_has_a_page() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} == available().keys()
