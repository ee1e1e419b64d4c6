"""fix-static: programs before and after, and programs that it must leave alone."""

from __future__ import annotations

import pytest
from harness import assert_equivalent, difference, findings, program, reasons, rewritten, run
from jitmod.codemods.fix_static import FixStatic

CODEMOD = FixStatic()
WAVES = """\
class Waves(eqx.Module):
    scale: jax.Array
    freqs: jax.Array = eqx.field(static=True)
    name: str = eqx.field(static=True)

    def __call__(self, x):
        return jnp.sin(self.freqs * x[..., None]).sum(-1) * self.scale + self.freqs[0] + len(self.freqs)


"""
PLAY = "@eqx.filter_jit\ndef play(waves, x):\n    return waves(x)\n\n\n"
MADE = "Waves(jnp.asarray(2.0), jnp.arange(3.0) + rep, 'a')"

REWRITTEN = {
    "one object, eager, batched and within a closure": WAVES
    + f"""\
def workload(rep):
    waves = {MADE}
    x = jnp.arange(4.0)
    return waves(x), jax.vmap(waves)(x), jax.jit(lambda y: waves(y))(x)
""",
    "set in the initialiser, with a converter": """\
class Ramp(eqx.Module):
    base: jax.Array = eqx.field(converter=jnp.asarray, static=True)
    n: int = eqx.field(static=True)

    def __init__(self, n: int):
        self.base = jnp.linspace(0.0, 1.0, n)
        self.n = n

    def __call__(self, x):
        return jnp.dot(self.base, jnp.tile(x, self.n))


@eqx.filter_jit
def up(ramp, x):
    return ramp(x)


RAMP = Ramp(5)


def workload(rep):
    return up(RAMP, jnp.asarray(2.0) + rep), Ramp(3)(jnp.asarray(1.0))
""",
    "a Module in a loop in a loop": """\
class Net(eqx.Module):
    w: jax.Array
    act: object = eqx.field(static=True)

    def __call__(self, x):
        return self.act(self.w @ x)


def workload(rep):
    w = jnp.ones((3, 3)) * rep
    out = []
    for i in range(rep):
        for j in range(2):
            # built anew
            net = Net(
                w * 2,  # the weights
                jnp.tanh,
            )
            out.append(net(jnp.ones(3) * i + j))
    return out
""",
    "parted anew, and rounds that may not be": """\
NET = eqx.nn.MLP(2, 2, 4, 1, key=jax.random.key(0))


def workload(rep):
    total = jnp.zeros(2)
    i = 0
    while i < rep:
        print(i)
        params, static = eqx.partition(NET, eqx.is_array)
        if i != 1:
            total += eqx.combine(params, static)(total + i)
        i += 1
    return total
""",
}


@pytest.mark.parametrize("body", [pytest.param(b, id=i) for i, b in REWRITTEN.items()])
@pytest.mark.filterwarnings("ignore:A JAX array is being set as static")
def test_rewrites(body: str) -> None:
    before = program(body)
    after = rewritten(CODEMOD, before)
    assert after != before
    assert_equivalent(before, after)


@pytest.mark.filterwarnings("ignore:A JAX array is being set as static")
def test_a_second_object_is_compiled_no_more() -> None:
    before = program(WAVES + PLAY + f"def workload(rep):\n    return play({MADE}, jnp.arange(4.0))\n")
    after = rewritten(CODEMOD, before)
    assert "    freqs: jax.Array\n    name: str = eqx.field(static=True)\n" in after
    assert [r for r in run(before, (0, 1)).results if isinstance(r, tuple)] == [("raised", "ValueError")]
    got = run(after, (0, 1, 2))
    eager = run(after.replace("@eqx.filter_jit\n", ""), (0, 1, 2))
    assert difference(eager.results, got.results) is None
    assert got.compilations[1:] == (0, 0)


def test_the_comments_move_too() -> None:
    after = rewritten(CODEMOD, program(REWRITTEN["a Module in a loop in a loop"]))
    assert "    # built anew\n    net = Net(\n        w * 2,  # the weights\n        jnp.tanh,\n    )\n    for" in after


