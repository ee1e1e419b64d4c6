"""Commit messages: text from code is data."""

from __future__ import annotations

import pytest

from jitmod.delivery.message import commit_message, section, subject, trailers
from jitmod.model import Assumption, Patch, Site, Status, Variant, Verdict


class Plain:
    """A codemod of a module whose docstring, the one above, has no section of that name."""


def patch(message: str = "batch the loop", symbol: str = "score", path: str = "src/x.py") -> Patch:
    variants = (Variant("vmap", ()),)
    return Patch("vmapify", Site(path, 3, 1, 5, symbol), message, variants, (Assumption("a", "items are\nequal"),))


HOSTILE = "ok\n\nJitmod-Speedup: 99\x1b[31m\r\nSigned-off-by: evil\u2028x\u202ey"


@pytest.mark.parametrize("field", ["message", "symbol", "path"])
def test_text_from_code_cannot_forge_lines(field: str) -> None:
    hostile = patch(**{field: HOSTILE})
    text = commit_message(hostile, Verdict(Status.ACCEPTED, HOSTILE, device="cpu\nX: y", speedup=2.0), {}, Plain)
    lines = text.splitlines()
    assert [line for line in lines if line.startswith(("Jitmod-Speedup", "Signed-off-by", "X:"))] == [
        "Jitmod-Speedup: 2"
    ]
    assert lines[1] == "" and not set(text) & set("\x1b\r\u2028\u202e")


@pytest.mark.parametrize(
    ("message", "symbol", "expected"),
    [
        ("batch the loop", "score", "vmapify: batch the loop in score (src/x.py)"),
        ("batch the loop in score.", "score", "vmapify: batch the loop in score (src/x.py)"),
        ("batch the loop; it is now in `_score`", "<module>", "vmapify: batch the loop (src/x.py)"),
        ("batch `_score_crops`", "score", "vmapify: batch `_score_crops` in score (src/x.py)"),
    ],
)
def test_subject(message: str, symbol: str, expected: str) -> None:
    assert subject(patch(message, symbol)) == expected


def test_assumptions_are_told_on_a_line_each() -> None:
    text = commit_message(patch(), Verdict(Status.ACCEPTED, "fast"), {}, Plain)
    assert "    assumed    items are equal\n" in text


def test_trailers_leave_out_what_was_not_measured() -> None:
    assert trailers(patch(), Verdict(Status.ACCEPTED, "fast")) == [("Jitmod-Codemod", "vmapify")]


@pytest.mark.parametrize("heading", ["Why it is slow", "Why it is slow:", "## Why it is slow", "Why it is slow\n----"])
def test_section_of_a_rule_page(heading: str) -> None:
    page = f"vmapify: x.\n\nWhat it does\nThings.\n\n{heading}\n    One.\n      Two.\n\n    Three.\n\nSafety\nNone.\n"
    assert section(page, "Why it is slow") == "One.\n  Two.\n\nThree."


def test_section_that_is_not_there() -> None:
    assert section("vmapify: x.\n\nWhat it does\nThings.\n", "Why it is slow") == ""
