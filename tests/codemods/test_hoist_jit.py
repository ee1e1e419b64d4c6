"""What hoist-jit moves, and that every program does the same before and after, with no more compilations."""

from __future__ import annotations

import pytest
from harness import assert_equivalent, findings, program, reasons, rewritten
from jitmod.codemods.hoist_jit import HoistJit

DATA = """
    X = jax.random.normal(jax.random.key(1), (5, 3))
    NET = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))

"""

MOVED = {
    "imports of the function, comments around a lambda": """
        def f(x: jax.Array, w: jax.Array):
            import jax.scipy.special as special
            from math import pi, tau

            # how it is made
            g = jax.jit(  # compiled
                lambda x:
                    special.erf(x) @ w  # the product
                    + pi
            )
            return g(x) + tau

        def workload(rep: int):
            return f(X + rep, jnp.ones(3))
        """,
    "numbers of several types, where jax.jit tells them apart": """
        def f(x: jax.Array, reg: float):
            @jax.jit
            def g(x):
                return x * reg if reg > 1 else x + reg

            return g(x)

        def workload(rep: int):
            return [f(jnp.arange(3), reg) for reg in (1, 1.0, 2, 2.5)], f(X, 2), f(X, 0.5)
        """,
    "a capture that is not the donated buffer, dicts that are filled by key or came as arguments": """
        class Scale(eqx.Module):
            by: dict[str, jax.Array]

        def f(w: jax.Array, xs: list[jax.Array], scale: Scale):
            start = w * 1.0

            @eqx.filter_jit
            def step(w, params, x):
                new = {}
                for name, p in params.items():
                    new[name] = p + scale.by[name]
                total = sum(v.sum() for v in new.values())
                for v in params.values():
                    total = jnp.tanh(total + v.sum())
                return w - 0.1 * (w - start) * x + total

            for x in xs:
                w = step(w, {"b": x, "a": x + 1}, x)
            return w

        def workload(rep: int):
            return f(jnp.ones(3), [X[0] * rep, X[1]], Scale({"b": X[2], "a": X[3]}))

        def g(w: jax.Array, xs: list[jax.Array]):
            start = w * 1.0

            @functools.partial(jax.jit, donate_argnames=("w",))
            def step(w, x):
                return w - 0.1 * (w - start) * x

            for x in xs:
                w = step(w, x)
            return w

        def other(rep: int):
            return g(jnp.ones(3), [X[0] * rep, X[1]])
        """,
    "a capture has the name of a parameter": """
        def workload(rep: int):
            x = X * rep

            def shifted(y):
                return y + x

            f = jax.jit(lambda x: shifted(x) * 2)
            return f(X)
        """,
    "an attribute has the name of a helper's parameter": """
        class Model:
            def __init__(self, y: jax.Array):
                self.y = y

            def go(self, x: jax.Array):
                def twice(y):
                    return 2 * self.y

                f = jax.jit(lambda x: twice(x))
                return f(x)

        def workload(rep: int):
            return Model(X * rep).go(2 * X)
        """,
    "an attribute has the name of a parameter that is not read": """
        class Model:
            def __init__(self, y: jax.Array):
                self.y = y

            def go(self, x: jax.Array):
                f = jax.jit(lambda x, y: x * self.y)
                return f(x, x)

        def workload(rep: int):
            return Model(X * rep).go(X)
        """,
    "a lambda in a loop that reads the loop's variable": """
        def f(x: jax.Array, scales: list[jax.Array]):
            out = []
            for s in scales:
                g = jax.jit(lambda v: jnp.tanh(v) * s)
                out.append(g(x))
            return out

        def workload(rep):
            return f(X, [jnp.float32(0.5 + rep), jnp.float32(2.0)])
        """,
    "a lambda that is called where it is made": """
        def f(x: jax.Array, s: float):
            return jax.jit(lambda v: v @ v.T * s)(x)

        def workload(rep):
            return f(X, 0.5 + rep)
        """,
    "a number that shapes stays static": """
        def f(x: jax.Array, n: int):
            g = jax.jit(lambda v: jnp.ones(n) * v.sum())
            return g(x)

        def workload(rep):
            return f(X, 2 + rep % 2)
        """,
    "a number in host arithmetic stays static, and so exact": """
        def f(x: jax.Array, beta: float, t: int):
            @jax.jit
            def corrected(v):
                return v / (1 - beta**t)
            return corrected(x)

        def workload(rep):
            return f(X, 0.99999, rep + 1)
        """,
    "flags and strings stay static": """
        def f(x: jax.Array, flip: bool, mode: str):
            @jax.jit
            def g(v):
                v = v[::-1] if flip else v
                return v.sum() if mode == "sum" else v.mean()
            return g(x)

        def workload(rep):
            return f(X, rep % 2 == 0, "sum"), f(X, rep % 2 == 1, "mean")
        """,
    "a number keeps bfloat16 as it is": """
        def f(x: jax.Array, s: float):
            @jax.jit
            def g(v):
                return v * s + 1
            return g(x)

        def workload(rep):
            return f(X.astype(jnp.bfloat16), 0.5 + rep)
        """,
    "a method reads attributes": """
        class Agent:
            def __init__(self, w, temperature):
                self.w = w
                self.temperature = temperature
                self.calls = 0

            def act(self, obs: jax.Array):
                @jax.jit
                def policy(obs):
                    return jax.nn.softmax(obs @ self.w / self.temperature)
                self.calls += 1
                return policy(obs)

        AGENT = Agent(jnp.ones((3, 2)), 0.7)

        def workload(rep):
            AGENT.temperature = 0.5 + rep
            AGENT.w = jnp.full((3, 2), 0.1 * rep)
            return AGENT.act(X), AGENT.calls
        """,
    "a method of a Module": """
        class Model(eqx.Module):
            layer: eqx.nn.Linear
            scale: float = 2.0

            def forward(self, x: jax.Array):
                f = eqx.filter_jit(lambda v: jax.vmap(self.layer)(v) * self.scale)
                return f(x)

        M = Model(eqx.nn.Linear(3, 2, key=jax.random.key(3)))

        def workload(rep):
            return M.forward(X + rep)
        """,
    "vmap, grad and value_and_grad": """
        def loss(p, x):
            return jnp.sum((x @ p) ** 2)

        def f(p: jax.Array, x: jax.Array, s: float):
            a = jax.jit(jax.vmap(lambda row: row * s))(x)
            b = jax.jit(jax.grad(loss))(p, x)
            value_and_grad = jax.jit(jax.value_and_grad(lambda q: loss(q, x) * s))
            return a, b, value_and_grad(p)

        def workload(rep):
            return f(jnp.ones(3), X, 1.0 + rep)
        """,
    "a Module under jax.jit": """
        def f(net: eqx.nn.MLP, x: jax.Array):
            return jax.jit(jax.vmap(net))(x)

        def workload(rep):
            return f(NET, X + rep)
        """,
    "partials": """
        def affine(a, x, *, b=0.0):
            return a * x + b

        def f(x: jax.Array, a: jax.Array, b: float):
            g = jax.jit(functools.partial(affine, a, b=b))
            return g(x) + g(2 * x)

        def workload(rep):
            return f(X, jnp.float32(rep), 0.5)
        """,
    "nested functions move along": """
        def f(x: jax.Array, y: jax.Array, w: jax.Array, steps: int):
            def predict(w):
                return jnp.tanh(x @ w)

            # mean squared error
            def loss(w):
                return jnp.mean((predict(w) - y) ** 2)

            @jax.jit
            def step(w):
                value, g = jax.value_and_grad(loss)(w)
                return w - 0.1 * g, value  # a step

            values = []
            for _ in range(steps):
                w, value = step(w)
                values.append(value)
            return w, values

        def workload(rep):
            return f(X + rep, jnp.ones(5), jnp.zeros(3), 3)
        """,
    "an optimiser of constants moves to the module level": """
        def fit(w: jax.Array, x: jax.Array):
            optim = optax.chain(optax.clip(1.0), optax.adam(1e-2))
            state = optim.init(w)

            @jax.jit
            def step(w, state, x):
                g = jax.grad(lambda w: jnp.sum((x @ w) ** 2))(w)
                u, state = optim.update(g, state, w)
                return optax.apply_updates(w, u), state

            for _ in range(3):
                w, state = step(w, state, x)
            return w, state

        def workload(rep):
            return fit(jnp.ones(3), X + rep)
        """,
    "an optimiser of a parameter is built inside": """
        def fit(w: jax.Array, x: jax.Array, lr: float):
            optim = optax.adam(lr)
            state = optim.init(w)

            @eqx.filter_jit
            def step(w, state):
                g = jax.grad(lambda w: jnp.sum((x @ w) ** 2))(w)
                u, state = optim.update(g, state, w)
                return optax.apply_updates(w, u), state

            for _ in range(3):
                w, state = step(w, state)
            return w

        def workload(rep):
            return fit(jnp.ones(3), X, 0.1 + rep)
        """,
    "a factory of steps in a loop": """
        def make_step(optim):
            @eqx.filter_jit
            def step(model, state, x):
                def loss(m):
                    return jnp.mean(jax.vmap(m)(x) ** 2)
                g = eqx.filter_grad(loss)(model)
                u, state = optim.update(g, state)
                return eqx.apply_updates(model, u), state
            return step

        def train(model, x, epochs):
            for _ in range(epochs):
                optim = optax.sgd(0.1, momentum=0.9)  # starts anew
                state = optim.init(eqx.filter(model, eqx.is_array))
                step = make_step(optim)
                model, state = step(model, state, x)
            return model

        def workload(rep):
            return train(NET, X + rep, 2)
        """,
    "scan and map over a local body": """
        def f(x: jax.Array, w: jax.Array, n: int):
            def body(carry, t):
                carry = jnp.tanh(w @ carry) + t
                return carry, carry.sum()

            last, sums = jax.lax.scan(body, x, jnp.arange(3.0))
            again, _ = jax.lax.scan(lambda c, _: (c * 0.5, None), last, None, length=n)
            return last, sums, again, jax.lax.map(lambda row: row * w, sums)

        def workload(rep):
            return f(X[0], jnp.eye(3) * (rep + 1), 4)
        """,
    "static and donated arguments keep their places": """
        def f(x: jax.Array, s: jax.Array):
            @functools.partial(jax.jit, static_argnums=(1,), static_argnames=("flip",))
            def g(v, n, *, flip=False):
                v = v * s
                return jnp.tile(v, n)[::-1] if flip else jnp.tile(v, n)
            return g(x, 2), g(x, 3, flip=True)

        def workload(rep):
            return f(X[0], jnp.float32(rep))
        """,
    "comments, docstrings and text over several lines": '''
        def f(x: jax.Array, s: jax.Array):
            # above
            @jax.jit  # beside
            def g(
                v,  # the value
            ):
                """Doc.

                More.
                """
                text = """a
              b"""
                return v * s * len(text)  # behind

            return g(
                x,  # given
            )

        def workload(rep):
            return f(X, jnp.float32(rep))
        ''',
    "names that are part of other words": """
        def outer(x: jax.Array, d: jax.Array):
            @jax.jit
            def f(v):
                return v * d

            @jax.jit
            def e(f, ef):
                return f + ef * d
            return f(x), e(x, x)

        def workload(rep):
            return outer(X, jnp.float32(rep))
        """,
    "a name that the module has too": """
        def step(x):
            return x + 1

        def f(x: jax.Array, w: jax.Array):
            @jax.jit
            def step(x):
                return x * w
            return step(x)

        def workload(rep):
            return f(X, jnp.float32(rep)), step(1)
        """,
    "a comprehension's own names": """
        def f(xs: list[jax.Array]):
            return {k: jax.jit(lambda v: [v * q for q in (1.0, 2.0)])(x) for k, x in enumerate(xs)}

        def workload(rep):
            return f([X + rep, X])
        """,
    "a compiled function that is returned and reads nothing": """
        def make():
            @jax.jit
            def g(x):
                return x * 2
            return g

        def workload(rep):
            return make()(X + rep)
        """,
    "a generator and a coroutine": """
        def gen(x: jax.Array, s: jax.Array):
            f = jax.jit(lambda v: v * s)
            for i in range(3):
                yield f(x + i)

        async def co(x: jax.Array, s: jax.Array):
            f = jax.jit(lambda v: v - s)
            return f(x)

        def workload(rep):
            try:
                co(X, X).send(None)
            except StopIteration as done:
                value = done.value
            return list(gen(X, jnp.float32(rep))), value
        """,
    "the module level has loops too": """
        OUT = []
        for scale in [jnp.float32(1.0), jnp.float32(2.0)]:
            OUT.append(jax.jit(lambda v: v * scale)(X))

        def workload(rep):
            return OUT
        """,
}

