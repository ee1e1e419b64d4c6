"""What vmapify rewrites: every program runs before and after, and must return, print and change the same."""

from __future__ import annotations

from typing import Any

import jax
import pytest
from jitmod.codemods.vmapify import Vmapify
from programs import DATA, assert_same, findings, program, reasons, rewritten, run

from jitmod.model import Patch, Variant
from jitmod.rewrite.codemod import Rewrites
from jitmod.rewrite.edits import compose
from jitmod.source.document import Document

PROGRAMS = {
    "append to a fresh list": """
        def f(net: Net, xs: jax.Array):
            out = []
            for x in xs:
                # a comment
                out.append(net(x))
            return out

        def workload():
            return f(NET, XS), f(NET, XS[:0]), f(NET, XS[:1])
        """,
    "numbers in containers of the function": """
        from collections import defaultdict

        def f(net: Net, xs: list[jax.Array]):
            accs, best, hits = [], (9.0, -1), defaultdict(int)
            totals, rows = dict(), [0] * 3
            totals["sum"] = 0.0
            for i, x in enumerate(xs):
                y = net(x)
                value = float(y[0])
                accs.append(value)
                best = min(best, (value, i))
                totals["sum"] += value
                for c in range(3):
                    hits[c] += int(y[c] > 0)
                    rows[c] += 1
            return accs, best, dict(hits), totals, sum(rows)

        def workload():
            return f(NET, ITEMS), f(NET, [])
        """,
    "append to a list that the caller knows": """
        def f(net: Net, xs: jax.Array, out: list):
            for x in xs:
                out.append(net(x))

        def workload():
            out = ["first"]
            alias = out
            f(NET, XS, out)
            return alias
        """,
    "a list of arrays, perhaps empty": """
        def f(net, xs):
            out = []
            for x in xs:
                out.append(net(x))
            return out

        def workload():
            return f(NET, ITEMS), f(NET, []), f(NET, tuple(ITEMS))
        """,
    "a stacked comprehension": """
        def f(net: Net, xs: jax.Array):
            return jnp.stack([net(x) for x in xs])

        def workload():
            return f(NET, XS)
        """,
    "a comprehension amid an expression": """
        def f(net: Net, xs: jax.Array, gain: float):
            return [1] + [net(x) * gain for x in xs] + [jnp.array([net(x) for x in xs]).sum()]

        def workload():
            return f(NET, XS, 2.0), f(NET, XS, 3.0)
        """,
    "two lists, one stacked and one made an array": """
        def f(net: Net, xs: jax.Array):
            ys, norms = [], []
            for x in xs:
                y = net(x)
                ys.append(y); norms.append(jnp.sum(y * y))
            return {"y": jnp.stack(ys, axis=0), "n": jnp.asarray(norms)}

        def workload():
            return f(NET, XS)
        """,
    "two lists, one filled twice": """
        def f(net: Net, xs: jax.Array):
            a, b = [], []
            for x in xs:
                y = net(x)
                a.append(y)
                b.append(x)
                a.append(y + 1)
            return a, b

        def workload():
            return f(NET, XS)
        """,
    "zip, truncated by a shorter list of names": """
        def f(net: Net, names: list[str], xs: jax.Array):
            out = []
            for name, x in zip(names, xs):
                out.append(net(x))
            return out, [net(x) for _, x in zip(names, xs)], {n: 0 for n in names}

        def workload():
            return f(NET, NAMES, XS)
        """,
    "host work over the results": """
        def f(net: Net, names: list[str], xs: jax.Array, ys: jax.Array):
            scores = {}
            for i, (x, y) in enumerate(zip(xs, ys), 1):
                z = net(x + y)
                best = int(jnp.argmax(z))
                conf = float(jax.nn.softmax(z)[best])
                if z.sum() > 1:
                    print(f"{i} {best} {conf:.3f} {float(y[0]):.2f}")
                scores[i] = (best, conf)
            return scores

        def workload():
            return f(NET, NAMES, XS, YS)
        """,
    "range over the length": """
        def f(net: Net, images: jax.Array):
            total = 0.0
            for i in range(len(images)):
                total += float(net(images[i]).sum()) * i
            return total

        def workload():
            return f(NET, XS)
        """,
    "an accumulated device value": """
        def f(net: Net, xs: jax.Array):
            total = jnp.zeros(3)
            for x in xs:
                total = total + net(x)
            return total

        def workload():
            return f(NET, XS)
        """,
    "chained keys, the last one returned": """
        def f(net: Net, xs: jax.Array, key: jax.Array):
            outs = []
            for x in xs:
                key, sub = jax.random.split(key)
                outs.append(net(x) + jax.random.normal(sub, (3,)))
            return jnp.stack(outs), key

        def workload():
            return f(NET, XS, jax.random.PRNGKey(7))
        """,
    "chained keys, three ways, with host work": """
        def f(net: Net, xs: jax.Array, key):
            for x in xs:
                key, a, b = jax.random.split(key, 3)
                y = net(x) * jax.random.normal(a, (3,)) + jax.random.normal(b, ())
                print(f"{float(y[0]):.4f}")

        def workload():
            f(NET, XS, jax.random.PRNGKey(7))
        """,
    "a method, with self and a number that varies": """
        class Runner:
            def __init__(self, net: Net, gain: float):
                self.net = net
                self.gain = gain

            def run(self, xs: jax.Array):
                out = []
                for x in xs:
                    out.append(self.net(x) * self.gain)
                return out

        def workload():
            r = Runner(NET, 2.0)
            first = r.run(XS)
            r.gain = 3.0
            return first, r.run(XS)
        """,
    "a method of a Module": """
        class Outer(eqx.Module):
            net: Net

            def embed(self, x):
                return self.net(x) + 1

            def all(self, xs: jax.Array):
                return [self.embed(x) for x in xs]

        def workload():
            return Outer(NET).all(XS)
        """,
    "a compiled function": """
        @jax.jit
        def step(w, x):
            return jnp.tanh(w @ x)

        def f(w: jax.Array, xs: jax.Array):
            return [step(w, x) for x in xs]

        def workload():
            return f(jnp.ones((3, 3)), XS)
        """,
    "an assigned compiled function and a plain one that reaches it": """
        def _step(w, x):
            return jnp.tanh(w @ x)

        step = jax.jit(_step)

        def score(w, x):
            return step(w, x).sum()

        def f(w: jax.Array, xs: jax.Array):
            return [score(w, x) for x in xs], [float(step(w, x)[0]) for x in xs]

        def workload():
            return f(jnp.ones((3, 3)), XS)
        """,
    "results that are tuples": """
        class Pair(eqx.Module):
            net: Net

            def __call__(self, x):
                y = self.net(x)
                return y, {"sum": y.sum()}

        def f(pair: Pair, xs: jax.Array):
            ys, infos = [], []
            for x in xs:
                y, info = pair(x)
                ys.append(y)
                infos.append(float(info["sum"]))
            return ys, infos

        def workload():
            return f(Pair(NET), XS)
        """,
    "names that generated code would like to use": """
        def per_item(item):
            return item + 1

        def f(net: Net, item: jax.Array, crops: jax.Array, key: float):
            out = []
            for crop, x in zip(crops, item):
                out.append(per_item(net(crop + x)) * key)
            return out

        def workload():
            return f(NET, XS, YS, 2.0)
        """,
    "a loop inside a loop": """
        def f(net: Net, xs: jax.Array):
            rows = []
            for i in range(3):
                row = []
                for x in xs:
                    row.append(net(x) + i)
                rows.append(row)
            return rows

        def workload():
            return f(NET, XS)
        """,
    "two loops in one function": """
        def f(net: Net, xs: jax.Array, ys: jax.Array):
            a = []
            for x in xs:
                a.append(net(x))
            b = []
            for y in ys:
                b.append(net(y))
            return a, jnp.stack(b)

        def workload():
            return f(NET, XS, YS)
        """,
    "the target is reassigned": """
        def f(net: Net, xs: jax.Array):
            for x in xs:
                x = x / 2
                y = net(x)
                y = y + x
                print(f"{float(x[0]):.3f} {float(y[0]):.3f}")

        def workload():
            f(NET, XS)
        """,
    "numpy items": """
        def f(net: Net, xs: np.ndarray):
            return [net(x) for x in xs]

        def workload():
            return f(NET, np.asarray(XS, np.float64))
        """,
    "several lines, strings and comments": '''
        def f(net: Net, xs: jax.Array):
            """Doc."""
            out = []  # results
            for x in xs:  # every item
                # before the call
                y = net(
                    x  # the item
                )  # after the call
                out.append(y)  # kept
            # behind the loop
            return out

        def workload():
            return f(NET, XS)
        ''',
    "tabs": """
        def f(net: Net, xs: jax.Array):
        \tout = []
        \tfor x in xs:
        \t\ty = net(x)
        \t\tout.append(y)
        \treturn out

        def workload():
        \treturn f(NET, XS)
        """,
    "names and targets that are read after the loop": """
        def f(net: Net, xs: jax.Array):
            out = []
            for i, x in enumerate(xs):
                h = net(x)
                y = h * 2
                out.append(float(y.sum()))
            return out, i, x, y

        def workload():
            return f(NET, XS), f(NET, XS[:1])
        """,
    "module scope": """
        TOTAL, OUT = 0.0, []
        for i, x in enumerate(XS):
            y = NET(x)
            loss = jnp.sum(y)
            TOTAL += float(loss)
            if i % 2 == 0:
                print(i, f"{float(loss):.3f}")
            OUT.append(y)

        def workload():
            return OUT, TOTAL, i, x, y, loss
        """,
    "continue": """
        def f(net: Net, xs: jax.Array, names: list[str]):
            out = []
            for name, x in zip(names, xs):
                score = float(net(x).sum())
                if score > 0:
                    print(name)
                    continue
                out.append((name, f"{score:.3f}"))
            return out

        def workload():
            return f(NET, XS, NAMES)
        """,
    "items that are unpacked": """
        def f(net: Net, pairs: list[tuple[jax.Array, jax.Array]]):
            total = 0.0
            for x, y in pairs:
                total += float(jnp.mean((net(x) - y) ** 2))
            return total

        def workload():
            return f(NET, list(zip(XS, YS))), f(NET, [])
        """,
    "names beside the arrays": """
        def f(net: Net, items: list[tuple[str, jax.Array]]):
            out = {}
            for name, x in items:
                out[name] = net(x)
            return out

        def workload():
            return f(NET, list(zip(NAMES, XS)))
        """,
    "the items of a dict": """
        def f(net: Net, crops: dict[str, jax.Array]):
            out = {}
            for name, crop in crops.items():
                out[name] = net(crop)
            return out

        def workload():
            return f(NET, dict(zip(NAMES, XS))), f(NET, {})
        """,
    "the values of a dict": """
        def f(net: Net, crops: dict[str, jax.Array]):
            return [net(crop) for crop in crops.values()], jnp.stack([net(c) for c in crops.values()])

        def workload():
            return f(NET, dict(zip(NAMES, XS)))
        """,
    "an ensemble": """
        def f(nets: list[Net], x: jax.Array):
            return jnp.stack([net(x) for net in nets])

        def workload():
            nets = [Net(eqx.nn.Linear(3, 3, key=jax.random.key(k))) for k in range(4)]
            return f(nets, XS[0])
        """,
    "an ensemble, and an input for each": """
        def f(nets: list[Net], xs: jax.Array):
            out = []
            for net, x in zip(nets, xs):
                out.append(net(x) * 2)
            return out

        def workload():
            nets = [Net(eqx.nn.Linear(3, 3, key=jax.random.key(k))) for k in range(5)]
            return f(nets, XS), f(nets[:2], XS[:2])
        """,
    "a comprehension that is stacked later": """
        def f(nets: list[Net], x: jax.Array):
            preds = [net(x) for net in nets]
            preds = jnp.array(preds)
            return jnp.mean(preds, axis=0)

        def g(net: Net, xs: jax.Array):
            ys = [net(x) for x in xs]
            return jnp.stack(ys), jnp.asarray(ys)

        def h(net: Net, xs: jax.Array):
            ys = [net(x) for x in xs]
            return jnp.stack(ys), ys[0], len(ys)

        def i(net: Net, xs: jax.Array):
            ys = [net(x) for x in xs]
            return jnp.stack(ys)

        def j(nets: list[Net], x: jax.Array):
            preds = [net(x) for net in nets]  # one for each
            outs = jnp.array(preds)
            return outs.sum(0)

        def workload():
            nets = [Net(eqx.nn.Linear(3, 3, key=jax.random.key(k))) for k in range(4)]
            return f(nets, XS[0]), g(NET, XS), h(NET, XS), i(NET, XS), j(nets, XS[0]), f([], XS[0])
        """,
    "a dict comprehension": """
        def f(net: Net, crops: dict[str, jax.Array]):
            return {name: net(crop) for name, crop in crops.items()}

        def workload():
            return f(NET, dict(zip(NAMES, XS))), f(NET, {})
        """,
    "a dict comprehension of numbers": """
        def f(net: Net, names: list[str], xs: jax.Array):
            return {name.upper(): float(net(x).sum()) for name, x in zip(names, xs)}

        def workload():
            return f(NET, NAMES, XS)
        """,
    "draws counted by a range": """
        def f(net: Net, x: jax.Array, key: jax.Array, n: int):
            out = []
            for i in range(n):
                noise = jax.random.normal(jax.random.fold_in(key, i), (3,))
                out.append(net(x + noise))
            return jnp.stack(out)

        def g(net: Net, x: jax.Array, key: jax.Array, n: int):
            total = 0.0
            for i in range(1, n, 2):
                total += float(net(x * jax.random.uniform(jax.random.fold_in(key, i))).sum())
                print(i)
            return total

        def workload():
            key = jax.random.key(5)
            return f(NET, XS[0], key, 4), g(NET, XS[0], key, 6), g(NET, XS[0], key, 0)
        """,
    "a key for each position": """
        def f(net: Net, xs: jax.Array, key: jax.Array):
            out = []
            for i, x in enumerate(xs):
                noise = jax.random.normal(jax.random.fold_in(key, i), (3,))
                out.append(net(x + noise))
            return jnp.stack(out)

        def workload():
            return f(NET, XS, jax.random.key(5))
        """,
}


