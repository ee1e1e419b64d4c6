"""What vmapify leaves alone, and the reason that it gives. The ids read as the specification."""

from __future__ import annotations

import re

import pytest
from programs import messages, program, reasons

from jitmod.analysis.reasons import REASONS
from jitmod.report.examples import EXAMPLES

REFUSED = {
    "an item depends on the one before": (
        """
        def f(net: Net, xs: jax.Array, h: jax.Array):
            for x in xs:
                h = net(x + h)
            return h
        """,
        "carried-state",
    ),
    "host work feeds the model": (
        """
        def f(net: Net, xs: jax.Array):
            out = []
            for x in xs:
                y = np.log(x)
                out.append(net(y))
            return out
        """,
        "host-arithmetic",
    ),
    "numpy arithmetic on a numpy item": (
        """
        def f(net: Net, xs: np.ndarray):
            return [net(x / 255.0) for x in xs]
        """,
        "host-arithmetic",
    ),
    "an exit depends on data": (
        """
        def f(net: Net, xs: jax.Array):
            for x in xs:
                y = net(x)
                if float(y.sum()) > 3:
                    break
        """,
        "data-dependent-exit",
    ),
    "continue": (
        """
        def f(net: Net, xs: jax.Array, flags: list[bool]):
            out = []
            for x, flag in zip(xs, flags):
                if flag:
                    continue
                out.append(net(x))
            return out
        """,
        "guarded-work",
    ),
    "the model runs under a condition": (
        """
        def f(net: Net, xs: jax.Array, flags: list[bool]):
            out = []
            for x, flag in zip(xs, flags):
                if flag:
                    out.append(net(x))
            return out
        """,
        "guarded-work",
    ),
    "iterating over a generator": (
        """
        def load():
            yield jnp.ones(3)

        def f(net: Net):
            return [net(x) for x in load()]
        """,
        "lazy-iterator",
    ),
    "the loop index reaches the model": (
        """
        def f(net: Net, xs: jax.Array):
            return [net(x * i) for i, x in enumerate(xs)]
        """,
        "index-as-python",
    ),
    "another array is indexed by the loop's index": (
        """
        def f(net: Net, xs: jax.Array, ys: jax.Array):
            return [net(xs[i] + ys[i]) for i in range(len(xs))]
        """,
        "slice-bounds",
    ),
    "what is zipped is known to differ in length": (
        """
        def f(net: Net):
            xs = jnp.ones((50, 3))
            ys = jnp.ones((30, 3))
            return [net(x + y) for x, y in zip(xs, ys)]
        """,
        "slice-bounds",
    ),
    "items are Python numbers": (
        """
        def f(net: Net):
            return [net(x) for x in [float(i) for i in range(4)]]
        """,
        "index-as-python",
    ),
    "the callee prints": (
        """
        class Loud(Net):
            def __call__(self, x):
                print("called")
                return super().__call__(x)

        def f(net: Loud, xs: jax.Array):
            return [net(x) for x in xs]
        """,
        "host-effect",
    ),
    "a subclass of the annotated class prints": (
        """
        class Loud(Net):
            def __call__(self, x):
                print("called")
                return x

        def f(net: Net, xs: jax.Array):
            return [net(x) for x in xs]
        """,
        "host-effect",
    ),
    "a property of the callee has an effect": (
        """
        COUNT = []

        class Counting(eqx.Module):
            layer: eqx.nn.Linear

            @property
            def gain(self):
                COUNT.append(1)
                return 2.0

            def __call__(self, x):
                return self.layer(x) * self.gain

        def f(net: Counting, xs: jax.Array):
            return [net(x) for x in xs]
        """,
        "host-effect",
    ),
    "an activation function of the callee has an effect": (
        """
        def noisy(x):
            print("hello")
            return x

        class Deep(eqx.Module):
            mlp: eqx.nn.MLP

            def __init__(self, key):
                self.mlp = eqx.nn.MLP(3, 3, 3, 1, activation=noisy, key=key)

            def __call__(self, x):
                return self.mlp(x)

        def f(net: Deep, xs: jax.Array):
            return [net(x) for x in xs]
        """,
        "host-effect",
    ),
    "the callee branches on a value": (
        """
        class Gate(eqx.Module):
            layer: eqx.nn.Linear

            def __call__(self, x):
                return jax.lax.cond(x[0] > 0, self.layer, lambda v: v, x)

        def f(net: Gate, xs: jax.Array):
            return [net(x) for x in xs]
        """,
        "batched-branch",
    ),
    "BatchNorm": (
        """
        class Norm(eqx.Module):
            norm: eqx.nn.BatchNorm

            def __call__(self, x, state):
                return self.norm(x, state)

        def f(net: Norm, xs: jax.Array, state):
            for x in xs:
                y, state = net(x, state)
            return state
        """,
        "stateful-module",
    ),
    "a buffer is refilled": (
        """
        def f(net: Net, xs: jax.Array):
            buffer = np.zeros(3)
            out = []
            for x in xs:
                buffer[:] = x
                out.append(net(x + net(buffer)))
            return out
        """,
        "may-alias",
    ),
    "a container of the function holds an array that changes in place": (
        """
        def f(net: Net, xs: list[jax.Array], offset: np.ndarray):
            held, out = {"offset": offset, "seen": 0}, []
            for x in xs:
                out.append(net(x + offset))
                held["offset"] += 1
            return out
        """,
        "may-alias",
    ),
    "an array gets into a container of the function later": (
        """
        def f(net: Net, xs: list[jax.Array], offset: np.ndarray):
            held, out = dict(), []
            held.setdefault(0, offset)
            for x in xs:
                out.append(net(x + offset))
                held[0] += 1
            return out
        """,
        "may-alias",
    ),
    "a container of the function is filled elsewhere": (
        """
        def f(net: Net, xs: list[jax.Array], fill, offset: np.ndarray):
            held, out = dict(), []
            fill(held, offset)
            for x in xs:
                out.append(net(x + offset))
                held[0] += 1
            return out
        """,
        "may-alias",
    ),
    "a plain object is passed": (
        """
        class Config:
            gain = 1.0

        class Scaled(eqx.Module):
            layer: eqx.nn.Linear

            def __call__(self, x, config):
                return self.layer(x) * config.gain

        def f(net: Scaled, xs: jax.Array, config: Config):
            return [net(x, config) for x in xs]
        """,
        "mutable-self",
    ),
    "a nested function": (
        """
        def f(net: Net, xs: jax.Array, gain: float):
            @jax.jit
            def scaled(x):
                return x * gain

            return [scaled(net(x)) for x in xs]
        """,
        "local-callable",
    ),
    "a try around the call of the function": (
        """
        def f(net: Net, xs: jax.Array):
            for x in xs:
                print(float(net(x)[0]))

        def g(net: Net, xs: jax.Array):
            try:
                f(net, xs)
            except ValueError:
                print("stopped")
        """,
        "exception-order",
    ),
    "host work feeds the model, and a try may see how far it came": (
        """
        def f(net: Net, xs: jax.Array):
            for x in xs:
                y = np.log(x)
                print(float(net(y)[0]))

        def g(net: Net, xs: jax.Array):
            try:
                f(net, xs)
            except RuntimeWarning:
                print("stopped")
        """,
        "exception-order",
    ),
    "called from a compiled function": (
        """
        def f(net: Net, xs: jax.Array):
            return jnp.stack([net(x) for x in xs])

        @jax.jit
        def g(net, xs):
            return f(net, xs)
        """,
        "already-compiled",
    ),
    "yield in the body": (
        """
        def f(net: Net, xs: jax.Array):
            for x in xs:
                yield net(x)
        """,
        "lazy-iterator",
    ),
    "boolean mask in the callee": (
        """
        class Masked(eqx.Module):
            layer: eqx.nn.Linear

            def __call__(self, x):
                return self.layer(x)[x > 0]

        def f(net: Masked, xs: jax.Array):
            return [net(x) for x in xs]
        """,
        "ragged-items",
    ),
    "boolean mask that a loop of the callee joins others to": (
        """
        class Masked(eqx.Module):
            layer: eqx.nn.Linear

            def __call__(self, x):
                kept = x > 0
                for limit in (1.0, 2.0):
                    kept = kept & (x < limit)
                chosen = kept
                return self.layer(x)[chosen]

        def f(net: Masked, xs: jax.Array):
            return [net(x) for x in xs]
        """,
        "ragged-items",
    ),
    "a closure reads a name that is rebound later": (
        """
        def f(net: Net, xs: jax.Array):
            k = 1.0
            step = jax.jit(lambda x: net(x) * k)
            k = 2.0
            return [step(x) for x in xs]
        """,
        "late-binding",
    ),
    "an item is needed as a Python value": (
        """
        @jax.jit
        def pick(net, x, n):
            return net(x) * jnp.ones(n)

        def f(net: Net, xs: jax.Array, sizes: jax.Array):
            return [pick(net, x, n) for x, n in zip(xs, sizes)]
        """,
        "scalar-needed-as-python",
    ),
} | {f"the example of {reason}": (body, reason) for reason, body in EXAMPLES.items()}


