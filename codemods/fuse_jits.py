"""fuse-jits: a function that calls many small compiled functions becomes one compiled function.

What it does
    Finds functions that are not compiled themselves and call compiled functions one after the other, with nothing but
    pure work in between, and puts one jit on the whole. Where a function has host work too, its largest pure stretch
    moves into one compiled function, and an `if` on a computed value stays between its two arms. `jax.vmap(f)` of a
    compiled `f` becomes `jax.jit(jax.vmap(f))`.

Why it is slow
    XLA optimises what it is handed inside one jit. Each small jit is a dispatch of its own, its results go through
    memory, and what stands between them runs eagerly, operation by operation. `vmap` of a compiled function is traced
    by Python at every call.

When it refuses
    When there is host work, a branch on a computed value, or a function that donates, is placed on devices or takes
    static arguments in between, when a parameter or result might be something else than arrays, when every call has a
    new shape, and when the whole is called in a trace already. It never fires on one call without work around it.

Safety
    A jit inside is kept where a trace reaches its function twice or more: its inner structure makes compiling faster,
    and XLA inlines it (`jitmod explain fuse-jits --measure` shows by how much on your jax). It is dropped where a trace
    reaches it once and nothing else names the function. Results may differ by rounding, as any jit changes the order of
    floating-point operations. A larger program is not always a faster one: nothing is committed without a trial.

References
    https://docs.jax.dev/en/latest/jit-compilation.html
    https://github.com/jax-ml/jax/discussions/7995
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import ClassVar

from jitmod.analysis.blocks import Block, Blocks, in_try, is_in_loop, is_timed
from jitmod.analysis.boundaries import function_around
from jitmod.analysis.composites import Composite, Composites, Dispatching
from jitmod.analysis.cost import Costs
from jitmod.analysis.effects import Effects
from jitmod.analysis.jits import Contexts, analyses
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.syntax import calls_outside_functions
from jitmod.analysis.tracing import EagerCode
from jitmod.model import Finding, Patch, Refusal, Site, Variant
from jitmod.rewrite.codemod import Codemod, Example, Leaves, Refuses, Rewrites
from jitmod.rewrite.decorated import Decorating
from jitmod.rewrite.edits import compose
from jitmod.rewrite.extracted import Extraction
from jitmod.rewrite.names import Namer
from jitmod.rewrite.outermost import jitted, mapped_jits
from jitmod.rewrite.refused import REFUSING, refused
from jitmod.source.document import Document
from jitmod.source.project import Function, Project, SourceModule

_HEAD = """\
import jax
import jax.numpy as jnp


