"""vmapify: a per-item loop over a Module becomes one batched call inside `filter_jit`.

What it does
    Finds loops, list comprehensions and `list(map(...))` that call an `eqx.Module` or a compiled function once per
    item, and moves that call, with the pure computation around it, into one module-level `@eqx.filter_jit` function on
    `jax.lax.map(per_item, items, batch_size=N)`. Host work of the loop (`float(...)`, `print`, lists of Python values)
    stays a Python loop, over the results. Items may come from arrays, lists, tuples (unpacked, or `pair[0]`), dicts and
    their views, zip, enumerate, `range(len(xs))`, and progress bars around any of them, those of the project's own
    classes too; a list of Modules becomes one Module with stacked arrays. Windows whose place is computed
    (`xs[s : s + w]`) are cut out by `dynamic_slice`; where it cannot be shown that each of them lies inside of the
    array, a guard keeps the loop as it was for those that do not. A buffer whose row `i` every item fills
    (`grid = grid.at[i].set(y)`) is updated once, for all rows. In a comprehension with several `for` the innermost
    becomes one call for each item of the others.

Forms
    `lax.map` compiles once for every number of items. Where that number may vary, a trial also tries `chunks`: a
    function of a fixed number of items that the host drives, which compiles once for all of them. Arrays are cut by
    numpy there, so it is offered only where everything that calls the function can be seen, and no trace passes.

Why it is slow
    Called eagerly, every primitive of the model is dispatched on its own from Python, for every item; called through a
    small jit per item, the device idles between launches. Inside one jit the whole batch is one launch.

When it refuses
    When an item depends on the one before, when host work feeds the model, when an exit depends on data, when the
    callee has effects or a branch that batching would change, when the items are not arrays of one shape, when a `try`
    could see how far the loop came, and when anything on the way cannot be resolved. Each refusal has a reason code.

Safety
    Items, length and dtype are proved, guarded in the generated code, or stated as an assumption whose violation
    raises. Results may differ from the eager ones by rounding, as any jit changes the order of floating-point
    operations. Random draws are the same: chained keys are split by a scan in the same order.

References
    https://docs.jax.dev/en/latest/_autosummary/jax.lax.map.html
    https://docs.kidger.site/equinox/api/transformations/
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import ClassVar

from jitmod.analysis.batching import heavy_calls, is_in_chunks
from jitmod.analysis.effects import Effects
from jitmod.analysis.jits import Contexts, analyses, describe
from jitmod.analysis.loops import Loop, loops_in
from jitmod.model import Finding
from jitmod.rewrite.batched import batched
from jitmod.rewrite.codemod import Codemod, Example, Leaves, Refuses, Rewrites
from jitmod.rewrite.mapped import mapped
from jitmod.rewrite.names import Namer
from jitmod.source.document import Document
from jitmod.source.project import Project

_HEAD = """\
import equinox as eqx
import jax
import jax.numpy as jnp


class Net(eqx.Module):
    layer: eqx.nn.Linear

    def __call__(self, x):
        return jax.nn.relu(self.layer(x))


