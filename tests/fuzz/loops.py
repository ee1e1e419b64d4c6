"""Random loop programs on Python numbers that stand for arrays: what the analysis takes for jax costs nothing to run.

A program has a cell: how it collects, what it carries, which effects it has, and in which scope its loop stands.
"""

from __future__ import annotations

import itertools
import random
import types
from dataclasses import dataclass
from typing import Any

HEAD = """\
import logging

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

log = logging.getLogger("loops")


@jax.jit
def f(p: jax.Array, q: jax.Array) -> jax.Array:
    return (3 * p + q) % 1009


@jax.jit
def h(p: jax.Array) -> jax.Array:
    return (p * p + 11) % 1009


def g(p: jax.Array, q: jax.Array) -> jax.Array:
    return (p - 7 * q) % 1009


def touch(box: list, v: float) -> float:
    box[1] = (box[1] + v) % 1009
    return box[1]


def peek(box: list) -> float:
    return box[0] + box[1]


def check(v: float) -> float:
    if v % 13 == 5:
        raise ValueError(v)
    return v


def tell(v: float) -> None:
    print("tell", v)


"""
COLLECTORS = ("none", "append", "some", "store", "dict", "comprehension", "two")
CARRIES = ("none", "device", "host", "key", "best", "previous", "both")
EFFECTS = ("none", "print", "log", "buffer", "alias", "random", "error", "period", "exit", "skip", "nested", "call")
SCOPES = ("function", "module")
CELLS = tuple(itertools.product(COLLECTORS, CARRIES, EFFECTS, SCOPES))
NAMES = ("a", "b", "c", "d")  # arrays
NUMBERS = ("m", "n")  # Python numbers


@dataclass(frozen=True)
class Cell:
    """What a program is made of."""

    collector: str
    carry: str
    effect: str
    scope: str

    @property
    def can_be_split(self) -> bool:
        """Whether a heavy computation of such a program is free of what the host does in between."""
        return self.effect != "exit"


