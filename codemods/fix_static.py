"""fix-static: arrays in static fields become leaves of their Module; Modules are not built anew in every round.

What it does
    Takes `static=True` from a field of a Module that holds an array wherever the project builds one. Moves
    `net = Net(w, b)` and `params, static = eqx.partition(net, ...)` out of loops whose rounds do not change what they
    are made from.

Why it is slow
    A static field is part of the key under which a compiled function is found. Arrays are no keys: with a second object
    the lookup fails, or compiles again, and the array is compiled in as a constant. A Module that is built anew costs
    its initialisation, key by key and layer by layer, in every round.

When it refuses
    Where the project takes gradients of Modules, maps over them, or goes through their leaves in another way: the array
    would be trained, saved, or split up from then on. Where a method needs its values while it is traced, and where the
    field is not always an array. Where a Module may be kept by a round, or where building it does more than that.

Safety
    An array as a leaf is traced; what is computed is the same up to rounding.

References
    https://docs.kidger.site/equinox/api/module/advanced_fields/
    https://docs.kidger.site/equinox/faq/
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from jitmod.analysis.jits import analyses
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.rebuilt import Rebuilt, check_rebuilt, rebuilt_modules
from jitmod.analysis.stable import block_of
from jitmod.analysis.static_arrays import StaticField, check_field, static_array_fields
from jitmod.analysis.syntax import first_line
from jitmod.model import Edit, Finding, Patch, Site, Variant
from jitmod.rewrite.codemod import Codemod, Example, Leaves, Refuses, Rewrites
from jitmod.rewrite.edits import compose
from jitmod.rewrite.lifted import margin, removed
from jitmod.rewrite.refused import REFUSING, refused
from jitmod.rewrite.text import reindent
from jitmod.source.document import Document
from jitmod.source.project import Project

_HEAD = "import equinox as eqx\nimport jax\nimport jax.numpy as jnp\n\n\n"
_WAVES = """\
class Waves(eqx.Module):
    freqs: jax.Array = eqx.field(static=True)

    def __call__(self, x):
        return jnp.sin(self.freqs * x)


@eqx.filter_jit
def play(waves, x):
    return waves(x)


"""


class FixStatic(Codemod):
    """The codemod; see the module's docstring."""

    id = "fix-static"
    summary = "arrays in static fields become leaves of their Module; Modules are not built anew in every round"
    examples: ClassVar[Sequence[Example]] = (
        Rewrites(
            _HEAD + _WAVES + "print(play(Waves(jnp.arange(3.0)), jnp.ones(3)))\n",
            _HEAD
            + _WAVES.replace(" = eqx.field(static=True)", "")
            + "print(play(Waves(jnp.arange(3.0)), jnp.ones(3)))\n",
        ),
        Rewrites(
            _HEAD
            + """\
def scores(xs: list[jax.Array], key: jax.Array):
    found = []
    for x in xs:
        net = eqx.nn.Linear(3, 3, key=key)  # the same one
        found.append(net(x))
    return found
""",
            _HEAD
            + """\
def scores(xs: list[jax.Array], key: jax.Array):
    found = []
    net = eqx.nn.Linear(3, 3, key=key)  # the same one
    for x in xs:
        found.append(net(x))
    return found
""",
        ),
        Leaves(_HEAD + "class Net(eqx.Module):\n    size: int = eqx.field(static=True)\n\n\nnet = Net(3)\n"),
        Refuses(
            _HEAD
            + _WAVES
            + "def train(x):\n    return eqx.filter_grad(lambda w: w(x).sum())(Waves(jnp.arange(3.0)))\n",
            "stateful-module",
        ),
    )

    def find(self, document: Document, project: Project) -> Iterator[Finding]:
        effects, contexts = analyses(project)
        module = project.module(document)
        found: list[Finding] = []
        for field in static_array_fields(module, effects):
            site = document.site(field.statement, field.cls.name)
            message = f"`{field.name}` is static and holds an array: as a leaf it is traced, and no key of the cache"

            def traced(field: StaticField = field) -> tuple[Edit, ...]:
                check_field(field, effects, contexts)
                return (_without_static(field),)

            found.append(self._decide(document, site, message, "leaf", traced))
        for rebuilt in rebuilt_modules(module, effects, contexts):
            site = document.site(rebuilt.statement, module.scope_of(rebuilt.statement).qualname)
            message = f"`{', '.join(rebuilt.names)}` is built anew in every round, from what stays the same"

            def hoisted(rebuilt: Rebuilt = rebuilt) -> tuple[Edit, ...]:
                check_rebuilt(rebuilt, effects)
                return tuple(_before_the_loop(rebuilt))

            found.append(self._decide(document, site, message, "hoisted", hoisted))
        yield from sorted(found, key=lambda f: (f.site.line, f.site.column))

    def _decide(
        self, document: Document, site: Site, message: str, form: str, edits: Callable[[], tuple[Edit, ...]]
    ) -> Finding:
        try:
            made = edits()
            compose(document, made)
        except REFUSING as why:
            return refused(self.id, site, why)
        return Patch(self.id, site, message, (Variant(form, made),))


def _without_static(field: StaticField) -> Edit:
    """The declaration without `static=True`; without anything behind the annotation where nothing else is left."""
    document, call = field.module.document, field.call
    kept = [document.text(a) for a in call.args]
    kept += [f"{k.arg}={document.text(k.value)}" for k in call.keywords if k.arg != "static"]
    start, end = document.span(call)
    if kept:
        return Edit(start, end, f"{document.text(call.func)}({', '.join(kept)})")
    return Edit(document.span(field.statement.annotation)[1], end, "")


def _before_the_loop(rebuilt: Rebuilt) -> Iterator[Edit]:
    document, statement, loop = rebuilt.module.document, rebuilt.statement, rebuilt.loop
    old, new = margin(document, statement), margin(document, loop)
    first, last = first_line(statement), statement.end_lineno or statement.lineno
    if block_of(statement, rebuilt.module) == [statement]:
        raise Unplannable("unparsable", statement, "nothing would be left in the loop")
    comments = 0
    while document.line(first - 1 - comments).strip().startswith("#"):
        comments += 1
    gone = removed(document, statement, comments)
    lines = [document.line(n) for n in range(first - comments, first)]
    text = "\n".join(document.line(n) for n in range(first, last + 1))
    moved = "\n".join([*[new + line.strip() for line in lines], new + reindent(text.removeprefix(old), old, new)])
    line = loop.lineno
    while line > 1 and document.line(line - 1).startswith(f"{new}#"):
        line -= 1
    at = document.line_starts[line - 1]
    yield Edit(at, at, f"{moved}\n")
    yield gone
