"""What list-to-array rewrites, and that every program does the same before and after."""

from __future__ import annotations

import textwrap

import pytest
from harness import assert_equivalent, findings, program, reasons, rewritten
from jitmod.codemods.list_to_array import ListToArray

CODEMOD = ListToArray()
XS = "XS = jax.random.normal(jax.random.key(0), (5, 3))\nWHOLE = jnp.arange(12).reshape(4, 3)\n"
REWRITTEN = {
    "a comprehension": """
        def norms(xs: jax.Array, w: jax.Array):
            return jnp.array([jnp.sum(x * w) for x in xs])

        def workload(rep):
            return norms(XS + rep, XS[0]), norms(XS[:0], XS[0]), norms(WHOLE, WHOLE[0])
        """,
    "a loop": """
        def distances(points: jax.Array, centre: jax.Array):
            found = []
            for p in points:
                apart = p - centre
                found.append(jnp.linalg.norm(apart))  # one for each
            return jnp.stack(found)

        def workload(rep):
            return distances(XS + rep, XS[0])
        """,
    "a list of arrays": """
        def means(xs: list[jax.Array]):
            ys = [jnp.mean(x, axis=0) for x in xs]
            return jnp.asarray(ys) + 1

        def workload(rep):
            return means([XS + rep, XS]), means([])
        """,
    "pairs, and a list that is kept": """
        def pairs(xs: jax.Array):
            return jnp.array([(jnp.sum(x), jnp.max(x)) for x in xs])

        def kept(xs: jax.Array):
            ys = [jnp.exp(x) for x in xs]
            return jnp.array(ys), ys[0]

        def workload(rep):
            return pairs(XS + rep), kept(XS), kept(jnp.full((3, 2), 2.0))
        """,
    "weakly typed results": """
        def marks(xs: jax.Array):
            return jnp.array([jnp.exp(x) for x in xs])

        def kept(xs: jax.Array):
            return jnp.stack([jnp.exp(x) for x in xs])

        def later(xs: jax.Array):
            found = []
            for x in xs:
                found.append(jnp.negative(x))
            return jnp.asarray(found) * jnp.ones(3, jnp.bfloat16)

        def workload(rep):
            weak = jnp.where(XS[0] > rep, 1.0, 2.0)
            return marks(weak), kept(weak), later(weak), later(jnp.where(XS[0] > rep, 1, 2)), marks(XS[0])
        """,
    "draws": """
        def noise(keys: jax.Array, scale: jax.Array):
            return jnp.stack([jax.random.normal(key, (2,)) * scale for key in keys])

        def workload(rep):
            return noise(jax.random.split(jax.random.key(rep), 4), XS[0, 0])
        """,
    "several lists, one of them printed": """
        def both(xs: jax.Array):
            sums, text = [], []
            for x in xs:
                total = jnp.sum(x)
                sums.append(total)
                text.append(f"{float(total):.3f}")
            print(text)
            return jnp.array(sums)

        def workload(rep):
            return both(XS + rep)
        """,
    "a sum that goes on": """
        def running(xs: jax.Array, total: jax.Array):
            found = []
            for x in xs:
                total = total + jnp.sum(x)
                found.append(total)
            return jnp.stack(found)

        def workload(rep):
            return running(XS, XS[0, 0] + rep)
        """,
    "a method": """
        class Field:
            def __init__(self, w):
                self.w = w

            def energies(self, xs: jax.Array):
                w = self.w
                return jnp.stack([jnp.vdot(x, w) for x in xs])

        def workload(rep):
            return Field(XS[0] + rep).energies(XS)
        """,
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_same_results(name: str) -> None:
    before = program(XS + textwrap.dedent(REWRITTEN[name]))
    assert set(reasons(CODEMOD, before)) == {"patch"}
    after = rewritten(CODEMOD, before)
    assert findings(CODEMOD, after) == ()
    assert_equivalent(before, after)


LEFT = {
    "no array": "def f(xs: jax.Array):\n    return [jnp.sum(x) for x in xs]\n",
    "an array of numpy": "def f(xs: jax.Array):\n    return np.array([jnp.sum(x) for x in xs])\n",
    "another type": "def f(xs: jax.Array):\n    return jnp.array([jnp.sum(x) for x in xs], dtype=jnp.float16)\n",
    "no loop": "def f(a: jax.Array, b: jax.Array):\n    return jnp.array([jnp.sum(a), jnp.sum(b)])\n",
    "nothing is computed": "def f(xs: list[float]):\n    return jnp.array([x for x in xs])\n",
    "arrays of Python values": "def f(xs: list[float]):\n    return jnp.stack([jnp.asarray(x) for x in xs])\n",
    "vmapify's": "def f(net: eqx.nn.MLP, xs: jax.Array):\n    return jnp.array([jnp.sum(net(x)) for x in xs])\n",
    "two ways": (
        "def f(xs: jax.Array):\n    ys = [jnp.exp(x) for x in xs]\n    return jnp.stack(ys), jnp.array(ys)\n"
    ),
}


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT)
def test_left_alone(text: str) -> None:
    assert findings(CODEMOD, program(text)) == ()


REFUSED = {
    "in a trace": (
        "@jax.jit\ndef f(xs: jax.Array):\n    return jnp.stack([jnp.sum(x) for x in xs])\n",
        "already-compiled",
    ),
    "numbers": ("def f(ts: list[float]):\n    return jnp.array([jnp.exp(-t) for t in ts])\n", "index-as-python"),
    "an early exit": (
        "def f(xs: jax.Array):\n    found = []\n    for x in xs:\n        if jnp.sum(x) > 0:\n            break\n"
        "        found.append(jnp.exp(x))\n    return jnp.stack(found)\n",
        "data-dependent-exit",
    ),
}


@pytest.mark.parametrize(("text", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused(text: str, reason: str) -> None:
    assert reasons(CODEMOD, program(text)) == [reason]
