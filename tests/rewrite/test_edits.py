"""Edits, composed: what comes out is Python, whichever part of the file had to be read again to know it."""

import ast
import random

import pytest

from jitmod.model import Edit
from jitmod.rewrite.edits import EditConflict, compose
from jitmod.source.document import Document

SOURCE = '''\
"""A text."""
from __future__ import annotations
import os; x = 1; \\
y = 2
@decorator
@ other
def f(a):
    """Doc

    @not_a_decorator
def nothing(): pass
    """
    return a  # end
\t
class A: z = [
1,
]
if x:
    pass
else: y = "\\
more"
for i in f(x): print(i)
lambda: 0'''
FUNCTION = "def g():\n    return 1\n\n\n"
TEXTS = ("", "\n", "x", FUNCTION, "(", ")", "\\", '"""', "    ", "#", "; ", "else:\n    pass\n", ":")


def is_python(source: bytes) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_an_edit_is_refused_where_the_whole_file_would_not_parse(newline: str) -> None:
    draw = random.Random(0)
    source = SOURCE.replace("\n", newline).encode()
    document = Document.parse("a.py", source)
    passed = 0
    for _ in range(3000):
        places = sorted(draw.choice([*document.statement_starts, draw.randrange(len(source) + 1)]) for _ in range(4))
        edits = [Edit(places[0], places[1], draw.choice(TEXTS)), Edit(places[2], places[3], draw.choice(TEXTS))]
        edits = edits[: draw.randint(1, 2)]
        whole = source
        for edit in reversed(edits):
            whole = whole[: edit.start] + edit.text.replace("\n", newline).encode() + whole[edit.end :]
        if is_python(whole):
            passed += 1
            assert compose(document, edits) == whole
        else:
            with pytest.raises(EditConflict):
                compose(document, edits)
    assert 300 < passed < 2700


def test_the_top_level_begins_at_lines() -> None:
    document = Document.parse("a.py", SOURCE.encode())
    lines = [SOURCE[:start].count("\n") + 1 for start in document.statement_starts]
    assert lines == [1, 2, 3, 5, 15, 18, 22, 23]


def test_edits_that_overlap_are_refused() -> None:
    document = Document.parse("a.py", b"x = 1\n")
    with pytest.raises(EditConflict, match="two edits overlap at byte 2"):
        compose(document, [Edit(0, 3, "y"), Edit(2, 4, "z")])
