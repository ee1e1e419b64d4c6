"""jitify: the eager hot path, a model, its gradients and its optimiser, becomes one compiled function.

What it does
    Finds calls of Modules, of `jax.grad`/`eqx.filter_grad` functions and of optimisers that run eagerly, in loops and
    in functions that are called again and again, and moves the largest pure stretch of code around them into one
    module-level `@eqx.filter_jit` function. Host control, printing and bookkeeping stay where they are.

Why it is slow
    Called eagerly, every primitive is dispatched on its own from Python: some 10 us each, for hundreds of them in a
    model and its gradient. Inside one jit the whole stretch is one call.

When it refuses
    When the code has effects, branches on computed values or changes objects, when it runs inside a compiled function
    already or only once, when it is so small that a call of a compiled function costs more, when an input grows with
    every call, and when it cannot be told what an input is. Where a recording knows how long the loop around the code
    took, a share below 1 % is not worth it either.

Safety
    What the code reads is passed, and held static only where it is a Python value that does not vary. Results may
    differ from the eager ones by rounding, as any jit changes the order of floating-point operations.

References
    https://docs.kidger.site/equinox/api/transformations/
    https://docs.jax.dev/en/latest/jit-compilation.html
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import ClassVar

from jitmod.analysis.blocks import Block, Blocked, Blocks, in_try, is_in_loop, is_timed
from jitmod.analysis.boundaries import loop_around
from jitmod.analysis.cost import WORTH_A_JIT, WORTH_A_PATCH, Costs
from jitmod.analysis.effects import Effects
from jitmod.analysis.jits import Contexts, analyses
from jitmod.analysis.tracing import EagerCode
from jitmod.model import Finding, Patch, Refusal, Variant
from jitmod.rewrite.codemod import Codemod, Example, Leaves, Refuses, Rewrites
from jitmod.rewrite.edits import compose
from jitmod.rewrite.extracted import Extraction
from jitmod.rewrite.names import Namer
from jitmod.rewrite.refused import REFUSING, refused
from jitmod.source.document import Document
from jitmod.source.project import Function, Project

_HEAD = """\
import equinox as eqx
import jax
import jax.numpy as jnp
import optax


