"""Generated call graphs, before and after the codemods of boundaries: values, text, exceptions, and compilations.

    JITMOD_FUZZ_GRAPHS=500 pytest tests/fuzz/test_call_graphs.py     # more programs than CI runs
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import jax
import pytest
from call_graphs import program
from jitmod.codemods.hoist_jit import HoistJit
from jitmod.codemods.jitify import Jitify
from jitmod.codemods.trace_scalars import TraceScalars

from jitmod.rewrite.codemod import Codemod

sys.path.append(str(Path(__file__).parent.parent / "codemods"))
from harness import difference, findings, reasons, rewritten, run

COUNT = int(os.environ.get("JITMOD_FUZZ_GRAPHS", "100"))
BLOCK = 10
CODEMODS: tuple[Codemod, ...] = (HoistJit(), TraceScalars(), Jitify())


def outcome(seed: int) -> list[str]:
    """The reasons and patches of one program. Fails where a rewritten program is not the same."""
    before = program(seed)
    found = [r for codemod in CODEMODS for r in reasons(codemod, before)]
    after = before
    for codemod in CODEMODS:
        after = rewritten(codemod, after)
        assert not [f for f in findings(codemod, after) if hasattr(f, "variants")], "not idempotent"
    if after == before:
        return found
    expected, got = run(before), run(after)
    text = f"seed {seed}\n{before}\n---\n{after}"
    differs = difference(expected.results, got.results, rtol=1e-4, atol=1e-5)
    assert differs is None, f"{differs}\n{text}"
    assert expected.printed == got.printed, text
    for old, new in zip(expected.compilations[1:], got.compilations[1:], strict=True):
        assert new <= old, f"{expected.compilations} and {got.compilations}\n{text}"
    return found


@pytest.mark.parametrize("first", range(0, COUNT, BLOCK))
def test_nothing_differs(first: int) -> None:
    histogram: Counter[str] = Counter()
    for seed in range(first, min(first + BLOCK, COUNT)):
        histogram.update(outcome(seed))
        jax.clear_caches()
    print(dict(histogram))
    assert histogram["patch"] > 0
