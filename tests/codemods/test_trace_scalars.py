"""What trace-scalars wraps or takes out of the static arguments, and that programs do the same, compiled less often."""

from __future__ import annotations

import pytest
from harness import assert_equivalent, findings, program, reasons, rewritten
from jitmod.codemods.trace_scalars import TraceScalars

from jitmod.model import Patch, Refusal

DATA = "X = jnp.linspace(0.1, 2.0, 6)\n\n"

TRACED = {
    "an index of an update, and an argument that a loop changes": """
        class Walk(eqx.Module):
            steps: int

            @eqx.filter_jit
            def go(self, x, dt):
                for _ in range(self.steps):
                    x = x + dt * x
                return x

        @eqx.filter_jit
        def put(x, i, v):
            return x.at[i].set(v)

        def workload(rep: int):
            x = jnp.zeros(3)
            out = []
            for i in range(4):
                x = put(x, i, 0.5 * i + rep)
                out.append(Walk(2).go(jnp.ones(3), 0.25 * i))
            return x, out
        """,
    "it prints whenever it runs": """
        @eqx.filter_jit
        def step(x, t):
            jax.debug.callback(lambda v: None, x.sum())
            return x * t

        def workload(rep: int):
            return [step(X, 0.5 * i + rep) for i in range(3)]
        """,
    "a number that a loop hands to itself": """
        def bump(t):
            return t * 1.5

        @eqx.filter_jit
        def step(x, t):
            for _ in range(3):
                t = bump(t)
            return x * t

        def workload(rep: int):
            return [step(X, 0.1 * i + rep) for i in range(3)]
        """,
    "a loop index": """
        @eqx.filter_jit
        def step(x, i):
            return x * i + 1

        def workload(rep: int):
            x = X
            for i in range(3):
                x = step(x, i + 10 * rep)
            return x
        """,
    "a counter and a value read back": """
        @eqx.filter_jit
        def step(x, t, last):
            return jnp.tanh(x - t * last)

        def workload(rep: int):
            x, t, last = X, 0.5 * rep, 1.0
            for _ in range(3):
                x = step(x, t, last)
                t += 0.1
                last = float(x[0])
            return x, t, last
        """,
    "bfloat16 stays bfloat16": """
        @eqx.filter_jit
        def step(x, s):
            return jnp.maximum(x * s, s)

        def workload(rep: int):
            return [step(X.astype(jnp.bfloat16), 0.3 * i + rep) for i in range(3)]
        """,
    "through helpers, Modules and files of functions": """
        class Field(eqx.Module):
            w: jax.Array

            def __call__(self, t, y):
                return self.w * y + jnp.append(y[1:], t)

        def half(field, t, y, dt):
            return field(t + dt / 2, y) * dt

        @eqx.filter_jit
        def step(field, t, y, dt):
            return y + half(field, t, y, dt)

        FIELD = Field(jnp.ones(6))

        def workload(rep: int):
            y, t = X, 0.0
            for i in range(3):
                dt = 0.1 + 0.01 * i + 0.001 * rep
                y = step(FIELD, t, y, dt)
                t = t + dt
            return y, t
        """,
    "fold_in and an index into an array": """
        @eqx.filter_jit
        def draw(key, table, i):
            return table[i] + jax.random.normal(jax.random.fold_in(key, i), (2,))

        def workload(rep: int):
            key = jax.random.key(0)
            return [draw(key, X, i + rep) for i in range(3)]
        """,
    "a method of a Module": """
        class Model(eqx.Module):
            w: jax.Array

            @eqx.filter_jit
            def step(self, x, lr):
                return x - lr * self.w

        M = Model(jnp.ones(6))

        def workload(rep: int):
            return [M.step(X, 0.1 * i + rep) for i in range(3)]
        """,
    "a static argument of jax.jit": """
        @functools.partial(jax.jit, static_argnums=(1, 2))
        def sample(x, temperature, k):
            values, _ = jax.lax.top_k(x, k)
            return values / temperature

        def workload(rep: int):
            return [sample(X, 1.0 + 0.1 * i + rep, 2) for i in range(3)]
        """,
    "the only static argument": """
        @functools.partial(jax.jit, static_argnames="scale")
        def grow(x, *, scale):
            return x * scale

        def workload(rep: int):
            return [grow(X, scale=2.0 * i + rep) for i in range(3)]
        """,
    "a static argument of an assignment": """
        def grow(x, scale):
            return x * scale

        fast = jax.jit(grow, static_argnums=1)

        def workload(rep: int):
            return [fast(X, 2.0 * i + rep) for i in range(3)]
        """,
}

