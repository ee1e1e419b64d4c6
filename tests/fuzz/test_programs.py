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

from jitmod.model import Finding, Patch, Refusal
from jitmod.rewrite.codemod import scan
from jitmod.rewrite.edits import compose
from jitmod.source.document import Document
from jitmod.source.project import Project

COUNT = int(os.environ.get("JITMOD_FUZZ", "100"))
BLOCK = 10


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def outcome(seed: int) -> str:
    """The forms of the patch, or the reason of the refusal. Fails where a rewritten program is not the same."""
    text = program(seed)
    document = Document.parse("app.py", text.encode())
    (finding,) = found_in(document)
    if isinstance(finding, Refusal):
        return finding.reason
    assert isinstance(finding, Patch)
    expected, printed = run(text)
    for variant in finding.variants:
        written = compose(document, variant.realise({"batch_size": 2})).decode()
        again = found_in(Document.parse("app.py", written.encode()))
        patched = [f for f in again if isinstance(f, Patch)]
        assert not patched, f"seed {seed}, {variant.form}: found again: {again}\n{written}"
        got, said = run(written)
        found = difference(expected, got)
        assert found is None, f"seed {seed}, {variant.form}: {found}\n{text}\n---\n{written}"
        assert printed == said, f"seed {seed}, {variant.form}: printed text\n{text}\n---\n{written}"
    return " and ".join(variant.form for variant in finding.variants)


def found_in(document: Document) -> tuple[Finding, ...]:
    return scan([Vmapify()], Project.of({"app.py": document}), ["app.py"]).findings


@pytest.mark.parametrize("first", range(0, COUNT, BLOCK))
def test_nothing_differs(first: int) -> None:
    histogram = Counter(outcome(seed) for seed in range(first, min(first + BLOCK, COUNT)))
    assert sum(count for how, count in histogram.items() if "lax.map" in how) >= BLOCK // 3
