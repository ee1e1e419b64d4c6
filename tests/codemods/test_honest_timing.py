"""What honest-timing says of times, and where it is silent."""

from __future__ import annotations

import textwrap

import pytest
from harness import program, reasons
from jitmod.codemods.honest_timing import HonestTiming

CODEMOD = HonestTiming()
HEAD = """
import time

@jax.jit
def f(x):
    return jnp.sin(x) @ x

def show(result):
    print(result.shape)
"""
CASES = {
    "two names": ("f(x)\nt0 = time.time()\ny = f(x)\nt1 = time.time()\nprint(t1 - t0)", ["unblocked-timing"]),
    "both": ("t0 = time.time()\ny = f(x)\nprint(time.time() - t0)", ["unblocked-timing", "cold-timing"]),
    "a loop of calls": (
        "f(x)\nt0 = time.perf_counter()\nfor _ in range(9):\n    y = f(x)\nt = time.perf_counter() - t0",
        ["unblocked-timing"],
    ),
    "every round": (
        "for _ in range(9):\n    t0 = time.time()\n    y = f(x)\n    print(time.time() - t0)", ["unblocked-timing"]),
    "another result is waited for": (
        "f(x)\nt0 = time.time()\nfloat(f(x))\ny = f(x)\nprint(time.time() - t0)", ["unblocked-timing"]),
    "a warm-up of another": ("show(x)\nt0 = time.time()\nf(x).block_until_ready()\nprint(time.time() - t0)",
                             ["cold-timing"]),
    "waits around": ("f(x)\nt0 = time.time()\njax.block_until_ready(f(x))\nprint(time.time() - t0)", []),
    "waits behind": ("f(x)\nt0 = time.time()\ny = f(x)\ny.block_until_ready()\nprint(time.time() - t0)", []),
    "reads a number": ("f(x)\nt0 = time.time()\ny = float(f(x).sum())\nprint(time.time() - t0)", []),
    "shows it": ("f(x)\nt0 = time.time()\nprint(f(x))\nprint(time.time() - t0)", []),
    "numpy": ("f(x)\nt0 = time.time()\ny = np.asarray(f(x))\nprint(time.time() - t0)", []),
    "a function of the project's own": ("f(x)\nt0 = time.time()\nshow(f(x))\nprint(time.time() - t0)", []),
    "no work": ("f(x)\nt0 = time.time()\nshow(x)\nprint(time.time() - t0)", []),
    "no clock": ("t0 = x\ny = f(x)\nprint(y - t0)", []),
    "a name that is bound twice": (
        "f(x)\nt0 = time.time()\nif x is None:\n    t0 = 0\ny = f(x)\nprint(time.time() - t0)", []),
}  # fmt: skip


@pytest.mark.parametrize(("body", "wanted"), CASES.values(), ids=CASES)
def test_what_is_said(body: str, wanted: list[str]) -> None:
    assert reasons(CODEMOD, program(f"{HEAD}\ndef main(x):\n{textwrap.indent(body, '    ')}\n")) == wanted