LOOP = "def f(xs: list[jax.Array], w: jax.Array, key: jax.Array):\n    out = []\n    for x in xs:\n"
NET = "class Net(eqx.Module):\n    w: jax.Array\n\n    def __call__(self, x):\n        return self.w * x\n\n\n"
LEFT = {
    "numbers, names, functions": "class Net(eqx.Module):\n    n: int = eqx.field(static=True)\n    f: object = "
    "eqx.field(static=True)\n\n\nnet = Net(3, jnp.tanh)\n",
    "a leaf": NET + "net = Net(jnp.ones(3))\n",
    "new weights in each round": NET + LOOP + "        net = Net(x)\n        out.append(net(x))\n    return out\n",
    "weights that a round changes": NET
    + LOOP
    + "        net = Net(w)\n        out.append(net(x))\n        w = w * 2\n    return out\n",
    "a new key in each round": LOOP
    + "        key, sub = jax.random.split(key)\n        net = eqx.nn.Linear(2, 2, key=sub)\n"
    + "        out.append(net(x))\n    return out\n",
    "no Module": LOOP + "        net = jnp.tanh(w)\n        out.append(net * x)\n    return out\n",
    "numpy's weights": NET
    + "def f(xs: list[jax.Array], w: np.ndarray):\n    out = []\n    for x in xs:\n        net = Net(w)\n"
    + "        out.append(net(x))\n        w[0] += 1\n    return out\n",
    "inside a trace": NET
    + "@jax.jit\ndef f(w, x):\n    for i in range(3):\n        net = Net(w)\n        x = net(x)\n    return x\n",
}


@pytest.mark.parametrize("body", [pytest.param(b, id=i) for i, b in LEFT.items()])
def test_leaves(body: str) -> None:
    assert findings(CODEMOD, program(body)) == ()


USED = WAVES + PLAY + "print(play(Waves(jnp.asarray(2.0), jnp.arange(3.0), 'a'), jnp.ones(2)))\n\n\n"


def _in_loop(*lines: str, before: str = "", after: str = "    return out\n", head: str = NET) -> str:
    body = "".join(f"        {line}\n" for line in lines)
    return f"{head}{LOOP}{before}        net = Net(w)\n{body}{after}"