"""


class Vmapify(Codemod):
    """The codemod; see the module's docstring."""

    id = "vmapify"
    summary = "a per-item loop over a Module becomes one batched call inside filter_jit"
    examples: ClassVar[Sequence[Example]] = (
        Rewrites(
            _HEAD
            + """\
def predict(net: Net, crops: jax.Array):
    # one call per crop
    return jnp.stack([net(crop) for crop in crops])
""",
            _HEAD
            + """\
PREDICT_BATCH_SIZE = 64


@eqx.filter_jit
def _predict_batched(net: Net, crops: jax.Array):
    return jax.lax.map(net, crops, batch_size=PREDICT_BATCH_SIZE)


def predict(net: Net, crops: jax.Array):
    # one call per crop
    return _predict_batched(net, crops) if len(crops) else jnp.stack([])
""",
        ),
        Rewrites(
            _HEAD
            + """\
def refine(net: Net, boxes: list[jax.Array], out: list):
    for box in boxes:
        y = net(box)
        out.append(y + box)  # a residual
""",
            _HEAD
            + """\
REFINE_BATCH_SIZE = 64


@eqx.filter_jit
def _refine_batched(net: Net, boxes: list[jax.Array]):
    with jax.numpy_dtype_promotion("strict"):  # items of several dtypes raise here instead of being cast
        stacked_boxes = jnp.stack(boxes)

    def per_item(box):
        y = net(box)
        return y + box

    return jax.lax.map(per_item, stacked_boxes, batch_size=REFINE_BATCH_SIZE)


def refine(net: Net, boxes: list[jax.Array], out: list):
    values = ()
    if len(boxes):
        values = _refine_batched(net, boxes)
    for value in values:
        out.append(value)  # a residual
""",
        ),
        Rewrites(
            _HEAD
            + """\
def report(net: Net, names: list[str], crops: jax.Array):
    for name, crop in zip(names, crops):
        y = net(crop)
        score = float(jnp.max(y))
        print(f"{name}: {score:.2f}")
""",
            _HEAD
            + """\
REPORT_BATCH_SIZE = 64


@eqx.filter_jit
def _report_batched(net: Net, crops: jax.Array):
    def per_item(crop):
        y = net(crop)
        return jnp.max(y)

    return jax.lax.map(per_item, crops, batch_size=REPORT_BATCH_SIZE)


def report(net: Net, names: list[str], crops: jax.Array):
    scores = ()
    if len(crops):
        scores = jax.device_get(_report_batched(net, crops))
    for name, score in zip(names, scores):
        score = float(score)
        print(f"{name}: {score:.2f}")
""",
        ),
        Rewrites(
            _HEAD
            + """\
def embed(net: Net, crops: dict[str, jax.Array]):
    found = {}
    for name, crop in crops.items():
        found[name] = net(crop)
    return found
""",
            _HEAD
            + """\
EMBED_BATCH_SIZE = 64


@eqx.filter_jit
def _embed_batched(net: Net, crops):
    with jax.numpy_dtype_promotion("strict"):  # items of several dtypes raise here instead of being cast
        stacked_crops = jnp.stack(crops)
    return jax.lax.map(net, stacked_crops, batch_size=EMBED_BATCH_SIZE)


def embed(net: Net, crops: dict[str, jax.Array]):
    found = {}
    outputs = ()
    if len(crops):
        outputs = _embed_batched(net, [crop for _, crop in crops.items()])
    for (name, crop), output in zip(crops.items(), outputs):
        found[name] = output
    return found
""",
        ),
        Rewrites(
            _HEAD
            + """\
def vote(nets: list[Net], x: jax.Array):
    return jnp.stack([net(x) for net in nets])
""",
            _HEAD
            + """\
VOTE_BATCH_SIZE = 64


@eqx.filter_jit
def _vote_batched(x: jax.Array, nets: list[Net]):
    net_arrays, net_statics = zip(*[eqx.partition(net, eqx.is_array) for net in nets])
    if not all(eqx.tree_equal(static, net_statics[0]) for static in net_statics):
        raise ValueError("nets differ in more than their arrays")
    with jax.numpy_dtype_promotion("strict"):  # items of several dtypes raise here instead of being cast
        stacked_nets = jax.tree.map(lambda *leaves: jnp.stack(leaves), *net_arrays)

    def per_item(net):
        net = eqx.combine(net, net_statics[0])
        return net(x)

    return jax.lax.map(per_item, stacked_nets, batch_size=VOTE_BATCH_SIZE)


def vote(nets: list[Net], x: jax.Array):
    return _vote_batched(x, nets)
""",
        ),
        Leaves("import jax.numpy as jnp\n\n\ndef f(xs):\n    return [jnp.sum(x) for x in xs]\n"),
        Leaves(
            _HEAD
            + """\
@eqx.filter_jit
def embed(net: Net, crops: jax.Array):
    return jax.vmap(net)(crops)


def embed_all(net: Net, crops: jax.Array):
    return [embed(net, crops[start : start + 64]) for start in range(0, len(crops), 64)]
"""
        ),
        Refuses(
            _HEAD
            + """\
def rollout(net: Net, x: jax.Array, steps: jax.Array):
    for step in steps:
        x = net(x + step)
    return x
""",
            "carried-state",
        ),
        Refuses(
            _HEAD
            + """\
def first_positive(net: Net, crops: jax.Array):
    for crop in crops:
        if float(net(crop)[0]) > 0:
            return crop
    return None
""",
            "data-dependent-exit",
        ),
    )

    def find(self, document: Document, project: Project) -> Iterator[Finding]:
        effects, contexts = analyses(project)
        namer = Namer.of(project.module(document))
        for loop in loops_in(project.module(document)):
            heavy = heavy_calls(loop, effects)
            if heavy and not is_in_chunks(loop, heavy, effects):
                yield self._decide(loop, heavy[0], effects, contexts, namer)
        maps = mapped(document, project, effects)
        if maps is not None:
            effects, contexts = analyses(maps.project)
            for loop in maps.loops:
                heavy = heavy_calls(loop, effects)
                if heavy:
                    yield maps.told(self._decide(loop, heavy[0], effects, contexts, namer), loop)

    def _decide(self, loop: Loop, heavy: ast.Call, effects: Effects, contexts: Contexts, namer: Namer) -> Finding:
        callee = describe(effects.inference.kind(heavy.func, loop.module))
        what = f"batch the per-item calls of {callee} `{ast.unparse(heavy.func)}`"
        return batched(self.id, loop, heavy, effects, contexts, namer, what)
