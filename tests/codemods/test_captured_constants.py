"""captured-constants: programs before and after, and programs that it must leave alone."""

from __future__ import annotations

import pytest
from harness import assert_equivalent, findings, program, reasons, rewritten
from jitmod.codemods.captured_constants import CapturedConstants

CODEMOD = CapturedConstants()
TABLE = "TABLE = jax.random.normal(jax.random.key(0), (4000, 4))\n\n\n"
CALL = "\n\ndef workload(rep):\n    return lookup(jnp.arange(5) + rep)\n"

REWRITTEN = {
    "module level": TABLE
    + '@jax.jit\ndef lookup(i):\n    """Rows.\n\n    Of a table.\n    """\n    return TABLE[i] * 2\n'
    + CALL,
    "the array comes later": "@jax.jit\ndef lookup(i):\n    return TABLE[i] * 2\n\n\n" + TABLE + CALL,
    "filter_jit": TABLE + "@eqx.filter_jit\ndef lookup(i):\n    return TABLE[i].sum() + len(TABLE)\n" + CALL,
    "prepared names and lengths": TABLE
    + """\
@jax.jit
def lookup(i):
    n = TABLE.shape[0]
    # of all rows
    mean = jnp.sum(TABLE, axis=0) / n  # a row
    centred = TABLE - mean
    return centred[i % n] + mean
"""
    + CALL,
    "a prepared expression, twice": TABLE
    + "@jax.jit\ndef lookup(i):\n    return jnp.tanh(TABLE * 2)[i] - (\n        jnp.tanh(TABLE * 2)[i + 1])\n"
    + CALL,
    "two arrays from two scopes": TABLE
    + """\
def make(other, scale: float):
    @jax.jit
    def lookup(i):
        joined = TABLE @ other.T * scale
        return joined[i] + other[0, 0]

    return lookup


lookup = make(jax.random.normal(jax.random.key(1), (5000, 4)), 0.5)
"""
    + CALL,
    "a name that the function around has too": """\
def make(table):
    normed = jnp.ones(3)

    @jax.jit
    def lookup(i):
        normed = table / jnp.max(table)
        return normed[i]

    return lookup, normed


def both(table):
    @jax.jit
    def lookup(i):
        return table[i]

    return lookup(jnp.arange(4))


def workload(rep):
    return both(jnp.ones((30_000,)) * rep)
""",
    "static and keyword-only arguments": TABLE
    + """\
@functools.partial(jax.jit, static_argnums=(1,), static_argnames=("power",))
def lookup(i, n: int, /, *, power: int) -> jax.Array:
    return jnp.tile(TABLE[i], n) ** power


def workload(rep):
    return lookup(jnp.arange(5), 2, power=3), lookup(jnp.arange(5), 1 + rep, power=2)
""",
    "inside of a scan": TABLE
    + """\
@jax.jit
def lookup(i):
    def body(carry, j):
        return carry + TABLE[j], carry

    return jax.lax.scan(body, jnp.zeros(4), i)
"""
    + CALL,
    "gradients and batches within other functions": TABLE
    + """\
@jax.jit
def score(x):
    return jnp.sum(jnp.tanh(TABLE @ x))


@jax.jit
def improve(x):
    return x - 0.1 * jax.grad(lambda y: score(y))(x)


def workload(rep):
    return score(jnp.ones(4) * rep), improve(jnp.ones(4) * rep)
""",
    "a helper that is there before": TABLE
    + """\
EPS = 1e-3


def normalise(rows):
    return rows / (jnp.linalg.norm(rows, axis=1, keepdims=True) + EPS)


@jax.jit
def lookup(i):
    rows = normalise(TABLE)
    return rows[i]
"""
    + CALL,
    "several results at once": TABLE
    + """\
@jax.jit
def lookup(i):
    a, b = jnp.split(TABLE + 1, 2)
    return a[i] * b[i]
"""
    + CALL,
    "bfloat16 and weak types": """\
TABLE = jnp.ones((20_000,), jnp.bfloat16)


@jax.jit
def lookup(i):
    half = TABLE * 0.5
    return half[i] + 1.25
"""
    + CALL,
    "in a method, for itself": """\
class Index:
    def __init__(self, table: jax.Array):
        self.rows = len(table)

        @jax.jit
        def find(i):
            return jnp.exp(table)[i]

        self.find = find


def make(table):
    @jax.jit
    def find(i):
        return jnp.exp(table)[i]

    return find


class Other:
    def __init__(self, table: jax.Array):
        self.seek = make(table)

    def at(self, i):
        return self.seek(i)


def workload(rep):
    table = jax.random.normal(jax.random.key(rep), (4000, 4))
    return Other(table).at(jnp.arange(3))
""",
}


