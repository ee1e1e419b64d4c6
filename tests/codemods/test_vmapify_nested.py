"""Comprehensions with several `for`, and comprehensions inside of others: the innermost loop is one call."""

from __future__ import annotations

import pytest
from programs import DATA, assert_same, findings, program, reasons, rewritten, run

from jitmod.model import Patch

FUNCTIONS = """
s = "another s"

def flat(net: Net, batches: list[jax.Array]):
    return [net(x) for batch in batches for x in batch]

def flat_stacked(net: Net, batches: list[jax.Array]):
    return jnp.stack([net(x) * 2 for batch in batches if len(batch) for x in batch])

def product(net: Net, xs: jax.Array, scales: list[float]):
    return [net(x * s) for s in scales for x in xs]

def grid(net: Net, xs: jax.Array, ys: jax.Array):
    return [[net(x + y) for y in ys] for x in xs]

def pulled(net: Net, xs: jax.Array, names: list[str]):
    return {(n, i): float(net(x)[0]) for n in names for i, x in enumerate(xs)}

def pairs(net: Net, batches: list[tuple[jax.Array, jax.Array]]):
    return [(net(x) + y, float(x[0])) for xs, ys in batches for x, y in zip(xs, ys)]

def nested_stack(net: Net, batches: list[jax.Array]):
    return [jnp.stack([net(x) for x in batch]) for batch in batches]

def windows(net: Net, series: list[jax.Array], w: int):
    return [net(s[i : i + w].sum(axis=0)) for s in series for i in range(len(s) - w + 1)]

def whole(net: Net, batches: list[jax.Array]):
    return [net(x - batch.mean(axis=0)) for batch in batches for x in batch]

def workload():
    b = [XS, YS[:2], XS[:0], YS]
    return [flat(NET, b), flat(NET, []), flat_stacked(NET, b), product(NET, XS, [1.0, 2.5]), grid(NET, XS, YS),
            grid(NET, XS, YS[:0]), pulled(NET, XS, NAMES), pairs(NET, [(XS, YS), (YS, XS), (XS[:0], YS[:0])]),
            nested_stack(NET, [XS, YS]), windows(NET, b, 2), whole(NET, b)]
"""


def test_same_results() -> None:
    before = program(DATA + FUNCTIONS)
    assert reasons(before) == ["patch"] * 9
    after = rewritten(before)
    expected, printed = run(before)
    got, said = run(after)
    assert_same(expected, got)
    assert printed == said
    assert not any(isinstance(finding, Patch) for finding in findings(after))


REFUSED = {
    "an inner `if` skips items": (
        """
        def f(net: Net, batches: list[jax.Array]):
            return [net(x) for batch in batches for x in batch if x is not None]
        """,
        "guarded-work",
    ),
    "a generator around it": (
        """
        def f(net: Net, batches: list[jax.Array]):
            return ([net(x) for x in batch] for batch in batches)
        """,
        "local-callable",
    ),
    "an outer target that hides a builtin": (
        """
        def f(net: Net, batches: list[jax.Array]):
            return [net(x) for len in batches for x in len]
        """,
        "rebound-global",
    ),
    "an outer item that cannot be told": (
        """
        def f(net: Net, xs: jax.Array, others):
            return [net(x + other) for other in others for x in xs]
        """,
        "mutable-self",
    ),
}


@pytest.mark.parametrize(("body", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused(body: str, reason: str) -> None:
    assert reasons(program(body)) == [reason]