@pytest.mark.parametrize("body", PROGRAMS.values(), ids=PROGRAMS)
def test_same_results(body: str) -> None:
    before = program(DATA + body.replace("\n        ", "\n"))
    assert "patch" in reasons(before)
    after = rewritten(before)
    expected, printed = run(before)
    got, said = run(after)
    assert_same(expected, got)
    assert printed == said
    assert [line for line in before.splitlines() if "#" in line] == [] or all(
        line.partition("#")[2] in after for line in before.splitlines()
    )


EXAMPLE_CALLS = {
    "predict": "predict(NET, XS)",
    "refine": "refine(NET, ITEMS, KNOWN), KNOWN",
    "report": "report(NET, NAMES, XS)",
    "embed": "embed(NET, dict(zip(NAMES, XS)))",
    "vote": "vote([NET, Net(eqx.nn.Linear(3, 3, key=jax.random.key(7)))], XS[0])",
}


def test_an_array_of_a_list_is_never_weakly_typed() -> None:
    body = """
@jax.jit
def wave(x):
    return jnp.sin(x) * 2

def f(xs: jax.Array):
    return jnp.array([wave(x) for x in xs]), jnp.stack([wave(x) for x in xs])

def workload():
    return f(jnp.where(jnp.arange(3) > 1, 1.0, 2.0))
"""
    before = program(DATA + body)
    after = rewritten(before)
    assert after.count("jax.lax.map(") == 2
    arrays = jax.tree.leaves(run(after)[0])[:2]
    for array, weak in zip(arrays, (False, True), strict=True):
        assert array.weak_type is weak


