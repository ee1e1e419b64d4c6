"""A loop that prints, logs, warns, fills what its caller gave it, and may raise; its numbers are mapped first."""

from __future__ import annotations

from .bench import Program

_HEAD = '''\
import logging
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np

log = logging.getLogger("items")
SEEN = []


def norm(w, x):
    return jnp.linalg.norm(w @ x)


'''
BEFORE = _HEAD + '''\
def collect(w, items, done):
    for number, (name, x) in enumerate(items):
        if not np.isfinite(x).all():
            raise ValueError(f"{name} is not finite")
        size = float(norm(w, x))
        done[name] = size
        SEEN.append(name)
        log.info("%s has %.4f", name, size)
        if size > 4.0:
            warnings.warn(f"{name} is large", RuntimeWarning, stacklevel=2)
        if number % 5 == 0:
            print(f"item {number} {size:.4f}")
    print("all done")
'''
RIGHT = _HEAD + '''\
@jax.jit
def _norms(w, xs):
    return jax.vmap(norm, in_axes=(None, 0))(w, xs)


def collect(w, items, done):
    good = next((i for i, (_, x) in enumerate(items) if not np.isfinite(x).all()), len(items))
    sizes = jax.device_get(_norms(w, jnp.stack([x for _, x in items[:good]]))) if good else ()
    for number, (name, x) in enumerate(items):
        if number == good:
            raise ValueError(f"{name} is not finite")
        size = float(sizes[number])
        done[name] = size
        SEEN.append(name)
        log.info("%s has %.4f", name, size)
        if size > 4.0:
            warnings.warn(f"{name} is large", RuntimeWarning, stacklevel=2)
        if number % 5 == 0:
            print(f"item {number} {size:.4f}")
    print("all done")
'''
BENCH = '''\
import logging
import sys

import numpy as np

from items import collect

logging.getLogger("items").addHandler(logging.StreamHandler(sys.stderr))
logging.getLogger("items").setLevel(logging.INFO)


def setup():
    chance = np.random.default_rng(0)
    items = [(f"item-{i}", chance.normal(size=9).astype(np.float32)) for i in range(23)]
    bad = [*items[:13], ("broken", np.full(9, np.nan, np.float32)), *items[13:]]
    return chance.normal(size=(9, 9)).astype(np.float32) / 4, items, bad, {}


def run(w, items, bad, done):
    collect(w, items, done)
    try:
        collect(w, bad, {})
    except ValueError as error:
        print("caught", error)
    return w.shape
'''
_PRINT = 'print(f"item {number} {size:.4f}")'
_LOG = 'log.info("%s has %.4f", name, size)'
EFFECTS = Program(BEFORE, RIGHT, BENCH, {
    "lost print": ('        if number % 5 == 0:\n            print(f"item {number} {size:.4f}")\n', "", "effects"),
    "lost last print": ('    print("all done")\n', "", "effects"),
    "print of the next item": ("number % 5 == 0", "number % 5 == 1", "effects"),
    "printed number is another's": (_PRINT, 'print(f"item {number} {float(sizes[0]):.4f}")', "effects"),
    "printed digits are cut": (_PRINT, 'print(f"item {number} {size:.2f}")', "effects"),
    "print on the other stream": ('print("all done")', 'print("all done", file=sys.stderr)', "effects"),
    "lost log": (f"        {_LOG}\n", "", "effects"),
    "log at another level": (_LOG, _LOG.replace("info", "debug"), "effects"),
    "all logs before all prints": (
        "    for number, (name, x) in enumerate(items):\n",
        '    for (name, _), size in zip(items, sizes):\n        log.info("%s has %.4f", name, float(size))\n'
        "    for number, (name, x) in enumerate(items):\n", "effects"),
    "warning lost": ("size > 4.0", "size > 1e9", "effects"),
    "warning of smaller ones too": ("size > 4.0", "size > 3.0", "effects"),
    "warning of another category": ("RuntimeWarning", "UserWarning", "effects"),
    "argument mutated: items are sorted": ("    good = next", "    items.sort()\n    good = next", "effects"),
    "argument mutated: arrays are scaled": ("    good = next", "    w *= 1.5\n    good = next", "effects"),
    "argument mutated: an entry is missing": (
        "        done[name] = size\n", "        if number:\n            done[name] = size\n", "effects"),
    "argument mutated: one entry more": ('    print("all done")', '    done["total"] = 1.0\n    print("all done")',
                                          "effects"),
    "argument mutated: arrays for numbers": ("done[name] = size", "done[name] = sizes[number]", "effects"),
    "global list is not filled": ("        SEEN.append(name)\n", "", "effects"),
    "global list is filled too early": (
        "    good = next", "    SEEN.extend(n for n, _ in items)\n    good = next", "effects"),
    "exception swallowed": (
        '        if number == good:\n            raise ValueError(f"{name} is not finite")\n',
        "        if number == good:\n            break\n", "effects"),
    "exception swallowed by a loop that goes on": (
        '        if number == good:\n            raise ValueError(f"{name} is not finite")\n'
        "        size = float(sizes[number])\n",
        "        if number >= good:\n            continue\n        size = float(sizes[number])\n", "effects"),
    "exception of another type": ('raise ValueError(f"{name} is not finite")', 'raise KeyError(name)', "exception"),
    "exception before the first result": (
        "    sizes = ", '    if good < len(items):\n        raise ValueError(f"{items[good][0]} is not finite")\n'
        "    sizes = ", "effects"),
})  # fmt: skip