REFUSED = {
    "it is counted up before a slice": ("t += 1\n    return x[:t]", "unresolved-callee"),
    "a sum with itself in a loop": ("for k in range(2):\n        t = t + k\n    return x * t", "host-arithmetic"),
    "a division by it on the host": ("return x * (1.0 / t)", "host-arithmetic"),
    "a step of a product": ("return x * jnp.floor(t * 0.1)", "host-arithmetic"),
    "a comparison with a product": ("return x.sum() > t * 0.1", "host-arithmetic"),
    "a factor beyond float32": ("return x * (t * 1e-30)", "host-arithmetic"),
    "a sum with a negative constant": ("return x * (t + -0.5)", "host-arithmetic"),
    "a sum of negated numbers": ("return x * (0.5 + -(t * 1.0))", "host-arithmetic"),
    "the trace prints": ("print(x.shape)\n    return x * t", "host-effect"),
    "the trace counts": ("COUNT[0] += 1\n    return x * t", "host-effect"),
    "the trace reads what changes": ("return x * t * RATE", "rebound-global"),
    "a shape": ("return jnp.zeros(t) + x.sum()", "scalar-needed-as-python"),
    "a slice": ("return x[:t].sum()", "scalar-needed-as-python"),
    "a branch": ("return x if t > 2 else -x", "scalar-needed-as-python"),
    "a test of an if": ("if t % 2:\n        return x\n    return -x", "scalar-needed-as-python"),
    "a loop": ("for _ in range(t):\n        x = x * 2\n    return x", "scalar-needed-as-python"),
    "a key of a dict": ("return {t: x}", "unresolved-callee"),
    "an index into a list": ("return [x, -x, x, x, x, x][t]", "scalar-needed-as-python"),
    "a text": ("return x, f'{t}'", "scalar-needed-as-python"),
    "a type": ("return x if isinstance(t, int) else -x", "scalar-needed-as-python"),
    "math": ("import math\n    return x * math.exp(-t)", "scalar-needed-as-python"),
    "an exponent": ("return x**t", "scalar-needed-as-python"),
    "a static argument of another": ("return inner(x, t)", "scalar-needed-as-python"),
    "it is handed back": ("return x, t", "unresolved-callee"),
    "it is handed back alone": ("return t", "scalar-needed-as-python"),
    "a difference in double precision": ("return x * (1.0 - t / 1000)", "host-arithmetic"),
    "a power in double precision": ("return x / (1 - 0.999**t)", "host-arithmetic"),
    "unbounded integers": ("return x * (t * t)", "host-arithmetic"),
    "an unknown function": ("return UNKNOWN(x, t)", "unresolved-callee"),
    "through a helper": ("return helper(x, t)", "scalar-needed-as-python"),
}

LEFT = {
    "plain jax.jit traces numbers": """
        @jax.jit
        def step(x, t):
            return x * t

        def run(x: jax.Array):
            return [step(x, i) for i in range(9)]
        """,
    "a constant": """
        @eqx.filter_jit
        def step(x, t):
            return x * t

        def run(x: jax.Array):
            return [step(x, 2) for i in range(9)]
        """,
    "flags and strings": """
        @eqx.filter_jit
        def step(x, flag, mode):
            return x if flag else -x

        def run(x: jax.Array):
            return [step(x, i > 3, str(i)) for i in range(9)]
        """,
    "an array": """
        @eqx.filter_jit
        def step(x, t):
            return x * t

        def run(x: jax.Array, ts: jax.Array):
            return [step(x, t) for t in ts]
        """,
    "inside of a trace": """
        @eqx.filter_jit
        def step(x, t):
            return x * t

        @jax.jit
        def run(x):
            for i in range(9):
                x = step(x, i)
            return x
        """,
    "a static argument that does not vary": """
        @functools.partial(jax.jit, static_argnums=1)
        def step(x, n):
            return jnp.tile(x, n)

        def run(x: jax.Array):
            return step(x, 2), step(x, 3)
        """,
}


@pytest.mark.parametrize("body", TRACED.values(), ids=TRACED)
def test_compiles_once(body: str) -> None:
    before = program(DATA + body.replace("\n        ", "\n"))
    assert "patch" in reasons(TraceScalars(), before)
    after = rewritten(TraceScalars(), before)
    expected, got = assert_equivalent(before, after)
    assert expected.compilations[1] > 0
    assert got.compilations[1:] == (0, 0, 0), after


