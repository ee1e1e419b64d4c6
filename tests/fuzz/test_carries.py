"""Generated loops with a carried state, before and after scanify, through real JAX in double precision.

    JITMOD_CARRIES=500 pytest tests/fuzz/test_carries.py     # `make carries`: more programs than CI runs
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import jax
import pytest
from carries import program
from jitmod.codemods.scanify import Scanify
from runs import difference, run

from jitmod.model import Patch, Refusal
from jitmod.rewrite.codemod import scan
from jitmod.rewrite.edits import compose
from jitmod.source.document import Document
from jitmod.source.project import Project

COUNT = int(os.environ.get("JITMOD_CARRIES", "100"))
BLOCK = 10


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def outcome(seed: int) -> str:
    """`patch`, or the reason of a refusal. Fails where the rewritten program is not the same."""
    text = program(seed)
    document = Document.parse("app.py", text.encode())
    found = scan([Scanify()], Project.of({"app.py": document}), ["app.py"]).findings
    if not found:
        return "no state"
    (finding,) = found
    if isinstance(finding, Refusal):
        return finding.reason
    assert isinstance(finding, Patch)
    written = compose(document, finding.variants[0].realise({})).decode()
    again = Document.parse("app.py", written.encode())
    assert not any(isinstance(f, Patch) for f in scan([Scanify()], Project.of({"app.py": again}), ["app.py"]).findings)
    expected, printed = run(text)
    try:
        got, said = run(written)
    except (TypeError, ValueError) as error:  # what the patch says that it assumes: the carry keeps its type
        assert "dtype" in str(error) or "carry" in str(error), f"seed {seed}: {error}\n{text}\n---\n{written}"
        return "raised as declared"
    differs = difference(expected, got)
    assert differs is None, f"seed {seed}: {differs}\n{text}\n---\n{written}"
    assert printed == said, f"seed {seed}: printed text\n{text}\n---\n{written}"
    return "patch"


@pytest.mark.parametrize("first", range(0, COUNT, BLOCK))
def test_nothing_differs(first: int) -> None:
    histogram = Counter(outcome(seed) for seed in range(first, min(first + BLOCK, COUNT)))
    print(dict(histogram))
    assert histogram["patch"] > 0