@pytest.mark.parametrize("body", [pytest.param(b, id=i) for i, b in REWRITTEN.items()])
def test_rewrites(body: str) -> None:
    before = program(body)
    after = rewritten(CODEMOD, before)
    assert after != before
    assert_equivalent(before, after)


def test_what_is_prepared_is_computed_once() -> None:
    before = program(
        TABLE
        + """\
@jax.jit
def lookup(i):
    normed = TABLE / jnp.sqrt(jnp.sum(TABLE**2, axis=1, keepdims=True))
    return normed[i]
"""
        + CALL
    )
    after = rewritten(CODEMOD, before)
    assert "_NORMED = TABLE / jnp.sqrt(jnp.sum(TABLE**2, axis=1, keepdims=True))\n\n\n@jax.jit\n" in after
    assert "def _lookup(i, normed):\n    return normed[i]\n" in after
    assert "def lookup(i):\n    return _lookup(i, _NORMED)\n" in after


def test_the_documentation_goes_with_the_name() -> None:
    after = rewritten(CODEMOD, program(REWRITTEN["module level"]))
    space: dict[str, object] = {}
    exec(after, space)
    assert (space["lookup"].__doc__ or "").split() == ["Rows.", "Of", "a", "table."]
    assert not space["_lookup"].__doc__  # type: ignore[attr-defined]


LEFT = {
    "small": "RATES = jnp.ones((3, 4))\n\n\n@jax.jit\ndef f(x):\n    return x * RATES\n",
    "a small range": "RATES = jnp.arange(3.0) * 2\n\n\n@jax.jit\ndef f(x):\n    return x * RATES\n",
    "a number, a key, a function": "KEY = jax.random.key(0)\nN = 3.0\n\n\n@jax.jit\ndef f(x):\n    return x * N + "
    "jax.random.normal(KEY)\n",
    "an argument already": "@jax.jit\ndef f(x, table):\n    return table[x]\n",
    "of its own": "@jax.jit\ndef f(x):\n    table = jnp.ones((400, 400))\n    return table[x]\n",
    "only within another trace": TABLE
    + "@jax.jit\ndef inner(x):\n    return x @ TABLE.T\n\n\n@jax.jit\ndef outer(x, t):\n    return inner(x)\n",
    "perhaps a numpy array": "def make(table: jax.Array):\n    @jax.jit\n    def f(i):\n        return table[i] * 2\n\n"
    "    return f\n\n\nf = make(np.ones((200, 200)))\n",
    "a numpy array": "TABLE = np.ones((400, 400))\n\n\n@jax.jit\ndef f(x):\n    return x * TABLE\n",
}


@pytest.mark.parametrize("body", [pytest.param(b, id=i) for i, b in LEFT.items() if i != "only within another trace"])
def test_leaves(body: str) -> None:
    assert findings(CODEMOD, program(body)) == ()


def test_what_only_a_trace_calls_is_left() -> None:
    found = findings(CODEMOD, program(LEFT["only within another trace"]))
    assert [f.site.symbol for f in found] == []