"""


class Jitify(Codemod):
    """The codemod; see the module's docstring."""

    id = "jitify"
    summary = "the eager hot path becomes one compiled function"
    examples: ClassVar[Sequence[Example]] = (
        Rewrites(
            _HEAD
            + """\
def track(net: eqx.nn.MLP, frames: jax.Array):
    t, path = 0, []
    while t < len(frames):
        score = net(frames[t])
        path.append(t)
        t += 1 if float(score[0]) > 0 else 2  # the host decides
    return path
""",
            _HEAD
            + """\
@eqx.filter_jit
def _track_forward(net, frame):
    return net(frame)


def track(net: eqx.nn.MLP, frames: jax.Array):
    t, path = 0, []
    while t < len(frames):
        score = _track_forward(net, frames[t])
        path.append(t)
        t += 1 if float(score[0]) > 0 else 2  # the host decides
    return path
""",
        ),
        Rewrites(
            _HEAD
            + """\
def loss(net, x):
    return jnp.mean(jax.vmap(net)(x) ** 2)


def fit(net: eqx.nn.MLP, batches: list[jax.Array]):
    optim = optax.adam(1e-3)
    state = optim.init(eqx.filter(net, eqx.is_array))
    for x in batches:
        value, grads = eqx.filter_value_and_grad(loss)(net, x)
        updates, state = optim.update(grads, state)  # no weights
        net = eqx.apply_updates(net, updates)
        print(value)
    return net
""",
            _HEAD
            + """\
def loss(net, x):
    return jnp.mean(jax.vmap(net)(x) ** 2)


_OPTIM = optax.adam(1e-3)


@eqx.filter_jit
def _fit_step(net, x, state):
    value, grads = eqx.filter_value_and_grad(loss)(net, x)
    updates, state = _OPTIM.update(grads, state)  # no weights
    net = eqx.apply_updates(net, updates)
    return value, state, net


def fit(net: eqx.nn.MLP, batches: list[jax.Array]):
    state = _OPTIM.init(eqx.filter(net, eqx.is_array))
    for x in batches:
        value, state, net = _fit_step(net, x, state)
        print(value)
    return net
""",
        ),
        Leaves(_HEAD + "def predict(net: eqx.nn.MLP, x: jax.Array):\n    return net(x)\n"),
        Refuses(
            _HEAD
            + """\
def walk(layer: eqx.nn.Identity, x: jax.Array):
    while float(x[0]) > 0:
        x = layer(x)
    return x
""",
            "too-small",
        ),
        Refuses(
            _HEAD
            + """\
def generate(net: eqx.nn.MLP, ids: jax.Array):
    while float(ids[-1]) > 0:
        ids = jnp.append(ids, net(ids))
    return ids
""",
            "growing-shape",
        ),
    )

    def find(self, document: Document, project: Project) -> Iterator[Finding]:
        effects, contexts = analyses(project)
        module = project.module(document)
        namer = Namer.of(module)
        costs = Costs(effects.inference)
        found: list[Finding] = []

        def may_be_hot(statements: Sequence[ast.stmt], function: Function) -> bool:
            tested = any(isinstance(statement, ast.While) for statement in statements)  # its test is in the loop
            return tested or self._is_hot(statements[0], function, contexts)

        for block in Blocks(module, effects, contexts, EagerCode(module, effects), admits=may_be_hot).find():
            match block:
                case Blocked():
                    if self._is_hot(block.heavy, block.function, contexts):
                        site = document.site(block.heavy, block.function.name)
                        where = f"{block.hazard.what} ({block.hazard.path}:{block.hazard.line})"
                        found.append(Refusal(self.id, site, block.hazard.reason, where))
                case Block():
                    if self._is_hot(block.heavy, block.function, contexts):
                        found.append(self._decide(block, effects, costs, namer))
        yield from sorted(found, key=lambda f: (f.site.line, f.site.column))

    def _is_hot(self, node: ast.AST, function: Function, contexts: Contexts) -> bool:
        """In a loop, or in a function that somebody calls, or that a recording saw being called again."""
        recorded = contexts.inference.project.recorded.function(function.module.document.path, function.name)
        called = bool(contexts.inference.call_sites(function)) or (recorded is not None and recorded.entries > 1)
        return called or is_in_loop(node, function.module)

    def _share(self, block: Block, effects: Effects) -> float | None:
        """The share of a recorded run that the loop around a block took; None where none says it."""
        loop = loop_around(block.anchor, block.module)
        if not isinstance(loop, ast.expr | ast.stmt):
            return None
        place = block.module.document.site(loop, block.function.name)
        return effects.inference.project.recorded.shares.get((place.path, place.line, place.column))

    def _decide(self, block: Block, effects: Effects, costs: Costs, namer: Namer) -> Finding:
        document = block.module.document
        site = document.site(block.anchor, block.function.name)
        callee = ast.unparse(block.heavy.func)
        if is_timed(block.heavy, block.module, effects):
            return Refusal(self.id, site, "timing-loop", f"a clock is read around `{callee}` (line {site.line})")
        if in_try(block.anchor, block.module):
            message = f"a handler around `{callee}` could catch what only a trace raises (line {site.line})"
            return Refusal(self.id, site, "exception-order", message)
        share = self._share(block, effects)
        if share is not None and share < WORTH_A_PATCH:
            message = f"the loop around `{callee}` took {share:.2%} of the time that was recorded"
            return Refusal(self.id, site, "too-small", f"{message} (line {site.line})")
        extraction = Extraction(block, effects, namer)
        try:
            made = extraction.edits()
            operations = sum(costs.of_nodes(part, block.module) for part in block.parts)
            if operations < WORTH_A_JIT:
                message = f"`{callee}` is about {operations} operations: less than a compiled call costs"
                return Refusal(self.id, site, "too-small", f"{message} (line {site.line})")
            compose(document, made)
        except REFUSING as why:
            return refused(self.id, site, why)
        message = f"`{callee}` and what is pure around it run eagerly; `{extraction.name}` is one compiled call"
        return Patch(self.id, site, message, (Variant("compiled", made),), (), (extraction.name,))