REFUSED = {
    "numbers of several types, which eqx.filter_jit takes for one": (
        """
        def f(x: jax.Array, reg: float):
            @eqx.filter_jit
            def g(x):
                return x * reg if reg > 1 else x + reg

            return g(x)

        def main(x: jax.Array):
            for reg in (1, 2.5):
                print(f(x, reg))
        """,
        "varying-static",
    ),
    "an optimiser that every call makes anew": (
        """
        def fit(w: jax.Array, xs: list[jax.Array], rate):
            optim = optax.sgd(rate)
            state = optim.init(w)

            @jax.jit
            def step(w, state, x):
                updates, state = optim.update(x, state)
                return optax.apply_updates(w, updates), state

            for x in xs:
                w, state = step(w, state, x)
            return w
        """,
        "varying-static",
    ),
    "a dict that is gone through in its order": (
        """
        def f(params: dict[str, jax.Array], x: jax.Array):
            @jax.jit
            def g(x):
                for w in params.values():
                    x = jnp.tanh(x @ w)
                return x

            return g(x)
        """,
        "key-order",
    ),
    "a Module that goes through its dict in order, in another function": (
        """
        class Net(eqx.Module):
            parts: dict[str, eqx.nn.MLP]

            def __call__(self, x):
                return forward(list(self.parts.values()), x)

        def forward(parts, x):
            for part in parts:
                x = part(x)
            return x

        def f(net: Net, x: jax.Array):
            @eqx.filter_jit
            def g(x):
                return net(x)

            return g(x)
        """,
        "key-order",
    ),
    "a capture that may be the donated buffer": (
        """
        def f(w: jax.Array, xs: list[jax.Array]):
            start = jax.tree.map(lambda v: v, w)

            @functools.partial(jax.jit, donate_argnums=(0,))
            def step(w, x):
                return w - 0.1 * (w - start) * x

            for x in xs:
                w = step(w, x)
            return w
        """,
        "may-alias",
    ),
    "a helper has the name of a parameter": (
        """
        def f(x: jax.Array, k: jax.Array):
            def g(y):
                return y + k

            def h(z):
                return g(z) * 2

            return jax.jit(lambda g: h(g))(x)
        """,
        "local-callable",
    ),
    "an option counts from the end": (
        """
        def f(x: jax.Array, w: jax.Array):
            return jax.jit(lambda x, n: x[:n] * w[:n], static_argnums=(-1,))(x, 2)
        """,
        "varying-static",
    ),
    "a numpy array is a shape": (
        """
        def f(x: jax.Array, shape: np.ndarray):
            return jax.jit(lambda x: jnp.reshape(x, shape))(x)
        """,
        "host-arithmetic",
    ),
    "a cached factory": (
        """
        @functools.lru_cache
        def make(n):
            return jax.jit(lambda x: x * n)
        """,
        "cached-factory",
    ),
    "made once for an object": (
        """
        class A:
            def __init__(self, s):
                self.f = jax.jit(lambda x: x * s)
        """,
        "cached-factory",
    ),
    "made where it is missing": (
        """
        class A:
            def f(self, x):
                if self._f is None:
                    self._f = jax.jit(lambda x: x * 2)
                return self._f(x)
        """,
        "cached-factory",
    ),
    "jit of a function of the module": (
        """
        def g(x):
            return x + 1

        def f(x):
            return jax.jit(g)(x)
        """,
        "cached-factory",
    ),
    "filter_jit of a Module": (
        """
        def f(net: eqx.nn.MLP, x):
            return eqx.filter_jit(net)(x)
        """,
        "cached-factory",
    ),
    "kept for later with the loop's variable": (
        """
        def f(scales: list[jax.Array]):
            out = []
            for s in scales:
                out.append(jax.jit(lambda x: x * s))
            return out
        """,
        "late-binding",
    ),
    "kept for later with a comprehension's name": (
        """
        def f(scales: list[jax.Array]):
            return [jax.jit(lambda x: x * s) for s in scales]
        """,
        "late-binding",
    ),
    "a comprehension's name, called at once": (
        """
        def f(xs: list[jax.Array]):
            return [jax.jit(lambda v: v * k)(x) for k, x in enumerate(xs)]
        """,
        "late-binding",
    ),
    "handed on with a local value": (
        """
        def f(s: jax.Array):
            return jax.jit(lambda x: x * s)
        """,
        "local-callable",
    ),
    "a name is rebound after the jit was made": (
        """
        def f(xs: list[jax.Array], s: jax.Array):
            g = jax.jit(lambda x: x * s)
            out = []
            for x in xs:
                out.append(g(x))
                s = s + 1
            return out
        """,
        "frozen-by-jit",
    ),
    "an attribute changes in between": (
        """
        class A:
            def __init__(self, w: jax.Array):
                self.w = w

            def run(self, xs: list[jax.Array]):
                g = jax.jit(lambda x: x * self.w)
                out = []
                for x in xs:
                    out.append(g(x))
                    self.w = self.w + 1
                return out
        """,
        "mutable-self",
    ),
    "a dict changes in between": (
        """
        def f(xs: list[jax.Array], params: dict[str, jax.Array]):
            g = jax.jit(lambda x: x * params["w"])
            out = []
            for x in xs:
                out.append(g(x))
                params["w"] = params["w"] + 1
            return out
        """,
        "frozen-by-jit",
    ),
    "a rebound global": (
        """
        SCALE = 1.0

        def set_scale(s):
            global SCALE
            SCALE = s

        def f(x: jax.Array):
            return jax.jit(lambda v: v * SCALE)(x)
        """,
        "rebound-global",
    ),
    "it prints when it is traced": (
        """
        def f(x: jax.Array, s: jax.Array):
            @jax.jit
            def g(v):
                print("tracing")
                return v * s
            return g(x)
        """,
        "host-effect",
    ),
    "host randomness when it is traced": (
        """
        def f(x: jax.Array):
            return jax.jit(lambda v: v * np.random.rand())(x)
        """,
        "host-effect",
    ),
    "what it captures is unknown": (
        """
        def f(x, thing):
            return jax.jit(lambda v: v * thing)(x)
        """,
        "mutable-self",
    ),
    "it calls what is unknown": (
        """
        def f(x, function):
            return jax.jit(lambda v: function(v))(x)
        """,
        "mutable-self",
    ),
    "a default reads a local name": (
        """
        def f(x: jax.Array, s: jax.Array):
            out = []
            for i in range(3):
                g = jax.jit(lambda v, i=i: v * i)
                out.append(g(x))
            return out
        """,
        "local-callable",
    ),
    "a captured array decides a branch": (
        """
        def f(x: jax.Array, w: jax.Array):
            @jax.jit
            def g(v):
                if jnp.sum(w) > 0:
                    return v * w
                return v
            return g(x)
        """,
        "batched-branch",
    ),
    "a captured array is a mask": (
        """
        def f(x: jax.Array, w: jax.Array):
            return jax.jit(lambda v: v[w > 0])(x)
        """,
        "ragged-items",
    ),
    "a captured array is read as a number": (
        """
        def f(x: jax.Array, n: jax.Array):
            return jax.jit(lambda v: jnp.tile(v, int(n)))(x)
        """,
        "host-effect",
    ),
    "nonlocal": (
        """
        def f(x: jax.Array):
            count = 0
            @jax.jit
            def g(v):
                nonlocal count
                count += 1
                return v
            g(x)
            return count
        """,
        "host-effect",
    ),
    "it calls itself": (
        """
        def f(x: jax.Array, s: jax.Array):
            @jax.jit
            def g(v, n=3):
                return v if n == 0 else g(v * s, n - 1)
            return g(x)
        """,
        "local-callable",
    ),
    "a private attribute": (
        """
        class A:
            def f(self, x: jax.Array):
                return jax.jit(lambda v: v * self.__w)(x)
        """,
        "local-callable",
    ),
    "locals": (
        """
        def f(x: jax.Array, s: jax.Array):
            return jax.jit(lambda v: v * locals()["v"])(x)
        """,
        "dynamic-scope",
    ),
    "everything is donated": (
        """
        def f(x: jax.Array, w: jax.Array):
            @eqx.filter_jit(donate="all")
            def g(v):
                return v * w
            return g(x)
        """,
        "donated-later-read",
    ),
    "numpy computes with what it captures": (
        """
        def f(x: jax.Array, w: np.ndarray):
            return jax.jit(lambda v: v * np.linalg.inv(w))(x)
        """,
        "host-arithmetic",
    ),
    "a nested function that others use": (
        """
        def f(x: jax.Array, s: jax.Array):
            def inner(v):
                return v * s
            return jax.jit(lambda v: inner(v))(x), inner(x)
        """,
        "local-callable",
    ),
    "one number as int here and as float there": (
        """
        def f(x: jax.Array, s: float):
            g = eqx.filter_jit(lambda v: v ** s)
            return g(x)

        def both(x: jax.Array):
            return f(x, 2), f(x, 2.0)
        """,
        "varying-static",
    ),
    "a factory of what only exists here": (
        """
        def make_step(optim):
            @jax.jit
            def step(g, state):
                return optim.update(g, state)
            return step

        def fit(g: jax.Array, state, lr: float):
            for _ in range(3):
                optim = optax.adam(lr)
                step = make_step(optim)
                g, state = step(g, state)
            return g
        """,
        "local-callable",
    ),
    "lambdas in a loop that see its last value": (
        """
        def f(gains):
            taps = []
            for g in gains:
                taps.append(lambda x: jnp.tanh(x) * g)
            return taps
        """,
        "late-binding",
    ),
}


