"""captured-constants: a large array that a compiled function captures becomes its argument.

What it does
    Finds functions under `jax.jit` or `eqx.filter_jit` that read a large array of the module level, or of the function
    around them. The array becomes an argument of the compiled function, which gets another name; under the old name a
    plain function passes it. What the compiled function computes from such arrays alone is computed once, before it,
    and passed too.

Why it is slow
    A captured array is a constant of the program. XLA compiles it in, computes with it while it compiles ("constant
    folding", for seconds or minutes), and keeps a copy of it in every program that was compiled. As an argument it is
    none of that, but what is computed from it would be computed in every call, so that must go too.

When it refuses
    When the array is bound anew somewhere, when its values are needed while the function is traced, when the compiled
    function is handed on (its uses cannot be seen), when what is prepared stands under a condition or cannot be told
    to be pure, and when a setting of jax may differ between the place where it is made and where it is called.
    Arrays that are known to be small stay where they are; one of unknown size counts as large, for a trial to judge.

Safety
    An array of jax cannot be changed in place. Results may differ by rounding: what was folded is computed.

References
    https://docs.jax.dev/en/latest/jit-compilation.html
    https://github.com/jax-ml/jax/issues/10596
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import ClassVar

from jitmod.analysis.baked import Baking
from jitmod.analysis.compiled import compiled_functions
from jitmod.analysis.jits import analyses
from jitmod.model import Finding, Patch, Variant
from jitmod.rewrite.codemod import Codemod, Example, Leaves, Refuses, Rewrites
from jitmod.rewrite.edits import compose
from jitmod.rewrite.names import Namer
from jitmod.rewrite.refused import REFUSING, refused
from jitmod.rewrite.unbaked import Unbaking
from jitmod.source.document import Document
from jitmod.source.project import Project

_HEAD = "import jax\nimport jax.numpy as jnp\n\n\n"


class CapturedConstants(Codemod):
    """The codemod; see the module's docstring."""

    id = "captured-constants"
    summary = "a large array that a compiled function captures becomes its argument"
    examples: ClassVar[Sequence[Example]] = (
        Rewrites(
            _HEAD
            + """\
def make_lookup(table):
    @jax.jit
    def lookup(idx):
        scaled = table / jnp.max(table)  # the same in every call
        return scaled[idx] + table[0]

    return lookup


lookup = make_lookup(jnp.ones((40_000, 8)))
print(lookup(3))
""",
            _HEAD
            + """\
def make_lookup(table):
    scaled = table / jnp.max(table)  # the same in every call

    @jax.jit
    def _lookup(idx, table, scaled):
        return scaled[idx] + table[0]

    def lookup(idx):
        return _lookup(idx, table, scaled)

    return lookup


lookup = make_lookup(jnp.ones((40_000, 8)))
print(lookup(3))
""",
        ),
        Rewrites(
            _HEAD
            + """\
TABLE = jnp.ones((500, 500))


@jax.jit
def project(x):
    return x @ TABLE
""",
            _HEAD
            + """\
TABLE = jnp.ones((500, 500))


@jax.jit
def _project(x, table):
    return x @ table


def project(x):
    return _project(x, TABLE)
""",
        ),
        Leaves(_HEAD + "RATES = jnp.ones(3)\n\n\n@jax.jit\ndef f(x):\n    return x * RATES\n"),
        Refuses(
            _HEAD
            + """\
TABLE = jnp.ones((500, 500))


@jax.jit
def project(x):
    return x @ TABLE


TABLE = 2 * TABLE
""",
            "frozen-by-jit",
        ),
    )

    def find(self, document: Document, project: Project) -> Iterator[Finding]:
        effects, contexts = analyses(project)
        module = project.module(document)
        namer = Namer.of(module)
        found: list[Finding] = []
        for compiled in compiled_functions(module, effects):
            baking = Baking(compiled, effects, contexts)
            arrays = baking.arrays()
            if not arrays or not baking.is_worth_it():
                continue
            node = compiled.node
            documented = ast.get_docstring(node, clean=False) is not None and len(node.body) > 1
            site = document.site(node.body[int(documented)], compiled.function.name)  # a run gets there
            try:
                unbaking = Unbaking(baking.judged(arrays), namer)
                edits = unbaking.edits()
                compose(document, edits)
            except REFUSING as why:
                found.append(refused(self.id, site, why))
                continue
            sizes = ", ".join(f"`{a.name}` ({_words(a.size)})" for a in arrays)
            message = f"compiled into `{node.name}` as constants: {sizes}; `{unbaking.name}` gets them as arguments"
            found.append(Patch(self.id, site, message, (Variant("argument", edits),), (), (unbaking.name,)))
        yield from sorted(found, key=lambda f: (f.site.line, f.site.column))


def _words(size: int | None) -> str:
    return "of unknown size" if size is None else f"{size:,} elements or more"
