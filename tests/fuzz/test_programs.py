"""Generated loop programs, before and after vmapify, through real JAX in double precision: nothing may differ.

    JITMOD_FUZZ=500 pytest tests/fuzz     # more programs than CI runs
"""

from __future__ import annotations

import contextlib
import io
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from generate import program
from jitmod.codemods.vmapify import Vmapify

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


def run(text: str) -> tuple[Any, str]:
    space: dict[str, Any] = {}
    exec(compile(text, "app.py", "exec"), space)
    sink = io.StringIO()
    with contextlib.redirect_stdout(sink):
        results = space["workload"](), space["workload"]()
    return results, sink.getvalue()


def difference(a: Any, b: Any) -> str | None:
    """How two results differ, or None."""
    leaves, tree = jax.tree.flatten(a)
    others, other_tree = jax.tree.flatten(b)
    if tree != other_tree:
        return f"structure: {tree} and {other_tree}"
    for x, y in zip(leaves, others, strict=True):
        if type(x) is not type(y) or getattr(x, "dtype", None) != getattr(y, "dtype", None):
            return f"type: {x!r} and {y!r}"
        if not np.allclose(np.asarray(x), np.asarray(y), rtol=1e-9, atol=1e-12):
            return f"value: {x!r} and {y!r}"
    return None


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
