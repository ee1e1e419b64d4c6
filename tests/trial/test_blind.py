"""Workloads that cannot see a site prove nothing; workloads that only look difficult do not turn right patches away."""

from __future__ import annotations

import pytest

from jitmod.model import Status

from .planted.bench import Trials, trials
from .planted.per_item import PER_ITEM

__all__ = ["trials"]

BLIND = {
    "result dropped": "    score(w, xs)\n    return jnp.zeros(3)\n",
    "only the count": "    return score(w, xs)['count']\n",
    "only the shape": "    return score(w, xs)['scaled'].shape\n",
    "only whether it is finite": "    return bool(jnp.isfinite(score(w, xs[:3])['scaled']).all())\n",
    "rounded to nothing": "    return jnp.round(score(w, xs[:4])['scaled'] * 1e-3)\n",
    "far below one": "    return 1.0 + 1e-9 * jnp.nanmean(score(w, xs)['scaled'])\n",
    "all NaN": "    return score(w * jnp.nan, xs)['scaled']\n",
    "clipped": "    return jnp.clip(score(w, xs[:4])['scaled'] + 10.0, 0.0, 1.0)\n",
}


@pytest.mark.parametrize("name", BLIND)
def test_blind_workload_is_unproven(name: str, trials: Trials) -> None:
    start = PER_ITEM.bench.index("    return score(w, xs)")
    bench = "import jax.numpy as jnp\n" + PER_ITEM.bench[:start] + BLIND[name]
    trials.write({"items.py": PER_ITEM.before, "bench.py": bench})
    verdict = trials.screen({"items.py": PER_ITEM.right})
    assert verdict is not None and verdict.status is Status.UNPROVEN
    assert "blind" in verdict.why


CHAOTIC = '''\
import jax
import jax.numpy as jnp


def step(x, rate):
    return rate * x * (1.0 - x)


def iterate(x, rate, n):
    for _ in range(n):
        x = step(x, rate)
    return x
'''
CHAOTIC_RIGHT = CHAOTIC.replace("x = step(", "x = _step(") + '''

@jax.jit
def _step(x, rate):
    return rate * x - rate * x * x
'''
CHAOTIC_BENCH = '''\
import jax.numpy as jnp

from items import iterate


def setup():
    return jnp.linspace(0.2, 0.4, 9), 3.9, {steps}


def run(x, rate, n):
    return iterate(x, rate, n)
'''


def test_long_chaotic_workload_is_unproven_and_not_wrong(trials: Trials) -> None:
    trials.write({"items.py": CHAOTIC, "bench.py": CHAOTIC_BENCH.format(steps=150)})
    verdict = trials.screen({"items.py": CHAOTIC_RIGHT})
    assert verdict is not None and verdict.status is Status.UNPROVEN
    assert "chaotic" in verdict.why


def test_wrong_candidate_of_a_chaotic_workload_is_rejected_by_its_first_iterations(trials: Trials) -> None:
    trials.write({"items.py": CHAOTIC, "bench.py": CHAOTIC_BENCH.format(steps=150)})
    wrong = CHAOTIC_RIGHT.replace("for _ in range(n)", "for _ in range(n - 1)")
    verdict = trials.screen({"items.py": wrong})
    assert verdict is not None and (verdict.status, verdict.test) == (Status.REJECTED, "values"), verdict.why


def test_fewer_steps_of_the_same_workload_prove_it(trials: Trials) -> None:
    trials.write({"items.py": CHAOTIC, "bench.py": CHAOTIC_BENCH.format(steps=12)})
    _, found = trials.explore({"items.py": CHAOTIC_RIGHT})
    assert found["parity"]["failure"] is None and not found["parity"]["chaotic"]
    assert found["parity"]["site"]["tight"]


