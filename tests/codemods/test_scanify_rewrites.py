"""What scanify rewrites: every program runs before and after, and must return, print and change the same."""

from __future__ import annotations

import ast
import re

import pytest
from harness import assert_equivalent, findings, program, rewritten
from jitmod.codemods.scanify import Scanify

from jitmod.model import Patch

DATA = """
class Pair(NamedTuple):
    a: jax.Array
    b: jax.Array


@jax.jit
def advance(u):
    return u + 0.1 * (jnp.roll(u, 1) - u)


@jax.jit
def update(params, x, rate):
    return {"params": params - rate * jnp.cos(params + x), "energy": jnp.sum(params)}


opt = optax.adam(1e-2)


@eqx.filter_jit
def make_step(model, opt_state, x, y):
    loss, grads = eqx.filter_value_and_grad(lambda m: jnp.mean((jax.vmap(m)(x) - y) ** 2))(model)
    updates, opt_state = opt.update(grads, opt_state, model)
    return eqx.apply_updates(model, updates), opt_state, loss


U = jnp.sin(jnp.arange(5.0))
XS = jax.random.normal(jax.random.key(1), (13, 5))
YS = jax.random.normal(jax.random.key(2), (13, 5))
MODEL = eqx.nn.Linear(5, 5, key=jax.random.key(3))

"""

