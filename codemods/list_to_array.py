"""list-to-array: an array that is built from a list of computed values becomes one mapped computation.

What it does
    Finds `jnp.array`, `jnp.asarray` and `jnp.stack` of a list that a loop or a comprehension fills with the results of
    jax's own functions, one for each item, and moves that computation into one module-level `@eqx.filter_jit` function
    on `jax.lax.map(per_item, items, batch_size=N)`, whose result is the array. Loops that call a Module or a compiled
    function are those of vmapify.

Why it is slow
    Every function of every item is dispatched on its own from Python, each result is an array with a buffer of its own,
    and `jnp.array` then puts a hundred small buffers together, with one operation for each.

When it refuses
    As vmapify does: when an item depends on the one before, when host work feeds the computation, when the items are
    not arrays of one shape, and when anything on the way cannot be resolved.

Safety
    As that of vmapify. Results may differ by rounding. `jnp.array` of a list is never weakly typed, whatever the items
    are, and what the compiled function gives is not either; `jnp.stack` keeps a weak type, and so does the function.

References
    https://docs.jax.dev/en/latest/_autosummary/jax.lax.map.html
    https://docs.jax.dev/en/latest/_autosummary/jax.numpy.stack.html
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import ClassVar

from jitmod.analysis.batching import heavy_calls
from jitmod.analysis.collect import array_makers
from jitmod.analysis.jits import analyses
from jitmod.analysis.loops import loops_in
from jitmod.model import Finding
from jitmod.rewrite.batched import batched
from jitmod.rewrite.codemod import Codemod, Example, Leaves, Refuses, Rewrites
from jitmod.rewrite.names import Namer
from jitmod.source.document import Document
from jitmod.source.project import Project

_HEAD = "import equinox as eqx\nimport jax\nimport jax.numpy as jnp\n\n\n"


class ListToArray(Codemod):
    """The codemod; see the module's docstring."""

    id = "list-to-array"
    summary = "an array that is built from a list of computed values becomes one mapped computation"
    examples: ClassVar[Sequence[Example]] = (
        Rewrites(
            _HEAD
            + """\
def energies(states: jax.Array):
    return jnp.array([jnp.sum(state**2) for state in states])
""",
            _HEAD
            + """\
ENERGIES_BATCH_SIZE = 64


@eqx.filter_jit
def _energies_batched(states: jax.Array):
    def per_item(state):
        return jnp.sum(state**2)

    outputs = jax.lax.map(per_item, states, batch_size=ENERGIES_BATCH_SIZE)
    # not weakly typed, as no array that is made from a list is
    return outputs.astype(outputs.dtype)


def energies(states: jax.Array):
    return _energies_batched(states) if len(states) else jnp.array([])
""",
        ),
        Rewrites(
            _HEAD
            + """\
def distances(points: jax.Array, centre: jax.Array):
    found = []
    for point in points:
        apart = point - centre
        found.append(jnp.linalg.norm(apart))
    return jnp.stack(found)
""",
            _HEAD
            + """\
DISTANCES_BATCH_SIZE = 64


@eqx.filter_jit
def _distances_batched(centre: jax.Array, points: jax.Array):
    def per_item(point):
        apart = point - centre
        return jnp.linalg.norm(apart)

    return jax.lax.map(per_item, points, batch_size=DISTANCES_BATCH_SIZE)


def distances(points: jax.Array, centre: jax.Array):
    return _distances_batched(centre, points) if len(points) else jnp.stack([])
""",
        ),
        Leaves(_HEAD + "def f(xs: jax.Array):\n    return [jnp.sum(x) for x in xs]\n"),
        Leaves(_HEAD + "def f(a: jax.Array, b: jax.Array):\n    return jnp.array([jnp.sum(a), jnp.sum(b)])\n"),
        Refuses(
            _HEAD + "def f(times: list[float]):\n    return jnp.array([jnp.exp(-t) for t in times])\n",
            "index-as-python",
        ),
    )

    def find(self, document: Document, project: Project) -> Iterator[Finding]:
        narrow, contexts = analyses(project)
        effects = narrow.counting_library()
        module = project.module(document)
        namer = Namer.of(module)
        for loop in loops_in(module):
            makers = array_makers(loop, effects.inference)
            heavy = heavy_calls(loop, effects) if len(makers) == 1 else []
            if heavy and not heavy_calls(loop, narrow):
                what = f"compute what `{ast.unparse(heavy[0].func)}` gives for every item at once"
                yield batched(self.id, loop, heavy[0], effects, contexts, namer, what)
