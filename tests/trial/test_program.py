"""A workload inside a world: what it is called with, and what is written down."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jitmod.trial.child import state
from jitmod.trial.child.capture import Router
from jitmod.trial.child.finder import Tree
from jitmod.trial.child.parity import Reference
from jitmod.trial.child.program import Program, WorkloadError
from jitmod.trial.child.sampling import Arm
from jitmod.trial.child.world import World

from .conftest import write

WORK = """\
import random
import warnings

import jax.numpy as jnp
import numpy as np


def zeros():
    return np.zeros(3), 2.0


def in_place(x, step):
    assert x[0] == 0.0, "these arguments were used before"
    x += step
    return x.sum()


def draws():
    return np.random.rand(2), random.random()


def same(*values):
    return values


def numbered(rep):
    return rep


def fails():
    raise LookupError("no luck")


def interrupted():
    raise KeyboardInterrupt("by itself")


BUFFER = np.zeros(3)


def reused(rep):
    BUFFER[:] = rep
    return BUFFER


def iterators():
    return iter([1, 2]), (n for n in (3, 4))


def used_up(one, two):
    return sum(one) + sum(two)


def first(output):
    return output[0][0]
"""


def program(root: Path, run: str, **functions: str) -> Program:
    write(root, {"work.py": WORK})
    workload = {"run": f"work.py:{run}"} | {name: f"work.py:{function}" for name, function in functions.items()}
    routers = Router("stdout", sys.stdout), Router("stderr", sys.stderr)
    return Program(World(Tree(str(root), str(root), {})), workload, 7, routers)


def data(observed: list[Any]) -> list[Any]:
    return [entry.data.tolist() if hasattr(entry.data, "tolist") else entry.data for entry in observed]


def test_arguments_are_built_anew_where_a_call_changes_them(tmp_path: Path) -> None:
    changing = program(tmp_path, "in_place", setup="zeros")
    observed = changing.observe(0)
    assert observed.error is None and observed.mutates
    assert data(observed.output) == [6.0]
    assert Arm(changing, mutates=True).sample(4, 0).calls == 4
    with pytest.raises(AssertionError, match="used before"):
        Arm(changing, mutates=False).sample(4, 0)


def test_iterators_are_built_anew(tmp_path: Path) -> None:
    used = program(tmp_path, "used_up", setup="iterators")
    observed = used.observe(0)
    assert observed.mutates and data(observed.output) == [10]
    assert not program(tmp_path, "same", setup="zeros").observe(0).mutates


def test_whatever_a_call_raises_is_told(tmp_path: Path) -> None:
    error = program(tmp_path, "interrupted").observe(0).error
    assert error is not None and (error["type"], error["text"]) == ("KeyboardInterrupt", "by itself")


def test_output_is_looked_at_again_after_the_next_call(tmp_path: Path) -> None:
    reusing, numbered = program(tmp_path, "reused"), program(tmp_path, "numbered")
    observed = [reusing.observe(rep) for rep in (0, 1)]
    assert [data(o.earlier) for o in observed] == [[], [[1.0, 1.0, 1.0]]]
    assert [numbered.observe(rep).earlier for rep in (0, 1)] == [[], []]
    anew = replace(observed[1], earlier=[])
    failure = Reference((anew,), (anew,), 1.0, None).judge(0, observed[1]).failure
    assert failure is not None and failure["test"] == "effects" and failure["path"] == "earlier output"


def test_settings_of_jax_that_come_too_late_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_ENABLE_X64", "0")
    assert state.set_too_late() == []
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert state.set_too_late() == ["JAX_ENABLE_X64", "XLA_FLAGS"]
    with pytest.raises(WorkloadError, match="JAX_ENABLE_X64, XLA_FLAGS"):
        program(tmp_path, "draws")


def test_generators_are_seeded_alike_in_every_world(tmp_path: Path) -> None:
    one, two = (program(tmp_path, "same", setup="draws") for _ in range(2))
    assert data(one.observe(0).output) == data(two.observe(0).output)
    assert data(one.observe(0).output) != data(one.observe(1).output)


def test_workload_that_takes_rep_gets_it(tmp_path: Path) -> None:
    numbered = program(tmp_path, "numbered")
    assert numbered.takes_rep and not program(tmp_path, "draws").takes_rep
    assert [data(numbered.observe(rep).output) for rep in (0, 5)] == [[0], [5]]


def test_exception_is_written_down_with_its_place(tmp_path: Path) -> None:
    error = program(tmp_path, "fails").observe(0).error
    assert error is not None
    assert (error["type"], error["text"]) == ("LookupError", "no luck")
    assert error["at"].startswith(str(tmp_path / "work.py"))


@pytest.mark.parametrize(("run", "said"), [("absent", "no function absent"), ("np.pi", "not a function")])
def test_workload_that_cannot_be_called_is_named(run: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=said):
        program(tmp_path, run)


@pytest.mark.parametrize(("factor", "passes"), [(1.01, True), (0.99, False)])
def test_metric_decides_about_values_but_not_about_structure(factor: float, passes: bool, tmp_path: Path) -> None:
    measured = program(tmp_path, "draws", metric="first")
    expected, other = measured.observe(0), program(tmp_path, "draws", metric="first").observe(3)
    assert expected.metric is not None and other.metric is not None
    within = abs(other.metric - expected.metric) / expected.metric
    reference = Reference((expected,), (expected,), 1.0, within * factor)
    failure = reference.judge(0, replace(other, process=expected.process)).failure  # which has drawn from another seed
    assert (failure is None) is passes
    structure = reference.judge(0, program(tmp_path, "numbered").observe(0)).failure
    assert structure is not None and structure["test"] == "structure"