PROGRAMS = {
    "host work before the step reads what the step before has made": """
        def f(u: jax.Array, n: int):
            change = jnp.array(-1.0)
            for i in range(n):
                print(i, f"{float(change):.3f}")
                new = advance(u)
                change = jnp.abs(new - u).max()
                u = new
            return u, change

        def g(u: jax.Array, n: int):
            change, seen = jnp.array(-1.0), []
            for i in range(n):
                if i % 4 == 0:
                    print(i, f"{float(change):.3f}")
                u, change = both(u)
            return u

        def h(u: jax.Array, n: int):
            last, seen = jnp.zeros(5), []
            for i in range(n):
                u = advance(u)
                seen.append(float((u - last).sum()))
                last = u
            return u, seen

        @jax.jit
        def both(u):
            return advance(u), jnp.max(u)

        def workload(rep):
            return [(f(U + rep, n), g(U + rep, n), h(U, n)) for n in (9, 10, 1, 0)]
        """,
    "work every so often and after the last step": """
        def f(u: jax.Array, n: int, k: int):
            for i in range(n):
                u = advance(u)
                if i % k == 0 or i == n - 1:
                    print(i, f"{float(u[0]):.3f}", u.shape)
            return u, i

        def g(u: jax.Array, xs: jax.Array):
            for i, x in enumerate(xs):
                u = advance(u + x)
                if (i + 1) % 4 == 0 or i + 1 == len(xs):
                    print(i, f"{float(u[0]):.3f}", u.shape)
            return u

        def h(u: jax.Array, n: int):
            i = 0
            while i < n:
                u = advance(u)
                if i % 5 == 0 or i == n - 1:
                    print(i, f"{float(u[0]):.3f}", u.shape)
                i += 1
            return u, i

        class Settings:
            n = 12

        def moving(u: jax.Array, settings: Settings):
            for i in range(settings.n):
                u = advance(u)
                if i % 5 == 0 or i == settings.n - 1:
                    settings.n -= 1
                    print(i, f"{float(u[0]):.3f}", u.shape)
            return u

        def later(u: jax.Array, n: int, k: int):
            def put_off():
                nonlocal k
                k += 1

            for i in range(n):
                u = advance(u)
                if i % k == 0:
                    put_off()
                    print(i, f"{float(u[0]):.3f}", u.shape)
            return u

        def workload(rep):
            moving(U, Settings())
            later(U, 25, 3)
            return [(f(U + rep, n, 5), h(U, n), g(U, XS[:n])) for n in (9, 10, 11, 1)], f(U, 9, 100)
        """,
    "a zip whose parts differ in length, in blocks": """
        def f(u: jax.Array, xs: jax.Array, ys: jax.Array):
            for i, (x, y) in enumerate(zip(xs, ys)):
                u = advance(u) + x * y
                if i % 4 == 0:
                    print(i, f"{float(u[0]):.3f}")
            return u

        def workload(rep):
            return [f(U, XS, YS), f(U, XS[:9], YS), f(U, XS, YS[:9])]
        """,
    "a compiled function takes the position as it would take any number": """
        @jax.jit
        def put(buffer, t):
            return buffer.at[t].set(jnp.sin(buffer[t - 1]) + t // 2 + (t > 3))

        def f(u: jax.Array, n: int):
            buffer = jnp.zeros((n, 5)).at[0].set(u)
            for t in range(1, n):
                buffer = put(buffer, t)
            return buffer

        def workload(rep):
            return [f(U, n) for n in (12, 9, 1)]
        """,
    "the number of steps is an array or numpy's": """
        def f(u: jax.Array, n):
            for i in range(n):
                u = advance(u)
            return u

        def g(u: jax.Array, n):
            for i in range(n):
                u = advance(u)
                if i % 10 == 0:
                    print(i, float(u[0]))
            return u

        def workload(rep):
            return f(U, jnp.array(30)), f(U, 20), f(U, np.int32(12)), g(U + rep, np.int64(33)), g(U, 21)
        """,
    "every state is kept, the first included": """
        def f(u0: jax.Array, n: int):
            u = u0
            path = [u0]
            for _ in range(n):
                u = advance(u)
                # a comment
                path.append(u)
            return jnp.stack(path), u

        def workload(rep):
            return f(U + rep, 20), f(U, 0), f(U, -1)
        """,
    "a list that is returned stays a list": """
        def f(u: jax.Array, n: int):
            path = []
            for _ in range(n):
                path.append(u)
                u = advance(u)
            return path

        def workload(rep):
            return f(U + rep, 20), f(U, 0)
        """,
    "an earlier version of what lasts is shown": """
        def f(u: jax.Array, n: int):
            for i in range(n):
                print("at", u)
                u = advance(u)
            return u

        def g(u: jax.Array, n: int):
            seen = {}
            for i in range(n):
                u = advance(u)
                seen[i] = u
                u = u + 1
            return u, seen

        def h(u: jax.Array, n: int):
            seen = []
            for i in range(n):
                seen.append((i, u))
                u = advance(u)
                if i % 5 == 4:
                    print(i, len(seen))
            return u, seen

        def workload(rep):
            return f(U + rep, 12), g(U + rep, 12), h(U + rep, 13)
        """,
    "seeds have the names of results, and lists share their values": """
        def f(u: jax.Array, n: int):
            us = [u]
            for i in range(n):
                u = advance(u)
                us.append(u)
            return jnp.stack(us)

        def g(u: jax.Array, n: int):
            every = []
            path = [u]
            for i in range(n):
                u = advance(u)
                every.append(u)
                path.append(u)
            return jnp.stack(every), jnp.stack(path)

        def workload(rep):
            return f(U + rep, 12), f(U, 0), g(U + rep, 12)
        """,
    "blocks while the bound is bound anew": """
        def f(u: jax.Array, n: int):
            for i in range(n):
                u = advance(u)
                if i % 5 == 0:
                    n = n - 1
                    print(i, n)
            return u, n

        def g(u: jax.Array, n: int):
            for n in range(n):
                u = advance(u)
                if n % 4 == 0:
                    print(n, float(u[0]))
            return u, n

        def h(u: jax.Array, n: int):
            i = 0
            while i < n:
                u = advance(u)
                if i % 4 == 0:
                    print(i, float(u[0]))
                i += 1
            return u, i

        def workload(rep):
            return f(U + rep, 19), g(U, 14), h(U, 13), h(U, 0)
        """,
    "a carried name that means unused, and positions of items that nothing reads": """
        def f(u: jax.Array, _: jax.Array, n: int):
            for i in range(n):
                u, _ = advance(_), advance(u)
            return u, _

        def g(u: jax.Array, zs: jax.Array):
            for i, z in enumerate(zs):
                u = advance(u) + i
            return u

        def workload(rep):
            return f(U + rep, U, 12), g(U, XS)
        """,
    "steps that are counted": """
        def f(u: jax.Array, n: int):
            done, points = 3, 0
            for _ in range(n):
                u = advance(u)
                done = done + 1
                points += 5
            return u, done, points

        def g(u: jax.Array, n: int):
            i, c = -1, 0
            for i in range(n):
                u = advance(u)
                c += 1
            return u, c, i

        def workload(rep):
            return f(U + rep, 20), f(U, 0), g(U, 12), g(U, 0)
        """,
    "gradients of which one element is read": """
        def f(p: jax.Array, n: int):
            tops = []
            for i in range(n):
                p = p - 0.1 * jax.grad(lambda q: jnp.sum(q**2))(p)
                tops.append(float(p[0]))
            return p, tops

        def workload(rep):
            return f(U + rep, 12)
        """,
    "only the last state is read": """
        def f(u: jax.Array):
            for _ in range(50):
                v = advance(u)
                u = 0.5 * (u + v)
            return u, v

        def workload(rep):
            return f(U + rep)
        """,
    "a dict comes back, and its parts have other names": """
        def f(p: jax.Array, rate: float):
            for _ in range(30):
                r = update(params=p, x=0.5, rate=rate)
                p = r["params"]; energy = r["energy"]  # of the step before
            return p, energy

        def workload(rep):
            return f(U + rep, 0.1 * rep)
        """,
    "training in memory, losses as numbers": """
        def f(model, x: jax.Array, y: jax.Array, n: int):
            opt_state = opt.init(eqx.filter(model, eqx.is_array))
            losses = []
            for _ in range(n):
                model, opt_state, loss = make_step(model, opt_state, x, y)
                losses.append(float(loss))
            return model, opt_state, losses

        def workload(rep):
            return f(MODEL, XS, YS + rep, 12), f(MODEL, XS, YS, 0)
        """,
    "work every three steps, after the step": """
        def f(model, x: jax.Array, y: jax.Array, n: int, seen: list):
            opt_state = opt.init(eqx.filter(model, eqx.is_array))
            history = []
            for step in range(n):
                model, opt_state, loss = make_step(model, opt_state, x, y)
                history.append(loss)
                # a sign of life
                if step % 3 == 0:
                    print(step, f"{float(loss):.3f}")
                    seen.append(model.bias)
            return model, history, step, loss

        def workload(rep):
            seen = []
            return [f(MODEL, XS, YS + rep, n, seen) for n in (10, 11, 12, 13, 1)], seen
        """,
    "work every three steps, before the step": """
        def f(u: jax.Array, n: int):
            for i in range(n):
                if (i + 2) % 3 == 0:
                    print(i, f"{float(u[0]):.3f}")
                u = advance(u)
            return u, i

        def workload(rep):
            return [f(U + rep, n) for n in (9, 10, 11, 1)]
        """,
    "work after a number of steps that the caller chooses, on rows of arrays": """
        def f(u: jax.Array, xs: jax.Array, every: int):
            kept = []
            for i, x in enumerate(xs):
                u = advance(u) * jnp.cos(0.1 * i) + x
                if i % every == 2:
                    kept.append((i, x, u))
            return u, kept

        def workload(rep):
            return [f(U + rep, XS, every) for every in (1, 3, 4, 20, -3)], f(U, XS[:0], 3)
        """,
    "something else in every step, too": """
        def f(u: jax.Array, n: int):
            warned, lowest = False, 10.0
            for i in range(n):
                u = advance(u) - 0.1
                if u.min() < -1.0 and not warned:
                    print("low at", i)
                    warned = True
                lowest = min(lowest, float(u.min()))
                if i % 5 == 0:
                    print(f"{lowest:.3f}")
            return u, lowest, warned

        def workload(rep):
            return f(U + rep, 23)
        """,
    "host work on what the first step of a block has made": """
        def f(u: jax.Array, n: int):
            kept, lowest = [], 100.0
            for i in range(n):
                u = advance(u) + 0.01 * i
                e = jnp.sum(u)
                kept.append(e)
                if i % 10 == 0:  # every tenth
                    # is shown
                    if float(e) < lowest:
                        lowest = float(e)
                    else:
                        print("worse", i)  # than before
                if i % 20 == 10:
                    print(i, f"{e:.3f}", lowest)
            return u, kept, lowest

        def late(u: jax.Array, n: int):
            i = e = None
            for i in range(n):
                u = advance(u)
                e = jnp.sum(u)
                if not i % 10:
                    n += 1
                    print(n, e)
            return u, i, e, n

        def counted(u: jax.Array, n: int):
            i = 0
            while i < n:
                u = advance(u)
                e = jnp.sum(u)
                if i % 10 == 0:
                    print(i, e)
                i += 1
            return u, i

        def state(u: jax.Array, n: int):
            i = 0
            while i < n:
                u = advance(u)
                if i % 10 == 0:
                    n_known = i
                    print(i, u[0])
                i += 1
            return u, i

        def named(u: jax.Array, xs: jax.Array):
            for i, x in enumerate(xs):
                u = advance(u) + x
                e = jnp.sum(u)
                if i % 8 == 0:
                    print(i, e)
            return u, i, e, x

        def listed(u: jax.Array, n: int):
            kept = []
            for i in range(n):
                u = advance(u)
                e = jnp.sum(u)
                kept.append(e)
                if i % 10 == 0:
                    print(len(kept), e)
            return u, kept

        def workload(rep):
            return [[g(U + rep, n) for n in (0, 1, 10, 33)] for g in (f, late, counted, state, listed)], named(U, XS)
        """,
    "Python numbers at the start": """
        def f(xs: jax.Array, rate: jax.Array):
            mean, count, largest = 0.0, 0, -1
            total = 0
            for x in xs:
                mean = mean + (1 - rate) * (jnp.sum(x) - mean)
                total += jnp.sum(x)
                count = count + 1
            return mean, count, total

        def workload(rep):
            return f(XS + rep, jnp.float32(0.5)), f(XS[:0], jnp.float32(0.5))
        """,
    "a clock of the host": """
        def f(u: jax.Array, dt: float):
            t, ts = 0.0, []
            for i in range(20):
                u = advance(u) * jnp.cos(1.5 * t)
                t += dt
            return u, t, i

        def workload(rep):
            return f(U, 0.1 + rep)
        """,
    "keys are split in the loop": """
        def f(u: jax.Array, key):
            draws = []
            for _ in range(15):
                key, sub = jax.random.split(key)
                u = advance(u) + 0.1 * jax.random.normal(sub, u.shape)
                draws.append(jnp.max(u))
            return u, key, jnp.array(draws)

        def workload(rep):
            return f(U, jax.random.key(rep))
        """,
    "several sequences, rows by position, ranges with ends and strides, backwards": """
        def f(u: jax.Array, xs: jax.Array, ys: jax.Array):
            for x, y in zip(xs, ys):
                u = advance(u) + x * y
            for i in range(len(xs)):
                u = advance(u) + xs[i]
            for i in range(1, 12):
                u = advance(u) + xs[i] - xs[i - 1]
            for i in range(12, -1, -1):
                u = 0.5 * u + xs[i]
            for i in range(0, 39, 3):
                u = 0.5 * u + ys[i % len(ys)]
            return u

        def workload(rep):
            return f(U + rep, XS, YS)
        """,
    "a while loop that counts": """
        def f(u: jax.Array, n: int):
            i = 0
            norms = []
            while i < n:
                u = advance(u)
                norms.append(jnp.max(u))
                i += 1
            return u, norms, i

        def workload(rep):
            return f(U + rep, 14), f(U, 0)
        """,
    "epochs and batches": """
        def f(u: jax.Array, xs: jax.Array):
            curve = []
            for epoch in range(3):
                rate = 0.5 * 0.9**epoch
                for x in xs:
                    u = update(u, x, rate)["params"]
                curve.append(u)
            return u, curve

        def workload(rep):
            return f(U + rep, XS)
        """,
    "a named tuple, and a list that is not empty": """
        def f(pair: Pair, n: int, first: list):
            sums = list(first)
            for _ in range(n):
                pair = move(pair)
                sums.append(pair.a)
            return pair, sums

        @jax.jit
        def move(pair):
            return Pair(pair.b, advance(pair.a))

        def workload(rep):
            return f(Pair(U, U + rep), 10, ["first"]), f(Pair(U, U), 0, [])
        """,
    "an unrolled cell in a compiled function": """
        class Rnn(eqx.Module):
            cell: eqx.nn.GRUCell
            out: eqx.nn.Linear

            def __call__(self, xs):
                h = jnp.zeros(5)
                ys = []
                for t in range(xs.shape[0]):
                    h = self.cell(xs[t], h)
                    ys.append(self.out(h))
                return jnp.stack(ys), h

        RNN = Rnn(eqx.nn.GRUCell(5, 5, key=jax.random.key(0)), eqx.nn.Linear(5, 2, key=jax.random.key(1)))

        @eqx.filter_jit
        @eqx.filter_value_and_grad
        def loss(rnn, xs):
            ys, h = rnn(xs)
            return jnp.sum(ys**2) + h[0]

        def workload(rep):
            return loss(RNN, XS + rep)
        """,
    "layers of one kind": """
        class Deep(eqx.Module):
            layers: list[eqx.nn.Linear]

            def __call__(self, x):
                for layer in self.layers:
                    x = jax.nn.relu(layer(x))
                return x

        DEEP = Deep([eqx.nn.Linear(5, 5, key=jax.random.key(k)) for k in range(9)])

        @eqx.filter_jit
        @eqx.filter_grad
        def slope(deep, x):
            return jnp.sum(deep(x))

        def workload(rep):
            return slope(DEEP, U + rep), DEEP(U), Deep([])(U)
        """,
}


