"""Random loop programs over a Module: data, one function with a loop, and a workload that calls it several times."""

from __future__ import annotations

import random

HEAD = '''\
import equinox as eqx
import jax
import jax.numpy as jnp


class Net(eqx.Module):
    layer: eqx.nn.Linear
    gain: float = 1.5

    def __call__(self, x):
        return jnp.tanh(self.layer(x)) * self.gain


@jax.jit
def fast(w, x):
    return jnp.sin(w @ x)


def plain(x, s):
    return x * s - jnp.mean(x)


NET = Net(eqx.nn.Linear(3, 3, key=jax.random.PRNGKey(0)))
W = jax.random.normal(jax.random.PRNGKey(9), (3, 3))
XS = jax.random.normal(jax.random.PRNGKey(1), (5, 3))
YS = jax.random.normal(jax.random.PRNGKey(2), (5, 3))
NAMES = ["a", "b", "c", "d"]


'''


class Body:
    """One iteration's statements, written line by line from what is known so far."""

    def __init__(self, rng: random.Random, items: list[str], hosts: list[str], keyed: bool) -> None:
        self.rng, self.hosts = rng, hosts
        self.vectors, self.scalars, self.numbers = list(items), [], []
        self.lines: list[str] = []
        self.count = 0
        self.keyed = keyed
        self.collected = False

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def vector(self, depth: int = 2) -> str:
        pick, rng = self.rng.random(), self.rng
        if depth == 0 or pick < 0.3:
            return rng.choice(self.vectors)
        inner = self.vector(depth - 1)
        return rng.choice([
            f"net({inner})", f"net({inner} + {rng.choice(self.vectors)})", f"fast(W, {inner})", f"({inner} * scale)",
            f"jnp.tanh({inner})", f"({inner} - {self.vector(depth - 1)})", f"plain({inner}, 2.0)", f"({inner})[::-1]",
        ])  # fmt: skip

    def scalar(self) -> str:
        v = self.vector(1)
        return self.rng.choice([f"jnp.sum({v})", f"{v}.max()", f"{v}[0]", f"jnp.dot({v}, {v})"])

    def number(self) -> str:
        rng = self.rng
        choices = [f"float({self.scalar()})", f"int(jnp.argmax({self.vector(1)}))", f"float({self.vector(1)}[1])"]
        if self.numbers:
            choices += [f"{rng.choice(self.numbers)} * 2", f"round({rng.choice(self.numbers)}, 3)"]
        return rng.choice(choices)

    def statement(self) -> None:
        rng = self.rng
        kind = rng.choice(["vector", "vector", "scalar", "number", "print", "append", "append", "total", "if", "again"])
        match kind:
            case "vector":
                expr, name = self.vector(), self.fresh()
                self.lines.append(f"{name} = {expr}")
                self.vectors.append(name)
            case "again":
                name = rng.choice([v for v in self.vectors if v.isidentifier()])
                self.lines.append(f"{name} = {self.vector()}")
            case "scalar":
                expr, name = self.scalar(), self.fresh()
                self.lines.append(f"{name} = {expr}")
                self.scalars.append(name)
            case "number":
                expr, name = self.number(), self.fresh()
                self.lines.append(f"{name} = {expr}")
                self.numbers.append(name)
            case "print" if self.numbers or self.hosts:
                shown = rng.choice(self.numbers + self.hosts)
                self.lines.append(f'print(f"{{{shown}}}"[:6])')
            case "append":
                self.lines.append(f"out.append({rng.choice([self.vector(), self.scalar(), self.number()])})")
                self.collected = True
            case "total" if self.scalars or self.numbers:
                self.lines.append(f"total += {rng.choice(self.scalars + self.numbers)}")
            case "if" if self.numbers:
                self.lines.append(f"if {rng.choice(self.numbers)} > 0.1:")
                self.lines.append(f"    extra.append({rng.choice(self.numbers)})")


def program(seed: int) -> str:
    """The text of the program with number `seed`."""
    rng = random.Random(seed)
    items, hosts, keyed = ["x"], [], rng.random() < 0.3
    target, iterable = rng.choice([
        ("x", "xs"), ("x", "list(xs)"), ("i, x", "enumerate(xs)"), ("x, y", "zip(xs, ys)"), ("n, x", "zip(names, xs)"),
        ("i, (x, y)", "enumerate(zip(xs, ys), 1)"), ("i", "range(len(xs))"), ("x", "items"),
    ])  # fmt: skip
    if "y" in target:
        items.append("y")
    if target.startswith(("i", "n")):
        hosts.append(target[0])
    body = Body(rng, ["xs[i]"] if target == "i" else items, hosts, keyed)
    if target == "i":
        body.lines.append("x = xs[i]")
        body.vectors = ["x", "xs[i]"]
    if keyed:
        body.lines.append("key, sub = jax.random.split(key)")
        body.lines.append("noise = jax.random.normal(sub, (3,))")
        body.vectors.append("noise")
    for _ in range(rng.randint(1, 5)):
        body.statement()
    if not body.collected:
        body.lines.append(f"out.append({body.vector()})")
    if all(call not in "".join(body.lines) for call in ("net(", "fast(")):
        body.lines.append(f"out.append(net({rng.choice(body.vectors)}))")
    stackable = rng.random() < 0.3 and sum("out.append" in line for line in body.lines) == 1
    on_device = all(pull not in body.lines[-1] for pull in ("float(", "int("))
    result = "jnp.stack(out)" if stackable and on_device else "out"
    lines = [
        "def f(net: Net, xs: jax.Array, ys: jax.Array, items: list[jax.Array], names: list[str], scale: float, key):",
        *[f"    {line}" for line in ("out = []", "extra = []", "total = 0.0")],
        f"    for {target} in {iterable}:",
        *[f"        {line}" for line in body.lines],
        f"    return {result}, extra, total{', key' if keyed else ''}",
        "",
        "",
        "def workload():",
        "    key = jax.random.PRNGKey(3)",
        "    results = [f(NET, XS, YS, list(XS), NAMES, 2.0, key)]",
        "    results.append(f(NET, XS[:1], YS[:1], list(XS[:1]), NAMES, 3.0, key))",
        *([] if result != "out" else ["    results.append(f(NET, XS[:0], YS[:0], [], NAMES, 2.0, key))"]),
        "    return results",
    ]
    return HEAD + "\n".join(lines) + "\n"
