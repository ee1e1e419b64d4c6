"""Random loops that hand a state from step to step: states and steps of many kinds, host work, and a workload."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

HEAD = '''\
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax


class Pair(NamedTuple):
    a: jax.Array
    b: jax.Array


class Net(eqx.Module):
    layer: eqx.nn.Linear
    gain: float = 0.5

    def __call__(self, x):
        return jnp.tanh(self.layer(x)) * self.gain


@jax.jit
def fast(w, x):
    return jnp.sin(w @ x)


def plain(x, s):
    return x * s - 0.1 * jnp.mean(x)


@jax.jit
def paired(p, x):
    return Pair(0.5 * p.a + x, p.b - 0.25 * p.a), jnp.sum(p.a)


@jax.jit
def mapped(state, x):
    return {"u": 0.5 * state["u"] + x, "v": state["v"] + state["u"]}


def loss_fn(model, x, y):
    return jnp.mean((model(x) - y) ** 2)


SGD = optax.sgd(0.05, momentum=0.9)
ADAM = optax.adam(optax.exponential_decay(0.02, 5, 0.9))


@eqx.filter_jit
def sgd_step(model, opt_state, x, y):
    loss, grads = eqx.filter_value_and_grad(loss_fn)(model, x, y)
    updates, opt_state = SGD.update(grads, opt_state, model)
    return eqx.apply_updates(model, updates), opt_state, loss


@eqx.filter_jit
def adam_step(*, model, opt_state, x, y):
    loss, grads = eqx.filter_value_and_grad(loss_fn)(model, x, y)
    updates, opt_state = ADAM.update(grads, opt_state, model)
    return {"model": eqx.apply_updates(model, updates), "opt_state": opt_state, "loss": loss}


NET = Net(eqx.nn.Linear(3, 3, key=jax.random.PRNGKey(0)))
W = jax.random.normal(jax.random.PRNGKey(9), (3, 3))
XS = jax.random.normal(jax.random.PRNGKey(1), (13, 3))
YS = jax.random.normal(jax.random.PRNGKey(2), (13, 3))


'''


@dataclass(eq=False)
class Steps:
    """The statements of one step, written line by line from what is known so far."""

    rng: random.Random
    vectors: list[str]  # expressions of three elements
    position: str  # the loop's index, or nothing
    lines: list[str] = field(default_factory=list)
    scalars: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)  # statements before the loop
    results: list[str] = field(default_factory=list)  # what the function returns
    begun: list[str] = field(default_factory=list)  # vectors that have a value before the first step
    count: int = 0

    def vector(self, depth: int = 2) -> str:
        pick, rng = self.rng.random(), self.rng
        if depth == 0 or pick < 0.35:
            return rng.choice(self.vectors)
        inner = self.vector(depth - 1)
        return rng.choice([
            f"net({inner})", f"fast(W, {inner})", f"({inner} * scale)", f"jnp.tanh({inner})", f"({inner})[::-1]",
            f"(0.5 * {inner} - {self.vector(depth - 1)})", f"plain({inner}, 0.5)",
        ])  # fmt: skip

    def scalar(self) -> str:
        if self.scalars and self.rng.random() < 0.5:
            return self.rng.choice(self.scalars)
        v = self.vector(1)
        return self.rng.choice([f"jnp.sum({v})", f"{v}.max()", f"{v}[0]"])

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    # -- states ------------------------------------------------------------------------------------------------------

    def state(self) -> None:
        """One more state that goes from step to step."""
        rng = self.rng
        match rng.choice(["vector", "vector", "pair", "dict", "train", "adam", "sum", "count", "flag", "best", "key",
                          "clock", "average", "half"]):  # fmt: skip
            case "vector":
                name = self.fresh("u")
                self.before.append(f"{name} = {rng.choice(['x0', 'jnp.zeros(3)', 'x0 * 0.5'])}")
                self.vectors.append(name)
                self.begun.append(name)
                self.lines.append(f"{name} = {self.vector()}")
                self.results.append(name)
            case "pair" if "pair" not in self.before:
                name = self.fresh("p")
                self.before.append(f"{name} = Pair(x0, jnp.zeros(3))")
                s = self.fresh("s")
                self.lines.append(f"{name}, {s} = paired({name}, {self.vector(1)})")
                self.scalars.append(s)
                self.results.append(f"{name}.b")
            case "dict":
                name = self.fresh("d")
                self.before.append(f'{name} = {{"u": x0, "v": jnp.ones(3)}}')
                self.lines.append(f"{name} = mapped({name}, {self.vector(1)})")
                self.results.append(name)
            case "train" | "adam" as kind if not any("model" in line for line in self.before):
                given = "SGD" if kind == "train" else "ADAM"
                self.before += ["model = net", f"opt_state = {given}.init(eqx.filter(model, eqx.is_array))"]
                x, y = self.vector(0), self.vector(0)
                if kind == "train":
                    self.lines.append(f"model, opt_state, loss = sgd_step(model, opt_state, {x}, {y})")
                else:
                    self.lines.append(f"r = adam_step(model=model, opt_state=opt_state, x={x}, y={y})")
                    self.lines.append('model = r["model"]')
                    self.lines.append('opt_state = r["opt_state"]  # of the same step')
                    self.lines.append('loss = r["loss"]')
                self.scalars.append("loss")
                self.results += ["model.layer.weight", *rng.choice([["opt_state"], []])]
            case "sum":
                name = self.fresh("total")
                self.before.append(f"{name} = {rng.choice(['0.0', '0', 'jnp.zeros(())'])}")
                self.lines.append(f"{name} += {self.scalar()}")
                self.results.append(name)
            case "average":
                name = self.fresh("mean")
                self.before.append(f"{name} = {rng.choice(['0.0', 'jnp.array(0.0)'])}")
                self.lines.append(f"{name} = 0.9 * {name} + 0.1 * {self.scalar()}")
                self.results.append(name)
            case "count":
                name = self.fresh("n")
                self.before.append(f"{name} = 0")
                self.lines.append(f"{name} = {name} + {rng.choice(['1', f'({self.scalar()} > 0.1)'])}")
                self.results.append(name)
            case "flag":
                name = self.fresh("seen")
                self.before.append(f"{name} = jnp.asarray(False)")
                self.lines.append(f"{name} = {name} | ({self.scalar()} > 1.0)")
                self.results.append(name)
            case "best":
                name = self.fresh("best")
                self.before.append(f"{name} = jnp.asarray(-jnp.inf)")
                self.lines.append(f"{name} = jnp.maximum({name}, {self.scalar()})")
                self.results.append(name)
            case "key" if not any("key, sub" in line for line in self.lines):
                self.lines.append("key, sub = jax.random.split(key)")
                self.lines.append("noise = jax.random.normal(sub, (3,))")
                self.vectors.append("noise")
                self.results.append("key")
            case "clock":
                name = self.fresh("t")
                self.before.append(f"{name} = 0.0")
                self.lines.append(f"drift{name} = plain({self.vector(0)}, {name})")
                self.lines.append(f"{name} += 0.125")
                self.vectors.append(f"drift{name}")
                self.results.append(name)
            case "half":
                name = self.fresh("h")
                self.before.append(f"{name} = jnp.ones(3, jnp.bfloat16)")
                self.lines.append(f"{name} = ({name} * 0.5 + {self.vector(0)}).astype(jnp.bfloat16)")
                self.results.append(name)

    # -- host work ---------------------------------------------------------------------------------------------------

    def host(self) -> None:
        """One more piece of host work."""
        rng = self.rng
        every = rng.choice([1, 2, 3, 4, 5, 7, 20])
        test = f"if {self.position} % {every} == {rng.choice([0, 0, every - 1])}:" if self.position else ""
        shown = self.fresh("shown")
        match rng.choice(["append", "append", "float", "print", "periodic", "periodic", "thinned", "warn"]):
            case "append":
                self.lines.append(f"out.append({rng.choice([self.vector(1), self.scalar()])})")
            case "float":
                self.lines.append(f"log.append(float({self.scalar()}))")
            case "print":
                self.lines.append(f"{shown} = float({self.scalar()})")
                self.lines.append(f'print(f"{{{shown}:.3f}}")')
            case "periodic" if test:
                self.lines += [test, f'    print({self.position}, f"{{float({self.scalar()}):.4f}}")']
            case "thinned" if test:
                self.lines += [test, f"    log.append({rng.choice([self.vector(0), self.position])})"]
            case "warn":
                self.lines.append(f"if {self.scalar()} > 0.8 and not warned:")
                self.lines += ['    print("once")', "    warned = True"]


    def host_before(self) -> None:
        """Host work before the steps: it sees what the step before has made, or what the loop begins with."""
        rng, seen = self.rng, self.rng.choice(self.begun)
        every = rng.choice([1, 2, 3, 4, 5, 20])
        test = f"if {self.position} % {every} == {rng.choice([0, 0, every - 1])}:" if self.position else ""
        match rng.choice(["print", "float", "periodic", "last"]):
            case "float":
                self.lines.insert(0, f"log.append(float({seen}[0]))")
            case "periodic" if test:
                self.lines[:0] = [test, f'    print({self.position}, f"{{float({seen}[0]):.4f}}")']
            case "last":
                last = self.fresh("last")
                self.before.append(f"{last} = {rng.choice(['x0', seen, 'jnp.zeros(3)'])}")
                self.lines.append(f"log.append(float(({seen} - {last}).max()))")
                self.lines.append(f"{last} = {seen}")
            case _:
                self.lines.insert(0, f'print(f"{{float({seen}.sum()):.3f}}")')


_NO_STEPS = "results.append(f(NET, XS[:0], YS[:0], XS[2], 0, 0.5, key))"


def program(seed: int) -> str:
    """The text of the program with number `seed`."""
    rng = random.Random(seed)
    target, iterable, given = rng.choice([
        ("_", "range(n)", []), ("i", "range(n)", []), ("i", "range(n)", []), ("x", "xs", ["x"]),
        ("x, y", "zip(xs, ys)", ["x", "y"]), ("i, x", "enumerate(xs)", ["x"]), ("i", "range(len(xs))", ["xs[i]"]),
        ("i", "range(1, n)", []), ("i", "range(xs.shape[0])", ["xs[i]"]), ("k", "reversed", ["xs[k]"]),
        ("i", "while", []),
    ])  # fmt: skip
    position = target[0] if target[0] in "ik" and iterable not in ("range(1, n)", "reversed") else ""
    steps = Steps(rng, [*given, "x0"], position)
    for _ in range(rng.randint(1, 3)):
        steps.state()
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        steps.host()
    if steps.begun and rng.random() < 0.35:
        steps.host_before()
    if not any(name in "".join(steps.lines) for name in ("= ", "+=")):
        steps.state()
    header = {"reversed": "for k in range(n - 1, -1, -1):", "while": "while i < n:"}.get(
        iterable, f"for {target} in {iterable}:"
    )
    if iterable == "while":
        steps.before.append("i = 0")
        steps.lines.append("i += 1")
    if iterable in ("while", "range(n)") and position and rng.random() < 0.3:
        steps.results.append("i")
    stacked = rng.random() < 0.4 and sum("out.append" in line for line in steps.lines) == 1
    seeded = stacked and rng.random() < 0.4 and "out.append(u" in "".join(steps.lines)
    results = ", ".join([*steps.results, "jnp.stack(out)" if stacked else "out", "log"])
    lines = [
        "def f(net: Net, xs: jax.Array, ys: jax.Array, x0: jax.Array, n: int, scale: float, key):",
        *[f"    {line}" for line in (f"out = {'[x0]' if seeded else '[]'}", "log = []", "warned = False")],
        *[f"    {line}" for line in steps.before],
        f"    {header}",
        *[f"        {line}" for line in steps.lines],
        f"    return {results}",
        "",
        "",
        "def workload():",
        "    key = jax.random.PRNGKey(3)",
        "    results = [f(NET, XS, YS, XS[0], 13, 0.5, key)]",
        "    results.append(f(NET, XS[:9], YS[:9], YS[1], 9, 0.25, key))",
        *([] if stacked or "i" in steps.results else [f"    {_NO_STEPS}"]),
        "    return results",
    ]
    return HEAD + "\n".join(lines) + "\n"
