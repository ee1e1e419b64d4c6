"""Runs a generated program, and compares what two runs gave."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import jax
import numpy as np


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
    if str(tree) != str(other_tree):  # the classes of two runs are not the same
        return f"structure: {tree} and {other_tree}"
    for x, y in zip(leaves, others, strict=True):
        if type(x) is not type(y) or getattr(x, "dtype", None) != getattr(y, "dtype", None):
            return f"type: {x!r} and {y!r}"
        if np.shape(x) != np.shape(y) or not np.allclose(np.asarray(x), np.asarray(y), rtol=1e-9, atol=1e-12):
            return f"value: {x!r} and {y!r}"
    return None
