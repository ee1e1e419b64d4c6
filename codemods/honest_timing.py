"""honest-timing: times that are not those of the computation. A rule: nothing is rewritten.

What it does
    Finds `clock() - start` around calls of Modules and compiled functions, where nothing waits for their results before
    the clock is read again, and where the first call of a compiled function is among them.

Why it matters
    jax hands work to the device and returns at once: the difference of the clocks is that of the dispatch. The first
    call of a compiled function traces and compiles it: seconds, where the call takes milliseconds. Whoever optimises by
    such numbers optimises the wrong thing.

When it is silent
    Where a function of the project's own is given the result, since that may wait. In a loop, where the first round is
    one of many.

What to do
    Call the function once before, and hand its result to `jax.block_until_ready` before the clock is read.

References
    https://docs.jax.dev/en/latest/benchmarking.html
    https://docs.jax.dev/en/latest/async_dispatch.html
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import ClassVar

from jitmod.analysis.jits import analyses
from jitmod.analysis.timings import compiles, timings_in, unblocked
from jitmod.model import Finding, Refusal
from jitmod.rewrite.codemod import Codemod, Example, Leaves, Refuses
from jitmod.source.document import Document
from jitmod.source.project import Project

_HEAD = """\
import time

import jax
import jax.numpy as jnp


@jax.jit
def f(x):
    return jnp.sin(x) @ x


"""


class HonestTiming(Codemod):
    """The rule; see the module's docstring."""

    id = "honest-timing"
    summary = "times that are not those of the computation (advice)"
    advises = True
    examples: ClassVar[Sequence[Example]] = (
        Refuses(
            _HEAD
            + """\
def measure(x):
    f(x)
    start = time.perf_counter()
    y = f(x)
    print(time.perf_counter() - start)
    return y
""",
            "unblocked-timing",
        ),
        Refuses(
            _HEAD
            + """\
def measure(x):
    start = time.perf_counter()
    jax.block_until_ready(f(x))
    print(time.perf_counter() - start)
""",
            "cold-timing",
        ),
        Leaves(
            _HEAD
            + """\
def measure(x):
    jax.block_until_ready(f(x))
    start = time.perf_counter()
    jax.block_until_ready(f(x))
    print(time.perf_counter() - start)
"""
        ),
    )

    def find(self, document: Document, project: Project) -> Iterator[Finding]:
        effects, _ = analyses(project)
        module = project.module(document)
        for timing in timings_in(module, effects):
            site = document.site(timing.elapsed, module.scope_of(timing.elapsed).qualname)
            hurried = unblocked(timing, module, effects.inference)
            if hurried is not None:
                what = f"nothing waits for what `{ast.unparse(hurried.func)}` computes: only its dispatch is timed"
                todo = "hand the result to `jax.block_until_ready` before the clock is read"
                yield Refusal(self.id, site, "unblocked-timing", f"{what}; {todo} (line {hurried.lineno})")
            cold = compiles(timing, module, effects)
            if cold is not None:
                what = f"the first call of `{ast.unparse(cold.func)}` compiles it, and that is timed too"
                yield Refusal(self.id, site, "cold-timing", f"{what}; call it once before (line {cold.lineno})")
