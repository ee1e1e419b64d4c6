"""The parts of site parity: pairs of functions, copies of arguments, old versions among new ones, shorter loops."""

from __future__ import annotations

import ast
import io
import sys
import threading
from collections import deque
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jitmod.trial.child import sabotage, trips
from jitmod.trial.child.capture import Router
from jitmod.trial.child.duplicate import CannotCopy, duplicate
from jitmod.trial.child.pairs import Pair, changed_pairs, constants, keeps_classes, twin_statements
from jitmod.trial.child.probes import Probes
from jitmod.trial.child.regions import run
from jitmod.trial.child.shadow import Shadow
from jitmod.trial.child.twin import Texts, Twins


def pairs(before: str, after: str) -> list[str]:
    return [pair.qualname for pair in changed_pairs(ast.parse(before), ast.parse(after), "m.py")]


CHANGES = {
    "body": ("def f(x):\n    return x\n", "def f(x):\n    return x + 1\n", ["f"]),
    "layout and comments": ("def f(x):\n    return x\n", "# new\ndef f( x ):\n    return (x)\n", []),
    "parameters": ("def f(x):\n    return x\n", "def f(x, y):\n    return x\n", []),
    "parameter that has a default": (
        "def f(x, *, a):\n    return x\n", "def f(x, y=1, *, b=2, a):\n    return x\n", ["f"]),
    "parameter in front": ("def f(x=1):\n    return x\n", "def f(y=1, x=1):\n    return x\n", []),
    "parameter that may be among the others": (
        "def f(x, **more):\n    return x\n", "def f(x, y=1, **more):\n    return x\n", []),
    "annotations of parameters": ("def f(x):\n    return x\n", "def f(x: int):\n    return x\n", ["f"]),
    "method": (
        "class C:\n    def f(self):\n        return 1\n", "class C:\n    def f(self):\n        return 2\n", ["C.f"]),
    "constructor": (
        "class C:\n    def __init__(self):\n        self.x = 1\n",
        "class C:\n    def __init__(self):\n        self.x = 2\n", []),
    "generator": ("def f(x):\n    yield x\n", "def f(x):\n    yield x + 1\n", []),
    "defined twice": ("def f(x):\n    return x\n\ndef f(x):\n    return 2\n", "def f(x):\n    return 3\n", []),
    "became a property": (
        "class C:\n    def f(self):\n        return 1\n",
        "class C:\n    @property\n    def f(self):\n        return 1\n", []),
    "new function": ("def f(x):\n    return x\n", "def f(x):\n    return x\n\ndef g(x):\n    return x\n", []),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_pairs(name: str) -> None:
    before, after, expected = CHANGES[name]
    assert pairs(before, after) == expected


def test_twin_has_what_changed_and_what_builds_on_it() -> None:
    before = "import a\nN = 2\nM = 3\n\ndef f(x):\n    return x * N\n\n"
    before += "def g(x):\n    return f(x)\n\ndef h(x):\n    return M\n"
    twin = twin_statements(ast.parse(before), ast.parse(before.replace("N = 2", "N = 4")))
    names = [ast.unparse(statement).split("\n")[0] for statement in twin]
    assert names == ["N = 2", "def f(x):", "def g(x):"]


def test_twin_has_classes_and_branches_that_are_gone() -> None:
    """Helpers that the new version needs no more, wherever the old module defines them."""
    before = (
        "class Acc:\n    def __init__(self):\n        self.v = []\n\nclass Kept:\n    n = 1\n\n"
        "try:\n    from nowhere import helper\nexcept ImportError:\n    def helper(x):\n        return 2 * x\n\n"
        "if True:\n    class Other(Acc):\n        pass\n\nfor SIZE in (3,):\n    print('never twice')\n\n"
        "if __name__ == '__main__':\n    run()\n\n"
    )
    old = before + "def f(x):\n    a = Other()\n    a.v.append(helper(x))\n    return a.v, Kept.n\n\n"
    old += "def g(x):\n    return x + SIZE\n"
    new = "class Kept:\n    n = 5\n\ndef f(x):\n    return [2 * x], 1\n\ndef g(x):\n    return x + 3\n"
    texts = Texts("m.py", ast.parse(old), ast.parse(new))
    module: dict[str, Any] = {"__name__": "m"}
    exec(new, module)
    twins = Twins({"m.py": texts}, Probes())
    assert twins.get(Pair("m.py", "f"), module)(4) == ([8], 5), "classes that both have are the new module's"
    routers = Router("stdout", sys.stdout), Router("stderr", sys.stderr)
    done, _, _ = run(twins.get(Pair("m.py", "g"), module), ((1,), {}), routers)
    shadow = Shadow([texts], routers, 0.0, False)
    assert done.unbound == "SIZE" and shadow.lost(Pair("m.py", "g"), done.unbound)
    assert not shadow.lost(Pair("m.py", "g"), "misspelt")


@pytest.mark.parametrize(
    ("after", "kept"),
    [
        ("class C:\n    x: int\n    def f(self):\n        return 2\n", True),
        ("class C:\n    x: int\n    def f(self):\n        return 1\n    def g(self):\n        return 1\n", True),
        ("class C:\n    x: int\n    y: int\n    def f(self):\n        return 1\n", False),
        ("class C(B):\n    x: int\n    def f(self):\n        return 1\n", False),
        ("class C:\n    x: int\n    def f(self, y):\n        return 1\n", False),
    ],
    ids=["method changes", "method is new", "field is new", "base is new", "method takes something else"],
)
def test_classes_serve_the_old_functions(after: str, kept: bool) -> None:
    before = "class C:\n    x: int\n    def f(self):\n        return 1\n"
    old, new = ast.parse(before), ast.parse(after)
    assert keeps_classes(old, new, changed_pairs(old, new, "m.py")) is kept


def test_old_versions_live_among_new_objects() -> None:
    before = (
        "class Base:\n    def f(self):\n        return 'base'\n\n"
        "class C(Base):\n    __size = 3\n    def f(self):\n        return super().f(), self.__size, twice(2)\n\n"
        "def twice(x):\n    return 2 * x\n\ndef run(c):\n    return c.f()\n"
    )
    after = before.replace("twice(2)\n", "twice(3)\n").replace("2 * x", "3 * x").replace("return c.f()", "return 'new'")
    texts = Texts("m.py", ast.parse(before), ast.parse(after))
    module: dict[str, Any] = {"__name__": "m"}
    exec(after, module)
    twins = Twins({"m.py": texts}, Probes())
    c = module["C"]()
    assert twins.get(Pair("m.py", "C.f"), module)(c) == ("base", 3, 4)
    assert twins.get(Pair("m.py", "run"), module)(c) == ("base", 3, 9), "unchanged classes are the new module's"
    assert "C" not in vars(twins)["_spaces"]["m.py"]


def test_old_versions_are_called_without_what_is_new() -> None:
    before = "def f(x, *rest, a=1):\n    return x, rest, a\n\nclass C:\n    def g(self, x):\n        return x\n"
    after = "def f(x, *rest, a=1, b=2):\n    return 0\n\nclass C:\n    def g(self, x, size=4):\n        return size\n"
    texts = Texts("m.py", ast.parse(before), ast.parse(after))
    module: dict[str, Any] = {"__name__": "m"}
    exec(after, module)
    twins = Twins({"m.py": texts}, Probes())
    f, g = (twins.get(pair, module) for pair in changed_pairs(texts.before, texts.after, "m.py"))
    assert f(1, 2, a=3, b=4) == (1, (2,), 3)
    assert g(module["C"](), 5, 6) == g(module["C"](), 5, size=6) == 5


def test_numbers_that_may_be_lengths_of_blocks() -> None:
    tree = ast.parse("for i in range(100):\n    y = x[3:40]\n    if i % 25 == 0:\n        z = 1000\n")
    assert constants(tree, 90) == [25, 3, 40]


class Pair2(NamedTuple):
    a: Any
    b: Any


class Net(eqx.Module):
    w: jax.Array
    act: Any
    size: int = eqx.field(static=True)


class Plain:
    __slots__ = ("x", "y")

    def __init__(self) -> None:
        self.x, self.y = [1], 2


def test_copies_share_nothing_mutable() -> None:
    shared = [1]
    value = {"list": shared, "again": shared, "array": np.zeros(2), "set": {1}, "tuple": (shared, 2),
             "deque": deque([1]), "named": Pair2([1], 2), "net": Net(jnp.ones(2), jax.nn.relu, 3), "plain": Plain(),
             "partial": partial(max, [3])}  # fmt: skip
    copied = duplicate(value)
    shared.append(2)
    value["array"][0] = 7
    value["set"].add(2)
    value["plain"].x.append(2)
    assert copied["list"] == [1] and copied["list"] is copied["again"] is copied["tuple"][0]
    assert copied["array"].tolist() == [0, 0] and copied["set"] == {1} and copied["plain"].x == [1]
    assert isinstance(copied["named"], Pair2) and copied["net"].act is jax.nn.relu and copied["net"].size == 3
    assert copied["partial"]() == 3


def test_copies_of_arrays_survive_donation_and_keep_their_weak_type() -> None:
    weak = jnp.asarray(2.0) * 1.0
    copied = duplicate([weak, jax.random.key(0)])
    assert bool(getattr(copied[0], "weak_type", False)) == bool(getattr(weak, "weak_type", False))
    assert jnp.issubdtype(copied[1].dtype, jax.dtypes.prng_key)
    weak.delete()
    assert float(copied[0]) == 2.0


def test_containers_that_hold_themselves_are_copied() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    copied = duplicate(loop)
    assert copied[1] is copied and copied is not loop


@pytest.mark.parametrize("value", [iter([1]), (x for x in [1]), threading.Lock(), io.StringIO("a")])
def test_what_is_used_up_is_not_copied(value: Any) -> None:
    with pytest.raises(CannotCopy):
        duplicate([value])


def train(w: Any, xs: list[Any], ys: Any, n_steps: int = 12, *, name: str = "a") -> None: ...


def test_shorter_calls() -> None:
    bound = trips.bind(train, ((1.0, [0] * 12, np.zeros((12, 2))), {}))
    assert bound is not None
    ways = trips.shorten(bound, {"loop": 12, "inner": 5})
    named = [set(way.names) for way in ways]
    assert named == [{"n_steps"}, {"xs"}, {"ys"}, {"xs", "ys"}, {"n_steps", "xs", "ys"}]
    args, kwargs = ways[-1].arguments(5)
    assert (len(args[1]), args[2].shape, args[3], kwargs) == (5, (5, 2), 5, {"name": "a"})
    assert ways[0].lengths([4, 10]) == [8, 0, 1, 3, 4, 5, 9, 10, 11]


def test_rounding_moves_what_is_read_on_the_host_at_once_but_no_counts() -> None:
    before = ast.parse(
        "def f(x):\n    return jnp.mean(x).item(), float(jnp.mean(x)), int(jnp.sum(x > 0.5)), float(jnp.sum(x > 0.5))\n"
    )
    texts = {"m.py": Texts("m.py", before, ast.parse("def f(x):\n    return None\n"))}
    x = jax.random.uniform(jax.random.key(0), (1000,))
    moved = Twins(texts, Probes(), sabotage.nudged).get(Pair("m.py", "f"), {"jnp": jnp, "float": float, "int": int})
    exact = Twins(texts, Probes()).get(Pair("m.py", "f"), {"jnp": jnp, "float": float, "int": int})
    expected, _, *counted = exact(x)
    found = [moved(x) for _ in range(8)]
    assert any(item != expected for item, *_ in found) and any(number != expected for _, number, *_ in found)
    assert all(abs(item - expected) < 1e-6 and counts == counted for item, _, *counts in found)


def test_rounding_moves_what_a_difference_is_made_of() -> None:
    before = ast.parse("def f(x, y):\n    return float((jnp.exp(x) - y).sum())\n")
    texts = {"m.py": Texts("m.py", before, ast.parse("def f(x, y):\n    return None\n"))}
    names = {"jnp": jnp, "float": float}
    x = jax.random.uniform(jax.random.key(0), (1000,))
    y = jnp.roll(jnp.exp(x), 1)
    exact = Twins(texts, Probes()).get(Pair("m.py", "f"), names)(x, y)
    moved = [Twins(texts, Probes(), sabotage.nudged).get(Pair("m.py", "f"), names)(x, y) for _ in range(3)]
    assert max(abs(exact - one) for one in moved) > 10 * abs(exact) * float(jnp.finfo(jnp.float32).eps)


def test_rounding_keeps_the_identity_of_lists() -> None:
    before = ast.parse("def f(found, x):\n    found.append(x)\n    return g(found) is found and id(found)\n")
    texts = {"m.py": Texts("m.py", before, ast.parse("def f(found, x):\n    return None\n"))}
    names = {"g": lambda value: value, "id": id}
    found: list[jax.Array] = []
    f = Twins(texts, Probes(), sabotage.nudged).get(Pair("m.py", "f"), names)
    assert f(found, jnp.ones(3)) == id(found)
    assert len(found) == 1
