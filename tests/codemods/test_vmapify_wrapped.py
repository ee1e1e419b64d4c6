"""Where the form that cuts arrays on the host is offered, and what a Module may hold that the host can change."""

from __future__ import annotations

import pytest
from programs import DATA, findings, program, reasons

from jitmod.model import Patch

LOOP = """
def f(net: Net, xs: jax.Array):
    return jnp.stack([net(x) for x in xs]).sum()

def g(net, xs):
    return f(net, xs) * 2

"""
CALLERS = {
    "called plainly": ("def workload(n):\n    return g(NET, XS[:n])\n", ["lax.map", "chunks"]),
    "never called where it can be seen": ("", ["lax.map"]),
    "its caller is differentiated": ("def workload(n):\n    return jax.grad(g, argnums=1)(NET, XS[:n])\n", ["lax.map"]),
    "called by a lambda that is differentiated": (
        "def workload(n):\n    return g(NET, XS), jax.grad(lambda s: f(NET, XS[:n] * s))(1.0)\n",
        ["lax.map"],
    ),
    "its caller is compiled": ("@eqx.filter_jit\ndef workload(n):\n    return g(NET, XS[:n])\n", []),
    "its caller is kept in a table": ("TABLE = {'g': g}\n\ndef workload(n):\n    return g(NET, XS[:n])\n", ["lax.map"]),
}


@pytest.mark.parametrize(("caller", "forms"), CALLERS.values(), ids=CALLERS)
def test_chunks_of_an_array_are_cut_where_no_trace_can_pass(caller: str, forms: list[str]) -> None:
    patches = [f for f in findings(program(DATA + LOOP + caller)) if isinstance(f, Patch) and f.site.symbol == "f"]
    assert [v.form for p in patches for v in p.variants] == forms


SPLICED = """
def f(net: Net, xs: jax.Array, offset: {kind}):
    net = eqx.tree_at(lambda n: n.layer.bias, net, offset)
    out = []
    for x in xs:
        out.append(net(x))
        buffer += 1.0
    return out
"""


@pytest.mark.parametrize(("kind", "reason"), [("np.ndarray", "may-alias"), ("jax.Array", "patch")])
def test_a_numpy_leaf_of_a_module_may_change(kind: str, reason: str) -> None:
    text = SPLICED.replace("buffer", "offset" if kind == "np.ndarray" else "xs_seen")
    text = text.replace("out = []", "out, xs_seen = [], np.zeros(3)").replace("{kind}", kind)
    assert reasons(program(text)) == [reason]
