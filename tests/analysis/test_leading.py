"""What functions come to through each other does not depend on which of them is asked about first."""

from __future__ import annotations

import ast
from itertools import permutations

import pytest

from jitmod.analysis.channels import of_function
from jitmod.analysis.composites import Dispatching
from jitmod.analysis.effects import Effects
from jitmod.analysis.jits import Contexts, analyses
from jitmod.analysis.tracing import EagerCode
from jitmod.source.document import Document
from jitmod.source.project import Function, Project

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


def analysed(text: str) -> tuple[Effects, Contexts, dict[str, Function]]:
    """The analyses of a file, with nothing asked yet, and its functions by name."""
    document = Document.parse("m.py", text.encode())
    project = Project.of({"m.py": document})
    return *analyses(project), {f.name: f for f in project.module(document).functions.values()}


def answers(text: str, kind: type[EagerCode], order: tuple[str, ...]) -> dict[str, tuple[bool, bool]]:
    """For each function: whether a call of it is worth a jit, and whether a trace of it would unroll a loop."""
    effects, _, functions = analysed(text)
    code = kind(functions["run"].module, effects)
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


def test_a_cycle_of_functions_has_what_one_of_them_does() -> None:
    for order in permutations(NAMES):
        effects, _, functions = analysed(CYCLE.format(heavy="print(n)"))
        printing = [any(a.channel == "text" for a in of_function(functions[name], effects)) for name in order]
        assert printing == [True] * len(NAMES)


@pytest.mark.parametrize(
    ("caller", "contexts"),
    [("", {"eager"}), ("@jax.jit\n", {"traced"}), ("first(None, 1, 2)\n\n\n@jax.jit\n", {"traced", "eager"})],
)
def test_a_cycle_of_functions_runs_where_one_of_them_is_called(caller: str, contexts: set[str]) -> None:
    text = CYCLE.format(heavy="pass").replace("def run(", caller + "def run(")
    for order in permutations(NAMES):
        _, found, functions = analysed(text)
        assert [found.of(functions[name]) for name in order] == [contexts] * len(NAMES)
