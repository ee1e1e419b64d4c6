"""A diff as rows: numbers of lines, kinds of pieces, and characters that nobody sees."""

from __future__ import annotations

import pytest
from run_documents import DIFF

from jitmod.report.html.diffs import Piece, Row, rows, visible


def text(row: Row) -> str:
    return "".join(piece.text for piece in row.pieces)


def test_lines_are_numbered_on_both_sides() -> None:
    assert [(row.mark, row.old, row.new) for row in rows(DIFF)] == [
        (" ", 1, 1), (" ", 2, 2), ("-", 3, None), ("-", 4, None), ("+", None, 3), ("+", None, 4), ("+", None, 5),
        ("@", None, None), ("-", 10, None), ("+", None, 11), ("@", None, None),
    ]  # fmt: skip


def test_python_is_told_by_its_kinds() -> None:
    made = rows(DIFF)
    assert made[0].pieces == (Piece("s", '"""Scores'),) and made[1].pieces == (Piece("s", 'of everything."""'),)
    kinds = {piece.text: piece.kind for row in made for piece in row.pieces}
    assert (kinds["def"], kinds["_batched"], kinds["# all at once"], kinds["1"]) == ("k", "f", "c", "n")
    assert text(made[-1]) == "no newline at the end of the file"


def test_every_line_comes_back_as_it_is() -> None:
    plain = [line[1:] for line in DIFF.splitlines()[3:] if line[:1] in " +-"]
    assert [text(row) for row in rows(DIFF) if row.mark != "@"] == plain
    assert [text(row) for row in rows(DIFF, is_python=False) if row.mark != "@"] == plain


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("a\u202eb", ["a", "U+202E", "b"]),
        ("\u2066\u2069", ["U+2066", "U+2069"]),
        ("a\x1b[31mb", ["a", "U+001B", "[31mb"]),
        ("a\rb", ["a", "U+000D", "b"]),
        ("zero\u200bwidth", ["zero", "U+200B", "width"]),
        ("tab\tstays", ["tab\tstays"]),
        ("שלום", ["שלום"]),
    ],
)
def test_what_has_no_sign_is_named(line: str, shown: list[str]) -> None:
    assert [piece.text for piece in visible(line)] == shown
    diff = f"--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-{line}\n+x = 1\n"
    assert text(rows(diff)[0]) == "".join(shown)


def test_a_form_feed_or_a_carriage_return_ends_no_line() -> None:
    made = rows("--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n a = 1\x0cb\r\n-c\r\n+d\r\n")
    assert [(row.mark, row.old, row.new, text(row)) for row in made] == [
        (" ", 1, 1, "a = 1U+000Cb"), ("-", 2, None, "c"), ("+", None, 2, "d"),
    ]  # fmt: skip


def test_lines_of_code_that_look_like_a_diff() -> None:
    made = rows("--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n--- a/y.py\n+++ b/y.py\n # x\n")
    assert [(row.mark, text(row)) for row in made] == [("-", "-- a/y.py"), ("+", "++ b/y.py"), (" ", "# x")]


def test_a_notebook_shows_its_cells() -> None:
    made = rows(
        "# n.ipynb, for the reader:\n# cell 3:\n# @@ -1,2 +1,2 @@\n# -x = 1\n# +x = 2\n#  cell 4:\n# cell 5:\n"
        "# @@ -7 +7 @@\n# -y\n# +z\n--- a/n.ipynb\n+++ b/n.ipynb\n@@ -1 +1 @@\n-{\n+}\n",
        is_python=False,
    )
    assert [(row.mark, row.old, row.new, text(row)) for row in made] == [
        ("@", None, None, "cell 3"), ("-", 1, None, "x = 1"), ("+", None, 1, "x = 2"), (" ", 2, 2, "cell 4:"),
        ("@", None, None, "cell 5"), ("-", 7, None, "y"), ("+", None, 7, "z"),
    ]  # fmt: skip


@pytest.mark.parametrize("diff", ["", "diff", "--- a/x\n+++ b/x\n", "@@ -1 +1 @@", "\\ No newline at end of file\n"])
def test_what_is_no_diff_has_no_lines(diff: str) -> None:
    assert not [row for row in rows(diff) if row.mark != "@"]
