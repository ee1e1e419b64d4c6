"""Random programs of jitted and unjitted helpers: varying scalars, statics, partials, closures, methods, factories.

Some raise, some catch, some print while they are traced.
"""

from __future__ import annotations

import random

HEAD = """\
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import optax


class Net(eqx.Module):
    w: jax.Array
    gain: float = 1.5

    def __call__(self, x):
        return jnp.tanh(self.w @ x) * self.gain - jnp.sum(jnp.sin(x)) + jnp.cos(x) * jnp.exp(-x * x)


class Held(eqx.Module):
    x: jax.Array
    s: float


NET = Net(jax.random.normal(jax.random.key(0), (3, 3)))
XS = jax.random.normal(jax.random.key(1), (4, 3))
SCALES = [0.5, 1.5, 2.5]


"""


class Graph:
    """Writes a program function by function; each may call those before it."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.helpers: list[tuple[str, str]] = []  # name, what its second parameter is: array, float, int, flag
        self.entries: list[str] = []

    def term(self, x: str, s: str, what: str) -> str:
        """An expression over an array `x` and a second value."""
        rng = self.rng
        choices = [f"jnp.tanh({x})", f"{x} * 0.5", f"{x} - jnp.mean({x})"]
        match what:
            case "array":
                choices += [f"{x} * {s}", f"{x} + {s}", f"jnp.maximum({x}, {s})"]
            case "float":
                choices += [f"{x} * {s}", f"{x} + {s} / 2", f"jnp.where({x} > 0, {x}, {s})", f"{x} / (1.0 - {s} / 100)",
                            f"{x} * ({s} + 0.25)", f"{x} * (1.0 / (3.0 - {s}))"]
            case "int":
                choices += [f"{x} * {s}", f"jnp.tile({x}, {s} + 1)[:3]", f"{x} + jnp.ones(3)[:{s} + 1].sum()",
                            f"{x} * (1.0 / (4 - {s}))", f"{x} * SCALES[{s}]",
                            f"jax.random.normal(jax.random.fold_in(jax.random.key(1), {s}), (3,)) + {x}"]
            case "flag":
                choices += [f"({x} if {s} else -{x})", f"({x}[::-1] if {s} else {x})"]
        fitting = [h for h in self.helpers if h[1] == what]
        if fitting:
            name, _ = rng.choice(fitting)
            choices += [f"{name}({x}, {s})"] * 2
        return rng.choice(choices)

    def helper(self) -> None:
        rng = self.rng
        name = f"h{len(self.helpers)}"
        what = rng.choice(["array", "float", "float", "int", "flag"])
        decorators = ["", ""]
        if what in ("array", "float"):
            decorators.append("@jax.jit")
        decorators += ["@eqx.filter_jit", "@functools.partial(jax.jit, static_argnums=1)"] if what != "array" else []
        body = [f"    y = {self.term('x', 's', what)}", f"    return {self.term('y', 's', what)}"]
        decorator = rng.choice(decorators)
        if rng.random() < 0.1:
            body.insert(0, f"    print('{name}', s if isinstance(s, bool) else '')")
        self.lines += [*([decorator] if decorator else []), f"def {name}(x, s):", *body, "", ""]
        self.helpers.append((name, what))

    def entry(self) -> None:
        """A function that is called by the workload: one pattern of jit, or of eager code, in it."""
        rng = self.rng
        name = f"f{len(self.entries)}"
        what = rng.choice(["float", "int"])
        values = {"float": "SCALES", "int": "range(3)"}[what]
        term = self.term("v", "s", what)
        factor = rng.choice(["x", "1.0", "net.w[0]"])
        made = {
            "lambda": [f"g = {rng.choice(['jax.jit', 'eqx.filter_jit'])}(lambda v: {term})", "out.append(g(x))"],
            "nested": [
                f"@{rng.choice(['jax.jit', 'eqx.filter_jit'])}", "def g(v):", f"    u = {term}",
                f"    return {self.term('u', 's', what)}", "out.append(g(x))", "out.append(g(x + 1))",
            ],
            "partial": [
                "g = jax.jit(functools.partial(two, s))", "out.append(g(x))",
            ],
            "vmap": [f"out.append(jax.jit(jax.vmap(lambda v: {term}))(XS))"],
            "grad": [f"out.append(jax.jit(jax.grad(lambda v: jnp.sum({term})))(x))"],
            "call": [f"out.append({self.term('x', 's', what)})"],
            "carried": [f"x = {self.term('x', 's', what)}", "print(s)"],
            "rebound": [
                "g = jax.jit(lambda v: v * shift)", "out.append(g(x))", "shift = shift + 1.0", "out.append(g(x))",
            ],
            "model": ["y = net(x)", f"z = {self.term('y', 's', what)}", "out.append(z)", "print(s)"],
            "learn": [
                "value, grads = jax.value_and_grad(lambda v: jnp.sum(net(v) ** 2))(x)",
                "updates, state = optim.update(grads, state)", "x = optax.apply_updates(x, updates)",
                "out.append(float(value))",
            ],
            "field": ["out.append(field(Held(x, s)))"],
            "tuple": ["out.append(pair((x, s)))"],
            "scan": [f"out.append(jax.lax.scan(lambda c, v: (c * 0.5 + v * {factor}, c.sum()), x, XS))"],
        }  # fmt: skip
        kind = rng.choice(list(made))
        if kind == "partial" and "two" not in self.text:
            self.lines += ["def two(s, v):", f"    return {term}", "", ""]
        if kind == "field" and "def field" not in self.text:
            inner = self.term("held.x", "held.s", what)
            self.lines += ["@eqx.filter_jit", "def field(held: Held):", f"    return {inner}", "", ""]
        if kind == "tuple" and "def pair" not in self.text:
            self.lines += ["@eqx.filter_jit", "def pair(both):", "    v, s = both", f"    return {term}", "", ""]
        body = made[kind]
        if rng.random() < 0.1:
            body = ["try:", *[f"    {line}" for line in body], "except ZeroDivisionError:", "    out.append(s)"]
        self.lines += [
            f"def {name}(net: Net, x: jax.Array, base: {what}, shift: float):",
            "    out = []",
            *(["    optim = optax.adam(1e-2)", "    state = optim.init(x)"] if kind == "learn" else []),
            f"    for s in {values}:",
            *(["        s = s + base"] if rng.random() < 0.5 else []),
            *[f"        {line}" for line in body],
            "    return out, x",
            "",
            "",
        ]
        self.entries.append(f"{name}(NET, XS[rep % 4], {'0.5 * rep' if what == 'float' else 'rep'}, 1.0 + rep)")

    def holder(self) -> None:
        """A class whose method compiles something that reads its fields."""
        rng = self.rng
        name = f"C{len(self.entries)}"
        term = self.term("v", "self.rate", "float")
        self.lines += [
            f"class {name}:",
            "    def __init__(self, rate: float, w: jax.Array):",
            "        self.rate = rate",
            "        self.w = w",
            "        self.count = 0",
            "",
            "    def loss(self, w, x):",
            "        return jnp.sum((w * x - self.rate) ** 2) + jnp.sum(jnp.tanh(w))",
            "",
            "    def run(self, x: jax.Array):",
            "        self.count += 1",
            *([f"        return jax.jit(lambda v: {term} + self.w)(x)"] if rng.random() < 0.5 else [
                "        value, g = jax.value_and_grad(self.loss)(self.w, x)",
                "        self.w = self.w - 0.1 * g",
                "        return value",
            ]),
            "",
            "",
            f"{name.lower()} = {name}(0.5, XS[0])",
            "",
            "",
            f"def use_{name.lower()}(rep: int):",
            f"    {name.lower()}.rate = {rng.choice(['0.5', '0.5 + rep'])}",
            f"    return [{name.lower()}.run(x) for x in XS], {name.lower()}.count",
            "",
            "",
        ]  # fmt: skip
        self.entries.append(f"use_{name.lower()}(rep)")

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def program(seed: int) -> str:
    """The text of the program with number `seed`."""
    graph = Graph(random.Random(seed))
    for _ in range(graph.rng.randint(1, 4)):
        graph.helper()
    for _ in range(graph.rng.randint(1, 3)):
        graph.entry()
    if graph.rng.random() < 0.4:
        graph.holder()
    calls = ", ".join(graph.entries)
    return f"{HEAD}{graph.text}\ndef workload(rep: int):\n    return [{calls}]\n"
