"""The fixes of SARIF results give the text that the diff gives."""

from __future__ import annotations

import random
from typing import Any

from jitmod.delivery.diff import file_diff
from jitmod.report.fixes import replacements


def fixed(text: str, changes: list[dict[str, Any]]) -> str:
    """The text after the replacements, as the standard describes them: lines and columns from 1, the end is outside."""
    starts = [0, *(place + 1 for place, character in enumerate(text) if character == "\n")]
    for change in reversed(changes):
        region = change["deletedRegion"]
        first = starts[region["startLine"] - 1] + region["startColumn"] - 1
        end = starts[region["endLine"] - 1] if region["endLine"] <= len(starts) else len(text)
        last = end + region["endColumn"] - 1
        text = text[:first] + change["insertedContent"]["text"] + text[last:]
    return text


def test_a_fix_gives_what_the_diff_gives() -> None:
    chance = random.Random(0)
    for _ in range(500):
        lines = [[f"x{chance.randrange(5)}{end}" for _ in range(chance.randrange(12))] for end in ("\n", "\n")]
        before, after = ("".join(one) if chance.random() < 0.7 else "".join(one).removesuffix("\n") for one in lines)
        changes = replacements(file_diff("a.py", before.encode(), after.encode()))
        assert changes is not None
        assert fixed(before, changes) == after, (before, after, changes)


def test_other_ends_of_lines_and_lines_that_look_like_a_diff() -> None:
    before, after = "a\r\n-- b\r\nc\x0cd\n++ e\n@@ -1 +1 @@\n", "a\r\n-- c\r\nc\x0cd\n++ f\ng\n@@ -1 +1 @@\n"
    changes = replacements(file_diff("a.py", before.encode(), after.encode()))
    assert changes is not None and fixed(before, changes) == after


def test_text_that_is_not_utf_8_has_no_fix() -> None:
    assert replacements(file_diff("a.py", b"x = 1\n# caf\xe9\n", b"x = 2\n# caf\xe9\n")) is None