"""


class FuseJits(Codemod):
    """The codemod; see the module's docstring."""

    id = "fuse-jits"
    summary = "many small jits become one"
    examples: ClassVar[Sequence[Example]] = (
        Rewrites(
            _HEAD
            + """\
@jax.jit
def centre(p):
    return p - p.mean(axis=0)


@jax.jit
def distance(p, q):
    return jnp.sqrt(((p - q) ** 2).sum())


def compare(p: jax.Array, q: jax.Array):
    # both around the origin
    p, q = centre(p), centre(q)
    return distance(p, q)
""",
            _HEAD
            + """\
@jax.jit
def centre(p):
    return p - p.mean(axis=0)


def distance(p, q):
    return jnp.sqrt(((p - q) ** 2).sum())


@jax.jit
def compare(p: jax.Array, q: jax.Array):
    # both around the origin
    p, q = centre(p), centre(q)
    return distance(p, q)
""",
        ),
        Rewrites(
            _HEAD
            + """\
@jax.jit
def predict(x, w):
    return jnp.tanh(x @ w)


@jax.jit
def update(x, w, y):
    return w - 0.1 * x.T @ (y - x @ w)


def fit(batches: list[jax.Array], w: jax.Array):
    for x in batches:
        y = predict(x, w)
        w = update(x, w, 2 * y)  # towards itself
        print(w.sum())
    return w
""",
            _HEAD
            + """\
@jax.jit
def predict(x, w):
    return jnp.tanh(x @ w)


@jax.jit
def update(x, w, y):
    return w - 0.1 * x.T @ (y - x @ w)


@jax.jit
def _fit_fused(x, w):
    y = predict(x, w)
    w = update(x, w, 2 * y)  # towards itself
    return w


def fit(batches: list[jax.Array], w: jax.Array):
    for x in batches:
        w = _fit_fused(x, w)
        print(w.sum())
    return w
""",
        ),
        Rewrites(
            _HEAD
            + """\
@jax.jit
def length(x):
    return jnp.sqrt((x**2).sum())


lengths = jax.vmap(length)
""",
            _HEAD
            + """\
@jax.jit
def length(x):
    return jnp.sqrt((x**2).sum())


lengths = jax.jit(jax.vmap(length))
""",
        ),
        Leaves(_HEAD + "@jax.jit\ndef f(x):\n    return x + 1\n\n\ndef g(x: jax.Array):\n    return f(x)\n"),
        Refuses(
            _HEAD
            + """\
@jax.jit
def f(x):
    return x + 1


def g(x: jax.Array):
    y = f(x)
    return f(y) if y.sum() > 0 else f(x - 1)
""",
            "batched-branch",
        ),
    )

    def find(self, document: Document, project: Project) -> Iterator[Finding]:
        effects, contexts = analyses(project)
        module = project.module(document)
        namer, costs = Namer.of(module), Costs(effects.inference)
        code, composites = Dispatching(module, effects), Composites(effects, contexts)
        found: list[Finding] = []
        refused: dict[Function, Refusal] = {}
        wholes: dict[Function, Composite] = {}
        for function in module.functions.values():
            site = document.site(_first(function), function.name)
            try:
                composite = composites.of(function, code, costs)
            except Unplannable as why:
                line = getattr(why.node, "lineno", site.line)
                refused[function] = Refusal(self.id, site, why.reason, f"{why.message} (line {line})")
                continue
            if composite is not None:
                wholes[function] = composite

        def admits(statements: Sequence[ast.stmt], function: Function) -> bool:
            """Whether a stretch of `statements` may be worth a jit: not unless all of them together are."""
            if function in wholes or not self._is_hot(statements[0], function, contexts):
                return False
            return composites.worth(composites.dispatches(statements, module), statements, module, costs)

        for block in Blocks(module, effects, contexts, code, of_pure_ones=True, admits=admits).find():
            if isinstance(block, Block):
                finding = self._of_block(block, composites, costs, effects, namer)
                if finding is not None:
                    found.append(finding)
                    refused.pop(block.function, None)
        for function, whole in wholes.items():
            callers = {function_around(call, at) for at, call in effects.inference.call_sites(function)}
            if not callers or not callers <= set(wholes):  # else the outermost one is compiled
                found.append(self._of_function(whole, effects, document))
        found += refused.values()
        for call in mapped_jits(module, effects):
            site = document.site(call, "<module>")
            message = f"`{ast.unparse(call)}` is traced at every call: the jit belongs around the vmap"
            outermost = partial(_outermost, call, module, effects)
            found.append(self._checked(site, document, outermost, message))
        yield from sorted(found, key=lambda f: (f.site.line, f.site.column))

    def _of_function(self, whole: Composite, effects: Effects, document: Document) -> Finding:
        function = whole.function
        site = document.site(_first(function), function.name)
        decorating = Decorating(whole, effects)

        def variants() -> tuple[Variant, ...]:
            edits = decorating.edits()
            once, perhaps = decorating.dropped()
            first = Variant("one jit", (*edits, *once))
            return (first, Variant("no inner jits", (*first.edits, *perhaps))) if perhaps else (first,)

        count = len(whole.dispatches)
        what = f"calls {count} compiled functions in a row" if count > 1 else "works around a compiled function"
        message = f"`{function.name}` {what}; one jit holds it all"
        return self._checked(site, document, variants, message)

    def _of_block(
        self, block: Block, composites: Composites, costs: Costs, effects: Effects, namer: Namer
    ) -> Finding | None:
        """The finding of a stretch; None where it is worth nothing, or the business of jitify."""
        document, module = block.module.document, block.module
        found = composites.dispatches(block.parts, module)
        if not composites.worth(found, block.parts, module, costs):
            return None
        eager = EagerCode(module, effects)
        if any(eager.heavy_calls(part) for part in block.parts):
            return None
        site = document.site(block.anchor, block.function.name)
        infer = effects.inference
        for call in (c for part in block.parts for c in calls_outside_functions(part)):
            if infer.target(infer.kind(call.func, module)) is block.function:
                message = f"`{block.function.name}` calls itself: one compiled function would hold all of it"
                return Refusal(self.id, site, "local-callable", f"{message} (line {call.lineno})")
        if is_timed(block.heavy, module, effects):
            return Refusal(self.id, site, "timing-loop", f"a clock is read around the calls (line {site.line})")
        if in_try(block.anchor, module):
            message = f"a handler around the calls could catch what only a trace raises (line {site.line})"
            return Refusal(self.id, site, "exception-order", message)
        extraction = Extraction(block, effects, namer, ending="fused")

        def variants() -> tuple[Variant, ...]:
            for dispatch in found:
                composites.check_options(dispatch)
            return (Variant("one jit", extraction.edits()),)

        what = f"{len(found)} compiled functions are called in a row" if len(found) > 1 else (
            f"there is eager work around `{ast.unparse(block.heavy.func)}`")  # fmt: skip
        message = f"{what}; one compiled function holds it all"
        return self._checked(site, document, variants, message, lambda: (extraction.name,))

    def _is_hot(self, node: ast.AST, function: Function, contexts: Contexts) -> bool:
        return bool(contexts.inference.call_sites(function)) or is_in_loop(node, function.module)

    def _checked(
        self, site: Site, document: Document, make: Callable[[], tuple[Variant, ...]], message: str,
        names: Callable[[], tuple[str, ...]] = tuple,
    ) -> Finding:  # fmt: skip
        try:
            variants = make()
            for variant in variants:
                compose(document, variant.edits)
        except REFUSING as why:
            return refused(self.id, site, why)
        return Patch(self.id, site, message, variants, (), names())


def _first(function: Function) -> ast.stmt | ast.expr:
    """Where a function begins to run: its first statement, or the expression of a lambda."""
    if isinstance(function.node, ast.Lambda):
        return function.node.body
    first, *others = function.node.body
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return others[0] if is_text and others else first


def _outermost(call: ast.Call, module: SourceModule, effects: Effects) -> tuple[Variant, ...]:
    return (Variant("outermost", jitted(call, module, effects)),)
