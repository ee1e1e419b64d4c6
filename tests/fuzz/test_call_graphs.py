"""Generated call graphs, before and after the codemods of boundaries: values, text, exceptions, and compilations.

CI runs a hundred; `make graphs` runs 500.
"""

from __future__ import annotations

import jax
import pytest
from graph_outcome import outcome

COUNT, BLOCK = 100, 10


@pytest.mark.parametrize("first", range(0, COUNT, BLOCK))
def test_nothing_differs(first: int) -> None:
    patches = 0
    for seed in range(first, first + BLOCK):
        found = outcome(seed)
        assert found.wrong is None, found.wrong
        patches += sum(count for (_, reason), count in found.found.items() if reason == "patch")
        jax.clear_caches()
    assert patches > 0
