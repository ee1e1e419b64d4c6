"""What jitify compiles, and that every program returns, prints and changes the same before and after."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import assert_equivalent, program, reasons, rewritten
from jitmod.codemods.jitify import Jitify

from jitmod.model import Refusal
from jitmod.rewrite.codemod import scan
from jitmod.source.document import Document
from jitmod.source.project import Project
from jitmod.source.recording import Recorded, RecordedFunction

DATA = """
    KEY = jax.random.key(0)
    NET = eqx.nn.MLP(3, 2, 8, 2, key=KEY)
    X = jax.random.normal(jax.random.key(1), (6, 3))
    Y = jnp.ones((6, 2))

"""

COMPILED = {
    "what a list is given, from a model of the project": """
        class Model(eqx.Module):
            net: eqx.nn.MLP

            def __call__(self, x):
                return self.net(x)

        def run(net: Model, xs: list[jax.Array]):
            out = []
            for x in xs:
                print(x.shape)
                out.append(net(x))
            return out

        def workload(rep: int):
            return run(Model(NET), [X[0], X[1] * rep])
        """,
    "a while loop with host control": """
        def track(net: eqx.nn.MLP, frames: jax.Array):
            scores, t = {}, 0
            while t < len(frames):
                score = net(frames[t])
                scores[t] = score
                t += 1 if float(score[0]) > 0 else 2
            return scores

        def workload(rep: int):
            return track(NET, X + rep)
        """,
    "gradient and optimiser": """
        def loss(net, x, y):
            return jnp.mean((jax.vmap(net)(x) - y) ** 2)

        def fit(net: eqx.nn.MLP, x: jax.Array, y: jax.Array, steps: int):
            optim = optax.adam(1e-2)  # fixed
            state = optim.init(eqx.filter(net, eqx.is_array))
            history = []
            for step in range(steps):
                value, grads = eqx.filter_value_and_grad(loss)(net, x, y)
                # the update
                updates, state = optim.update(grads, state, eqx.filter(net, eqx.is_array))
                net = eqx.apply_updates(net, updates)
                history.append(float(value))
                print(step, round(float(value), 3))
            return net, state, history

        def workload(rep: int):
            return fit(NET, X + rep, Y, 3)
        """,
    "an optimiser of a parameter": """
        def loss(w, x):
            return jnp.sum(jnp.tanh(x @ w) ** 2)

        def fit(w: jax.Array, x: jax.Array, lr: float):
            optim = optax.adam(lr)
            state = optim.init(w)
            for _ in range(3):
                grads = jax.grad(loss)(w, x)
                updates, state = optim.update(grads, state)
                w = optax.apply_updates(w, updates)
            return w

        def workload(rep: int):
            return fit(jnp.ones(3), X + rep, 0.1)
        """,
    "an evaluation loop with pulls": """
        def evaluate(net: eqx.nn.MLP, batches: list[jax.Array]):
            total, worst = 0.0, None
            for b, x in enumerate(batches):
                y = jax.vmap(net)(x)
                best = jnp.argmax(y, axis=1)
                score = float(jnp.mean(best))
                total += float(y.sum())
                if worst is None or score < worst[0]:
                    worst = (score, b)
            return total, worst

        def workload(rep: int):
            return evaluate(NET, [X + rep, X * 2, X[:3]])
        """,
    "the model inside of a host expression": """
        def show(net: eqx.nn.MLP, xs: jax.Array):
            seen = []
            for i in range(len(xs)):
                seen.append((i, net(xs[i])))
                print(i, float(net(xs[i])[0]) > 0)
            return seen

        def workload(rep: int):
            return show(NET, X + rep)
        """,
    "keys are split in the block": """
        class Noisy(eqx.Module):
            net: eqx.nn.MLP

            def __call__(self, x, key):
                return self.net(x + 0.1 * jax.random.normal(key, x.shape))

        NOISY = Noisy(NET)

        def sample(net: Noisy, x: jax.Array, key: jax.Array, n: int):
            out = []
            for _ in range(n):
                key, sub = jax.random.split(key)
                y = net(x, sub)
                out.append(y)
            return out, key

        def workload(rep: int):
            return sample(NOISY, X[0], jax.random.key(rep), 3)
        """,
    "state on a plain object": """
        class Regressor:
            def __init__(self, scale: float):
                self.scale = scale
                self.optimizer = optax.adam(1e-2)
                self.params = {"w": jnp.zeros(3), "b": jnp.zeros(())}
                self.state = self.optimizer.init(self.params)
                self.count = 0

            def predict(self, params, x):
                return jnp.tanh(x @ params["w"] + params["b"])

            def loss(self, params, x, y):
                \"\"\"Scaled squares.\"\"\"
                return self.scale * jnp.mean((self.predict(params, x) - y) ** 2)

            def fit(self, x: jax.Array, y: jax.Array):
                value, grads = jax.value_and_grad(self.loss)(self.params, x, y)
                updates, self.state = self.optimizer.update(grads, self.state)
                self.params = optax.apply_updates(self.params, updates)
                self.count += 1
                return value

        REG = Regressor(2.0)

        def workload(rep: int):
            REG.scale = 1.0 + rep
            values = []
            for _ in range(3):
                values.append(REG.fit(X, Y[:, 0]))
            return values, REG.params, REG.state, REG.count, REG.loss(REG.params, X, Y[:, 0])
        """,
    "a number that is traced, one that is static": """
        def apply(net: eqx.nn.MLP, x: jax.Array, n: int, scales: list[float]):
            out = []
            for s in scales:
                y = net(x * s)
                z = jnp.tile(y, n) + s
                out.append(z)
            return out

        def workload(rep: int):
            return apply(NET, X[0], 2, [0.5 + rep, 1.5, 2.5])
        """,
    "several loops and functions": """
        def first(net: eqx.nn.MLP, xs: jax.Array):
            while xs.shape[0] > 2:
                y = net(xs[0])
                print(float(y[0]) > 0)
                xs = xs[1:]
            return y

        def second(net: eqx.nn.MLP, x: jax.Array):
            for i in range(3):
                y = net(x)
                x = jnp.concatenate([y, y])[:3]
                print(i)
            return x, y

        def workload(rep: int):
            return first(NET, X + rep), second(NET, X[0])
        """,
    "a Module that is updated, in a method of a class": """
        class Trainer:
            def __init__(self, net):
                self.net = net

            def run(self, x: jax.Array):
                for _ in range(2):
                    grads = eqx.filter_grad(lambda net: jnp.sum(jax.vmap(net)(x) ** 2))(self.net)
                    self.net = eqx.apply_updates(self.net, jax.tree.map(lambda g: -0.1 * g, grads))
                return self.net

        def workload(rep: int):
            return Trainer(NET).run(X + rep)
        """,
    "text over several lines": '''
        def run(net: eqx.nn.MLP, xs: jax.Array):
            out = []
            for i in range(3):
                # before
                y = net(
                    xs[i]  # the item
                )  # after
                z = y + net(xs[i]) * \\
                    2
                # between
                w = {"a": z, "b": (y, """x
        y""")}["a"]
                print(i)
                out.append(w)
            return out

        def workload(rep: int):
            return run(NET, X + rep)
        ''',
    "dicts with keys out of order, texts, masks and items of containers stay on the host": """
        class Blocks(eqx.Module):
            parts: dict[str, eqx.nn.MLP]

            def __call__(self, x):
                for name in sorted(self.parts):
                    x = jnp.tanh(self.parts[name](x))
                return {"value": x, "abs": jnp.abs(x)}

        def metrics(net, x):
            return {"worst": jnp.max(net(x)), "best": jnp.min(net(x))}

        def run(net: eqx.nn.MLP, blocks: Blocks, xs: list[jax.Array]):
            store = {"w": jnp.ones(2), "b": {"c": jnp.zeros(2)}}
            out = []
            for i, x in enumerate(xs):
                y = net(x)
                text = "%s" % (y.sum() > 0)
                positive = y[y > 0]
                made = {"y": y, "a": net(x)}
                print(text, positive.shape, list(made), list(metrics(net, x)), list(blocks(x)))
                z = net(x) + 1
                held, b = (z, store), store["b"]
                held[1]["w"] = z
                b["c"] = z
                out.append(held)
            return out, store

        def workload(rep: int):
            blocks = Blocks({"z": eqx.nn.MLP(3, 2, 8, 2, key=KEY)})
            return run(NET, blocks, [X[0], X[1] + rep])
        """,
    "items by their names, lengths inside": """
        def run(net: eqx.nn.MLP, loader: list[dict[str, jax.Array]], key: jax.Array):
            out = []
            for batch in loader:
                x = batch["x"]
                key, sub = jax.random.split(key)
                noise = jax.random.normal(sub, (x.shape[0], 2))
                error = jax.vmap(net)(x) + noise - batch["y"]
                out.append(float(jnp.mean(error)))
            return out

        def workload(rep: int):
            return run(NET, [{"x": X + rep, "y": Y}, {"x": X, "y": Y}], jax.random.key(rep))
        """,
    "tabs": """
        def run(net: eqx.nn.MLP, xs: jax.Array):
        \tout = []
        \tfor i in range(3):
        \t\ty = net(xs[i])
        \t\tz = jnp.tanh(y)
        \t\tout.append(z)
        \t\tprint(i)
        \treturn out

        def workload(rep: int):
        \treturn run(NET, X + rep)
        """,
}

REFUSED = {
    "a handler above could see half of what an object got": (
        """
        class Walk:
            def __init__(self, net: eqx.nn.MLP, x: jax.Array):
                self.net = net
                self.x = x

            def go(self, xs: list[jax.Array]):
                for x in xs:
                    self.last = self.net(x)
                    self.x = self.net(x) @ self.last

        def main(walk: Walk, xs: list[jax.Array]):
            try:
                outer(walk, xs)
            except TypeError:
                print(walk.last)

        def outer(walk: Walk, xs: list[jax.Array]):
            walk.go(xs)
        """,
        "exception-order",
    ),
    "a Module goes through its dict in order": (
        """
        class Net(eqx.Module):
            parts: dict[str, eqx.nn.MLP]

            def __call__(self, x):
                for part in self.parts.values():
                    x = part(x)
                return x

        def f(net: Net, x: jax.Array):
            for _ in range(3):
                y = net(x)
                print(y)
        """,
        "key-order",
    ),
    "finally reads half of it": (
        """
        def f(net: eqx.nn.MLP, xs: list[jax.Array]):
            y = None
            try:
                for x in xs:
                    y = net(x)
                    z = y @ x
            finally:
                print(y is None)
            return z
        """,
        "exception-order",
    ),
    "errors are swallowed half-way": (
        """
        import contextlib

        def f(net: eqx.nn.MLP, xs: list[jax.Array]):
            y = xs[0]
            with contextlib.suppress(TypeError):
                for x in xs:
                    y = net(x)
                    z = y @ x
            return y, z
        """,
        "exception-order",
    ),
    "the model prints": (
        """
        class Loud(eqx.Module):
            net: eqx.nn.MLP

            def __call__(self, x):
                print("called")
                return self.net(x)

        def f(net: Loud, x: jax.Array):
            while float(x[0]) > 0:
                x = net(x)
        """,
        "host-effect",
    ),
    "the model branches on values": (
        """
        class Branch(eqx.Module):
            net: eqx.nn.MLP

            def __call__(self, x: jax.Array):
                return self.net(x) if jnp.sum(x) > 0 else x

        def f(net: Branch, x: jax.Array):
            while float(x[0]) > 0:
                x = net(x)
        """,
        "batched-branch",
    ),
    "one small operation": (
        """
        def f(layer: eqx.nn.Linear, x: jax.Array):
            while float(x[0]) > 0:
                x = layer(x)
        """,
        "too-small",
    ),
    "a context that grows": (
        """
        def f(net: eqx.nn.MLP, ids: jax.Array):
            for _ in range(3):
                y = net(ids)
                ids = jnp.append(ids, y)
                print(y)
        """,
        "growing-shape",
    ),
    "an input that is unknown": (
        """
        def f(net: eqx.nn.MLP, items):
            for x in items:
                y = net(x)
                print(y)
        """,
        "mutable-self",
    ),
    "a clock is read around it": (
        """
        import time

        def f(net: eqx.nn.MLP, x: jax.Array):
            for _ in range(3):
                start = time.perf_counter()
                y = net(x)
                print(time.perf_counter() - start, y)
        """,
        "timing-loop",
    ),
    "a handler around it": (
        """
        def f(net: eqx.nn.MLP, x: jax.Array):
            for _ in range(3):
                try:
                    y = net(x)
                    print(y)
                except ValueError:
                    print("bad")
        """,
        "exception-order",
    ),
    "a rebound global": (
        """
        GAIN = 1.0

        class Scaled(eqx.Module):
            net: eqx.nn.MLP

            def __call__(self, x):
                return self.net(x) * GAIN

        def f(net: Scaled, x: jax.Array):
            global GAIN
            for i in range(3):
                y = net(x)
                GAIN = GAIN + 1
                print(y)
        """,
        "rebound-global",
    ),
    "a manager that nobody knows": (
        """
        def f(net: eqx.nn.MLP, x: jax.Array, guarded):
            h = x
            for _ in range(3):
                with guarded():
                    h = jnp.tanh(h)
                    h = net(h)
                print(h)
        """,
        "exception-order",
    ),
    "a manager of the project that suppresses": (
        """
        import contextlib

        @contextlib.contextmanager
        def quiet():
            with contextlib.suppress(TypeError):
                yield

        def f(net: eqx.nn.MLP, x: jax.Array):
            h = x
            for _ in range(3):
                with quiet():
                    h = jnp.tanh(h)
                    h = net(h)
                print(h)
        """,
        "exception-order",
    ),
    "an index that shapes": (
        """
        def f(net: eqx.nn.MLP, x: jax.Array):
            for i in range(3):
                y = net(x)
                z = jnp.tile(y, i)
                print(z)
        """,
        "varying-static",
    ),
    "a method that a subclass overrides": (
        """
        class Base:
            def __init__(self, w: jax.Array):
                self.w = w

            def loss(self, w, x):
                return jnp.sum((x @ w) ** 2) + jnp.tanh(self.w).sum()

            def step(self, x: jax.Array):
                for _ in range(3):
                    g = jax.grad(self.loss)(self.w, x)
                    self.w = self.w - 0.1 * g
                    print(g)

        class Other(Base):
            def loss(self, w, x):
                return jnp.sum(w)
        """,
        "mutable-self",
    ),
    "locals": (
        """
        def f(net: eqx.nn.MLP, x: jax.Array):
            for i in range(3):
                y = net(x)
                print(sorted(locals()))
        """,
        "dynamic-scope",
    ),
    "a global result": (
        """
        def f(net: eqx.nn.MLP, x: jax.Array):
            global LAST
            for i in range(3):
                LAST = net(x)
                print(i)
        """,
        "dynamic-scope",
    ),
    "a property is set": (
        """
        class Holder:
            def __init__(self, net: eqx.nn.MLP):
                self.net = net
                self._y = None

            @property
            def y(self):
                return self._y

            @y.setter
            def y(self, value):
                print("set")
                self._y = value

            def run(self, x: jax.Array):
                for _ in range(3):
                    self.y = self.net(x)
        """,
        "mutable-self",
    ),
}


def source(body: str) -> str:
    return program(DATA.replace("\n    ", "\n") + body.replace("\n        ", "\n"))


@pytest.mark.parametrize("body", COMPILED.values(), ids=COMPILED)
def test_compiled_and_the_same(body: str) -> None:
    before = source(body)
    found = reasons(Jitify(), before)
    assert "patch" in found, found
    after = rewritten(Jitify(), before)
    expected, got = assert_equivalent(before, after)
    assert not any(isinstance(r, tuple) and r[:1] == ("raised",) for r in expected.results), expected.results
    assert got.compilations[-1] == 0, after
    for line in before.splitlines():
        assert line.partition("#")[2] in after


@pytest.mark.parametrize(("body", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused(body: str, reason: str) -> None:
    assert set(reasons(Jitify(), source(body))) == {reason}


def test_items_keep_their_names() -> None:
    after = rewritten(Jitify(), source(COMPILED["items by their names, lengths inside"]))
    assert '    x = batch["x"]\n' in after and 'batch["y"])' in after
    assert "(x.shape[0], 2)" in after and "_item" not in after


def test_inside_a_trace_and_in_one_off_calls_is_no_site() -> None:
    body = """
        @jax.jit
        def f(x):
            for _ in range(3):
                x = NET(x)
            return x

        def once(net: eqx.nn.MLP, x: jax.Array):
            return net(x)
        """
    assert reasons(Jitify(), source(body)) == []


TRACK = """
def track(net: eqx.nn.MLP, frames: jax.Array):
    t = 0
    while t < len(frames):
        score = net(frames[t])
        t += 1 if float(score[0]) > 0 else 2
    return t