@dataclass
class Writer:
    """Writes one iteration's statements."""

    rng: random.Random
    cell: Cell
    arrays: list[str]
    numbers: list[str]

    def array(self, depth: int = 0) -> str:
        """An expression that is taken for an array."""
        rng = self.rng
        pick = rng.random()
        if depth > 1 or pick < 0.3:
            return rng.choice(self.arrays)
        inner = self.array(depth + 1)
        if pick > 0.9:  # the host feeds the device
            box = ["box[1]", "peek(box)"] if self.cell.effect in ("buffer", "alias", "call") else []
            return f"f({inner}, {rng.choice([rng.choice(self.numbers), *box])})"
        return rng.choice([
            f"f({inner}, {self.array(depth + 1)})", f"h({inner})", f"g({inner}, {rng.choice(self.arrays)})",
            f"({inner} {rng.choice('+-*')} {self.array(depth + 1)})", f"jnp.maximum({inner}, {rng.randint(1, 9)})",
            f"({inner} * {rng.randint(2, 5)})", f"f({inner}, {inner})",
        ])  # fmt: skip

    def number(self) -> str:
        """An expression that is a Python number."""
        rng = self.rng
        return rng.choice([
            f"float({self.array(1)})", f"int({self.array(1)})", rng.choice(self.numbers), str(rng.randint(0, 9)),
            f"({rng.choice(self.numbers)} + {rng.randint(1, 5)})", f"({rng.choice(self.numbers)} * 2)",
        ])  # fmt: skip

    def plain(self) -> list[str]:
        rng = self.rng
        name, number = rng.choice(NAMES[2:]), rng.choice(NUMBERS[1:])
        return rng.choice([
            [f"{name} = {self.array()}"], [f"{number} = {self.number()}"],
            [f"{name}, t = {self.array()}, {self.array()}"], [f"t = {self.array()}", f"{name} = t + {self.array(1)}"],
            [f"if {self.number()} % 2 == 0:", f"    {number} = {self.number()}"],
            [f"if {self.number()} > 4:", f"    {name} = {self.array(1)}", "else:", f"    {number} = {self.number()}"],
            [f"if (s := {self.number()}) > 3:", f"    {number} = s"],
            [f"(t, *rest) = ({self.array(1)}, {self.array(1)}, {self.array(1)})", f"{number} = float(sum(rest))"],
            [f"{number} = sum([float(v) for v in ({self.array(1)}, {self.array(1)})])"],
        ])  # fmt: skip

    def collects(self) -> list[str]:
        value = self.rng.choice([self.array(), self.number()])
        match self.cell.collector:
            case "append":
                return [f"out.append({value})"]
            case "some":
                return [f"if {self.number()} % 2 == 0:", f"    out.append({value})"]
            case "store":
                return [f"box[{self.rng.randint(0, 2)}] = {value}"]
            case "dict":
                return [f"table[{self.number()}] = {value}"]
            case "two":
                return [f"out.append({value})", f"more.append({self.array()})"]
        return []

    def carries(self) -> list[str]:
        rng = self.rng
        match self.cell.carry:
            case "device":
                return rng.choice([
                    [f"a = f(a, {self.array(1)})"], ["a = f(a, x) + m"], ["a = f(a, b)", "b = f(b, x)"],
                    ["a = g(a, h(x))"], [f"a += {self.array(1)}"], [f"a, b = f(a, b), {self.array(1)}"],
                    ["a, b = b, f(a, x)"],
                ])  # fmt: skip
            case "host":
                return rng.choice([[f"m += {self.number()}"], [f"m = m * 2 + {self.number()}", "m = m % 1009"],
                                   [f"m = max(m, {self.number()})"]])  # fmt: skip
            case "key":
                return ["key, sub = jax.random.split(key)", f"c = jax.random.randint(sub) + {self.array(1)}"]
            case "best":
                return [
                    "score = float(h(x))",
                    "if score > m:",
                    "    m = score",
                    f"    b = {self.rng.choice(self.arrays)}",
                ]
            case "previous":
                return rng.choice(
                    [["c = f(x, b)", "b = x"], ["n = float(h(x)) - m", "m = float(x)"], ["c = b", "b = h(x)"]]
                )
            case "both":
                return [f"a = f(a, {self.array(1)})", "m += float(a)"]
        return []

    def effects(self) -> list[str]:
        rng = self.rng
        match self.cell.effect:
            case "print":
                return [f"print({self.number()})"]
            case "log":
                return [f"log.info({self.number()})", f"print('x', {self.number()})"]
            case "buffer":
                return rng.choice(
                    [[f"n = touch(box, {self.number()})"], [f"box[0] = {self.number()}", "n = peek(box)"]]
                )
            case "alias":
                return rng.choice([[f"same.append({self.number()})", "n = len(box)"],
                                   [f"same[1] = {self.number()}", f"c = f({self.array(1)}, box[1])"],
                                   ["n = box[-1]", f"same.append(float(f({self.array(1)}, n)))"]])  # fmt: skip
            case "random":
                return rng.choice([["n = np.random.rand()", "c = f(x, n)"], ["n = np.random.rand()", "print(n)"],
                                   ["n = np.random.rand()", f"print(float(f({self.array(1)}, n)) + np.random.rand())"],
                                   ["print(np.random.rand())"]])  # fmt: skip
            case "error":
                return rng.choice([[f"n = check({self.number()})"], [f"check({self.number()})"], ["n = 7 / (m - 3)"]])
            case "period":
                size = rng.choice(["2", "3", "every"])
                what = rng.choice([[f"print(i, {self.number()})"], [f"print(i, {self.number()})", "b = b + 1"],
                                   ["a = a * 2 % 1009", "print(float(a))"], ["m = float(a)", "print(m)"],
                                   ["b = f(b, a)", "out.append(float(b))"], [f"a, m = {self.array(1)}, float(a)"],
                                   [f"box[1] = {self.number()}", "a = a + 1"], ["touch(box, float(b))"]])  # fmt: skip
                test = rng.choice([f"i % {size} == 0", f"(i + 1) % {size} == 0", f"i % {size} == 1", f"not i % {size}"])
                return [f"if {test}:", *(f"    {line}" for line in what)]
            case "exit":
                return rng.choice([[f"if {self.number()} % 7 == 3:", "    break"]])
            case "skip":
                return [
                    f"if {self.number()} % 3 == 1:",
                    f"    {rng.choice(['pass', 'n = 1', 'print(i)'])}",
                    "    continue",
                ]
            case "nested":
                return rng.choice([["for j in range(2):", f"    n = n + {self.number()}"],
                                   ["for j in range(i):", f"    c = f(c, {self.array(1)})"],
                                   ["for j in range(i):", f"    n = j + {self.number()}"],
                                   ["for j in range(3):", f"    touch(box, float({rng.choice(self.arrays)} * j + x))"],
                                   ["for j in range(3):", f"    n += float(jnp.maximum({rng.choice(self.arrays)}, j))"],
                                   ["k = 2", "while k:", "    k -= 1", f"    n += {self.number()}"]])  # fmt: skip
            case "call":
                return [f"tell({self.number()})", "n = peek(box)"]
        return []


