"""scanify: a loop that hands arrays from step to step becomes one `jax.lax.scan`.

What it does
    Finds loops in which a step takes what the step before has made: rollouts, RNNs, solvers, optimiser steps, training
    on data in memory, stacks of identical layers. Everything that they compute on the device moves, with its comments,
    into one module-level compiled function around `jax.lax.scan(step, carry, xs)`. Lists get what the scan hands out,
    one value for every step; a list that is only stacked later becomes an array. Host work stays a Python loop over
    these values. Where the host works every so many steps (`if step % 100 == 0: print(step, loss)`), the scan runs
    over blocks that end there, and the host sees exactly the values that it saw before. Where a step convolves, a trial
    also tries a scan that runs several steps in one turn of its loop.

Why it is slow
    Outside of a jit every step is dispatched from Python, however small it is. Inside of one the loop is unrolled: its
    program, and the time to compile it, grow with the number of steps.

When it refuses
    When host work feeds the next step, when an exit depends on data, when the carry changes its structure or type or
    grows, when a compiled step would see a name that an outer loop rebinds, when an optimiser's state goes into every
    step and comes out of none, when the host needs the state of every step, when there are fewer than eight steps, and
    when anything on the way cannot be resolved. Each refusal has a reason code.

Safety
    The carry must keep its structure, shapes and dtypes; a scan that would change them raises before anything runs, and
    names both types. Modules are split into arrays and the rest, which is checked to stay the same. Python numbers that
    begin a carry become arrays of the type that a step gives back. Host arithmetic stays on the host, in its own
    precision. Where there may be no step at all, nothing is called. Results may differ from eager ones by rounding.

References
    https://docs.jax.dev/en/latest/_autosummary/jax.lax.scan.html
    https://docs.kidger.site/equinox/tricks/#improve-compilation-speed-with-scan-over-layers
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import ClassVar

from jitmod.analysis.convolutions import convolutions
from jitmod.analysis.effects import Effects
from jitmod.analysis.jits import analyses
from jitmod.analysis.loops import Loop, loops_in
from jitmod.analysis.scanning import ScanPlan, scanned
from jitmod.analysis.stateful import stateful
from jitmod.model import Finding, Knob, Patch, Variant
from jitmod.rewrite.codemod import Codemod, Example, Leaves, Refuses, Rewrites
from jitmod.rewrite.edits import compose
from jitmod.rewrite.imports import Imports
from jitmod.rewrite.names import Namer
from jitmod.rewrite.refused import REFUSING, refused
from jitmod.rewrite.scan_blocks import BlockEdits
from jitmod.rewrite.scan_edits import ScanEdits
from jitmod.rewrite.scanned import Scanned
from jitmod.source.document import Document
from jitmod.source.nodes import walk
from jitmod.source.project import Project

_HEAD = """\
import equinox as eqx
import jax
import jax.numpy as jnp
import optax

optim = optax.adam(1e-3)


@eqx.filter_jit
def make_step(model, opt_state, x, y):
    loss, grads = eqx.filter_value_and_grad(lambda m: jnp.mean((jax.vmap(m)(x) - y) ** 2))(model)
    updates, opt_state = optim.update(grads, opt_state, model)
    return eqx.apply_updates(model, updates), opt_state, loss


