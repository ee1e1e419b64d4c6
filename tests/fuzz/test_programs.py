"""Generated loop programs, before and after vmapify, through real JAX in double precision: nothing may differ.

    JITMOD_FUZZ=500 pytest tests/fuzz     # more programs than CI runs
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import jax
import pytest
from generate import program
from jitmod.codemods.vmapify import Vmapify
from runs import difference, run

from jitmod.model import Patch, Refusal
from jitmod.rewrite.codemod import scan
from jitmod.rewrite.edits import compose
from jitmod.source.document import Document
from jitmod.source.project import Project

COUNT = int(os.environ.get("JITMOD_FUZZ", "60"))
BLOCK = 10


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def outcome(seed: int) -> str:
    """`patch`, or the reason of a refusal. Fails where the rewritten program is not the same."""
    text = program(seed)
    document = Document.parse("app.py", text.encode())
    (finding,) = scan([Vmapify()], Project.of({"app.py": document}), ["app.py"]).findings
    if isinstance(finding, Refusal):
        return finding.reason
    assert isinstance(finding, Patch)
    written = compose(document, finding.variants[0].realise({"batch_size": 2})).decode()
    again = Document.parse("app.py", written.encode())
    assert scan([Vmapify()], Project.of({"app.py": again}), ["app.py"]).findings == (), f"not idempotent:\n{written}"
    expected, printed = run(text)
    got, said = run(written)
    found = difference(expected, got)
    assert found is None, f"seed {seed}: {found}\n{text}\n---\n{written}"
    assert printed == said, f"seed {seed}: printed text\n{text}\n---\n{written}"
    return "patch"


@pytest.mark.parametrize("first", range(0, COUNT, BLOCK))
def test_nothing_differs(first: int) -> None:
    histogram = Counter(outcome(seed) for seed in range(first, min(first + BLOCK, COUNT)))
    print(dict(histogram))
    assert histogram["patch"] > 0