READ = "@jax.jit\ndef lookup(i):\n    return TABLE[i]\n\n\n"
REFUSED = {
    "bound anew in a function": (TABLE + READ + "def new(t):\n    global TABLE\n    TABLE = t\n", "frozen-by-jit"),
    "bound anew below": (TABLE + READ + "TABLE = TABLE + 1\n", "frozen-by-jit"),
    "bound anew from outside": (TABLE + READ + "def new(m, t):\n    m.TABLE = t\n", "frozen-by-jit"),
    "deleted": (TABLE + READ + "lookup(3)\ndel TABLE\n", "frozen-by-jit"),
    "rebound in the factory": (
        "def make(table: jax.Array):\n    @jax.jit\n    def f(i):\n        return table[i]\n\n    table = table + 1\n"
        "    return f(3)\n",
        "frozen-by-jit",
    ),
    "made for each round": (
        "def run(tables: list[jax.Array]):\n    fs = []\n    for table in tables:\n        @jax.jit\n"
        "        def f(i):\n            return table[i]\n        fs.append(f(2))\n    return fs\n",
        "late-binding",
    ),
    "read while it is traced": (
        TABLE + "@jax.jit\ndef f(x):\n    return x * float(np.asarray(TABLE)[0, 0]) + TABLE[0]\n",
        "scalar-needed-as-python",
    ),
    "a size by its values": (
        "N = jnp.arange(20_000)\n\n\n@jax.jit\ndef f(x):\n    return jnp.zeros(N.tolist()[3]) + x\n",
        "scalar-needed-as-python",
    ),
    "under another name": (
        TABLE + "@jax.jit\ndef f(x):\n    rows = TABLE\n    return x * np.asarray(rows)[0, 0]\n",
        "scalar-needed-as-python",
    ),
    "a mask": (
        "MASK = jnp.arange(20_000) > 3\n\n\n@jax.jit\ndef f(x):\n    return x[MASK] * 2\n",
        "scalar-needed-as-python",
    ),
    "its nonzero places": (
        "MASK = jnp.arange(20_000) > 3\n\n\n@jax.jit\ndef f(x):\n    return x[jnp.nonzero(MASK)[0]]\n",
        "scalar-needed-as-python",
    ),
    "counts of rounds": (
        "N = jnp.arange(20_000)\n\n\n@jax.jit\ndef f(x):\n    return jnp.repeat(x, N)\n",
        "scalar-needed-as-python",
    ),
    "a helper that looks at it": (
        TABLE + "def first(t):\n    return float(t[0, 0])\n\n\n@jax.jit\ndef f(x):\n    return x * first(TABLE)\n",
        "scalar-needed-as-python",
    ),
    "a helper that hands it back": (
        TABLE + "def same(t):\n    return t\n\n\n@jax.jit\ndef f(x):\n    return x * np.asarray(same(TABLE))[0]\n",
        "scalar-needed-as-python",
    ),
    "a nested function that hands it back": (
        TABLE + "@jax.jit\ndef f(x):\n    def same():\n        return TABLE\n    return x * np.asarray(same())[0]\n",
        "scalar-needed-as-python",
    ),
    "handed on": (TABLE + READ + "def run(xs):\n    return jax.vmap(lookup)(xs)\n", "local-callable"),
    "lowered": (TABLE + READ + "def show(x):\n    return lookup.lower(x).as_text()\n", "local-callable"),
    "kept in a list": (TABLE + READ + "ALL = [lookup]\n", "local-callable"),
    "its factory is handed on": (
        "def make(table: jax.Array):\n    @jax.jit\n    def f(i):\n        return table[i]\n\n    return f\n\n\n"
        "fs = list(map(make, [jnp.ones((200, 200))]))\n",
        "local-callable",
    ),
    "what a factory makes is handed on": (
        "def make(table: jax.Array):\n    @jax.jit\n    def f(i):\n        return table[i]\n\n    return f\n\n\n"
        "f = make(jnp.ones((200, 200)))\nfast = jax.jit(f)\n",
        "local-callable",
    ),
    "defaults": (TABLE + "@jax.jit\ndef f(i, n=3):\n    return jnp.tile(TABLE[i], n)\n", "local-callable"),
    "donates all": (
        TABLE + '@eqx.filter_jit(donate="all")\ndef f(x):\n    return x @ TABLE\n',
        "donated-later-read",
    ),
    "counted from the end": (
        TABLE + "@functools.partial(jax.jit, static_argnums=-1)\ndef f(x, n):\n    return jnp.tile(x @ TABLE, n)\n",
        "varying-static",
    ),
    "prepared on a condition": (
        TABLE + "@jax.jit\ndef f(x):\n    if x.ndim == 2:\n        return x @ jnp.tanh(TABLE.T)\n    return x\n",
        "guarded-work",
    ),
    "prepared in an expression that may not run": (
        TABLE + "@jax.jit\ndef f(x):\n    return jnp.tanh(TABLE.T) @ x if x.ndim else x\n",
        "guarded-work",
    ),
    "prepared after the function may have returned": (
        TABLE
        + "@jax.jit\ndef f(x):\n    if x.ndim == 3:\n        return x\n    t = jnp.tanh(TABLE)\n    return t @ x\n",
        "guarded-work",
    ),
    "prepared in a nested function": (
        TABLE + "@jax.jit\ndef f(x):\n    return jax.lax.map(lambda y: jnp.tanh(TABLE) @ y, x)\n",
        "guarded-work",
    ),
    "prepared before the array is there": (
        "@jax.jit\ndef f(x):\n    t = jnp.tanh(TABLE)\n    return t @ x\n\n\n" + TABLE,
        "late-binding",
    ),
    "prepared by a helper that is not there yet": (
        TABLE
        + "@jax.jit\ndef f(x):\n    t = norm(TABLE)\n    return t @ x\n\n\ndef norm(t):\n    return t / jnp.max(t)\n",
        "unresolved-callee",
    ),
    "prepared under another precision": (
        TABLE + "@jax.jit\ndef f(x):\n    t = TABLE @ TABLE.T\n    return t @ x\n\n\n"
        "def run(x):\n    with jax.default_matmul_precision('float32'):\n        return f(x)\n",
        "host-effect",
    ),
    "a failure that is caught": (
        TABLE + "@jax.jit\ndef f(x):\n    t = TABLE @ TABLE\n    return t @ x\n\n\n"
        "def run(x):\n    try:\n        return f(x)\n    except TypeError:\n        return None\n",
        "exception-order",
    ),
    "x64 comes later": (
        TABLE + "@jax.jit\ndef f(x):\n    t = jnp.tanh(TABLE)\n    return t @ x\n\n\n"
        "jax.config.update('jax_enable_x64', True)\n",
        "host-effect",
    ),
}