"""


class Scanify(Codemod):
    """The codemod; see the module's docstring."""

    id = "scanify"
    summary = "a loop that hands arrays from step to step becomes one jax.lax.scan"
    tried_last = True
    examples: ClassVar[Sequence[Example]] = (
        Rewrites(
            """\
import jax
import jax.numpy as jnp


@jax.jit
def advance(u):
    return u + 0.1 * (jnp.roll(u, 1) - u)


def rollout(u0: jax.Array, n_steps: int):
    u = u0
    trajectory = [u0]
    for _ in range(n_steps):
        u = advance(u)
        trajectory.append(u)  # every state
    return jnp.stack(trajectory)
""",
            """\
import functools

import jax
import jax.numpy as jnp


@jax.jit
def advance(u):
    return u + 0.1 * (jnp.roll(u, 1) - u)


@functools.partial(jax.jit, static_argnames="n_steps")
def _rollout_scan(u, n_steps, trajectory):
    def step(u, _):
        u = advance(u)
        # every state
        return u, u

    _, us = jax.lax.scan(step, u, length=n_steps)
    return jnp.concatenate([jnp.stack(trajectory), us])


def rollout(u0: jax.Array, n_steps: int):
    u = u0
    trajectory = [u0]
    if n_steps > 0:
        trajectory = _rollout_scan(u, n_steps, trajectory)
    return trajectory if n_steps > 0 else jnp.stack(trajectory)
""",
        ),
        Rewrites(
            """\
import jax
import jax.numpy as jnp


@jax.jit
def relax(*, acts, rate):
    energy, grads = jax.value_and_grad(lambda a: jnp.sum((a[1:] - a[:-1]) ** 2))(acts)
    return {"acts": acts - rate * grads, "energy": energy}


def settle(acts: jax.Array, rate: float):
    for _ in range(60):
        r = relax(acts=acts, rate=rate)
        acts = r["acts"]
        energy = r["energy"]  # before the update
    return acts, energy
""",
            """\
import jax
import jax.numpy as jnp


@jax.jit
def relax(*, acts, rate):
    energy, grads = jax.value_and_grad(lambda a: jnp.sum((a[1:] - a[:-1]) ** 2))(acts)
    return {"acts": acts - rate * grads, "energy": energy}


@jax.jit
def _settle_scan(acts, rate):
    def step(acts, _):
        r = relax(acts=acts, rate=rate)
        acts = r["acts"]
        energy = r["energy"]  # before the update
        return acts, energy

    acts, energies = jax.lax.scan(step, acts, length=60)
    return acts, jax.tree.map(lambda leaf: leaf[-1], energies)


def settle(acts: jax.Array, rate: float):
    acts, energy = _settle_scan(acts, rate)
    return acts, energy
""",
        ),
        Rewrites(
            _HEAD
            + """\
def train(model, x: jax.Array, y: jax.Array, n_steps: int):
    opt_state = optim.init(eqx.filter(model, eqx.is_array))
    losses = []
    for _ in range(n_steps):
        model, opt_state, loss = make_step(model, opt_state, x, y)
        losses.append(float(loss))
    return model, losses
""",
            _HEAD
            + """\
@eqx.filter_jit
def _train_scan(model, opt_state, x: jax.Array, y: jax.Array, n_steps):
    model_arrays, model_static = eqx.partition(model, eqx.is_array)

    def step(carry, _):
        model_arrays, opt_state = carry
        model = eqx.combine(model_arrays, model_static)
        model, opt_state, loss = make_step(model, opt_state, x, y)
        model_arrays, new_model_static = eqx.partition(model, eqx.is_array)
        if not eqx.tree_equal(new_model_static, model_static):
            raise TypeError("a step changes more than the arrays of model")
        return (model_arrays, opt_state), loss

    (model_arrays, _), losses = jax.lax.scan(step, (model_arrays, opt_state), length=n_steps)
    model = eqx.combine(model_arrays, model_static)
    return model, losses


def train(model, x: jax.Array, y: jax.Array, n_steps: int):
    opt_state = optim.init(eqx.filter(model, eqx.is_array))
    losses = []
    if n_steps > 0:
        model, all_losses = _train_scan(model, opt_state, x, y, n_steps)
        for loss in jax.device_get(all_losses):
            losses.append(float(loss))
    return model, losses
""",
        ),
        Rewrites(
            _HEAD
            + """\
def train(model, x: jax.Array, y: jax.Array, n_steps: int):
    opt_state = optim.init(eqx.filter(model, eqx.is_array))
    for step in range(n_steps):
        model, opt_state, loss = make_step(model, opt_state, x, y)
        # a sign of life now and then
        if step % 100 == 0:
            print(step, float(loss))
    return model
""",
            _HEAD
            + """\
@eqx.filter_jit
def _train_block(model, opt_state, x: jax.Array, y: jax.Array, length):
    model_arrays, model_static = eqx.partition(model, eqx.is_array)

    def step(carry, _):
        model_arrays, opt_state = carry
        model = eqx.combine(model_arrays, model_static)
        model, opt_state, loss = make_step(model, opt_state, x, y)
        model_arrays, new_model_static = eqx.partition(model, eqx.is_array)
        if not eqx.tree_equal(new_model_static, model_static):
            raise TypeError("a step changes more than the arrays of model")
        return (model_arrays, opt_state), loss

    (model_arrays, opt_state), losses = jax.lax.scan(step, (model_arrays, opt_state), length=length)
    model = eqx.combine(model_arrays, model_static)
    return model, opt_state, losses


def train(model, x: jax.Array, y: jax.Array, n_steps: int):
    opt_state = optim.init(eqx.filter(model, eqx.is_array))
    for step in range(0, n_steps, 100):
        model, opt_state, losses = _train_block(model, opt_state, x, y, min(100, n_steps - step))
        loss = losses[0]
        # a sign of life now and then
        print(step, float(loss))
    return model
""",
        ),
        Rewrites(
            """\
import equinox as eqx


class Deep(eqx.Module):
    layers: list[eqx.nn.Linear]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
""",
            """\
import equinox as eqx
import jax
import jax.numpy as jnp


@eqx.filter_jit
def _deep_scan(x, layers):
    layer_arrays, layer_statics = zip(*[eqx.partition(layer, eqx.is_array) for layer in layers])
    if not all(eqx.tree_equal(static, layer_statics[0]) for static in layer_statics):
        raise ValueError("layers differ in more than their arrays")
    with jax.numpy_dtype_promotion("strict"):  # items of several dtypes raise here instead of being cast
        stacked_layers = jax.tree.map(lambda *leaves: jnp.stack(leaves), *layer_arrays)

    def step(x, layer):
        layer = eqx.combine(layer, layer_statics[0])
        x = layer(x)
        return x, None

    x, _ = jax.lax.scan(step, x, stacked_layers)
    return x


class Deep(eqx.Module):
    layers: list[eqx.nn.Linear]

    def __call__(self, x):
        if len(self.layers):
            x = _deep_scan(x, self.layers)
        return x
""",
        ),
        Leaves("import jax.numpy as jnp\n\n\ndef f(xs):\n    for x in xs:\n        print(jnp.sum(x))\n"),
        Refuses(
            _HEAD
            + """\
def train(model, batches, x, y):
    opt_state = optim.init(eqx.filter(model, eqx.is_array))
    for step in range(1000):
        model, opt_state, loss = make_step(model, opt_state, x, y)
        if loss < 1e-3:
            break
    return model
""",
            "data-dependent-exit",
        ),
        Refuses(
            """\
import jax


@jax.jit
def sweep(u, omega):
    return u - omega * u


def relax(u: jax.Array, omega: float):
    for _ in range(100):
        u = sweep(u, omega)
        omega = float(input("damping? "))
    return u
""",
            "host-effect",
        ),
    )

    def find(self, document: Document, project: Project) -> Iterator[Finding]:
        effects, _ = analyses(project)
        namer = Namer.of(project.module(document))
        for loop in loops_in(project.module(document)):
            if stateful(loop, effects) is not None:
                found = self._decide(loop, effects, namer)
                yield from [] if found is None else [found]

    def _decide(self, loop: Loop, effects: Effects, namer: Namer) -> Finding | None:
        document = loop.module.document
        site = document.site(loop.node, loop.symbol)
        try:
            plan = scanned(loop, effects)
            if plan is None:
                return None
            before = namer.copy()
            function, variant = _variant(plan, effects, namer, unrolls=False)
            variants = (variant, *_unrolled(plan, effects, before))
            namer.taken |= before.taken
        except REFUSING as why:
            return refused(self.id, site, why)
        names = ", ".join(f"`{c.name}`" for c in plan.carry)
        message = f"scan the steps that hand on {names}; they move into `{function.name}`"
        return Patch(self.id, site, message, variants, plan.assumptions, (function.name,))


def _variant(plan: ScanPlan, effects: Effects, namer: Namer, unrolls: bool) -> tuple[Scanned, Variant]:
    """One form of the patch. Raises `Unplannable`, `EditConflict` or `NameTaken` where it cannot be written."""
    knob = Knob("unroll", 4, (4, 2, 8))
    function = Scanned(plan, effects, Imports(plan.loop.module), namer, knob, unrolls=unrolls)
    edits = ScanEdits if plan.block.kind == "whole" else BlockEdits
    form = "unrolled scan" if unrolls else "scan"
    variant = Variant(form, edits(plan, function).edits(), (knob,) if unrolls else ())
    compose(plan.loop.module.document, variant.realise({}))
    return function, variant


def _unrolled(plan: ScanPlan, effects: Effects, namer: Namer) -> tuple[Variant, ...]:
    """The form with several steps between two turns of the loop, which a convolution on a CPU is faster with."""
    calls = [c for n in plan.body.device_nodes() if n.expr is not None for c in walk(n.expr) if isinstance(c, ast.Call)]
    if not convolutions(calls, plan.loop.module, effects.inference):
        return ()
    return (_variant(plan, effects, namer, unrolls=True)[1],)

