"""What scanify leaves alone, and the reason that it gives. The ids read as the specification."""

from __future__ import annotations

import pytest
from harness import program, reasons
from jitmod.codemods.scanify import Scanify

from jitmod.analysis.reasons import REASONS

DATA = """
class Net(eqx.Module):
    layer: eqx.nn.Linear

    def __call__(self, x):
        return jax.nn.relu(self.layer(x))


@jax.jit
def advance(u, rate=0.1):
    return u + rate * (jnp.roll(u, 1) - u)


opt = optax.adam(1e-2)

"""

REFUSED = {
    "a dict is gone through in its order": (
        """
        class Stacked(eqx.Module):
            layers: dict[str, eqx.nn.Linear]

            def __call__(self, x):
                first, second = self.layers.values()
                return second(first(x))

        def f(net: Stacked, x: jax.Array, n: int):
            for _ in range(n):
                x = x + 0.1 * net(x)
            return x
        """,
        "key-order",
    ),
    "a Python number goes through equinox's jit, which leaves it one": (
        """
        @eqx.filter_jit
        def grow(u, k):
            return u * 0.5, k * 10.0

        def f(u: jax.Array, n: int):
            k = 1.0
            for i in range(n):
                u, k = grow(u, k)
            return u, k
        """,
        "carry-type",
    ),
    "a Python number in a field that says array": (
        """
        class Clock(NamedTuple):
            u: jax.Array
            t: jax.Array

        def tick(s: Clock) -> Clock:
            return Clock(advance(s.u), s.t + 0.1)

        def f(u: jax.Array, n: int):
            s = Clock(u, 0.0)
            for i in range(n):
                s = tick(s)
            return s
        """,
        "carry-type",
    ),
    "a dict in a static field, which may be changed in place": (
        """
        class Damped(eqx.Module):
            w: jax.Array
            settings: dict = eqx.field(static=True)

            def step(self, u):
                return self.settings["a"] * jnp.sin(u) * self.w

            def run(self, u: jax.Array, n: int):
                for i in range(n):
                    u = self.step(u)
                return u
        """,
        "unhashable-static",
    ),
    "what is inherited is called": (
        """
        class Base(eqx.Module):
            w: jax.Array

            def step(self, u: jax.Array) -> jax.Array:
                return jnp.sin(u) * self.w

        class Derived(Base):
            def run(self, u: jax.Array, n: int):
                for i in range(n):
                    u = super().step(u)
                return u
        """,
        "local-callable",
    ),
    "the number of steps is new in every outer iteration": (
        """
        def f(u: jax.Array, n: int):
            for i in range(n):
                for j in range(i):
                    u = advance(u)
            return u
        """,
        "varying-static",
    ),
    "Ctrl-C ends the loop and what was done is kept": (
        """
        def f(u: jax.Array, n: int):
            try:
                for i in range(n):
                    u = advance(u)
            except KeyboardInterrupt:
                print(i)
            return u
        """,
        "exception-order",
    ),
    "host work decides on the next step": (
        """
        def f(u: jax.Array, operator):
            rate = 0.1
            for _ in range(100):
                u = advance(u, rate)
                print(float(u[0]))
                rate = float(input())
            return u
        """,
        "host-effect",
    ),
    "the array whose rows are taken gets another one's place midway": (
        """
        def f(u: jax.Array, xs: jax.Array):
            for i, x in enumerate(xs):
                u = advance(u) + x
                if i % 10 == 0:
                    print(i, u[0])
                    xs = xs * 2
            return u, xs
        """,
        "carried-state",
    ),
    "host arithmetic that could lose its precision": (
        """
        def f(u: jax.Array):
            s = 0.5
            for _ in range(100):
                u = u + (1 - s)
                s = s * 0.5
            return u
        """,
        "host-arithmetic",
    ),
    "integers that the host computes": (
        """
        def f(u: jax.Array, key: jax.Array, seed: int, n: int):
            for i in range(n):
                u = u * 0.5 + jax.random.normal(jax.random.fold_in(key, seed))
                seed += 1
            return u, seed
        """,
        "host-arithmetic",
    ),
    "an integer that becomes a float on the host": (
        """
        def f(u: jax.Array, n: int):
            k = 1
            for i in range(n):
                u = advance(u, k)
                k = k * 0.5
            return u
        """,
        "host-arithmetic",
    ),
    "a division by what begins as a number": (
        """
        def f(u: jax.Array, n: int):
            s = 0.0
            for i in range(n):
                u = advance(u) + 1 / s
                s = u[0]
            return u
        """,
        "host-arithmetic",
    ),
    "an index that divides by a number": (
        """
        def f(u: jax.Array, xs: jax.Array, k: int, n: int):
            for i in range(n):
                u = advance(u) + xs[i % k]
            return u
        """,
        "slice-bounds",
    ),
    "what blocks are cut from is bound anew": (
        """
        def f(u: jax.Array, xs: jax.Array):
            for i, x in enumerate(xs):
                u = advance(u) + x
                if i % 4 == 3:
                    xs = xs * 2
                    print(i, float(u[0]))
            return u
        """,
        "carried-state",
    ),
    "the first element of a list may be no array": (
        """
        def f(u, n: int):
            path = []
            for i in range(n):
                path.append(u)
                u = advance(u)
            return path
        """,
        "carry-type",
    ),
    "an object reads the state when it is shown": (
        """
        U = jnp.ones(3)

        class Report:
            def __repr__(self):
                return f"{U}"

        report = Report()

        def f():
            global U
            for i in range(12):
                U = advance(U)
                print(report)
        """,
        "rebound-global",
    ),
    "an object at module scope reads the state when it is shown": (
        """
        U = jnp.ones(3)

        class Report:
            def __repr__(self):
                return f"{U}"

        report = Report()
        for i in range(12):
            U = advance(U)
            print(report)
        """,
        "late-binding",
    ),
    "the bound of the range draws from a generator": (
        """
        def f(u: jax.Array, rng):
            for i in range(rng.integers(9, 90)):
                u = advance(u)
            return u, i
        """,
        "unknown-iterable",
    ),
    "a step binds the bound anew, and work is left": (
        """
        @jax.jit
        def grow(u: jax.Array, k):
            return u * 0.9, k + jnp.sum(u)

        def f(u: jax.Array, k: int):
            seen = 0
            for _ in range(k):
                u, k = grow(u, k)
                seen += 1
            return u, k, seen
        """,
        "carried-state",
    ),
    "a step binds what is iterated over anew, and the last item is read": (
        """
        @jax.jit
        def both(xs: jax.Array, x: jax.Array) -> jax.Array:
            return xs * 0.9 + x

        def f(xs: jax.Array):
            for x in xs:
                xs = both(xs, x)
            return xs, x
        """,
        "live-out-unbound",
    ),
    "an inner function moves the bound of a while": (
        """
        def f(u: jax.Array, n: int):
            def more():
                nonlocal n
                n += 1
            i = 0
            while i < n:
                u = advance(u)
                if i % 10 == 0 and i < 50:
                    more()
                    print(i, float(u[0]))
                i += 1
            return u, i
        """,
        "carried-state",
    ),
    "an inner function binds what blocks are cut from": (
        """
        def f(u: jax.Array, xs: jax.Array):
            def clear():
                nonlocal xs
                xs = xs * 0
            for i, x in enumerate(xs):
                u = advance(u) + x
                if i % 10 == 9:
                    clear()
                    print(i, float(u[0]))
            return u
        """,
        "carried-state",
    ),
    "two ranges count the steps": (
        """
        def f(u: jax.Array, n: int):
            for i, t in enumerate(range(n)):
                u = advance(u)
            return u
        """,
        "unknown-iterable",
    ),
    "a state begins as None": (
        """
        @jax.jit
        def step(u: jax.Array, m) -> jax.Array:
            return u + (0 if m is None else m)

        def f(u: jax.Array, n: int):
            previous = None
            for i in range(n):
                u = step(u, previous)
                previous = u
            return u, previous
        """,
        "carry-type",
    ),
    "nobody reads what the steps make": (
        """
        def f(u: jax.Array, n: int):
            for i in range(n):
                u = advance(u)
        """,
        "too-small",
    ),
    "the truth of something unknown": (
        """
        def f(p: jax.Array, n: int):
            count = 0
            for i in range(n):
                p = p - 0.1 * jax.grad(lambda q: jnp.sum(q**2))(p)
                if p[0]:
                    count += 1
            return p, count
        """,
        "unknown-result",
    ),
    "the host changes a rate before the step that takes it": (
        """
        def f(u: jax.Array, n: int):
            rate = 1.0
            for i in range(n):
                if i % 4 == 0:
                    rate = rate * 0.5
                u = advance(u, rate)
            return u, rate
        """,
        "carried-state",
    ),
    "an exit that depends on data": (
        """
        def f(u: jax.Array):
            for _ in range(100):
                u = advance(u)
                if jnp.max(u) < 0.1:
                    break
            return u
        """,
        "data-dependent-exit",
    ),
    "a step that is skipped": (
        """
        def f(u: jax.Array, skip: list[bool]):
            for flag in skip:
                if flag:
                    u = advance(u)
            return u
        """,
        "guarded-work",
    ),
    "three steps": (
        """
        def f(u: jax.Array):
            for _ in range(3):
                u = advance(u)
            return u
        """,
        "too-few-steps",
    ),
    "the carry grows": (
        """
        def f(u: jax.Array):
            for _ in range(20):
                u = jnp.concatenate([u, advance(u[-3:])])
            return u
        """,
        "growing-carry",
    ),
    "lists before the loop, tuples after a step": (
        """
        @jax.jit
        def step(params):
            return [(w * 0.9, b) for w, b in params]

        def f(w: jax.Array, n: int):
            params = [[w, w], [w, w]]
            for _ in range(n):
                params = step(params)
            return params
        """,
        "carry-type",
    ),
    "integers before the loop, fractions after a step": (
        """
        def f(xs: jax.Array):
            u = jnp.zeros(5, jnp.uint8)
            for x in xs:
                u = (u + x) / 2
            return u
        """,
        "carry-type",
    ),
    "the state holds a Python number": (
        """
        class State(NamedTuple):
            u: jax.Array
            t: int = 0

        def step(s: State) -> State:
            return s._replace(u=advance(s.u), t=s.t + 1)

        def f(s: State):
            for _ in range(20):
                s = step(s)
            return s
        """,
        "carry-type",
    ),
    "the optimiser's state never comes back": (
        """
        @jax.jit
        def step(w, opt_state):
            updates, opt_state = opt.update(w, opt_state)
            return optax.apply_updates(w, updates)

        def f(w: jax.Array):
            opt_state = opt.init(w)
            for _ in range(20):
                w = step(w, opt_state)
            return w
        """,
        "state-not-returned",
    ),
    "a compiled step that keeps the first of several optimisers": (
        """
        def f(w: jax.Array):
            @jax.jit
            def step(w, s):
                updates, s = optim.update(w, s)
                return optax.apply_updates(w, updates), s

            for rate in (0.1, 0.01):
                optim = optax.sgd(rate)
                s = optim.init(w)
                for _ in range(20):
                    w, s = step(w, s)
            return w
        """,
        "rebound-global",
    ),
    "the host reads the whole state of every step": (
        """
        @eqx.filter_jit
        def step(net, x):
            return eqx.tree_at(lambda n: n.layer.bias, net, net.layer.bias + net(x))

        def f(net: Net, x: jax.Array, show):
            for _ in range(20):
                net = step(net, x)
                show(net)
            return net
        """,
        "unknown-result",
    ),
    "a nested function that reads the state": (
        """
        def f(u: jax.Array, call):
            def show():
                print(u)

            for _ in range(20):
                u = advance(u)
                call(show)
            return u
        """,
        "late-binding",
    ),
    "another sequence may end the loop": (
        """
        def f(u: jax.Array, xs: jax.Array, names: list[str]):
            for name, x in zip(names, xs):
                u = advance(u) + x
            return u
        """,
        "unknown-iterable",
    ),
    "a generator": (
        """
        def batches(xs):
            for x in xs:
                yield x

        def f(u: jax.Array, xs: jax.Array):
            for x in batches(xs):
                u = advance(u) + x
            return u
        """,
        "lazy-iterator",
    ),
    "a clock": (
        """
        import time

        def f(u: jax.Array):
            for _ in range(20):
                start = time.time()
                u = advance(u)
                print(time.time() - start)
            return u
        """,
        "timing-loop",
    ),
    "an error in the middle can be seen": (
        """
        def f(u: jax.Array, log: list):
            try:
                for i in range(20):
                    u = advance(u)
                    log.append(1 / float(u[0]))
            except ZeroDivisionError:
                pass
            return u
        """,
        "exception-order",
    ),
    "a progress bar": (
        """
        from tqdm import tqdm

        def f(u: jax.Array):
            for i in tqdm(range(20)):
                u = advance(u)
            return u
        """,
        "host-effect",
    ),
    "an optimiser in the carry": (
        """
        def f(w: jax.Array, s):
            optim = optax.sgd(0.1)
            for k in range(20):
                updates, s = optim.update(w, s)
                w = optax.apply_updates(w, updates)
                optim = optax.sgd(0.1)
            return w
        """,
        "host-arithmetic",
    ),
    "numpy arithmetic in the first step": (
        """
        def f(n: int):
            u = np.ones(3)
            for _ in range(n):
                u = jnp.cos(u * 2)
            return u
        """,
        "host-arithmetic",
    ),
}


@pytest.mark.parametrize(("body", "reason"), REFUSED.values(), ids=REFUSED)
def test_reason(body: str, reason: str) -> None:
    assert reason in REASONS
    text = "from typing import NamedTuple\n\n" + program(DATA) + "\n" + program(body).partition("import optax\n")[2]
    assert reasons(Scanify(), text) == [reason]


LEFT = {
    "items that are independent, but for their keys": """
        def f(net: Net, xs: jax.Array, key):
            out = []
            for x in xs:
                key, sub = jax.random.split(key)
                out.append(net(x + jax.random.normal(sub, x.shape)))
            return out
        """,
    "a sum of independent items": """
        def f(net: Net, xs: jax.Array):
            total = 0.0
            for x in xs:
                total += jnp.sum(net(x))
            return total
        """,
    "host numbers alone": """
        def f(n: int):
            total = 0.0
            for i in range(n):
                total += i * 0.5
            return total
        """,
}


@pytest.mark.parametrize("body", LEFT.values(), ids=LEFT)
def test_finds_nothing(body: str) -> None:
    assert reasons(Scanify(), program(DATA) + "\n" + program(body).partition("import optax\n")[2]) == []
