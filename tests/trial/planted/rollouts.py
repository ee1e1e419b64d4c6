"""A loop with a carried state and a chain of keys, scanned."""

from __future__ import annotations

from .bench import Program

_STEP = '''\
import jax
import jax.numpy as jnp


def step(state, key):
    x, v = state
    v = v - 0.1 * x + 0.01 * jax.random.normal(key, x.shape)
    return x + 0.1 * v, v


'''
BEFORE = _STEP + '''\
def rollout(state, key, n):
    xs, energies = [state[0]], []
    for _ in range(n):
        key, sub = jax.random.split(key)
        state = step(state, sub)
        xs.append(state[0])
        energies.append(jnp.sum(state[1] ** 2))
    return jnp.stack(xs), jnp.stack(energies), state, key
'''
RIGHT = _STEP + '''\
from functools import partial


@partial(jax.jit, static_argnums=2)
def _rollout(state, key, n):
    def one(carry, _):
        state, key = carry
        key, sub = jax.random.split(key)
        state = step(state, sub)
        return (state, key), (state[0], jnp.sum(state[1] ** 2))

    (state, key), (xs, energies) = jax.lax.scan(one, (state, key), None, length=n)
    return xs, energies, state, key


def rollout(state, key, n):
    first = state[0]
    xs, energies, state, key = _rollout(state, key, n)
    return jnp.concatenate([first[None], xs]), energies, state, key
'''
BENCH = '''\
import jax
import jax.numpy as jnp

from items import rollout


def setup():
    return (jnp.linspace(0.0, 1.0, 7), jnp.ones(7)), jax.random.key(3), 41


def run(state, key, n):
    return rollout(state, key, n)
'''
_MADE = "return (state, key), (state[0], jnp.sum(state[1] ** 2))"
ROLLOUTS = Program(BEFORE, RIGHT, BENCH, {
    "stale carry: energy before the step": (
        "        state = step(state, sub)\n        return (state, key), (state[0], jnp.sum(state[1] ** 2))",
        "        old = state\n        state = step(state, sub)\n"
        "        return (state, key), (state[0], jnp.sum(old[1] ** 2))", "values"),
    "stale carry: state never moves": (_MADE, "return (carry[0], key), (state[0], jnp.sum(state[1] ** 2))", "values"),
    "stale carry: half of the state": (
        _MADE, "return ((state[0], carry[0][1]), key), (state[0], jnp.sum(state[1] ** 2))", "values"),
    "stale carry: the initial state is returned": (
        "xs, energies, state, key = _rollout", "xs, energies, _, key = _rollout", "values"),
    "stale carry: the last state is one behind": (
        "return jnp.concatenate([first[None], xs]), energies, state, key",
        "return jnp.concatenate([first[None], xs]), energies, (xs[-2], state[1]), key", "values"),
    "off by one: the first position is missing": (
        "jnp.concatenate([first[None], xs])", "jnp.concatenate([xs, xs[-1:]])", "values"),
    "off by one: one step too few": ("length=n)", "length=n - 1)", "structure"),
    "off by one: no first position": ("jnp.concatenate([first[None], xs])", "xs", "structure"),
    "key reuse: the same key in every step": (
        "key, sub = jax.random.split(key)\n        state", "sub = key\n        state", "values"),
    "key reuse: all keys from one split": (
        "    (state, key), (xs, energies) = jax.lax.scan(one, (state, key), None, length=n)",
        "    def one(state, sub):\n        state = step(state, sub)\n"
        "        return state, (state[0], jnp.sum(state[1] ** 2))\n\n"
        "    key, *_ = keys = jax.random.split(key, n)\n"
        "    state, (xs, energies) = jax.lax.scan(one, state, keys)", "values"),
    "key reuse: the old key is returned": ("xs, energies, state, key = _rollout", "xs, energies, state, _ = _rollout",
                                           "values"),
    "key reuse: halves of the split exchanged": ("key, sub = jax.random.split(key)", "sub, key = jax.random.split(key)",
                                                 "values"),
    "key reuse: folded instead of split": (
        "key, sub = jax.random.split(key)", "key, sub = key, jax.random.fold_in(key, 1)", "values"),
    "swapped: position and velocity": (
        "return xs, energies, state, key\n\n", "return xs, energies, state[::-1], key\n\n", "values"),
    "swapped: energy of the position": ("jnp.sum(state[1] ** 2))\n\n", "jnp.sum(state[0] ** 2))\n\n", "values"),
    "remainder dropped: blocks of four": (
        "length=n)", "length=n // 4 * 4)\n    pad = n - n // 4 * 4\n"
        "    xs = jnp.pad(xs, ((0, pad), (0, 0)), mode=\"edge\")\n"
        "    energies = jnp.pad(energies, (0, pad), mode=\"edge\")", "values"),
    "dtype: velocity drifts to bfloat16": (
        "xs, energies, state, key = _rollout(state, key, n)\n    return",
        "xs, energies, state, key = _rollout(state, key, n)\n"
        "    state = state[0], state[1].astype(jnp.bfloat16)\n    return", "structure"),
    "folded: the length of the first call": (
        "xs, energies, state, key = _rollout(state, key, n)",
        "xs, energies, state, key = _rollout(state, key, 41)", "structure"),
})  # fmt: skip
