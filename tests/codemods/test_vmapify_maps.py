"""`list(map(net, xs))` and `[*map(net, xs)]`: comprehensions in other words."""

from __future__ import annotations

import pytest
from programs import DATA, assert_same, findings, program, reasons, rewritten, run

FUNCTIONS = """
def plain(net: Net, xs: jax.Array):
    return list(map(net, xs)), [*map(net, xs)]

def stacked(net: Net, xs: jax.Array, ys: jax.Array):
    a = jnp.stack(list(map(net, xs)))
    return a, jnp.stack([*map(lambda x, y: net(x) + y, xs, ys)])

@jax.jit
def both(x, y):
    return jnp.sin(x) * y

class Runner(eqx.Module):
    net: Net

    def run(self, images: jax.Array, others: jax.Array):
        total = 0.0
        outs = list(map(both, images, others))  # é, a comment
        for y in map(self.net, images):
            total += float(y.sum())
        scores = [*map(self.net, images)]
        return outs, total, scores

def workload():
    return [plain(NET, XS), plain(NET, XS[:0]), stacked(NET, XS, YS), Runner(NET).run(XS, YS),
            Runner(NET).run(XS[:0], YS[:0])]
"""


def test_same_results() -> None:
    before = program(DATA + FUNCTIONS)
    assert reasons(before) == ["patch"] * 6
    after = rewritten(before)
    expected, printed = run(before)
    got, said = run(after)
    assert_same(expected, got)
    assert printed == said
    assert findings(after) == ()


def test_a_finding_points_at_the_call() -> None:
    found = findings(program(DATA + FUNCTIONS))
    lines = program(DATA + FUNCTIONS).split("\n")
    assert all("map(" in lines[f.site.line - 1][f.site.column - 1 :] for f in found)
    assert [f.site.column for f in found[:2]] == [12, 32]


OTHERS = {
    "map is something else": (
        """
        def map(function, xs):
            return [function(xs)]

        def f(net: Net, xs: jax.Array):
            return list(map(net, xs))
        """,
        [],
    ),
    "nothing heavy": (
        """
        def f(xs: jax.Array):
            return list(map(jnp.sum, xs))
        """,
        [],
    ),
    "a lambda with a default": (
        """
        def f(net: Net, xs: jax.Array):
            return list(map(lambda x, k=2: net(x) * k, xs))
        """,
        [],
    ),
    "what is iterated over is used up": (
        """
        def f(net: Net, xs: jax.Array):
            return list(map(net, iter(xs)))
        """,
        ["lazy-iterator"],
    ),
    "items that cannot be told": (
        """
        def f(net: Net, xs: dict[str, jax.Array]):
            return list(map(net, xs))
        """,
        ["unknown-iterable"],
    ),
    "the callee prints": (
        """
        class Loud(Net):
            def __call__(self, x):
                print("called")
                return x

        def f(net: Loud, xs: jax.Array):
            return list(map(net, xs))
        """,
        ["host-effect"],
    ),
}


@pytest.mark.parametrize(("body", "wanted"), OTHERS.values(), ids=OTHERS)
def test_left_alone(body: str, wanted: list[str]) -> None:
    assert reasons(program(body)) == wanted