def answer(net: eqx.nn.MLP, frame: jax.Array):
    print("asked")
    score = net(frame)
    print(score)
"""


def recorded(share: float, entries: int) -> list[str]:
    """What is found where a recording saw the loop of `track` for a share of its time, and `answer` so often."""
    document = Document.parse("main.py", program(TRACK).encode())
    line = 1 + document.source.decode().split("\n").index("    while t < len(frames):")
    answer = RecordedFunction(Path("."), "a", "main.py", "answer", "answer", entries, {}, {}, (), {}, ())
    known = Recorded({("main.py", "answer"): answer}, shares={("main.py", line, 5): share})
    project = Project.of({"main.py": document}).with_recorded(known)
    found = scan([Jitify()], project, ["main.py"]).findings
    return [f"{f.site.symbol}: {f.reason if isinstance(f, Refusal) else 'patch'}" for f in found]


def test_a_tuple_gives_what_it_computes_to_the_block_before() -> None:
    text = program("""
        def pairs(net: eqx.nn.MLP, xs: list[jax.Array]):
            out = []
            for x in xs:
                y = net(x)
                out.append((y, jnp.sum(y * y)))
                print(len(out))
            return out

        def workload(rep: int):
            return pairs(eqx.nn.MLP(3, 2, 8, 2, key=jax.random.key(0)), [jnp.arange(3.0) + rep, jnp.ones(3)])
        """)
    after = rewritten(Jitify(), text)
    assert "    return y, sum_value\n" in after and "out.append((y, sum_value))" in after
    assert_equivalent(text, after)


def test_a_recording_tells_what_is_hot() -> None:
    assert recorded(0.4, 1) == ["track: patch"]
    assert recorded(0.004, 1) == ["track: too-small"]
    assert recorded(0.4, 2) == ["track: patch", "answer: patch"]