@pytest.mark.parametrize(("body", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused(body: str, reason: str) -> None:
    text = f"""
COUNT = [0]
RATE = 1.0


def faster():
    global RATE
    RATE = 2 * RATE


@functools.partial(jax.jit, static_argnums=1)
def inner(x, n):
    return jnp.tile(x, n)


def helper(x, n):
    return x[:n]


@eqx.filter_jit
def step(x, t):
    {body}


def run(x: jax.Array):
    return [step(x, i) for i in range(1, 5)]
"""
    (finding,) = [f for f in findings(TraceScalars(), program(text)) if f.site.symbol == "run"]
    assert isinstance(finding, Refusal)
    assert finding.reason == reason
    assert "`i`" in finding.message and "main.py:" in finding.message


@pytest.mark.parametrize("body", LEFT.values(), ids=LEFT)
def test_left_alone(body: str) -> None:
    assert findings(TraceScalars(), program(body)) == ()


def test_sums_of_unknown_signs_are_guarded() -> None:
    text = TRACED["through helpers, Modules and files of functions"].replace("\n        ", "\n")
    (finding,) = findings(TraceScalars(), program(DATA + text))
    assert isinstance(finding, Patch)
    assert [a.code for a in finding.assumptions] == ["scalar-guard"]


SUMMED = """
        @eqx.filter_jit
        def step(x, t, dt):
            h = dt / 2
            return x + (t + h)

        def run(x, rep: int):
            t = 0.5
            for i in range(3):
                x = step(x, t, 0.25 * (i + 1))
                t += 0.25 * (i + 1)
            return x, t

        def workload(rep: int):
            return run(X, rep)
        """


def test_sums_of_numbers_that_are_never_negative_need_no_guard() -> None:
    before = program(DATA + SUMMED.replace("\n        ", "\n"))
    (finding,) = findings(TraceScalars(), before)
    assert isinstance(finding, Patch) and finding.assumptions == ()
    after = rewritten(TraceScalars(), before)
    assert " if " not in after
    expected, got = assert_equivalent(before, after)
    assert got.compilations[0] < expected.compilations[0]


CANCELLING = """
        @eqx.filter_jit
        def step(x, t, o):
            return x * (t + o)

        def workload(rep: int):
            out = []
            for i in range(3):
                t = 1e7 + 0.01 * i
                o = (1 - 2 * rep) * (1e7 - 0.005 * i)
                out.append(step(X, t, o))
            return out
        """


def test_where_a_sum_cancels_the_numbers_stay_as_they_are() -> None:
    before = program(DATA + CANCELLING.replace("\n        ", "\n"))
    after = rewritten(TraceScalars(), before)
    assert "if o >= 0 else step(X, t, o)" in after
    assert_equivalent(before, after)


def test_a_property_is_not_read_twice() -> None:
    body = """
        class Clock:
            def __init__(self):
                self.ticks = 0

            @property
            def time(self):
                self.ticks += 1
                return 0.5 * self.ticks

        @eqx.filter_jit
        def step(x, t):
            return x + (t + 0.5)

        def run(x: jax.Array, clock: Clock):
            return [step(x, clock.time + i) for i in range(3)]
        """
    assert reasons(TraceScalars(), program(body)) == ["host-arithmetic"]


def test_products_of_what_may_be_integers_are_not_traced() -> None:
    body = """
        @eqx.filter_jit
        def step(x, t, u):
            return x * (t * u)

        def run(x: jax.Array, counts):
            return [step(x, i, 70000 + n) for i, n in enumerate(counts)]
        """
    assert reasons(TraceScalars(), program(body)) == ["host-arithmetic"]


ADVICE = {
    "a shape that grows": (
        """
        @jax.jit
        def read(ids):
            return ids.sum()

        def generate(ids: jax.Array):
            for _ in range(9):
                ids = jnp.append(ids, read(ids))
            return ids
        """,
        "growing-shape",
        "`ids` grows",
    ),
    "a slice that grows": (
        """
        @eqx.filter_jit
        def read(ids):
            return ids.sum()

        def scan(ids: jax.Array):
            return [read(ids[:i]) for i in range(1, 9)]
        """,
        "growing-shape",
        "another length",
    ),
    "a list that grows": (
        """
        @jax.jit
        def total(items):
            return sum(items)

        def collect(x: jax.Array):
            items = []
            for _ in range(9):
                items.append(x)
                x = total(items)
            return x
        """,
        "growing-shape",
        "every length is compiled anew",
    ),
    "a method that hashes self": (
        """
        class Filter:
            def __init__(self, gain):
                self.gain = gain

            def set(self, gain):
                self.gain = gain

            @functools.partial(jax.jit, static_argnums=0)
            def apply(self, x):
                return x * self.gain
        """,
        "mutable-self",
        "`self.gain` changes",
    ),
}


@pytest.mark.parametrize(("body", "reason", "words"), ADVICE.values(), ids=ADVICE)
def test_advice_names_the_cause(body: str, reason: str, words: str) -> None:
    (finding,) = findings(TraceScalars(), program(body))
    assert isinstance(finding, Refusal)
    assert finding.reason == reason
    assert words in finding.message


def test_a_window_of_one_length_is_no_growing_shape() -> None:
    body = """
        @jax.jit
        def read(ids):
            return ids.sum()

        def scan(ids: jax.Array):
            return [read(ids[i : i + 4]) for i in range(8)]
        """
    assert findings(TraceScalars(), program(body)) == ()
