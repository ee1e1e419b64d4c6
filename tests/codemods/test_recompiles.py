"""What compiles again though no number varies: a first round of another type, and new lengths."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import HEAD, assert_equivalent, findings, program, reasons, rewritten
from jitmod.codemods.trace_scalars import TraceScalars

from jitmod.model import Patch, Refusal
from jitmod.rewrite.codemod import scan
from jitmod.source.document import Document
from jitmod.source.project import Project
from jitmod.source.recording import Recorded, RecordedFunction

STEP = """
W = jnp.linspace(0.1, 1.0, 16)


def mixed(h, w):
    for i in range(3):
        h = jnp.tanh(h @ jnp.outer(h, h) / (1.0 + jnp.abs(h).sum())) + jnp.cos(w + i)
    return h


@jax.jit
def tick(t, energy, w):
    h = mixed(jnp.sin(w * t), w)
    return t + jnp.float32(0.1), energy + jnp.sum(h**2) * jnp.float32(1e-3)


def run(n):
    t, e = 0.0, 0.5
    for _ in range(n):
        t, e = tick(t, e, W)
    return t, e


"""


def test_the_first_round_compiles_for_what_all_others_pass() -> None:
    before = program(STEP + "def workload(rep: int):\n    return run(3), run(1)\n")
    (found,) = findings(TraceScalars(), before)
    assert isinstance(found, Patch) and not found.needs_fresh_values, "one call shows it"
    after = rewritten(TraceScalars(), before)
    assert "    if n > 0:\n        t, e = np.float32(t), np.float32(e)  # the type" in after
    expected, got = assert_equivalent(before, after)
    assert got.compilations[0] == expected.compilations[0] - 1


SOONER = {
    "rounds for certain": ("in range(n)", "in range(4)", "    t, e = np.float32(0.0), np.float32(0.5)\n    for"),
    "nothing reads it afterwards": (
        "    return t, e\n\n\n", "    return n\n\n\n", "    t, e = np.float32(0.0), np.float32(0.5)\n"
    ),
    "it is read before the loop": (
        "    for _ in range(n)", "    print(repr(t))\n    for _ in [1, 2]",
        "    print(repr(t))\n    t, e = np.float32(t), np.float32(e)  # the type that the rounds hand on\n    for",
    ),
    "items of a list": ("in range(n)", "in list(range(n))", ""),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "text"), SOONER.values(), ids=SOONER)
def test_where_a_loop_gets_its_type(old: str, new: str, text: str) -> None:
    before = program(STEP.replace(old, new, 1) + "def workload(rep: int):\n    return run(rep), run(2)\n")
    if not text:
        assert reasons(TraceScalars(), before) == ["may-be-empty"]
        return
    after = rewritten(TraceScalars(), before)
    assert text in after
    expected, got = assert_equivalent(before, after)
    assert sum(got.compilations) == sum(expected.compilations) - 1


LATE = {
    "the first round may end before": (
        "        t, e =",
        "        if n > 5:\n            break\n        t, e =",
        "may-be-empty",
    ),
    "it is read by a nested function": ("    return t, e\n", "    return (lambda: t)(), e\n", "carry-type"),
    "doubles may be meant": ("W = jnp", "jax.config.update('jax_enable_x64', True)\nW = jnp", "carry-type"),
    "it meets another precision": ("0.1, 1.0, 16)", "0.1, 1.0, 16, dtype=jnp.bfloat16)", "carry-type"),
    "it meets what is unknown": ("W = jnp.linspace(0.1, 1.0, 16)", "W = UNKNOWN", "carry-type"),
    "a number that float32 does not hold": ("0.0, 0.5", "0.1, 0.5", "carry-type"),
    "it is read before the call": ("        t, e =", "        print(repr(t))\n        t, e =", "carry-type"),
    "the trace prints": ("    h = mixed", "    print('traced')\n    h = mixed", "host-effect"),
}


@pytest.mark.parametrize(("old", "new", "reason"), LATE.values(), ids=LATE)
def test_a_first_round_that_is_left_alone(old: str, new: str, reason: str) -> None:
    text = program(STEP + "def workload(rep: int):\n    return run(3), run(1)\n")
    assert old in text
    assert reasons(TraceScalars(), text.replace(old, new, 1)) == [reason]


ALONE = {
    "it stays weak": ("t + jnp.float32(0.1), energy + jnp.sum(h**2) * jnp.float32(1e-3)", "t + 0.1, energy * 1.0"),
    "it starts as an array": ("0.0, 0.5", "jnp.float32(0.0), jnp.float32(0.5)"),
}


@pytest.mark.parametrize(("old", "new"), ALONE.values(), ids=ALONE)
def test_one_type_in_every_round(old: str, new: str) -> None:
    text = program(STEP + "def workload(rep: int):\n    return run(3)\n")
    assert old in text
    assert findings(TraceScalars(), text.replace(old, new)) == ()


READ = "@jax.jit\ndef read(ids):\n    return ids.sum()\n\n\n"

RAGGED = {
    "characters of a text": """
