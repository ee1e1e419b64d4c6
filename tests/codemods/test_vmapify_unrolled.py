"""Inner loops over a few numbers: a trace unrolls them, the host keeps what it does with the results."""

from __future__ import annotations

import pytest
from programs import DATA, assert_same, program, reasons, rewritten, run

KEPT = """
def confusion(net: Net, batches: list[tuple[jax.Array, jax.Array]]):
    hits, seen = [0, 0, 0], {}
    for b, (x, y) in enumerate(batches):
        pred = jnp.argmax(net(x))
        for c in range(3):
            hits[c] += int(jnp.sum((pred == y) & (y == c)))  # per class
            if b == 1:
                print(b, c, hits)
        seen[b] = float(pred)
    return hits, seen, c

def scores(net: Net, xs: jax.Array):
    rows = []
    for x in xs:
        y = net(x)
        row = []
        for k in range(2):
            row.append((y[k : k + 2].sum() * k).item())
            row.append(float(x[k]) + float(jnp.linalg.norm(y, ord=k + 1)))
        rows.append(row)
    return rows

def inside(net: Net, xs: jax.Array):
    found = []
    for x in xs:
        y = net(x)
        found.append(jnp.stack([y * c + x[c] for c in range(3)]).sum(axis=0))
    return found

def workload():
    batches = [(x, jnp.asarray(k % 3)) for k, x in enumerate(XS)]
    return confusion(NET, batches), scores(NET, XS), inside(NET, XS), scores(NET, XS[:0])
"""


def test_same_results() -> None:
    before = program(DATA + KEPT)
    assert reasons(before) == ["patch"] * 3
    after = rewritten(before)
    expected, printed = run(before)
    got, said = run(after)
    assert_same(expected, got)
    assert printed == said
    assert "hits[c] += int(sum_values[c])  # per class" in after
    assert "sum_values = jnp.stack([jnp.sum((pred == y) & (y == c)) for c in range(3)])" in after


ON_HOST = {
    "a round may be the last": "if hits > 4:\n            break\n        hits += int(jnp.sum(y == c))",
    "a condition decides": "if c in wanted:\n            hits += int(jnp.sum(y == c))",
    "it reads what the round binds": "d = 2 * c\n        hits += int(jnp.sum(y == d))",
    "the number is bound anew": "c = c + 1\n        hits += int(jnp.sum(y == c))",
    "a function may give each round another dtype": "hits += int(count(y, c))",
}


@pytest.mark.parametrize("rounds", ON_HOST.values(), ids=ON_HOST)
def test_left_on_the_host(rounds: str) -> None:
    body = f"""
def count(y: jax.Array, c: int) -> jax.Array:
    return jnp.sum(y) if c else jnp.sum(y == 0)

def f(net: Net, xs: jax.Array, wanted: set[int]):
    hits = 0
    for x in xs:
        y = jnp.round(net(x))
        for c in range(3):
            {rounds.replace(chr(10), chr(10) + "    ")}
    return hits

def workload():
    return f(NET, 3 * XS, {{1, 2}})
"""
    before = program(DATA + body)
    after = rewritten(before)
    assert_same(run(before)[0], run(after)[0])
    assert "jnp.stack([" not in after
    assert rounds.split("\n")[-1].strip() in after


@pytest.mark.parametrize("rounds", ["range(0)", "range(1000)", "range(n)", "reversed(range(3))"])
def test_rounds_that_are_not_a_few(rounds: str) -> None:
    body = f"""
def f(net: Net, xs: jax.Array, n: int):
    hits = 0
    for x in xs:
        y = jnp.round(net(x))
        for c in {rounds}:
            hits += int(jnp.sum(y == c))
    return hits
"""
    assert f"for c in {rounds}]" not in rewritten(program(DATA + body))
