"""The training example: script and notebook are rewritten alike, and print what they printed."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest
from jitmod.codemods.scanify import Scanify

from jitmod.delivery.preview import realised
from jitmod.model import Patch
from jitmod.rewrite.codemod import scan
from jitmod.source.document import Document
from jitmod.source.project import Project
from jitmod.trial.child.text import compare

pytest.importorskip("sklearn", reason="the example reads its digits from scikit-learn")

EXAMPLE = Path(__file__).parents[2] / "examples" / "training"


class _Shell:
    def run_cell_magic(self, *_: str) -> None:
        """`%%time`"""


def _printed(document: Document) -> list[tuple[str, str]]:
    """What the example prints when it makes 300 steps."""
    text = document.source.decode().replace("4000", "300")
    said = io.StringIO()
    names: dict[str, Any] = {"__name__": "__main__", "get_ipython": _Shell}
    with contextlib.redirect_stdout(said), pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["train.py"])
        exec(compile(text, document.path, "exec"), names)
    return [("stdout", line) for line in said.getvalue().splitlines()]


@pytest.mark.parametrize("name", ["train.py", "digits.ipynb"])
def test_the_rewritten_loop_prints_the_same(name: str) -> None:
    before = Document.read(EXAMPLE, name)
    (patch,) = (f for f in scan([Scanify()], Project.of({name: before}), [name]).findings if isinstance(f, Patch))
    after = realised(before, patch.variants[0].realise({}))
    text = after.source.decode()
    assert "jax.lax.scan(step, (model_arrays, opt_state), length=length)" in text and "print(f" in text
    expected, got = _printed(before), _printed(after)
    assert len(expected) == 4 and compare(expected, expected, got, 1.0) is None