def encode(texts: list[str]):
    return [read(jnp.array([ord(c) for c in text])) for text in texts]
""",
    "a name for them": """
def encode(lines: list[str], vocabulary: dict[str, int]):
    total = 0.0
    for line in lines:
        ids = np.array([vocabulary[w] for w in line.split()])
        total += float(read(ids))
    return total
""",
    "what a mask leaves": """
def by_class(xs: jax.Array, ys: jax.Array):
    return [read(xs[ys == c]) for c in range(3)]
""",
}


@pytest.mark.parametrize("body", RAGGED.values(), ids=RAGGED)
def test_new_lengths_are_reported(body: str) -> None:
    (finding,) = findings(TraceScalars(), HEAD + READ + body.lstrip("\n"))
    assert isinstance(finding, Refusal)
    assert finding.reason == "ragged-items"
    assert "is as long as" in finding.message and "pad to a few lengths" in finding.message


def test_items_of_one_length_are_not_reported() -> None:
    body = "def rows(table: list[list[float]], xs: jax.Array):\n"
    body += "    return [read(jnp.array([0.5 * v for v in range(4)])) + read(xs[0]) for row in table]\n"
    assert findings(TraceScalars(), HEAD + READ + body) == ()


def recorded(text: str, *lengths: str) -> tuple[Project, list[str]]:
    document = Document.parse("main.py", text.encode())
    shapes = {"ids": tuple((length, "2") for length in lengths)}
    function = RecordedFunction(Path("."), "a", "main.py", "read", "read", 9, {}, shapes, (), {}, ())
    project = Project.of({"main.py": document}).with_recorded(Recorded({("main.py", "read"): function}))
    return project, [f.message for f in scan([TraceScalars()], project, ["main.py"]).findings if isinstance(f, Refusal)]


def test_a_recording_tells_which_argument_has_new_lengths() -> None:
    text = HEAD + READ + "def main(batches):\n    return [read(b) for b in batches]\n"
    _, (message,) = recorded(text, "12", "3", "7")
    assert "`ids` had 3 lengths in the recording (3, 7, 12)" in message
    assert recorded(text, "3", "7")[1] == []


PARTS = """
X = jnp.linspace(0.1, 2.0, 6)


class Held(eqx.Module):
    x: jax.Array
    t: float


class Net(eqx.Module):
    w: jax.Array
    temperature: float = 1.0

    def scaled(self, x):
        return x * self.temperature

    def __call__(self, x):
        return jnp.tanh(self.w * self.scaled(x))


@eqx.filter_jit
def field(h):
    return h.x * h.t


@eqx.filter_jit
def pair(both, flag):
    v, s = both
    return v * s if flag else v


@eqx.filter_jit
def call(net, xs):
    return net(xs[0]) + jax.vmap(net)(xs)


