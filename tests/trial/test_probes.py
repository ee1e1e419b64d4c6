"""Probes and sabotage: what they put into a syntax tree, and what that shows."""

from __future__ import annotations

import ast
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from jitmod.trial.child import sabotage
from jitmod.trial.child.changes import changed_lines, changed_statements
from jitmod.trial.child.probes import Probes


def run(tree: ast.Module, names: dict[str, Any]) -> dict[str, Any]:
    space = dict(names)
    exec(compile(ast.fix_missing_locations(tree), "t.py", "exec"), space)
    return space


SITES = {
    "for loop": "def f(xs):\n    out = []\n    for x in xs:\n        out.append(x)\n    return out\n",
    "while loop": "def f(xs):\n    o = []\n    while len(o) < len(xs):\n        o.append(xs[len(o)])\n    return o\n",
    "list comprehension": "def f(xs):\n    n = 0\n    return [x for x in xs]\n",
    "dict comprehension": "def f(xs):\n    n = 0\n    return list({i: x for i, x in enumerate(xs)}.values())\n",
    "generator": "def f(xs):\n    n = 0\n    return list(x for x in xs)\n",
}


@pytest.mark.parametrize("name", SITES)
def test_site_counts_iterations(name: str) -> None:
    tree = ast.parse(SITES[name])
    kinds = (ast.For, ast.While, ast.ListComp, ast.DictComp, ast.GeneratorExp)
    node = next(n for n in ast.walk(tree) if isinstance(n, kinds))
    site = {"path": "t.py", "line": node.lineno, "end_line": node.end_lineno, "column": node.col_offset + 1}
    probes = Probes()
    space = run(probes.watch_site(tree, site), probes.injected())
    assert not probes.entered
    results = [space["f"](items) for items in ([1, 2], [1, 2, 3], [])]
    assert results == [[1, 2], [1, 2, 3], []]
    assert list(probes.entered.values()) == [3]
    assert list(probes.trips.values()) == [3]


def test_site_that_is_no_loop_is_entered() -> None:
    probes = Probes()
    site = {"path": "t.py", "line": 2, "end_line": 2, "column": 5}
    space = run(probes.watch_site(ast.parse("def f(x):\n    y = x + 1\n    return y\n"), site), probes.injected())
    assert space["f"](1) == 2
    assert probes.entered == {"t.py:2": 1}
    assert probes.trips == {}


def test_new_functions_by_plain_and_qualified_name() -> None:
    source = "def _a():\n    'doc'\n    return 1\n\nclass C:\n    def _b(self):\n        return 2\n"
    source += "\ndef _b():\n    return 3\n"
    probes = Probes()
    space = run(probes.watch_functions(ast.parse(source), ["_a", "C._b"]), probes.injected())
    assert probes.placed == {"_a", "C._b"}
    space["_b"]()
    assert not probes.entered
    space["_a"](), space["C"]()._b()
    assert probes.entered == {"_a": 1, "C._b": 1}
    assert space["_a"].__doc__ == "doc"


def test_changed_lines_and_their_statements() -> None:
    before = "import a\n\ndef f(x):\n    y = g(\n        x)\n    if x:\n        y = 1\n    return y\n"
    after = "import b\n" + before.replace("        x)", "        x + 1)").replace("if x:", "if y:")
    tree = ast.parse(after)
    kinds = [type(s).__name__ for s in changed_statements(tree, changed_lines(before, after))]
    assert kinds == ["Assign", "If"]


def test_removed_line_stands_for_the_next_statement() -> None:
    lines = changed_lines("def f():\n    print(1)\n    return 2\n", "def f():\n    return 2\n")
    assert lines == {2}


def test_decorator_stands_for_the_first_statement() -> None:
    source = "import jax\n\n@jax.jit\ndef f(x):\n    'doc'\n    return x\n"
    assert [s.lineno for s in changed_statements(ast.parse(source), {3})] == [6]


def test_scaled_and_rolled_keep_types() -> None:
    value: dict[str, Any] = {"f": jnp.ones(3), "h": jnp.ones(2, jnp.bfloat16), "i": jnp.arange(3)}
    value |= {"n": np.ones((2, 2)), "s": "text", "x": 2.0}
    scaled = sabotage.scaled(value)
    assert scaled["h"].dtype == jnp.bfloat16 and scaled["s"] == "text" and scaled["x"] == pytest.approx(2.03)
    assert scaled["i"].tolist() == [0, 1, 2] and scaled["f"][0] == pytest.approx(1.02)
    rolled = sabotage.rolled(value)
    assert rolled["i"].tolist() == [2, 0, 1] and isinstance(rolled["n"], np.ndarray)


def test_results_of_functions_are_spoiled_but_not_those_of_inner_ones() -> None:
    source = "def f(x):\n    def g(y):\n        return y\n    if x:\n        return g(x)\n    return 0.0\n"
    tree = sabotage.spoil_functions(ast.parse(source), ["f"])
    calls: list[Any] = []

    def spoil(value: Any) -> Any:
        calls.append(value)
        return -value

    assert run(tree, sabotage.injected(spoil))["f"](3.0) == -3.0
    assert calls == [3.0]


@pytest.mark.parametrize(
    ("line", "expected"),
    [(3, [-1.0, 2.0]), (4, [1.0, -2.0]), (5, [1.0, 2.0])],
    ids=["assignment", "handed to a call", "returned"],
)
def test_changed_lines_are_spoiled(line: int, expected: list[float]) -> None:
    source = "def f():\n    out = []\n    a = 1.0\n    out.append(2.0)\n    return (a, *out)\n"
    spoil = (lambda v: -v) if line < 5 else (lambda v: list(v))
    space = run(sabotage.spoil_lines(ast.parse(source), {line}), sabotage.injected(spoil))
    assert list(space["f"]()) == expected
    assert isinstance(space["f"](), list if line == 5 else tuple)
