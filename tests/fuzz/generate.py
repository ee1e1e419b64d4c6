"""Random loop programs over a Module: data, one function with a loop, and a workload that calls it several times."""

from __future__ import annotations

import random

HEAD = """\
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


def bar(items, **options):
    return items


NET = Net(eqx.nn.Linear(3, 3, key=jax.random.PRNGKey(0)))
NETS = [Net(eqx.nn.Linear(3, 3, key=jax.random.PRNGKey(k))) for k in range(4)]
W = jax.random.normal(jax.random.PRNGKey(9), (3, 3))
XS = jax.random.normal(jax.random.PRNGKey(1), (5, 3))
YS = jax.random.normal(jax.random.PRNGKey(2), (5, 3))
NAMES = ["a", "b", "c", "d"]
TABLE = dict(zip(NAMES, XS))


"""


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
        kind = rng.choice(["vector", "vector", "scalar", "number", "print", "append", "append", "total", "if", "again",
                           "store", "fill", "slot", "skip"])  # fmt: skip
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
            case "fill" if self.hosts:
                self.lines.append(f"found[{rng.choice(self.hosts)}] = {rng.choice([self.vector(), self.number()])}")
            case "slot" if "i" in self.hosts:
                self.lines.append(f"slots[i] = {rng.choice([self.vector(), self.scalar()])}")
            case "store" if "i" in self.hosts:
                self.lines.append(f"grid = grid.at[i].set({self.vector()})")
            case "skip" if self.numbers and rng.random() < 0.5:
                self.lines += [f"if {rng.choice(self.numbers)} > 0.4:", "    continue"]


# target, iterable
HEADERS = (
    ("x", "xs"), ("x", "list(xs)"), ("i, x", "enumerate(xs)"), ("x, y", "zip(xs, ys)"), ("n, x", "zip(names, xs)"),
    ("i, (x, y)", "enumerate(zip(xs, ys), 1)"), ("i", "range(len(xs))"), ("x", "items"), ("n, x", "table.items()"),
    ("x", "table.values()"), ("x", "bar(xs)"), ("i, x", "enumerate(bar(items, desc='work'))"), ("one", "nets"),
    ("i, (n, x)", "enumerate(table.items())"), ("a, x", "pairs"), ("i, one", "enumerate(nets)"),
    ("n", "table"), ("p", "pairs"), ("s", "range(len(xs) - 1)"),
    ("s", "range(0, len(xs), 2)"), ("k", "range(len(xs) // 2)"),
)  # fmt: skip
PARAMETERS = (
    "net: Net, xs: jax.Array, ys: jax.Array, items: list[jax.Array], names: list[str], scale: float, key, "
    "nets: list[Net], table: dict[str, jax.Array], pairs: list[tuple[jax.Array, jax.Array]], out: list"
)
SCOPES = ("function",) * 4 + ("method", "module", "inner", "async")


