"""What fuse-jits compiles as one, what it leaves alone, and that programs do the same before and after."""

from __future__ import annotations

import pytest
from harness import assert_equivalent, findings, program, reasons, rewritten
from jitmod.codemods.fuse_jits import FuseJits

from jitmod.model import Patch, Refusal

DATA = """
    X = jnp.arange(9.0).reshape(3, 3) / 9
    NET = eqx.nn.Linear(3, 3, key=jax.random.key(0))

    @jax.jit
    def h1(x):
        return jnp.tanh(x) * 2

    @jax.jit
    def h2(x, y):
        return x @ y + x

    @eqx.filter_jit
    def through(net, x, times=1):
        return net(x) * times

"""

WHOLE = """
    def plain(x, y):
        a = h1(x)
        return h2(a, y) * 0.5

    def several(x: jax.Array, key: jax.Array):
        k1, k2 = jax.random.split(key)
        if x.shape[0] > 2:
            x = h1(x)
        if x.shape != (3, 3):
            raise ValueError(f"{x.shape}")
        return x, [h2(x, jax.random.normal(k1, (3, 3))), h1(jax.random.normal(k2, (2,)))]

    def network(net: eqx.nn.Linear, x: jax.Array):
        a = through(net, x)
        return through(net, a, 3) + a

    def scaled(x: jax.Array, times: float = 2.0):
        return h2(h1(x), x) * times

    def mapped(x: jax.Array):
        return jax.vmap(h1)(x).sum()

    def around(x: jax.Array):
        y = (x - x.mean()) / (x.std() + 1e-6)
        y = jnp.clip(y, -1, 1) * jnp.exp(-y) + jnp.cos(y)
        return h1(y)

    rows = jax.vmap(h2, in_axes=(0, None))

    def workload(rep: int):
        return (plain(X, np.ones((3, 3)) * rep), several(X, jax.random.key(rep)), network(NET, X[rep % 3]),
                mapped(X), scaled(X), scaled(X, rep / 3), around(X * rep), rows(X, X),
                several(X[:2] if rep == 2 else X, jax.random.key(1)))
    """
PARTS = """
    class Filter:
        def __init__(self):
            self.gain = 2.0

        def step(self, x: jax.Array):
            # the gain of now
            a = h1(x) * self.gain

            # and back
            return h2(a, a) / 2  # half

    def run(xs: list[jax.Array], w: jax.Array):
        out = []
        for x in xs:
            a = h2(x, w)
            w = h1(a) * 0.1 + w
            out.append(float(w.sum()))
            print(out)
        return w, out

    def arms(x: jax.Array):
        a = h2(h1(x), x)
        if float(a.sum()) > 0:
            return h1(h1(a))
        return h2(h1(-a), a)

    def results(x: jax.Array, n: int):
        a = h1(x)
        return {"z": a, "a": h2(a, a)}, x, n

    def shaped(x: jax.Array, n: int):
        return h2(h1(x), x) + jnp.zeros(n).sum() + SHIFT

    def network(x: jax.Array, n: int):
        return through(NET, h1(x), n)

    SHIFT = jnp.ones(3)

    def shift(by: float):
        global SHIFT
        SHIFT = SHIFT + by

    def workload(rep: int):
        shift(rep)
        track = Filter()
        first = track.step(X)
        track.gain += rep
        return (first, track.step(X), run([X, X + rep], X), arms(X), arms(-X), results(X, 2), shaped(X, rep),
                network(X[0], rep))
    """


@pytest.mark.parametrize("body", [WHOLE, PARTS], ids=["whole functions", "parts of functions"])
def test_same_results(body: str) -> None:
    before = program(DATA + body)
    found = [f for f in findings(FuseJits(), before) if f.site.symbol != "workload"]
    assert len(found) > 4
    assert all(isinstance(f, Patch) for f in found)
    after = rewritten(FuseJits(), before)
    assert_equivalent(before, after)
    assert not any(isinstance(finding, Patch) for finding in findings(FuseJits(), after))


def test_whole_functions_get_a_decorator() -> None:
    after = rewritten(FuseJits(), program(DATA + WHOLE))
    assert after.count("@jax.jit\n") == 2 + 5
    assert after.count("@eqx.filter_jit\n") == 1 + 1
    assert "rows = jax.jit(jax.vmap(h2, in_axes=(0, None)))" in after


def test_comments_stay_where_they_were() -> None:
    after = rewritten(FuseJits(), program(DATA + PARTS))
    assert "        # the gain of now\n\n        # and back\n        return _step_fused(x, self.gain)  # half" in after
    assert "        w, sum_value = _run_fused(x, w)\n        out.append(float(sum_value))\n" in after