@pytest.mark.parametrize("body", PROGRAMS.values(), ids=PROGRAMS)
def test_does_the_same(body: str) -> None:
    before = _program(body)
    after = rewritten(Scanify(), before)
    assert "jax.lax.scan(" in after
    assert after.count("#") >= before.count("#")
    assert_equivalent(before, after)


def _program(body: str) -> str:
    return "from typing import NamedTuple\n\n" + program(DATA + "\n\n" + _dedented(body))


def _dedented(body: str) -> str:
    return re.sub(r"(?m)^        ", "", body).strip("\n")


def test_every_loop_of_a_kind_is_found() -> None:
    body = PROGRAMS["several sequences, rows by position, ranges with ends and strides, backwards"]
    assert [type(f) for f in findings(Scanify(), _program(body))] == [Patch] * 5


def test_two_loops_alike_do_not_clash() -> None:
    first = _dedented(PROGRAMS["only the last state is read"]).partition("def workload")[0]
    text = _program("") + first + first.replace("def f(", "def g(")
    after = rewritten(Scanify(), text)
    names = [n.name for n in ast.parse(after).body if isinstance(n, ast.FunctionDef)]
    assert len(names) == len(set(names))
    assert {"_f_scan", "_g_scan"} <= set(names)


def test_counters_take_no_loop() -> None:
    body = program(PROGRAMS["steps that are counted"]).partition("import optax\n")[2]
    text = rewritten(Scanify(), program(DATA) + body)
    assert "done += n" in text and "points += 5 * n" in text


def test_a_convolution_may_be_unrolled_in_part() -> None:
    body = """
    class Cell(eqx.Module):
        conv: eqx.nn.Conv2d

        def __call__(self, h):
            return jax.nn.relu(self.conv(h))

    def f(cell: Cell, h: jax.Array, n: int):
        for _ in range(n):
            h = cell(h)
        return h

    def g(h: jax.Array, n: int):
        for _ in range(n):
            h = advance(h)
        return h
    """
    text = program(DATA) + program(body).partition("import optax\n")[2]
    convolved, plain = (f for f in findings(Scanify(), text) if isinstance(f, Patch))
    assert [v.form for v in convolved.variants] == ["scan", "unrolled scan"] and len(plain.variants) == 1
    assert any("length=n, unroll=2)" in e.text for e in convolved.variants[1].realise({"unroll": 2}))
    assert not any("unroll" in e.text for e in convolved.variants[0].realise({}))
