"""Buffers whose rows a loop fills: `grid = grid.at[i].set(y)` is one update of all rows."""

from __future__ import annotations

import pytest
from programs import DATA, assert_same, program, reasons, rewritten, run

FUNCTIONS = """
def store(net: Net, xs: jax.Array):
    grid = jnp.zeros((4, 3))
    for i, x in enumerate(xs):
        grid = grid.at[i].set(net(x))
    return grid

def several(net: Net, xs: jax.Array, grid: jax.Array):
    sums, squares = jnp.ones((5, 5)), jnp.ones(5)
    ys = []
    for i in range(len(xs)):
        y = net(xs[i])
        s = y.sum()
        sums = sums.at[i].set(s)  # a number fills a row
        squares = squares.at[i].add(s * s)
        grid = grid.at[i].set(y)
        ys.append(y)
    return sums, squares, grid, ys

def of_windows(net: Net, xs: jax.Array, w: int):
    out = jnp.zeros((len(xs), 3))
    for i in range(len(xs) - w + 1):
        out = out.at[i].set(net(xs[i : i + w].sum(axis=0)))
    return out

def loud(net: Net, xs: jax.Array):
    rows = jnp.zeros((9, 3))
    for i, x in enumerate(xs):
        print(i)
        rows = rows.at[i].set(net(x))
    return rows

def from_one(net: Net, xs: jax.Array):
    rows = jnp.zeros((6, 3))
    for i, x in enumerate(xs, 1):
        rows = rows.at[i].set(net(x))
    return rows

def twice(net: Net, xs: jax.Array):
    rows = jnp.zeros((6, 3))
    for i, x in enumerate(xs):
        y = net(x)
        rows = rows.at[i].set(y)
        rows = rows.at[0].add(y)
    return rows

def by_label(net: Net, xs: jax.Array, labels: list[int]):
    rows = jnp.zeros((6, 3))
    for label, x in zip(labels, xs):
        rows = rows.at[label].set(net(x))
    return rows

def workload():
    return [store(NET, XS), store(NET, XS[:0]), store(NET, XS[:2]), several(NET, XS, YS), several(NET, XS[:0], YS),
            several(NET, XS[:1], YS), of_windows(NET, XS, 2), of_windows(NET, XS, 9), loud(NET, XS), from_one(NET, XS),
            twice(NET, XS), by_label(NET, XS, [2, 0, 2, 1, 1])]
"""


@pytest.fixture(scope="module")
def after() -> str:
    return rewritten(program(DATA + FUNCTIONS))


def test_same_results(after: str) -> None:
    before = program(DATA + FUNCTIONS)
    assert reasons(before) == ["patch"] * 7
    expected, printed = run(before)
    got, said = run(after)
    assert_same(expected, got)
    assert printed == said


@pytest.mark.parametrize(
    ("name", "updates"),
    [("store", 1), ("several", 3), ("of_windows", 1), ("loud", 0), ("from_one", 0), ("twice", 0), ("by_label", 0)],
)
def test_one_update_where_no_row_is_written_twice(name: str, updates: int, after: str) -> None:
    body = after[after.index(f"def {name}(") :].split("\n\n\n")[0]
    assert body.count(".at[jnp.arange(") == updates
    assert body.count(".at[") >= 1