def test_a_comprehension_right_before_its_stack_becomes_one_call() -> None:
    after = rewritten(program(DATA + PROGRAMS["a comprehension that is stacked later"].replace("\n        ", "\n")))
    assert "    preds = _f_batched(x, nets) if len(nets) else jnp.array([])\n    return jnp.mean(" in after
    assert "    return _i_batched(net, xs) if len(xs) else jnp.stack([])\n" in after
    assert "# one for each\n    outs = jnp.array(preds)" in after


def test_the_examples_of_the_page_do_the_same() -> None:
    pairs = [e for e in Vmapify.examples if isinstance(e, Rewrites)]
    assert len(pairs) == len(EXAMPLE_CALLS)
    for example, (name, call) in zip(pairs, EXAMPLE_CALLS.items(), strict=True):
        assert f"def {name}(" in example.before
        workload = f"{DATA}KNOWN = []\n\ndef workload():\n    return {call}\n"
        expected, printed = run(example.before + workload)
        got, said = run(example.after + workload)
        assert_same(expected, got)
        assert printed == said


def in_chunks(text: str) -> str | None:
    """The program with every patch in the form for numbers of items that vary, where all have that form."""
    before = text
    while patches := [f for f in findings(text) if isinstance(f, Patch)]:
        chunks: list[Variant] = [v for v in patches[0].variants if v.form == "chunks"]
        if not chunks:
            return None
        text = compose(Document.parse("main.py", text.encode()), chunks[0].realise({"batch_size": 2})).decode()
    return text if text != before else None


