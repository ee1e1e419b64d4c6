"""What functions come to through each other does not depend on which of them is asked about first."""

from __future__ import annotations

import ast
from itertools import permutations

import pytest

from jitmod.analysis.composites import Dispatching
from jitmod.analysis.jits import analyses
from jitmod.analysis.tracing import EagerCode
from jitmod.source.document import Document
from jitmod.source.project import Project

NAMES = ("first", "second", "third")
CYCLE = """\
import equinox as eqx
import jax


@jax.jit
def shift(net, x):
    return x + 1


def first(net: eqx.nn.MLP, x: jax.Array, n: int):
    if n > 0:
        x = second(net, x, n - 1)
    {heavy}
    return x


def second(net: eqx.nn.MLP, x: jax.Array, n: int):
    return third(net, x, n)


def third(net: eqx.nn.MLP, x: jax.Array, n: int):
    return first(net, x, n)


def run(net: eqx.nn.MLP, x: jax.Array):
    first(net, x, 3)
    second(net, x, 3)
    third(net, x, 3)
"""


def answers(text: str, kind: type[EagerCode], order: tuple[str, ...]) -> dict[str, tuple[bool, bool]]:
    """For each function: whether a call of it is worth a jit, and whether a trace of it would unroll a loop."""
    document = Document.parse("m.py", text.encode())
    project = Project.of({"m.py": document})
    module = project.module(document)
    code = kind(module, analyses(project)[0])
    functions = {f.name: f for f in module.functions.values()}
    run = functions["run"].node
    assert isinstance(run, ast.FunctionDef)
    calls = dict(zip(NAMES, run.body, strict=True))
    return {name: (bool(code.heavy_calls(calls[name])), code.iterates(functions[name])) for name in order}


@pytest.mark.parametrize(("kind", "call"), [(EagerCode, "net(x)"), (Dispatching, "shift(net, x)")])
def test_a_cycle_of_functions_is_heavy_as_a_whole(kind: type[EagerCode], call: str) -> None:
    for order in permutations(NAMES):
        assert answers(CYCLE.format(heavy=f"x = {call}"), kind, order) == dict.fromkeys(NAMES, (True, False))
        looping = CYCLE.format(heavy=f"for _ in range(3):\n        x = {call}")
        assert answers(looping, kind, order) == dict.fromkeys(NAMES, (False, True))
        assert answers(CYCLE.format(heavy="x = x + 1"), kind, order) == dict.fromkeys(NAMES, (False, False))
