"""Programs through one codemod: what it finds, the text it makes, and what the program does before and after."""

from __future__ import annotations

import contextlib
import io
import sys
import textwrap
import types
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from jitmod.model import Finding, Patch, Refusal
from jitmod.rewrite.codemod import Codemod, scan
from jitmod.rewrite.edits import compose
from jitmod.source.document import Document
from jitmod.source.project import Project

HEAD = """\
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax


"""
_COMPILED: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, _, **__: _COMPILED.append(name) if name.endswith("backend_compile_duration") else None
)


def program(body: str) -> str:
    return HEAD + textwrap.dedent(body).lstrip("\n")


def findings(codemod: Codemod, text: str, **others: str) -> tuple[Finding, ...]:
    """What a codemod finds in `text`, the file main.py of a project with `others` (module name -> text)."""
    files = {"main.py": text} | {f"{name}.py": other for name, other in others.items()}
    documents = {path: Document.parse(path, content.encode()) for path, content in files.items()}
    return scan([codemod], Project.of(documents), ["main.py"]).findings


def reasons(codemod: Codemod, text: str, **others: str) -> list[str]:
    """The reason codes of the refusals, in order; a patch is "patch"."""
    return [f.reason if isinstance(f, Refusal) else "patch" for f in findings(codemod, text, **others)]


def rewritten(codemod: Codemod, text: str, **others: str) -> str:
    """The text after every patch, one after the other."""
    for _ in range(20):
        patches = [f for f in findings(codemod, text, **others) if isinstance(f, Patch)]
        if not patches:
            return text
        text = compose(Document.parse("main.py", text.encode()), patches[0].variants[0].realise({})).decode()
    raise AssertionError("the rewrite never comes to an end")


@dataclass(frozen=True)
class Run:
    """What some calls of `workload(rep)` did: a result or an exception each, the text, the compilations of each."""

    results: tuple[Any, ...]
    printed: str
    compilations: tuple[int, ...]


def run(text: str, reps: tuple[int, ...] = (0, 1, 2, 0)) -> Run:
    """Run a program anew: `workload(rep)` for each of `reps`."""
    module = types.ModuleType("program")
    sys.modules["program"] = module  # dataclasses look their module up
    space = module.__dict__
    exec(compile(text, "main.py", "exec"), space)
    sink = io.StringIO()
    results, counts = [], []
    jax.clear_caches()
    for rep in reps:
        before = len(_COMPILED)
        with contextlib.redirect_stdout(sink):
            try:
                results.append(jax.block_until_ready(space["workload"](rep)))
            except Exception as error:
                results.append(("raised", type(error).__name__))
        counts.append(len(_COMPILED) - before)
    return Run(tuple(results), sink.getvalue(), tuple(counts))


def difference(a: Any, b: Any, rtol: float = 2e-5, atol: float = 2e-6) -> str | None:
    """How two results differ, or None. Modules are compared by their leaves."""
    leaves, tree = jax.tree.flatten(a)
    others, other_tree = jax.tree.flatten(b)
    if len(leaves) != len(others) or str(tree) != str(other_tree):
        return f"structure: {tree} and {other_tree}"
    for x, y in zip(leaves, others, strict=True):
        if type(x) is not type(y):
            return f"type: {x!r} and {y!r}"
        if isinstance(x, jax.Array) and jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
            x, y = jax.random.key_data(x), jax.random.key_data(y)
        if not eqx.is_array_like(x):
            if x != y and not callable(x):
                return f"value: {x!r} and {y!r}"
            continue
        p, q = np.asarray(x), np.asarray(y)
        if p.dtype != q.dtype or p.shape != q.shape or getattr(x, "weak_type", 0) != getattr(y, "weak_type", 0):
            return f"type: {x!r} and {y!r}"
        if not np.allclose(p, q, rtol=rtol, atol=atol, equal_nan=True):
            return f"value: {x!r} and {y!r}"
    return None


def assert_equivalent(before: str, after: str) -> tuple[Run, Run]:
    """Values, exceptions and text are the same, and no call compiles more often than before."""
    expected, got = run(before), run(after)
    found = difference(expected.results, got.results)
    assert found is None, f"{found}\n{after}"
    assert expected.printed == got.printed, after
    assert sum(got.compilations[1:]) <= sum(expected.compilations[1:]), f"{got.compilations}\n{after}"
    return expected, got