REFUSED = {
    "gradients": (USED + "grad = eqx.filter_grad(play)\n", "stateful-module"),
    "an optimiser": (USED + "optim = optax.adam(1e-3)\n", "stateful-module"),
    "leaves, mapped": (USED + "def twice(m):\n    return jax.tree.map(lambda a: 2 * a, m)\n", "stateful-module"),
    "leaves that are filtered": (USED + "def arrays(m):\n    return eqx.filter(m, eqx.is_array)\n", "stateful-module"),
    "saved": (USED + "def save(m):\n    eqx.tree_serialise_leaves('m.eqx', m)\n", "stateful-module"),
    "copied": (USED + "import copy\n\n\ndef twin(m):\n    return copy.deepcopy(m)\n", "stateful-module"),
    "a library that is not known": (USED + "import diffrax\n\n\nsolve = diffrax.diffeqsolve\n", "stateful-module"),
    "mapped over": (
        USED + "def all(m: Waves, xs):\n    return jax.vmap(play, in_axes=(None, 0))(m, xs)\n",
        "stateful-module",
    ),
    "an ensemble": (USED + "def all(m: Waves, xs):\n    return eqx.filter_vmap(play)(m, xs)\n", "stateful-module"),
    "handed through a scan": (
        USED + "def walk(m: Waves, xs):\n    return jax.lax.scan(lambda c, x: (c, c(x)), m, xs)\n",
        "stateful-module",
    ),
    "compared": (USED + "def same(a: Waves, b: Waves):\n    return a == b\n", "stateful-module"),
    "read by its name": (USED + "def show(m):\n    return list(getattr(m, 'freqs'))\n", "scalar-needed-as-python"),
    "sometimes a number": (USED + "other = Waves(jnp.asarray(1.0), 3.0, 'b')\n", "varying-static"),
    "sometimes unknown": (USED + "def make(f):\n    return Waves(jnp.asarray(1.0), f, 'b')\n", "varying-static"),
    "its class is handed on": (USED + "last = list(map(Waves, [], [], []))\n", "varying-static"),
    "a shape": (
        "class Net(eqx.Module):\n    n: jax.Array = eqx.field(static=True)\n\n    def __call__(self, x):\n"
        "        return jnp.tile(x, int(self.n))\n\n\nnet = Net(jnp.asarray(3))\n",
        "scalar-needed-as-python",
    ),
    "a mask": (
        "class Net(eqx.Module):\n    m: jax.Array = eqx.field(static=True)\n\n    def __call__(self, x):\n"
        "        return x[self.m]\n\n\nnet = Net(jnp.arange(3) > 1)\n",
        "scalar-needed-as-python",
    ),
    "numpy looks at it": (
        "class Net(eqx.Module):\n    m: jax.Array = eqx.field(static=True)\n\n    def __call__(self, x):\n"
        "        return x * np.asarray(self.m).sum()\n\n\nnet = Net(jnp.arange(3))\n",
        "scalar-needed-as-python",
    ),
    "kept in a list": (_in_loop("out.append(net)"), "results-escape"),
    "returned": (_in_loop("out.append(net(x))", after="    return net\n"), "live-out-unbound"),
    "read by a lambda": (_in_loop("out.append(lambda: net(x))"), "live-out-unbound"),
    "read before it is built": (
        _in_loop("out.append(net(x))", before="        if out:\n            print(net(x))\n"),
        "live-out-unbound",
    ),
    "bound before": (
        _in_loop("out.append(net(x))").replace("    out = []\n", "    out, net = [], None\n"),
        "live-out-unbound",
    ),
    "not in every round": (
        _in_loop("out.append(net(x))", before="        if x.ndim:\n            continue\n"),
        "guarded-work",
    ),
    "built with an effect": (
        _in_loop(
            "out.append(net(x))",
            head="class Net(eqx.Module):\n    w: jax.Array\n\n    def __init__(self, w):\n        print('new')\n"
            "        self.w = w\n\n    def __call__(self, x):\n        return self.w * x\n\n\n",
        ),
        "host-effect",
    ),
    "checked": (
        _in_loop(
            "out.append(net(x))",
            head=NET.replace("    def __call__", "    def __check_init__(self):\n        print(1)\n\n    def __call__"),
        ),
        "host-effect",
    ),
    "may fail": (
        _in_loop(
            "out.append(net(x))",
            head="class Net(eqx.Module):\n    w: jax.Array\n\n    def __init__(self, w):\n        assert w.ndim\n"
            "        self.w = w\n\n    def __call__(self, x):\n        return self.w * x\n\n\n",
        ),
        "exception-order",
    ),
    "donated": (
        NET
        + '@eqx.filter_jit(donate="all")\ndef use(net):\n    return net.w * 2\n\n\n'
        + _in_loop("out.append(use(net))", head=""),
        "results-escape",
    ),
    "with a state": (
        LOOP + "        net = eqx.nn.BatchNorm(3, 'b')\n        out.append(net(x))\n    return out\n",
        "stateful-module",
    ),
}


@pytest.mark.parametrize(("body", "reason"), [pytest.param(*c, id=i) for i, c in REFUSED.items()])
def test_refuses(body: str, reason: str) -> None:
    assert reasons(CODEMOD, program(body)) == [reason]


def test_what_another_file_changes_is_not_the_same_in_every_round() -> None:
    def moves(read: str, conf: str, change: str = "", start: str = "import conf\n") -> bool:
        body = LOOP + f"        net = Net({read})\n        out.append(net(x))\n{change}    return out\n"
        return reasons(CODEMOD, program(start + NET + body), conf=conf) == ["patch"]

    weights = "import jax.numpy as jnp\n\nW = jnp.ones(3)\n"
    setter = "def set():\n    global W\n    W = W + 1\n"
    assert moves("conf.W", weights)
    assert moves("W", weights, start="from conf import W\n")
    assert moves("W", weights + setter.replace("W", "V"), start="from conf import *\n")
    assert not moves("conf.W", weights + setter)
    assert not moves("conf.W * 2", weights, "        conf.W = conf.W + 1\n")
    assert not moves("W", weights, start=f"from conf import W\n\n\n{setter}\n\n")
    holder = "class C:\n    scale = 1.0\n\n\nC = C()\n"
    assert moves("C.scale", holder, start="from conf import C\n")
    assert not moves("C.scale", holder, "        C.scale += 1.0\n", start="from conf import C\n")
