"""A loop whose items are independent of each other, as one compiled call: a patch with its variants, or a refusal."""

from __future__ import annotations

import ast
from dataclasses import replace

from jitmod.analysis.batching import BatchPlan, batch
from jitmod.analysis.collect import array_makers, is_array_alone
from jitmod.analysis.convolutions import convolutions
from jitmod.analysis.effects import Effects
from jitmod.analysis.jits import Contexts
from jitmod.analysis.loops import Loop, Unplannable
from jitmod.analysis.values import Array, Instance, NdArray, Routine, Transformed
from jitmod.model import Knob, Patch, Refusal, Variant
from jitmod.rewrite.chunks import Chunked
from jitmod.rewrite.edits import EditConflict, compose
from jitmod.rewrite.function import Compiled
from jitmod.rewrite.imports import Imports, NameTaken
from jitmod.rewrite.lower import Lowering
from jitmod.rewrite.names import Namer
from jitmod.rewrite.refused import REFUSING, refused


def batched(
    codemod: str,
    loop: Loop,
    heavy: ast.Call,
    effects: Effects,
    contexts: Contexts,
    namer: Namer,
    what: str,
) -> Patch | Refusal:
    """The finding of `codemod` for a loop that calls `heavy`; `what` says in words what the patch does."""
    document = loop.module.document
    site = document.site(loop.node, loop.symbol)
    before = namer.copy()
    try:
        decided = batch(loop, effects, contexts, heavy)
        knob = _batch_size(heavy, loop, effects)
        strong = _may_be_weak(heavy, loop, effects) and _is_the_array(decided, effects)
        function, variant = _variant(Compiled, decided, effects, namer, knob, strong)
    except REFUSING as why:
        return refused(codemod, site, why)
    message = f"{what}; they move into `{function.name}`"
    variants = (variant, *_in_chunks(decided, effects, contexts, before, namer, knob))
    return Patch(codemod, site, message, variants, decided.assumptions, (function.name,))


def _may_be_weak(heavy: ast.Call, loop: Loop, effects: Effects) -> bool:
    """Whether an array is made of a list, never weakly typed, whose items may be: those of a Module have its type."""
    makers = array_makers(loop, effects.inference)
    kind = effects.inference.kind(heavy.func, loop.module)
    while isinstance(kind, Transformed):
        kind = kind.base
    of_module = isinstance(kind, Instance) or (isinstance(kind, Routine) and kind.receiver is not None)
    return bool(makers) and "jax.numpy.stack" not in makers and not of_module


def _is_the_array(plan: BatchPlan, effects: Effects) -> bool:
    """Whether the array itself is what the compiled function gives: no list that is made one only later."""
    if plan.collectors:
        return all(collector.folds for collector in plan.collectors)
    (emit, *others) = plan.emits
    whole = isinstance(plan.loop.node, ast.ListComp) and emit.readers == (plan.loop.node.elt,) and not others
    return whole and isinstance(emit.value.kind, Array) and is_array_alone(plan.loop, effects.inference)


def _variant(
    form: type[Compiled], plan: BatchPlan, effects: Effects, namer: Namer, knob: Knob, strengthens: bool = False
) -> tuple[Compiled, Variant]:
    """One form of the patch. Raises `Unplannable`, `EditConflict` or `NameTaken` where it cannot be written."""
    function = form(plan, effects, Imports(plan.loop.module), namer, knob, strengthens)
    variant = Variant("chunks" if form.returns_list else "lax.map", Lowering(plan, function).edits(), (knob,))
    compose(plan.loop.module.document, variant.realise({}))
    return function, variant


def _in_chunks(
    plan: BatchPlan, effects: Effects, contexts: Contexts, before: Namer, namer: Namer, knob: Knob
) -> tuple[Variant, ...]:
    """The form for a number of items that varies, where it can be written: chunks of one size.

    Arrays are cut by numpy, which a trace would not survive.
    """
    function = plan.loop.function
    cut = any(isinstance(s.kind, Array | NdArray) for s in plan.items)
    traced = cut and function is not None and contexts.may_get_tracers(function)
    if traced or plan.trip.is_stable:
        return ()
    try:
        _, variant = _variant(Chunked, plan, effects, before, replace(knob, default=min(knob.default, 16)))
    except (Unplannable, EditConflict, NameTaken):
        return ()
    namer.taken |= before.taken
    return (variant,)


def _batch_size(heavy: ast.Call, loop: Loop, effects: Effects) -> Knob:
    """How many items run at once, before a trial tunes it.

    Measured on CPU: a 1-D or 2-D convolution is slow inside a loop of XLA's, so it gets one large batch; a batched 3-D
    convolution is slower than a loop over small batches.
    """
    found = convolutions([heavy], loop.module, effects.inference)
    if any(name.startswith("equinox.nn.Conv3d") for name in found):
        return Knob("batch_size", 8, (8, 1, 64))
    if found:
        return Knob("batch_size", 256, (256, 32, 4))
    return Knob("batch_size", 64, (64, 16, 256))