def source(body: str) -> str:
    return program(DATA.replace("\n    ", "\n") + body.replace("\n        ", "\n"))


@pytest.mark.parametrize("body", MOVED.values(), ids=MOVED)
def test_moves_and_stays_the_same(body: str) -> None:
    before = source(body)
    assert set(reasons(HoistJit(), before)) == {"patch"}
    after = rewritten(HoistJit(), before)
    expected, got = assert_equivalent(before, after)
    assert not any(isinstance(r, tuple) and r[:1] == ("raised",) for r in expected.results)
    if expected.compilations[-1]:
        assert got.compilations[-1] == 0, after
    for line in before.splitlines():
        assert line.partition("#")[2] in after


@pytest.mark.parametrize(("body", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused(body: str, reason: str) -> None:
    assert reasons(HoistJit(), program(body)) == [reason]


def test_inside_a_trace_is_no_site() -> None:
    body = """
        def f(x, s):
            return jax.jit(lambda v: v * s)(x)

        @jax.jit
        def g(x, s):
            return f(x, s)
        """
    assert findings(HoistJit(), program(body)) == ()


def moved(body: str) -> str:
    return rewritten(HoistJit(), program(body))


def test_a_name_of_the_module_level_stays() -> None:
    body = """
        outs = []
        for x in (jnp.ones(2), jnp.zeros(2)):
            f = jax.jit(lambda v: v * 2 + 1)
            outs.append(f(x))
        """
    assert "@jax.jit\ndef f(v):\n" in moved(body) and "outs.append(f(x))" in moved(body)
    text = body.replace("v * 2", "v * x")
    assert reasons(HoistJit(), program(text), other="from main import f\n\nprint(f(3.0))\n") == ["rebound-global"]


def test_what_is_left_and_what_has_moved_reads_well() -> None:
    after = moved('''
        class Agent:
          def act(self, observation: jax.Array, weights: jax.Array, other_weights: jax.Array):
            optim = optax.sgd(0.1)

            @jax.jit
            def policy_of_the_agent(observation, state):
              """What to do.

              More words.
              """
              return optim.update(observation @ weights + other_weights, state)

            state = optim.init(observation)
            return policy_of_the_agent(observation, state)

          def look(self, xs: jax.Array, weights: jax.Array):
            return jax.jit(jax.vmap(lambda x: x @ weights))(xs)
        ''')
    assert '  """What to do.\n\n  More words.\n  """\n  return _OPTIM.update(' in after
    assert "other_weights: jax.Array):\n    state = _OPTIM.init(observation)\n" in after
    assert "    return _act_policy_of_the_agent(observation, state, weights, other_weights)\n" in after
    assert "\n  return jax.vmap(lambda x: x @ weights)(xs)\n" in after


def test_calls_and_definitions_keep_to_the_lines_of_the_file() -> None:
    after = moved("""
        def simulate(
            initial_state: jax.Array,
            transition_matrix: jax.Array,
            observation_matrix: jax.Array,
        ):
            @jax.jit
            def transition_and_observe(state):
                new_state = transition_matrix @ state
                return observation_matrix @ new_state

            return transition_and_observe(initial_state)
        """)
    assert max(len(line) for line in after.splitlines()) <= 88
    assert "(\n        initial_state, transition_matrix, observation_matrix\n    )\n" in after


def test_a_scan_without_a_name_for_its_state() -> None:
    after = moved("""
        def f(xs: jax.Array, w: jax.Array):
            def body(c, x):
                return (c[0] * w + x, c[1] + 1), x

            return jax.lax.scan(body, (xs[0], 0), xs)

        def workload(rep: int):
            return f(jnp.ones(3), jnp.ones(())), f(jnp.ones(3) + rep, jnp.ones(()))
        """)
    assert "(init, xs, w):" in after
