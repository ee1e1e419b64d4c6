"""donate: the buffers of a state that dies in a call are given to its result.

What it does
    Finds compiled functions that a loop calls as `state = step(state, x)`, where nothing can read the old state once
    the call was made, and donates its buffers: `donate_argnames=` of `jax.jit`, `donate=` of `eqx.filter_jit`.

Why it is slow
    Without it every call needs memory for the old state and the new one, and XLA copies what it could change in
    place: twice the memory of the state, and the time to write all of it where a few rows change.

When it refuses
    When any path may read the old state: it is an argument of the function around (its caller may hold it), it was put
    into a list, an attribute or under another name, seen by numpy or by a nested function, it comes from a function
    that may have kept it, a handler could go on with it, or the compiled function is called in another way elsewhere,
    or handed out by `__all__`, by a package's `__init__`, or by its name as text.
    When the result cannot take its place, and where arrays are placed on devices (`device_put`, shardings, `pmap`).

Safety
    A donated buffer is gone. Backends differ in what they make of it, so no trial proves that it is never read: that
    is decided from the code alone, and only if all uses of the compiled function can be seen.

References
    https://docs.jax.dev/en/latest/buffer_donation.html
    https://docs.kidger.site/equinox/api/transformations/#equinox.filter_jit
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import ClassVar

from jitmod.analysis.compiled import compiled_functions
from jitmod.analysis.donations import Donating, Donation
from jitmod.analysis.jits import analyses
from jitmod.model import Edit, Finding, Patch, Variant
from jitmod.rewrite.codemod import Codemod, Example, Leaves, Refuses, Rewrites
from jitmod.rewrite.edits import compose
from jitmod.rewrite.imports import Imports
from jitmod.rewrite.lifted import decorator
from jitmod.rewrite.refused import REFUSING, refused
from jitmod.rewrite.spliced import adding_arguments
from jitmod.source.document import Document
from jitmod.source.project import Project

_HEAD = "import functools\n\nimport jax\nimport jax.numpy as jnp\n\n\n"
_STEP = "def step(state, x):\n    return state.at[0].add(x)\n\n\n"


class Donate(Codemod):
    """The codemod; see the module's docstring."""

    id = "donate"
    summary = "the buffers of a state that dies in a call are given to its result"
    tried_last = True  # where a loop becomes one program, nothing is left to donate
    rounds = False
    examples: ClassVar[Sequence[Example]] = (
        Rewrites(
            _HEAD
            + "@jax.jit\n"
            + _STEP
            + """\
def run(n: int):
    state = jnp.zeros((1000, 1000))
    for i in range(n):
        state = step(state, i)
    return state
""",
            _HEAD
            + '@functools.partial(jax.jit, donate_argnames=("state",))\n'
            + _STEP
            + """\
def run(n: int):
    state = jnp.zeros((1000, 1000))
    for i in range(n):
        state = step(state, i)
    return state
""",
        ),
        Leaves(_HEAD + "@jax.jit\n" + _STEP + "def run(state, x):\n    return step(state, x)\n"),
        Refuses(
            _HEAD
            + "@jax.jit\n"
            + _STEP
            + """\
def run(n: int):
    state = jnp.zeros((1000, 1000))
    history = []
    for i in range(n):
        history.append(state)
        state = step(state, i)
    return history
""",
            "donated-later-read",
        ),
        Refuses(
            _HEAD
            + "@jax.jit\n"
            + _STEP
            + """\
def run(state, n: int):
    for i in range(n):
        state = step(state, i)
    return state
""",
            "donated-later-read",
        ),
    )

    def find(self, document: Document, project: Project) -> Iterator[Finding]:
        effects, contexts = analyses(project)
        module = project.module(document)
        found: list[Finding] = []
        for compiled in compiled_functions(module, effects):
            donating = Donating(compiled, effects, contexts)
            rebindings = donating.rebindings()
            if not rebindings:
                continue
            first = next((r for r in rebindings if r.module is module), rebindings[0])
            place = first.statement if first.module is module else compiled.node
            site = document.site(place, compiled.function.name)
            try:
                donation = donating.judged(first)
                imports = Imports(module)
                edits = (*_edits(donation, imports), *imports.edits())
                compose(document, edits)
            except REFUSING as why:
                found.append(refused(self.id, site, why))
                continue
            names = ", ".join(f"`{name}`" for name in donation.names)
            called = compiled.node.name
            message = f"nothing reads the old {names} after a call of `{called}`: its buffer becomes the result's"
            found.append(Patch(self.id, site, message, (Variant("donated", edits),)))
        yield from sorted(found, key=lambda f: (f.site.line, f.site.column))


def _edits(donation: Donation, imports: Imports) -> Iterator[Edit]:
    """The option, added to the decorator."""
    compiled = donation.compiled
    document, written = compiled.module.document, compiled.decorator
    unnamed = [p.arg for p in compiled.node.args.posonlyargs]  # jax knows these by number alone
    numbers = [str(unnamed.index(name)) for name in donation.names if name in unnamed]
    named = [f'"{name}"' for name in donation.names if name not in unnamed]
    options = [_option("donate_argnums", numbers)] if numbers else []
    options += [_option("donate_argnames", named)] if named else []
    if donation.every:
        options = [f'donate="{donation.every}"']
    if isinstance(written, ast.Call):
        added = adding_arguments(document, written, options)
        assert added is not None
        yield added
    elif donation.every:
        end = document.span(written)[1]
        yield Edit(end, end, f"({options[0]})")
    else:
        yield Edit(*document.span(written), decorator(compiled.jit, options, imports).removeprefix("@"))


def _option(name: str, items: Sequence[str]) -> str:
    """`donate_argnames=("state",)`."""
    return f"{name}=({', '.join(items)}{',' if len(items) == 1 else ''})"
