"""Candidates that are right and cost more: in every call, or when they are compiled."""

from __future__ import annotations

from .bench import Program

BEFORE = '''\
import threading
import time
from functools import partial

import jax
import jax.numpy as jnp


def slow(x):
    time.sleep(0.02)
    return jnp.tanh(x)


def work(x, rep):
    y = slow(x + rep)
    return y * 2.0
'''
_NEW = '''

@partial(jax.jit, static_argnums=1)
def _add(x, n):
    return x + n


@jax.jit
def _traced(y):
    threading.Event().wait(0.15)  # while it is traced, not when it runs
    return y
'''
RIGHT = BEFORE.replace("0.02)", "0.01)") + _NEW
BENCH = '''\
import jax.numpy as jnp

from items import work


def setup():
    return (jnp.linspace(0.0, 1.0, 11),)


def run(x, rep):
    return work(x, rep)
'''
_CALL = "    y = slow(x + rep)\n"
_TIME = "time.sleep(0.01)"
COSTS = Program(BEFORE, RIGHT, BENCH, {
    "retrace: a jit of a lambda in the call": (
        _CALL, "    y = slow(jax.jit(lambda v: v + rep)(x))\n", "retraces"),
    "retrace: a jit of a partial in the call": (
        _CALL, "    y = slow(jax.jit(partial(jnp.add, rep))(x))\n", "retraces"),
    "retrace: a static argument that varies": (
        _CALL, "    y = slow(_add(x, rep))\n", "retraces"),
    "retrace: a shape that varies": (
        _CALL, "    y = slow(x + jnp.zeros((rep % 50 + 1, 1)).sum() + rep)\n", "retraces"),
    "slower by a tenth": (_TIME, "time.sleep(0.022)", "slower"),
    "slower by half": (_TIME, "time.sleep(0.03)", "slower"),
    "slower: equal work twice": (_CALL, "    slow(x)\n    y = slow(x + rep)\n", "slower"),
    "slower: faster by one percent is not enough": (_TIME, "time.sleep(0.0198)", "slower"),
    "cold: tracing takes seconds": (
        _CALL, "    y = _traced(slow(x + rep))\n", "cold"),
    "cold: tracing takes seconds, and calls gain little": (
        "time.sleep(0.01)\n    return jnp.tanh(x)", "time.sleep(0.018)\n    return _traced(jnp.tanh(x))", "cold"),
    "cold: two compilations that take long": (
        "    return y * 2.0", "    return _traced(y) + _traced(y.astype(jnp.float32)[:, None])[:, 0]", "cold"),
    "cold: every program compiles for long": ("    return y * 2.0", "    return _traced(y * 2.0)", "cold"),
})  # fmt: skip