@pytest.mark.parametrize(("body", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused(body: str, reason: str) -> None:
    assert reasons(program(body)) == [reason]


@pytest.mark.parametrize("body", [body for body, _ in REFUSED.values()], ids=REFUSED)
def test_a_refusal_names_what_it_is_about(body: str) -> None:
    (message,) = messages(program(body))
    assert re.search(r"`[^`]+`|loop|comprehension|import", message)
    assert re.search(r"\(line \d+\)$", message)


# decided by a trial, or by codemods that come after vmapify
ELSEWHERE = {
    "carry-type", "growing-carry", "results-escape", "effect-order", "negative-index", "mixed-context", "split-memory",
    "too-few-steps", "too-small", "cached-factory", "growing-shape", "frozen-by-jit", "state-not-returned", "same-key",
    "accumulation-order", "donated-later-read", "bowler-cannot-parse", "unblocked-timing", "cold-timing",
    "unused-suppression",
}  # fmt: skip


def test_every_code_has_an_example() -> None:
    examples = {reason for _, reason in REFUSED.values()}
    assert examples | ELSEWHERE == set(REASONS)
    assert not examples & ELSEWHERE


def test_a_loop_without_a_module_is_no_site() -> None:
    assert reasons(program("def f(xs: jax.Array):\n    return [jnp.sum(x) for x in xs]\n")) == []
