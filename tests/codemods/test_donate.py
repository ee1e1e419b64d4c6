"""donate: programs before and after, and the ways in which an old buffer may be read again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from harness import assert_equivalent, findings, program, reasons, rewritten
from jitmod.codemods.donate import Donate

from jitmod.model import Patch

CODEMOD = Donate()
STEP = "@jax.jit\ndef step(state, x):\n    return state * 0.5 + x\n\n\n"
ZEROS = "    state = jnp.zeros((200, 200))\n"
LOOP = "    for i in range(4):\n        state = step(state, i)\n"

REWRITTEN = {
    "a state, read by numbers and shapes": STEP
    + "def workload(rep):\n"
    + ZEROS
    + """\
    seen = []
    for i in range(3 + rep):
        seen.append(float(state.sum()) + float(jnp.max(state)) + state.shape[0])
        state = step(state, i)
        print(f"{state[0, 0]}", state.mean() > 1)
    last = state
    return seen, last, state
""",
    "started by another compiled function": STEP
    + """\
@jax.jit
def begin(key):
    return jax.random.normal(key, (200, 200))


@jax.jit
def score(state):
    return jnp.sum(state**2)


def workload(rep):
    state = begin(jax.random.key(rep))
    for i in range(4):
        before = score(state)
        state = step(state, before)
        if float(before) < 0:
            return state
    return state, before
""",
    "an optimiser's state": """\
OPTIM = optax.adam(1e-2)


@jax.jit
def step(params, opt_state, x):
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((x @ p) ** 2))(params)
    updates, opt_state = OPTIM.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss


def workload(rep):
    params = jax.random.normal(jax.random.key(rep), (120, 120))
    kept = params
    opt_state = OPTIM.init(params)
    losses = []
    for i in range(5):
        params, opt_state, loss = step(params, opt_state, jnp.ones(120) * i)
        losses.append(loss)
    return kept, params, opt_state, losses
""",
    "weights and their optimiser": """\
OPTIM = optax.chain(optax.clip(1.0), optax.adamw(1e-2))


@jax.jit
def step(params, opt_state, x):
    grads = jax.grad(lambda p: jnp.mean((x @ p["w"] + p["b"]) ** 2))(params)
    updates, opt_state = OPTIM.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state


def init(key):
    return {"w": jax.random.normal(key, (120, 120)), "b": jnp.zeros(120)}


def workload(rep):
    params = init(jax.random.key(rep))
    opt_state = OPTIM.init(params)
    for i in range(4):
        params, opt_state = step(params, opt_state, jnp.ones((4, 120)) * i)
        print(f"{float(params['b'].sum()):.3f}")
    return params, opt_state
""",
    "options that are there": """\
@functools.partial(jax.jit, static_argnums=(1,))
def step(state, n):
    return state + n


@jax.jit(static_argnames="n")
def other(state, *, n):
    return state * n


def workload(rep):
    state = jnp.ones((200, 200))
    table = jnp.ones((200, 200))
    for i in range(3):
        state = step(state, i)
        table = other(table, n=i)
    return state, table
""",
    "a copy that is kept": STEP
    + """\
def workload(rep):
    state = jnp.zeros((200, 200))
    best, zeros = jnp.copy(state), None
    for i in range(4):
        state = step(state, i)
        if float(state.sum()) < 9000:
            best = jnp.copy(state)
            zeros = jnp.zeros_like(state)
    return state, best, zeros
""",
    "arguments without names": """\
@jax.jit
def step(state, /, other, *, x):
    return state * 0.5 + x, other + x


def workload(rep):
    state = jnp.zeros((200, 200))
    other = jnp.ones((200, 200))
    for i in range(3):
        state, other = step(state, other, x=rep)
    return state, other
""",
    "a tree made of new arrays": """\
@jax.jit
def step(state, x):
    return {"a": state["a"] + x, "n": state["n"] + 1}