@pytest.mark.parametrize(("body", "reason"), [pytest.param(*c, id=i) for i, c in REFUSED.items()])
def test_refuses(body: str, reason: str) -> None:
    assert reasons(CODEMOD, program(body)) == [reason]


def test_other_files_call_it_under_its_name() -> None:
    main = program(TABLE + READ)
    assert reasons(CODEMOD, main, other="from main import lookup\n\nprint(lookup(3))\n") == ["patch"]
    renamed = "from main import lookup as find\n\nprint(find(3))\n"
    assert reasons(CODEMOD, main, other=renamed) == ["local-callable"]
    assert reasons(CODEMOD, main, other="import main\n\nmain.TABLE = 3\n") == ["frozen-by-jit"]
    assert reasons(CODEMOD, main, other="import main\n\nprint(main.lookup.lower(3))\n") == ["local-callable"]


def test_an_imported_array() -> None:
    tables = "import jax.numpy as jnp\n\nTABLE = jnp.ones((200, 200))\n"
    main = program("from tables import TABLE\n\n\n" + READ)
    assert reasons(CODEMOD, main, tables=tables) == ["patch"]
    assert reasons(CODEMOD, main, tables=tables + "TABLE = TABLE * 2\n") == ["frozen-by-jit"]


def test_what_another_file_changes_is_not_computed_before() -> None:
    def prepares(read: str, conf: str, change: str, start: str = "") -> bool:
        body = f"{start}{TABLE}@jax.jit\ndef f(x):\n    t = TABLE * {read}\n    return x @ t\n\n\n{change}"
        after = rewritten(CODEMOD, program(body), conf=conf)
        return "_T = TABLE" in after

    holder = "class C:\n    scale = 1.0\n\n\nC = C()\n"
    setter = "def set():\n    global S\n    S = 3.0\n"
    assert prepares("conf.S", "S = 1.0\n", "", "import conf\n")
    assert prepares("S", "S = 1.0\n", "", "from conf import S\n")
    assert prepares("C.scale", holder, "", "from conf import C\n")
    assert not prepares("conf.S", "S = 1.0\n" + setter, "", "import conf\n")
    assert not prepares("conf.S", "S = 1.0\n", "conf.S = 2.0\n", "import conf\n")
    assert not prepares("S", "S = 1.0\n", setter, "from conf import S\n")
    assert not prepares("C.scale", holder, "def g():\n    C.scale = 2.0\n", "from conf import C\n")
    assert not prepares("FLAGS.scale", "", "", "from absl.flags import FLAGS\n")


def test_parameters_have_the_order_of_the_reads_and_names_of_their_own() -> None:
    arrays = "".join(f"{name} = jnp.ones((200, 200))\n" for name in ("B", "A", "IF", "MAX"))
    body = "@jax.jit\ndef f(x):\n    y = x @ (B / 2) + (A @ x)\n    return y + MAX[0] + max(1, 2) + IF[0]\n\n\n"
    before = program(f"{arrays}\n\n{body}def workload(rep):\n    return f(jnp.ones(200) * rep)\n")
    after = rewritten(CODEMOD, before)
    assert "def _f(x, a, max_array, if_array, prepared_b):\n    y = x @ prepared_b + (a @ x)\n" in after
    assert "    return _f(x, A, MAX, IF, _PREPARED_B)\n" in after
    assert_equivalent(before, after)
    long = body.replace("f(x)", "f(first_of_all_arguments, x)").replace("x)", "second_of_all_arguments)")
    long = long.replace("x ", "second_of_all_arguments ")
    after = rewritten(CODEMOD, program(arrays + long.replace("f(", "function_with_a_long_name(")))
    assert "        first_of_all_arguments, second_of_all_arguments, A, MAX, IF, _PREPARED_B\n    )\n" in after