@eqx.filter_jit
def back(h):
    return h, h.x * h.t


@eqx.filter_jit
def shaped(d):
    return jnp.tile(d["x"], d["n"])


def show(h):
    print(h.t)
    return h


"""


def test_numbers_inside_of_arguments_are_traced() -> None:
    body = """
def workload(rep: int):
    net, outs = Net(X), []
    for i in range(3):
        t = 0.5 * i + rep
        outs.append(field(Held(X, t)))
        outs.append(field(h=Held(t=-t, x=X)))
        outs.append(pair((X, t), i > 0))
        cooled = eqx.tree_at(lambda n: n.temperature, net, 0.9 * t)
        outs.append(call(cooled, jnp.stack([X, X])))
    return outs
"""
    before = program(PARTS + body)
    assert all(isinstance(f, Patch) and f.needs_fresh_values for f in findings(TraceScalars(), before))
    after = rewritten(TraceScalars(), before)
    assert after.count("jnp.asarray(") == 4
    assert "Held(t=jnp.asarray(-t), x=X)" in after and "net, jnp.asarray(0.9 * t))" in after
    expected, got = assert_equivalent(before, after)
    assert expected.compilations[1] > 0
    assert got.compilations[1:] == (0, 0, 0), after


INSIDE = {
    "the whole goes back": ("back(Held(X, t))[1]", "unresolved-callee", "pass it as an argument of its own"),
    "a shape": ("shaped({'x': X, 'n': i})", "scalar-needed-as-python", "needs a Python value"),
    "it is seen before the call": ("field(show(Held(X, t)))", None, ""),
    "a flag": ("pair((X, i > 0), True)", None, ""),
    "it is static there": ("pair((X, jnp.asarray(t)), i > 0)", None, ""),
}


@pytest.mark.parametrize(("call", "reason", "words"), INSIDE.values(), ids=INSIDE)
def test_numbers_inside_of_arguments_that_stay(call: str, reason: str | None, words: str) -> None:
    body = f"def run(rep: int):\n    for i in range(3):\n        t = 0.5 * i + rep\n        {call}\n"
    found = findings(TraceScalars(), program(PARTS + body))
    assert [f.reason for f in found if isinstance(f, Refusal)] == ([reason] if reason is not None else [])
    assert all(isinstance(f, Refusal) and words in f.message for f in found)


def test_a_module_that_does_more_with_its_fields_is_left_alone() -> None:
    body = "def run():\n    return [field(Held(X, 0.5 * i)) for i in range(3)]\n"
    assert reasons(TraceScalars(), program(PARTS + body)) == ["patch"]
    for old, new in (("    t: float\n", "    t: float = eqx.field(static=True)\n"),
                     ("    t: float\n", "    t: float\n\n    def __check_init__(self):\n        assert self.t < 9\n"),
                     ("class Held(", "@functools.total_ordering\nclass Held(")):  # fmt: skip
        assert reasons(TraceScalars(), program(PARTS.replace(old, new, 1) + body)) == []


STATE = """
@eqx.filter_jit
def step(state, gain):
    x, t = state
    return x * t * gain, t + 1


def run(x: jax.Array):
    state = (x, 0)
    for _ in range(9):
        state = step(state, 2)
    return state
"""


def test_a_number_in_the_state_of_a_loop_is_reported() -> None:
    (finding,) = findings(TraceScalars(), program(STATE))
    assert isinstance(finding, Refusal)
    assert finding.reason == "scalar-needed-as-python"
    assert "`state[1]` (it starts as `0`, and `step` returns `t + 1`)" in finding.message
    assert "start from `jnp.asarray(...)`" in finding.message
    assert findings(TraceScalars(), program(STATE.replace("(x, 0)", "(x, jnp.asarray(0))"))) == ()
    assert findings(TraceScalars(), program(STATE.replace("gain, t + 1", "gain, t"))) == ()