HELPERS = """
    @jax.jit
    def once(x):
        return x + 1

    @jax.jit
    def twice(x):
        return x * 2

    @jax.jit
    def elsewhere(x):
        return x - 1

    @jax.jit
    def named(x):
        return x / 2

    @jax.jit  # measured
    def noted(x):
        return x * x

    @jax.jit
    def maybe(x):
        return -x

    @jax.jit
    def numbered(x, n):
        return x * n * n

    __all__ = ["named"]

    def all_of_them(x: jax.Array):
        x = twice(twice(once(x)))
        if x.ndim > 1:
            x = maybe(x)
        return numbered(noted(named(elsewhere(x))), 3)

    def other(x: jax.Array):
        return elsewhere(x)

    def workload(rep: int):
        return all_of_them(X + rep), other(X)
    """


def test_the_jit_of_a_helper_is_dropped_where_it_is_reached_once_and_not_named_elsewhere() -> None:
    before = program(DATA + HELPERS)
    (patch,) = [f for f in findings(FuseJits(), before) if isinstance(f, Patch)]
    assert [variant.form for variant in patch.variants] == ["one jit", "no inner jits"]
    after = rewritten(FuseJits(), before)
    assert_equivalent(before, after)
    without = [line for line, above in zip(after.split("\n")[1:], after.split("\n"), strict=False)
               if line.startswith("def ") and not above.startswith("@")]  # fmt: skip
    assert without == ["def once(x):", "def other(x: jax.Array):", "def workload(rep: int):"]
    assert len(patch.variants[1].edits) == len(patch.variants[0].edits) + 1  # and that of `maybe`


REFUSED = {
    "text is printed in between": ("a = h1(x)\n        print('now')\n        return h2(a, a)", "host-effect"),
    "a computed value decides": ("a = h1(x)\n        assert a.sum() > 0\n        return h2(a, a)", "batched-branch"),
    "a static argument": ("return powered(h1(x), n) + powered(x, 2)", "varying-static"),
    "a donated argument": ("return donating(h1(x)) + h1(x)", "mixed-context"),
    "a variable of the module": ("return h2(h1(x), x) * SCALE", "rebound-global"),
    "the caller's array may change": ("a = h1(x)\n        y += 1\n        return h2(a, y)", "inplace-ndarray"),
}


