"""The test that --with-test adds: it looks like the user's tests, fails without the patch and passes with it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jitmod.delivery.regression import NoTest, Style, guard_for, regression_test, style_of
from jitmod.model import Edit, Patch, Site, Status, Variant, Verdict
from jitmod.source.config import Workload

LEAK = """\
import equinox as eqx
import jax.numpy as jnp


@eqx.filter_jit
def decay(x, rate):
    return x * rate


def run(x, rep=0):
    return [decay(x, 0.5 * i + rep) for i in range(3)]


def setup():
    return (jnp.arange(3.0),)
"""
FIXED = LEAK.replace("decay(x, 0.5 * i + rep)", "decay(x, jnp.asarray(0.5 * i + rep))").encode()
PATCH = Patch("trace-scalars", Site("work.py", 11, 13, 11, "run"), "it leaks", (Variant("traced", (Edit(0, 0, ""),)),))
WORKLOAD = Workload("work", "work.py:run", "work.py:setup")
EVIDENCE = {"explore": {"takes_rep": True}}


def verdict(warm: tuple[int, int], cold: tuple[int, int]) -> Verdict:
    arms = {arm: {"warm": w, "warm_calls": 9, "cold": c} for arm, w, c in
            zip(("baseline", "candidate"), warm, cold, strict=True)}  # fmt: skip
    return Verdict(Status.ACCEPTED, "faster", compiles=arms)


def project(root: Path, text: str, tests: dict[str, str]) -> Path:
    (root / "work.py").write_text(text)
    for path, content in tests.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    return root


def test_later_calls_compile_nothing(tmp_path: Path) -> None:
    root = project(tmp_path, LEAK, {"checks/test_a.py": "def test_a():\n    pass\n"})
    found = guard_for(PATCH, verdict((27, 0), (4, 3)), EVIDENCE, WORKLOAD, root=root, user_root=root, content=FIXED,
                      python=Path(sys.executable))  # fmt: skip
    assert found.path == "checks/test_compilations_of_run.py"
    assert "def test_compilations_of_run():\n" in found.text and "rep=rep" in found.text
    assert (root / "work.py").read_text() == LEAK, "the sources are as they were"
    assert [f.name for f in root.joinpath("checks").iterdir()] == ["test_a.py"]


def test_the_first_call_compiles_as_often_as_it_should_in_the_style_of_unittest(tmp_path: Path) -> None:
    case = "import unittest\n\n\nclass A(unittest.TestCase):\n    def test_a(self):\n        pass\n"
    root = project(tmp_path, LEAK, {"tests/unit/test_a.py": case})
    found = guard_for(PATCH, verdict((0, 0), (3, 2)), EVIDENCE, WORKLOAD, root=root, user_root=root, content=FIXED,
                      python=Path(sys.executable))  # fmt: skip
    assert found.path == "tests/unit/test_compilations_of_run.py"
    assert "class RunCompilations(unittest.TestCase):\n" in found.text
    assert "parents[2]" in found.text
    assert not (root / found.path).exists()


def test_a_test_that_the_patch_does_not_change_is_no_test(tmp_path: Path) -> None:
    root = project(tmp_path, FIXED.decode(), {})
    with pytest.raises(NoTest, match="passes without the patch"):
        guard_for(PATCH, verdict((27, 0), (4, 3)), EVIDENCE, WORKLOAD, root=root, user_root=root, content=FIXED,
                  python=Path(sys.executable))  # fmt: skip
    assert [p.name for p in root.iterdir()] == ["work.py"], "the folder of the tests is gone too"


def test_a_test_of_that_name_is_never_written_over(tmp_path: Path) -> None:
    root = project(tmp_path, LEAK, {"tests/test_compilations_of_run.py": "# mine\n"})
    with pytest.raises(NoTest, match="exists already"):
        guard_for(PATCH, verdict((27, 0), (4, 3)), EVIDENCE, WORKLOAD, root=root, user_root=root, content=FIXED,
                  python=Path(sys.executable))  # fmt: skip
    assert (root / "tests/test_compilations_of_run.py").read_text() == "# mine\n"


def test_counts_that_do_not_differ_make_no_test() -> None:
    with pytest.raises(NoTest, match="compile as often"):
        regression_test(PATCH, verdict((0, 0), (3, 3)), EVIDENCE, WORKLOAD, Style("tests", False))
    with pytest.raises(NoTest, match="no function of a file"):
        script = Workload("script", "train.py")
        regression_test(PATCH, verdict((27, 0), (4, 3)), EVIDENCE, script, Style("tests", False))


def test_the_style_is_that_of_most_tests(tmp_path: Path) -> None:
    assert style_of(tmp_path) == Style("tests", False)
    case = "from unittest import TestCase\n"
    texts = dict.fromkeys(["src/app/tests/test_a.py", "src/app/tests/b_test.py"], case)
    texts |= dict.fromkeys(["other/test_c.py", ".venv/test_d.py", ".venv/test_e.py", ".venv/test_f.py"], "")
    assert style_of(project(tmp_path, "", texts)) == Style("src/app/tests", True)
