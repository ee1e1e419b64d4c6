"""Ways to write what an item is: parts of tuples, values of dicts, keys by number, Modules written out one by one."""

from __future__ import annotations

import pytest
from programs import DATA, assert_same, program, reasons, rewritten, run

FUNCTIONS = """
def pairs(net: Net, ps: list[tuple[jax.Array, jax.Array]]):
    out = []
    for p in ps:
        out.append(net(p[0]) + p[1])
    return out

def swapped(net: Net, ps: list[tuple[jax.Array, jax.Array]]):
    out = []
    for p in ps:
        p = (p[1], p[0])
        out.append(net(p[0]))
    return out

def values(net: Net, d: dict[str, jax.Array]):
    out = {}
    for k in d:
        out[k] = net(d[k])
    return out

def counted(net: Net, xs: jax.Array, key: jax.Array):
    return [net(x + jax.random.normal(jax.random.fold_in(key, 2 * i + 1), (3,))) for i, x in enumerate(xs)]

def split_before(net: Net, xs: jax.Array, key: jax.Array):
    keys = jax.random.split(key, len(xs))
    out = []
    for i, x in enumerate(xs):
        out.append(net(x + jax.random.normal(keys[i], (3,))))
    return out

def split_twice(net: Net, xs: jax.Array, key: jax.Array):
    out = []
    for x in xs:
        key, sub = jax.random.split(key)
        a = jax.random.normal(sub, (3,))
        key, sub = jax.random.split(key)
        b = jax.random.normal(sub, (3,))
        out.append(net(x + a * b))
    return out, jax.random.uniform(key)

def written_out(net: Net, x: jax.Array):
    nets = [net, Net(eqx.nn.Linear(3, 3, key=jax.random.key(8)))]
    return [n(x) for n in nets]

def workload():
    key = jax.random.key(3)
    ps, d = list(zip(XS, YS)), dict(zip(NAMES, XS))
    return [pairs(NET, ps), swapped(NET, ps), pairs(NET, []), values(NET, d), values(NET, {}), counted(NET, XS, key),
            split_before(NET, XS, key), split_twice(NET, XS, key), written_out(NET, XS[0])]
"""


def test_same_results() -> None:
    before = program(DATA + FUNCTIONS)
    assert reasons(before) == ["patch"] * 7
    after = rewritten(before)
    expected, printed = run(before)
    got, said = run(after)
    assert_same(expected, got)
    assert printed == said


REFUSED = {
    "a dict that the loop fills": (
        """
        def f(net: Net, d: dict[str, jax.Array]):
            for k in d:
                d[k] = net(d[k])
        """,
        "may-alias",
    ),
    "keys for another number of items": (
        """
        def f(net: Net, xs: jax.Array, key: jax.Array):
            keys = jax.random.split(key, len(xs) + 1)
            return [net(x + jax.random.normal(keys[i], (3,))) for i, x in enumerate(xs)]
        """,
        "slice-bounds",
    ),
    "keys counted down": (
        """
        def f(net: Net, xs: jax.Array, key: jax.Array):
            return [net(x + jax.random.normal(jax.random.fold_in(key, 9 - i), (3,))) for i, x in enumerate(xs)]
        """,
        "index-as-python",
    ),
}


@pytest.mark.parametrize(("body", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused(body: str, reason: str) -> None:
    assert reasons(program(body)) == [reason]