OPTAX = '''\
import jax
import jax.numpy as jnp
import optax

OPTIM = optax.adam(0.02)


def loss(w, x, y):
    return jnp.mean((jnp.tanh(x @ w) - y) ** 2)


def train(w, x, y, n):
    state = OPTIM.init(w)
    for number in range(n):
        value, grads = jax.value_and_grad(loss)(w, x, y)
        updates, state = OPTIM.update(grads, state, w)
        w = optax.apply_updates(w, updates)
        if number % 50 == 0:
            print(f"{number} {float(value):.4f}")
    return w, state
'''
OPTAX_RIGHT = OPTAX.replace(
    "        value, grads = jax.value_and_grad(loss)(w, x, y)\n"
    "        updates, state = OPTIM.update(grads, state, w)\n"
    "        w = optax.apply_updates(w, updates)\n",
    "        w, state, value = _step(w, state, x, y)\n",
) + '''

@jax.jit
def _step(w, state, x, y):
    value, grads = jax.value_and_grad(loss)(w, x, y)
    updates, state = OPTIM.update(grads, state, w)
    return optax.apply_updates(w, updates), state, value
'''
OPTAX_BENCH = '''\
import jax

from items import train


def setup():
    a, b, c = jax.random.split(jax.random.key(1), 3)
    x = jax.random.normal(a, (16, 5))
    return jax.random.normal(b, (5,)), x, jax.random.uniform(c, (16,)), 150


def run(w, x, y, n):
    return train(w, x, y, n)
'''


@pytest.mark.parametrize("steps", [60, pytest.param(150, marks=pytest.mark.slow)])
def test_optimiser_step_moved_into_a_jit_is_not_rejected(steps: int, trials: Trials) -> None:
    trials.write({"items.py": OPTAX, "bench.py": OPTAX_BENCH.replace("150", str(steps))})
    verdict = trials.screen({"items.py": OPTAX_RIGHT})
    assert verdict is None or verdict.status is Status.UNPROVEN, verdict


BARS = '''\
import sys
import warnings

import jax
import jax.numpy as jnp


class Bar:
    def __init__(self, items, desc):
        self.items, self.desc, self.total = items, desc, len(items)

    def __iter__(self):
        for item in self.items:
            yield item
            self.update(1)
        self.close()

    def update(self, n):
        sys.stderr.write(f"\\r{self.desc}")

    def set_postfix(self, **values):
        sys.stderr.write(f"\\r{values}")

    def close(self):
        sys.stderr.write("\\n")


def norm(w, x):
    return jnp.linalg.norm(w @ x)


def norms(w, xs):
    found, warned = [], False
    bar = Bar(xs, desc="norms")
    for x in bar:
        found.append(norm(w, x))
        bar.set_postfix(norm=float(found[-1]))
        if not warned:
            warnings.warn("only once", stacklevel=2)
            warned = True
        print(f"{float(found[-1]):.4f}")
    return jnp.stack(found)
'''
BARS_RIGHT = BARS.replace("    for x in bar:\n        found.append(norm(w, x))\n",
                          "    every = _norms(w, jnp.stack(xs))\n    for x, one in zip(bar, every):\n"
                          "        found.append(one)\n") + '''

@jax.jit
def _norms(w, xs):
    return jax.vmap(norm, (None, 0))(w, xs)
'''  # fmt: skip
BARS_BENCH = PER_ITEM.bench.replace("score", "norms")
BARS_WRONG = {
    "no postfix": BARS_RIGHT.replace("        bar.set_postfix(norm=float(found[-1]))\n", ""),
    "postfix of another item": BARS_RIGHT.replace("norm=float(found[-1])", "norm=float(every[0])"),
    "another total": BARS_RIGHT.replace("len(items)", "len(items) + 1"),
    "another description": BARS_RIGHT.replace('desc="norms"', 'desc="norm"'),
}


def test_bars_warnings_and_printed_digits_do_not_turn_a_right_patch_away(trials: Trials) -> None:
    trials.write({"items.py": BARS, "bench.py": BARS_BENCH})
    assert trials.screen({"items.py": BARS_RIGHT}) is None


@pytest.mark.parametrize("name", BARS_WRONG)
def test_bar_that_shows_something_else_is_rejected(name: str, trials: Trials) -> None:
    assert BARS_WRONG[name] != BARS_RIGHT
    trials.write({"items.py": BARS, "bench.py": BARS_BENCH})
    verdict = trials.screen({"items.py": BARS_WRONG[name]})
    assert verdict is not None and (verdict.status, verdict.test) == (Status.REJECTED, "effects"), verdict.why