CHUNKED = {name: after for name, body in PROGRAMS.items()
           if (after := in_chunks(program(DATA + body.replace("\n        ", "\n")))) is not None}  # fmt: skip


@pytest.mark.parametrize("name", CHUNKED)
def test_same_results_in_chunks(name: str) -> None:
    before = program(DATA + PROGRAMS[name].replace("\n        ", "\n"))
    expected, printed = run(before)
    got, said = run(CHUNKED[name])
    assert len(findings(CHUNKED[name])) < len(findings(before))
    assert_same(expected, got)
    assert printed == said


def test_many_programs_have_the_form_for_numbers_of_items_that_vary() -> None:
    assert len(CHUNKED) >= 10


VARYING = """
MANY = np.asarray(XS)[:1].repeat(20, axis=0)

def f(net: Net, xs: list[jax.Array]):
    out = []
    for x in xs:
        y = net(x)
        out.append((y, float(y.sum())))
    return out

def g(net: Net, xs: jax.Array):
    return [net(x) for x in xs]

def workload(n):
    return f(NET, ITEMS[:1] * n), g(NET, MANY[:n])
"""


def test_another_number_of_items_compiles_nothing() -> None:
    space: dict[str, Any] = {}
    text = in_chunks(program(DATA + VARYING.replace("xs: jax.Array", "xs: np.ndarray")))
    assert text is not None
    exec(compile(text, "main.py", "exec"), space)
    compiled: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda name, _, **__: compiled.append(name) if name.endswith("backend_compile_duration") else None
    )
    space["workload"](3)
    first = len(compiled)
    assert first > 0
    for n in range(18):
        assert len(space["workload"](n)[0]) == n
    assert len(compiled) == first


def test_one_compilation_serves_every_call() -> None:
    body = PROGRAMS["a method, with self and a number that varies"]
    space: dict[str, Any] = {}
    exec(compile(rewritten(program(DATA + body.replace("\n        ", "\n"))), "main.py", "exec"), space)
    compiled: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda name, _, **__: compiled.append(name) if name.endswith("backend_compile_duration") else None
    )
    space["workload"]()
    first = len(compiled)
    space["workload"]()
    assert len(compiled) == first