@pytest.mark.parametrize(("body", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused(body: str, reason: str) -> None:
    text = program(
        DATA
        + f"""
    SCALE = 2.0

    @functools.partial(jax.jit, static_argnames="n")
    def powered(x, n):
        return x**n

    @functools.partial(jax.jit, donate_argnums=0)
    def donating(x):
        return x + 1

    def f(x, n: int, y=None):
        {body}

    def change(value: float):
        global SCALE
        SCALE = value

    def workload(rep: int):
        change(rep)
        return f(X, 3, np.ones((3, 3)))
    """
    )
    found = [f for f in findings(FuseJits(), text) if f.site.symbol == "f"]
    assert [f.reason for f in found if isinstance(f, Refusal)] == [reason]
    assert len(found) == 1


@pytest.mark.parametrize(
    "body",
    [
        "def f(x: jax.Array):\n        return h1(x)",
        "def f(x: jax.Array):\n        return h1(x) + 1",
        "@jax.jit\n    def f(x: jax.Array):\n        return h2(h1(x), x)",
        "def g(x: jax.Array):\n        return h2(h1(x), x)\n\n    f = jax.jit(g)",
        "def f(x: jax.Array):\n        yield h1(x)\n        yield h2(x, x)",
    ],
)
def test_left_alone(body: str) -> None:
    text = program(f"{DATA}\n    {body}\n\n    def workload(rep: int):\n        return f(X)\n")
    assert [f for f in findings(FuseJits(), text) if f.site.symbol == "f"] == []


def test_what_is_imported_and_changed_is_not_frozen() -> None:
    def patched(read: str, conf: str, change: str, start: str) -> list[str]:
        head = "import conf\n" + start + "import jax\n\n\n@jax.jit\ndef h(x):\n    return x * 2\n\n\n"
        body = f"def f(x: jax.Array):\n    return h(h(x) * {read}) - 1\n\n\ndef change():\n    {change}\n"
        return reasons(FuseJits(), head + body, conf=conf)

    setting, table = "class Setting:\n    a = 1.0\n\n\nC = Setting()\n", "T = {'a': 1.0}\n"
    assert patched("C.a", setting, "pass", "from conf import C\n") == ["patch"]
    assert patched("C.a", setting, "conf.C.a = 2.0", "from conf import C\n") == ["mutable-self"]
    assert patched("A", "A = 1.0\n", "pass", "from conf import A\n") == ["patch"]
    assert patched("A", "A = 1.0\n", "global A; A = 2.0", "from conf import A\n") == ["rebound-global"]
    after = rewritten(FuseJits(), "from conf import T\nimport jax\n\n\n@jax.jit\ndef h(x):\n    return x\n\n\n"
                      "def f(x: jax.Array):\n    return h(h(x) * T['a']) - 1\n\n\n"
                      "def g(x: jax.Array):\n    T['a'] = 2.0\n    return f(x)\n", conf=table)  # fmt: skip
    assert "_f_fused(x, T['a'])" in after  # read anew in every call


TREES = """
from typing import NamedTuple


class Plain(NamedTuple):
    x: jax.Array
    pair: tuple[jax.Array, jax.Array]


class Named(NamedTuple):
    x: jax.Array
    name: str
    n: int


class Scaled(eqx.Module):
    w: jax.Array
    scale: float


@jax.jit
def h(x):
    return x * 2


def plain(s: Plain) -> Plain:
    a = h(s.x)
    return Plain(h(a), s.pair)


def named(s: Named) -> Named:
    a = h(s.x)
    return Named(h(a), s.name, s.n)


def scaled(m: Scaled, x: jax.Array):
    a = h(x) * m.scale
    return h(a) + m.w


def table(p: dict[str, jax.Array], x: jax.Array):
    print("table")
    a = h(x) * p["w"]
    b = h(a)
    return b, h(b)


def workload(rep):
    x = jnp.arange(3.0)
    trees = plain(Plain(x, (x, x))), named(Named(x, "a", 3))
    return trees, [scaled(Scaled(x, k * 0.5), x) for k in range(2 + rep)], table({"w": x}, x)
"""


def test_trees_hold_arrays_and_modules_the_same_numbers() -> None:
    before = program(TREES)
    found = {f.site.symbol: getattr(f, "reason", f.message) for f in findings(FuseJits(), before)}
    assert found["plain"] == "`plain` calls 2 compiled functions in a row; one jit holds it all"
    assert found["named"] == "2 compiled functions are called in a row; one compiled function holds it all"
    assert found["scaled"] == "varying-static"
    after = rewritten(FuseJits(), before)
    assert_equivalent(before, after)
    assert "    return b, h(b)\n\n\ndef table(" in after
    assert '    print("table")\n    return _table_fused(x, p["w"])\n' in after


def test_what_cannot_be_seen_or_calls_itself_is_left() -> None:
    text = program(
        """\
        @jax.jit
        def h(x):
            return x * 2

        def tree(x: jax.Array, n: int):
            if n == 0:
                return x
            return h(tree(h(x), n - 1))

        net = eqx.filter_jit(eqx.nn.Linear(2, 2, key=jax.random.key(0)))
        clip = jax.jit(jnp.clip, static_argnums=1)
        nets = jax.vmap(net)
        clips = jax.vmap(clip, in_axes=(0, None))
        hs = jax.vmap(h)
        print(tree(jnp.ones(2), 3))
        """
    )
    found = [(f.site.symbol, getattr(f, "reason", "patch")) for f in findings(FuseJits(), text)]
    assert found == [("tree", "local-callable"), ("<module>", "patch")]


def test_lists_of_new_lengths_are_not_compiled_for_each() -> None:
    head = "@jax.jit\ndef h(x):\n    return x * 2\n\n\ndef f(xs: list[jax.Array]):\n    a = h(xs[0])\n"
    head += "    return h(a + xs[-1]) * len(xs)\n\n\n"
    one = "def workload(rep):\n    return [f({}) for k in range(1, 3 + rep)]\n"
    new = ("[jnp.ones(3)] * k", "[jnp.ones(3) for _ in range(k)]")
    given = (*new, "[jnp.ones(3) * k] * 2", "[jnp.ones(3), jnp.ones(3) * k]")
    found = [[f for f in findings(FuseJits(), program(head + one.format(g))) if f.site.symbol == "f"] for g in given]
    kinds = [[getattr(f, "reason", "patch") for f in each] for each in found]
    assert kinds == [["growing-shape"], ["growing-shape"], ["patch"], ["patch"]]


def test_what_calls_compiled_functions_without_end_is_left_alone() -> None:
    """Each function calls the one before it twice: a million calls in the last."""
    doubled = "    def twice{}(x: jax.Array):\n        return twice{}(twice{}(x))\n\n"
    text = "    def twice0(x: jax.Array):\n        return h1(x)\n\n"
    text += "".join(doubled.format(n, n - 1, n - 1) for n in range(1, 21))
    patches = [f for f in findings(FuseJits(), program(DATA + text)) if isinstance(f, Patch)]
    counts = [int(f.message.split(" calls ")[1].split()[0]) for f in patches]
    assert counts
    assert max(counts) <= 500