def program(seed: int) -> str:
    """The text of the program with number `seed`."""
    rng = random.Random(seed)
    items, hosts, keyed = ["x"], [], rng.random() < 0.3
    target, iterable = rng.choice(HEADERS)
    names = target.replace("(", "").replace(")", "").split(", ")
    hosts += [name for name in names if name in ("i", "n", "s")]
    items += [name for name in names if name in ("a", "y")]
    body = Body(rng, ["xs[i]"] if target == "i" else items, hosts, keyed)
    if target == "i":
        body.lines.append("x = xs[i]")
        body.vectors = ["x", "xs[i]"]
    if target == "n":
        body.lines.append("x = table[n]")
        body.vectors.append("table[n]")
    if target == "s":
        body.lines.append("x = xs[s : s + 2].mean(axis=0)")
        body.vectors = ["x", "xs[s : 2 + s, :].sum(0)"]
    if target == "k":
        body.lines += ["start = 2 * k", "x = xs[start : 2 * (k + 1)].max(axis=0)"]
    if target == "p":
        body.lines.append("x = p[0]")
        body.vectors.append("p[1]")
    if keyed and target in ("x", "x, y") and "xs" in iterable:
        body.lines += ["key, sub = jax.random.split(key)", "first = jax.random.uniform(sub)"]
        body.vectors.append("(x * first)")
    if "one" in names:
        body.lines.append(f"x = one({rng.choice(['xs[0]', 'ys[1] * scale'])})")
    if keyed:
        body.lines.append("key, sub = jax.random.split(key)")
        body.lines.append("noise = jax.random.normal(sub, (3,))")
        body.vectors.append("noise")
    for _ in range(rng.randint(1, 5)):
        body.statement()
    if not body.collected:
        body.lines.append(f"out.append({body.vector()})")
    if all(call not in "".join(body.lines) for call in ("net(", "fast(", "one(")):
        body.lines.append(f"out.append(net({rng.choice(body.vectors)}))")
    scope = rng.choice(SCOPES)
    alone = sum("out.append" in line for line in body.lines) == 1 and "continue" not in "".join(body.lines)
    pulled = [*(f"append({name}" for name in body.numbers), "append(float(", "append(int(", "append(round("]
    on_device = not any(pull in line for line in body.lines for pull in pulled)
    lists = any(name in iterable for name in ("items", "names", "table", "nets", "pairs"))
    fresh = rng.random() < 0.7 or scope == "module" or lists  # a list of the caller's may be one of those
    fewer = target in ("s", "k")  # than arrays have rows, so perhaps none
    result = "jnp.stack(out)" if not fewer and rng.random() < 0.3 and alone and on_device and fresh else "out"
    lines = [
        *(["out = []"] if fresh else []), "extra = []", "total = 0.0", "found = {}", "slots = [None] * 8",
        "grid = jnp.zeros((8, 3))", f"for {target} in {iterable}:", *[f"    {line}" for line in body.lines],
    ]  # fmt: skip
    returned = f"{result}, extra, total, found, slots, grid{', key' if keyed else ''}"
    return HEAD + "\n".join([*_placed(scope, lines, returned), *_workload(scope, result != "out")]) + "\n"


def _placed(scope: str, lines: list[str], returned: str) -> list[str]:
    """The loop in its scope, as something that `call` calls, or at module level."""
    indented = [f"    {line}" for line in lines]
    match scope:
        case "module":
            given = ["net, xs, ys, items, names, scale = NET, XS, YS, list(XS), NAMES, 2.0",
                     "key, nets, table, pairs = jax.random.PRNGKey(3), NETS, TABLE, list(zip(XS, YS))"]  # fmt: skip
            return [*given, *lines, f"RESULTS = {returned}"]
        case "method":
            inner = [f"    {line}".replace("net(", "self.net(") for line in indented]
            head = ["class Runner(eqx.Module):", "    net: Net", "", f"    def run(self, {PARAMETERS}):"]
            call = ["", "", "def call(net, *given):", "    return Runner(net).run(net, *given)"]
            return [*head, *inner, f"        return {returned}", *call]
        case "inner":
            inner = [f"    {line}" for line in indented]
            return [f"def call({PARAMETERS}):", "    def work(key):", *inner, f"        return {returned}", "",
                    "    return work(key)"]  # fmt: skip
        case "async":
            call = ["", "", "def call(*given):", "    return asyncio.run(run(*given))"]
            return [
                "import asyncio",
                "",
                "",
                f"async def run({PARAMETERS}):",
                *indented,
                f"    return {returned}",
                *call,
            ]
    return [f"def call({PARAMETERS}):", *indented, f"    return {returned}"]


def _workload(scope: str, never_empty: bool) -> list[str]:
    """Calls with several numbers of items, and the list that was handed in."""
    if scope == "module":
        return ["", "", "def workload():", "    return RESULTS"]
    calls = [("XS", "2.0"), ("XS[:1]", "3.0"), *([] if never_empty else [("XS[:0]", "2.0")])]
    lines = ["", "", "def workload():", "    key = jax.random.PRNGKey(3)", "    known, results = [0.5], []"]
    for xs, scale in calls:
        ys, n = xs.replace("X", "Y"), 1 if xs == "XS[:1]" else 4 if xs == "XS" else 0
        lines.append(
            f"    results.append(call(NET, {xs}, {ys}, list({xs}), NAMES, {scale}, key, NETS[:{n}], "
            f"dict(zip(NAMES, {xs})), list(zip({xs}, {ys})), known))"
        )
    return [*lines, "    return results, known"]