def program(cell: Cell, seed: int) -> str:
    """The text of one program of a cell: `run` calls the loop for several numbers of items."""
    rng = random.Random(f"{cell} {seed}")
    if cell.collector == "comprehension":
        return _comprehension(rng, cell)
    writer = Writer(rng, cell, ["x", "x", *NAMES], ["i", *NUMBERS])
    groups = [writer.collects(), writer.carries(), writer.effects()]
    groups += [writer.plain() for _ in range(rng.randint(0, 3))]
    if rng.random() < 0.3:
        groups.append(writer.effects() if cell.effect != "exit" else [])
    if rng.random() < 0.7:
        groups.append([f"c = f(x, {rng.choice(['x', 'd'])})"])
    rng.shuffle(groups)
    body = [line for group in groups for line in group]
    if not any("f(" in line or "h(" in line for line in body):
        body.append("c = h(x)")
    live = rng.sample([*NAMES, *NUMBERS, "x", "i", "t", "key"], rng.randint(1, 9))
    before = ["out, more, table, box = [], [], {}, [1, 2, 3]", "same = box" if cell.effect == "alias" else "same = []"]
    before += ["m, n, every = 5.0, 3.0, 2"]
    before += ["b, c, d = a + 1, a + 2, a + 3"]
    target = rng.choice(["enumerate(xs)", "enumerate(xs)", "enumerate(xs, 1)", "zip(range(len(xs)), xs)"])
    loop = [f"for i, x in {target}:", *(f"    {line}" for line in body)]
    after = [line for name in live for line in ("try:", f"    left.append({name})", "except NameError:",
                                                f"    left.append('no {name}')")]  # fmt: skip
    result = "out, more, table, box, same, left"
    if cell.scope == "function":
        lines = ["def run(xs: jax.Array, a: jax.Array, key: jax.Array, left: list):",
                 *(f"    {line}" for line in [*before, *loop, *after, f"return {result}"])]  # fmt: skip
    else:
        given = ["xs = jnp.asarray(XS)", "a = jnp.asarray(A)", "key = jax.random.PRNGKey(A)", "left = []"]
        lines = [*given, *before, *loop, *after, f"RESULT = {result}"]
    return HEAD + "\n".join(lines) + "\n"


def _comprehension(rng: random.Random, cell: Cell) -> str:
    writer = Writer(rng, cell, ["x", "x", "a", "b"], ["i", "m"])
    element = rng.choice(
        [writer.array(), writer.number(), f"({writer.array()}, {writer.number()})", f"tell({writer.number()})"]
    )
    if "f(" not in element and "h(" not in element:
        element = f"f(x, {element})" if element.isidentifier() else f"(h(x), {element})"
    lines = ["b = a + 1", "m = 5.0", f"out = [{element} for i, x in enumerate(xs)]"]
    if cell.scope == "function":
        head = ["def run(xs: jax.Array, a: jax.Array, key: jax.Array, left: list):"]
        return HEAD + "\n".join([*head, *(f"    {line}" for line in lines), "    return out, a, b, m"]) + "\n"
    return HEAD + "\n".join(["xs = jnp.asarray(XS)", "a = jnp.asarray(A)", *lines, "RESULT = out, a, b, m"]) + "\n"


def stand_ins(seen: list[Any]) -> dict[str, Any]:
    """What the programs' imports are when they run: Python numbers do for arrays."""
    state = random.Random(7)
    jnp = types.SimpleNamespace(asarray=lambda v: v, maximum=max)
    draws = types.SimpleNamespace(
        PRNGKey=lambda n: n * 31 + 7, split=lambda k: ((k * 5 + 1) % 997, (k * 11 + 3) % 991), randint=lambda k: k % 17
    )
    return {
        "jax": types.SimpleNamespace(jit=lambda fn: fn, numpy=jnp, random=draws, Array=float),
        "jnp": jnp,
        "np": types.SimpleNamespace(random=types.SimpleNamespace(rand=lambda: round(state.random(), 6))),
        "logging": types.SimpleNamespace(
            getLogger=lambda name: types.SimpleNamespace(info=lambda v: (seen.append(v), print("log", v)))
        ),
        "eqx": None,
    }
