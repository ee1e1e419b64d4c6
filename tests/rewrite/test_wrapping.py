"""Generated lines that are too long are broken; what they mean stays, and so do the user's own lines."""

from __future__ import annotations

import ast
import textwrap

import pytest

from jitmod.rewrite.wrapping import LIMIT, wrapped
from jitmod.source.document import Document

ARGUMENTS = "net, images, labels, jnp.asarray(scale), self.settings.threshold, self.settings.batch_count"
LINES = {
    "a conditional": (
        f"    return _predict_batched({ARGUMENTS}) if len(images) else []",
        f"    return (\n        _predict_batched({ARGUMENTS})\n        if len(images)\n        else []\n    )",
    ),
    "a call": (
        f"    outputs, scores = _predict_batched({ARGUMENTS}, 1)",
        f"    outputs, scores = _predict_batched(\n        {ARGUMENTS}, 1\n    )",
    ),
    "conditions": (
        "    if len(positions) and min(positions[0], positions[-1]) >= 0 and max(positions[0], positions[-1]) + w <= "
        "len(many_images):",
        "    if (\n        len(positions)\n        and min(positions[0], positions[-1]) >= 0\n"
        "        and max(positions[0], positions[-1]) + w <= len(many_images)\n    ):",
    ),
    "a header whose parts need a line each": (
        f"def _batched({', '.join(f'parameter_{k}: jax.Array' for k in range(6))}):",
        f"def _batched(\n{''.join(f'    parameter_{k}: jax.Array,{chr(10)}' for k in range(6))}):",
    ),
    "text": (f'    x = "{"a, (b" * 30}"', f'    x = "{"a, (b" * 30}"'),
    "a comment": (f"    x = f(1)  # {'long ' * 30}", f"    x = f(1)  # {'long ' * 30}"),
    "a short line": ("    x = f(1)", "    x = f(1)"),
}


@pytest.mark.parametrize(("line", "after"), LINES.values(), ids=LINES)
def test_a_line(line: str, after: str) -> None:
    found = wrapped(line, Document.parse("app.py", b""))
    assert found == after
    if found != line:
        assert all(len(one) <= LIMIT for one in found.split("\n"))
        body = "\n        pass" if line.endswith(":") else ""
        before, now = (ast.parse(textwrap.dedent(text) + body) for text in (line, found))
        assert ast.dump(before) == ast.dump(now)


def test_lines_of_the_file_stay() -> None:
    line = LINES["a call"][0]
    document = Document.parse("app.py", f"if x:\n{line}\n".encode())
    assert wrapped(f"y = 1\n{line}", document) == f"y = 1\n{line}"