def workload(rep):
    state = {"a": jnp.zeros((300, 300)), "n": jnp.ones((300,))}
    total = 0.0
    for i in range(3):
        state = step(state, i)
        total += float(state["n"][0])
    return state, total
""",
    "filter_jit, all arguments": """\
@eqx.filter_jit
def step(state):
    return state * 0.5 + 1


def workload(rep):
    state = jnp.zeros((200, 200))
    for i in range(3 + rep):
        state = step(state)
    return state
""",
    "filter_jit, all but the first": """\
@eqx.filter_jit
def step(x, state):
    return state * 0.5 + x


def workload(rep):
    x = jnp.ones(200) * rep
    state = jnp.zeros((200, 200))
    for i in range(3):
        state = step(x, state)
    return state, x
""",
    "two loops and a factory": """\
def make(scale: float):
    @jax.jit
    def step(state, x):
        return state * scale + x

    return step


def workload(rep):
    step = make(0.5)
    state = jnp.zeros((200, 200))
    for i in range(3):
        state = step(state, i)
    state += 1
    while float(state[0, 0]) < 10:
        state = step(state, 10 + rep)
    return state
""",
}


@pytest.mark.parametrize("body", [pytest.param(b, id=i) for i, b in REWRITTEN.items()])
@pytest.mark.filterwarnings("error:Some donated buffers")
def test_rewrites(body: str) -> None:
    before = program(body)
    after = rewritten(CODEMOD, before)
    assert after != before
    assert_equivalent(before, after)


def test_the_old_buffer_is_gone() -> None:
    after = rewritten(CODEMOD, program(REWRITTEN["a state, read by numbers and shapes"]))
    assert '@functools.partial(jax.jit, donate_argnames=("state",))\n' in after
    space: dict[str, object] = {}
    exec(after, space)
    state = jax.numpy.ones((200, 200))
    space["step"](state, 1)  # type: ignore[operator]
    assert state.is_deleted()


def test_options_that_have_lines_of_their_own_stay_so() -> None:
    written = "@functools.partial(\n    jax.jit,\n    static_argnums=(1,){comma}  # how often\n{more})  # hot\n"
    run = STEP.removeprefix("@jax.jit\n") + "def run():\n" + ZEROS + LOOP.replace(", i)", ", 3)") + "    return state\n"
    option = '    donate_argnames=("state",)'
    after = rewritten(CODEMOD, program(written.format(comma=",", more="") + run))
    assert after == program(written.format(comma=",", more=f"{option},\n") + run)
    after = rewritten(CODEMOD, program(written.format(comma="", more="") + run))
    assert after == program(written.format(comma=",", more=f"{option}\n") + run)


def test_only_what_dies_is_donated() -> None:
    (found,) = findings(CODEMOD, program(REWRITTEN["an optimiser's state"]))
    assert isinstance(found, Patch)
    assert [e.text for e in found.variants[0].edits] == [
        'functools.partial(jax.jit, donate_argnames=("opt_state",))'
    ]
    (found,) = findings(CODEMOD, program(REWRITTEN["weights and their optimiser"]))
    assert isinstance(found, Patch)
    assert 'donate_argnames=("params", "opt_state")' in found.variants[0].edits[0].text
    texts = {name: rewritten(CODEMOD, program(REWRITTEN[name])) for name in REWRITTEN if "filter_jit" in name}
    assert '@eqx.filter_jit(donate="all")' in texts["filter_jit, all arguments"]
    assert '@eqx.filter_jit(donate="all-except-first")' in texts["filter_jit, all but the first"]


LEFT = {
    "no state": "@jax.jit\ndef f(x):\n    return x\n\n\ndef g():\n    y = f(jnp.ones(3))\n    return y\n",
    "donated already": "@functools.partial(jax.jit, donate_argnums=0)\ndef step(state):\n    return state\n\n\n"
    "def run():\n" + ZEROS + "    for _ in range(3):\n        state = step(state)\n    return state\n",
    "inside a trace": STEP + "@jax.jit\ndef run():\n" + ZEROS + LOOP + "    return state\n",
}


@pytest.mark.parametrize("body", [pytest.param(b, id=i) for i, b in LEFT.items()])
def test_leaves(body: str) -> None:
    assert findings(CODEMOD, program(body)) == ()


def _run(*lines: str, start: str = "jnp.zeros((200, 200))") -> str:
    """A loop of four steps with more lines before the step; a line that begins with `<` stands before the loop."""
    before = "".join(f"    {line.removeprefix('<')}\n" for line in lines if line.startswith("<"))
    after = "".join(f"    {line.removeprefix('>')}\n" for line in lines if line.startswith(">"))
    inside = "".join(f"        {line}\n" for line in lines if line[0] not in "<>")
    head = f"{STEP}SEEN = []\n\n\ndef run():\n    state = {start}\n{before}    for i in range(4):\n{inside}"
    return f"{head}        state = step(state, i)\n{after}    return state\n"


READ = "donated-later-read"
REFUSED = {
    "a list": (_run("<old = []", "old.append(state)"), READ),
    "a list at module level": (_run("SEEN.append(state)"), READ),
    "another name": (_run("old = state"), READ),
    "another name before the loop": (_run("<first = state", ">print(first)"), READ),
    "a tuple": (_run("pair = (state, i)"), READ),
    "a dict": (_run("<d = {}", "d[i] = state"), READ),
    "an attribute": (_run("SEEN.last = state"), READ),
    "a transposed view": (_run("old = state.T"), READ),
    "a reshaped view": (_run("old = state.reshape(200, 200)"), READ),
    "a slice of all": (_run("old = state[:]"), READ),
    "the same dtype": (_run("old = state.astype(jnp.float32)"), READ),
    "a view of numpy": (_run("<views = []", "views.append(np.asarray(state))"), READ),
    "a copy on demand": (_run("old = jnp.asarray(state)"), READ),
    "numpy's own": (_run("old = np.array(state, copy=False)"), READ),
    "a memoryview": (_run("old = memoryview(state)"), READ),
    "what the device gives": (_run("old = jax.tree.leaves(state)"), READ),
    "a lambda": (_run("<f = lambda: state", ">print(f())"), READ),
    "a nested function": (_run("<def f():", "<    return state", ">print(f())"), READ),
    "a default": (_run("f = lambda s=state: s"), READ),
    "a conditional expression": (_run("old = state if i else None"), READ),
    "or": (_run("old = state or None"), READ),
    "another tuple of the same": (_run("pair = state + (i,)", start="(jnp.zeros((300, 300)),)"), READ),
    "a dict of the same": (_run("row = state | {'i': i}", start="{'a': jnp.zeros((300, 300))}"), READ),
    "what a class does": (
        "from typing import NamedTuple\n\n\nclass State(NamedTuple):\n    x: jax.Array\n    n: jax.Array\n\n"
        "    def __sub__(self, other):\n        return State(self.x - other, self.n)\n\n\n"
        + _run("old = state - 1", start="State(jnp.zeros((200, 200)), jnp.ones(3))"),
        READ,
    ),
    "an optimiser that keeps it": (_run("opt = optax.lookahead(optax.sgd(0.1), 5, 0.5).init(state)"), READ),
    "an unknown function": (_run("keep(state)"), READ),
    "a walrus": (_run("print(old := state)"), READ),
    "a generator": (_run("yield state"), READ),
    "passed twice": (
        "@jax.jit\ndef step(state, x):\n    return state + x\n\n\ndef run():\n"
        + ZEROS
        + "    for i in range(4):\n        state = step(state, state)\n    return state\n",
        READ,
    ),
    "another call that keeps it": (_run(">kept = step(state, 1)", ">print(state)"), READ),
    "a call in an expression": (_run("print(step(state, 2))"), READ),
    "an argument": (STEP + "def run(state):\n" + LOOP + "    return state\n", READ),
    "an argument on one path": (
        STEP + "def run(state=None):\n    if state is None:\n    " + ZEROS + LOOP + "    return state\n",
        READ,
    ),
    "a global": (STEP + "state = jnp.zeros((200, 200))\n\n\ndef run():\n    global state\n" + LOOP, READ),
    "read by a function of the module": (
        STEP + "state = jnp.zeros((200, 200))\nfor i in range(4):\n    state = step(state, i)\n\n\n"
        "def last():\n    return state\n",
        READ,
    ),
    "an alias to begin with": (_run(start="INIT"), "may-alias"),
    "an attribute to begin with": (_run(start="CONFIG.state"), "may-alias"),
    "a function that may keep it": (
        "import cache\n\n\n" + _run(start="cache.initial()"),
        "may-alias",
    ),
    "a cached function": (
        "@functools.lru_cache\ndef initial():\n    return jnp.zeros((200, 200))\n\n\n" + _run(start="initial()"),
        "may-alias",
    ),
    "two names at once": (
        STEP + "def run():\n    state = other = jnp.zeros((200, 200))\n" + LOOP + "    return state, other\n",
        "may-alias",
    ),
    "one array twice": (
        STEP + "def run():\n    z = jnp.zeros((200, 200))\n    state = (z, z)\n" + LOOP + "    return state\n",
        "may-alias",
    ),
    "several of one": (_run(start="[jnp.zeros((200, 200))] * 2"), "may-alias"),
    "an item of a dict": (_run(start="{'a': jnp.zeros((300, 300)), 'b': 0}['a']"), "may-alias"),
    "a sum of tuples": (
        _run("<state += (jnp.ones(3),)", start="(jnp.zeros((300, 300)),)"),
        "may-alias",
    ),
    "an item of a list": (_run(start="[jnp.zeros((200, 200))][0]"), "may-alias"),
    "a filled view": (_run(start="jnp.full((200, 200), jnp.ones((200, 200)))"), "may-alias"),
    "weights of somebody": (_run(start="eqx.nn.Embedding(weight=WEIGHTS)"), "may-alias"),
    "without a copy": (_run(start="jnp.array(np.ones((200, 200)), copy=False)"), "may-alias"),
    "an optimiser that holds the weights": (
        _run(start="optax.lookahead(optax.sgd(0.1), 5, 0.5).init(PARAMS)"),
        "may-alias",
    ),
    "a handler": (
        STEP + "def run():\n" + ZEROS + "    for i in range(4):\n        try:\n            state = step(state, i)\n"
        "        except ValueError:\n            pass\n    return state\n",
        "exception-order",
    ),
    "what suppresses exceptions": (
        "import contextlib\n\n\n" + STEP + "def run():\n" + ZEROS + "    for i in range(4):\n"
        "        with contextlib.suppress(ValueError):\n            state = step(state, i)\n    return state\n",
        "exception-order",
    ),
    "names by text": (_run("print(locals())"), "dynamic-scope"),
    "few elements": (_run(start="jnp.zeros((3,))"), "too-small"),
    "a key": (_run(start="jax.random.key(0)"), "too-small"),
    "another dtype": (_run(start="jnp.zeros((200, 200), jnp.bfloat16)"), "carry-type"),
    "integers": (_run(start="jnp.zeros((200, 200), int)"), "carry-type"),
    "it grows": (
        "@jax.jit\ndef step(state, x):\n    return jnp.concatenate([state, x])\n\n\ndef run(x):\n"
        + ZEROS
        + "    for i in range(4):\n        state = step(state, x)\n    return state\n",
        "growing-carry",
    ),
    "it shrinks": (
        "@jax.jit\ndef step(state):\n    return state[1:]\n\n\ndef run():\n"
        + ZEROS
        + "    for i in range(4):\n        state = step(state)\n    return state\n",
        "carry-type",
    ),
    "handed on": (_run() + "\n\nbatched = jax.vmap(step)\n", "local-callable"),
    "filter_jit with other arrays": (
        "@eqx.filter_jit\ndef step(state, x):\n    return state + x\n\n\ndef run(x):\n"
        + ZEROS
        + "    for i in range(4):\n        state = step(state, x)\n    return state\n",
        READ,
    ),
    "placed on a device": (_run(start="jax.device_put(jnp.zeros((200, 200)))"), "may-alias"),
    "shardings": (
        "@functools.partial(jax.jit, out_shardings=None)\ndef step(state):\n    return state + 1\n\n\ndef run():\n"
        + ZEROS
        + "    for i in range(4):\n        state = step(state)\n    return state\n",
        "may-alias",
    ),
    "mapped over devices elsewhere": (_run() + "\n\nwide = jax.pmap(lambda x: x)\n", "may-alias"),
}


@pytest.mark.parametrize(("body", "reason"), [pytest.param(*c, id=i) for i, c in REFUSED.items()])
def test_refuses(body: str, reason: str) -> None:
    assert reasons(CODEMOD, program(body)) == [reason]


def test_other_files_count() -> None:
    main = program(_run())
    assert reasons(CODEMOD, main) == ["patch"]
    keeps = "from main import step\n\n\ndef run(s):\n    t = step(s, 1)\n    return s, t\n"
    assert reasons(CODEMOD, main, other=keeps) == [READ]
    assert reasons(CODEMOD, main, other="import main\n\nfast = [main.step]\n") == ["local-callable"]
    assert reasons(CODEMOD, main, other="from main import *\n\n\ndef f(s):\n    return step(s, 1), s\n") == [READ]
    assert reasons(CODEMOD, main, other="from main import step\n\n__all__ = ['step']\n") == [READ]
    assert reasons(CODEMOD, main, other="def step():\n    pass\n\n\n__all__ = ['step']\n") == ["patch"]
    assert reasons(CODEMOD, main, other="import main\n\nnew = getattr(main, 'step')(1, 2)\n") == [READ]
    assert reasons(CODEMOD, main, other="log = {'step': 1}\n") == ["patch"]
    assert reasons(CODEMOD, main, **{"lib/__init__": "from main import step\n"}) == [READ]
    script = program(STEP + "state = jnp.zeros((200, 200))\nfor i in range(4):\n    state = step(state, i)\n")
    assert reasons(CODEMOD, script) == ["patch"]
    assert reasons(CODEMOD, script, other="from main import state\n\nprint(state)\n") == [READ]
    assert reasons(CODEMOD, script, other="import main\n\nprint(main.state)\n") == [READ]


PLACED = '''\
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


@jax.jit
def step(state, x):
    return state * 0.5 + x


def workload(rep):
    mesh = Mesh(np.array(jax.devices()), ("d",))
    start = jax.device_put(jnp.ones((200, 200)), NamedSharding(mesh, P("d")))
    state = jnp.zeros((200, 200)) + start
    for i in range(3):
        state = step(state, start)
    local = jax.shard_map(lambda a: a * 2, mesh=mesh, in_specs=P("d"), out_specs=P("d"))(state)
    each = jax.pmap(lambda a: a.sum())(state.reshape(4, 50, 200))
    return state, start, local, each
'''


def test_placed_arrays_are_left_and_plain_ones_run_on_several_devices(tmp_path: Path) -> None:
    placed = program(PLACED)
    assert reasons(CODEMOD, placed) == ["may-alias"]
    plain = rewritten(CODEMOD, program(REWRITTEN["started by another compiled function"]))
    assert "donate_argnames" in plain
    check = "import jax, numpy as np\nassert len(jax.devices()) == 4\n"
    for name, text in (("placed", placed), ("plain", plain)):
        (tmp_path / f"{name}.py").write_text(text)
        check += f"import {name}\nprint([np.asarray(a).shape for a in jax.tree.leaves({name}.workload(0))])\n"
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    done = subprocess.run([sys.executable, "-c", check], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("(200, 200)") == 4
