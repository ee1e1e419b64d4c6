"""Scripts and tests as workloads: each arm runs its own, and what they compute and check is what is compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

from jitmod.model import Status
from jitmod.source.config import Workload
from jitmod.trial import gate
from jitmod.trial.child.targets import data_names, scratch_names

from .conftest import LAYERS, LOOP, MAPPED, NET, Try, write
from .planted.bench import Trials, trials

__all__ = ["trials"]

SCRIPT = """\
import jax

from app.net import score

one, two = jax.random.split(jax.random.key(0))
w = jax.random.normal(one, (32, 32))


def rows(key):
    return list(jax.random.normal(key, (32, 32)))


if __name__ == "__main__":
    xs = rows(two)
    scores, last = score(w, xs)
"""
TESTS = """\
import jax
import jax.numpy as jnp
import pytest

from app.net import score


@pytest.fixture(params=[32, 16])
def w(request, rows):
    assert request.config is not None and rows
    return jax.random.normal(jax.random.key(0), (request.param, 32))


def test_scores(w, rows, tmp_path):
    folder = tmp_path / "x"
    scores, last = score(w, rows)
    assert not folder.exists()
    assert bool(jnp.isfinite(scores).all())


class TestScore:
    @pytest.mark.parametrize("scale", [2.0])
    def test_bounds(self, rows, scale):
        scores = score(jnp.eye(32), [row * scale for row in rows])[0]
        if scale > 0:
            assert jnp.allclose(scores, jnp.tanh(scale * jnp.stack(rows)), atol=1e-5)
            return
        raise ValueError


def test_fails(rows):
    pytest.fail("on purpose")


@pytest.mark.skip(reason="not here")
def test_skipped():
    raise ValueError
"""
CONFTEST = """\
import jax
import pytest


@pytest.fixture(scope="session")
def rows():
    return list(jax.random.normal(jax.random.key(1), (32, 32)))
"""
WRONG = NET.replace("jnp.stack(out)", "jnp.stack(out[::-1])")


@pytest.fixture
def tested(project: Path) -> Path:
    write(project, {"work/script.py": SCRIPT, "tests/conftest.py": CONFTEST, "tests/test_net.py": TESTS,
                    "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--no-such-option"\n'})  # fmt: skip
    return project


@pytest.mark.parametrize(
    ("target", "where"),
    [
        ("work/script.py", "output['scores']"),
        ("tests/test_net.py::test_scores[32]", "output['scores']"),
        ("tests/test_net.py::TestScore::test_bounds[2.0]", "AssertionError"),
    ],
)
def test_wrong_candidate_is_rejected(target: str, where: str, tested: Path, try_text: Try) -> None:
    verdict = try_text(WRONG, Workload("w", target)).verdict
    assert verdict.status is Status.REJECTED, verdict.why
    assert where in verdict.why


@pytest.mark.slow
@pytest.mark.parametrize("target", ["work/script.py", "tests/test_net.py::test_scores[32]"])
def test_right_candidate_is_accepted(target: str, tested: Path, try_text: Try) -> None:
    trial = try_text(MAPPED, Workload("w", target), new_functions=["_layers"])
    assert trial.verdict.status is Status.ACCEPTED, trial.verdict.why
    assert trial.verdict.parity["site"]["compared"] > 0
    assert trial.verdict.parity["sabotage"] == {"scaled": "seen"}
    assert trial.verdict.compiles["candidate"]["warm"] == 0


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("tests/test_net.py::test_absent", "no such test"),
        ("tests/test_net.py::test_scores", "2 match: test_scores[32], test_scores[16]"),
        ("tests/test_net.py::test_skipped", "not here"),
        ("tests/test_net.py::test_fails", "AssertionError: on purpose"),
        ("tests/absent.py::test_x", "no file tests/absent.py"),
        ("work/absent.py", "no file work/absent.py"),
    ],
)
def test_what_cannot_be_run_is_said(target: str, said: str, tested: Path, try_text: Try) -> None:
    verdict = try_text(WRONG, Workload("w", target)).verdict
    assert verdict.status is Status.UNPROVEN, verdict.why
    assert said in verdict.why


def test_script_that_came_with_the_change_runs_in_both_arms(trials: Trials) -> None:
    trials.write({"app/__init__.py": "", "app/net.py": NET, "app/layers.py": LAYERS})
    files = {"app/net.py": NET.replace("out[-1]", "out[-2]"), "new.py": SCRIPT}
    verdict = trials.screen(files, run="new.py", setup=None)
    assert verdict is not None and (verdict.status, verdict.test) == (Status.REJECTED, "values"), verdict
    assert "output['last']" in verdict.why


LOOSE = """\
import jax
import jax.numpy as jnp

scale = 2.0
xs = jax.random.normal(jax.random.key(0), (6, 4))
out = []
for x in xs:
    out.append(jnp.tanh(x) * scale)
total = jnp.sum(jnp.stack(out))
"""
FOLDED = LOOSE.replace("out = []\nfor x in xs:\n    out.append(jnp.tanh(x) * scale)\n", "out = {}\n")


def test_script_whose_own_statements_changed_is_tried_on_other_values(trials: Trials) -> None:
    trials.write({"work.py": LOOSE})
    space: dict[str, Any] = {}
    exec(LOOSE, space)
    constant = f"list(jnp.array({jnp.stack(space['out']).tolist()}))"
    job, found = trials.explore({"work.py": FOLDED.format(constant)}, run="work.py", setup=None)
    verdict = gate.screen(job, found)
    assert found["parity"]["scaled_script"] == "differs"
    assert verdict is not None and (verdict.status, verdict.test) == (Status.REJECTED, "values"), verdict
    assert "with the script's values scaled" in verdict.why
    job, found = trials.explore({"work.py": FOLDED.format("list(jnp.tanh(xs) * scale)")}, run="work.py", setup=None)
    assert gate.screen(job, found) is None and found["parity"]["scaled_script"] == "agrees"


def test_assertions_are_how_a_test_sees(tested: Path, try_text: Try) -> None:
    checks = "from app.net import score\n\n\ndef test_it(rows, w=None):\n    assert abs(float(score(rows[0][:, None] * "
    checks += "rows[1], rows)[1])) < {bound}\n"
    write(tested, {"tests/test_blind.py": checks.format(bound="1e9")})
    right = NET.replace(LOOP, "    out = [layer(w, x) for x in xs]\n").replace(
        'print("mean", float(jnp.mean(out[0])))', "pass")  # fmt: skip
    write(tested, {"app/net.py": NET.replace('print("mean", float(jnp.mean(out[0])))', "pass")})
    verdict = try_text(right, Workload("w", "tests/test_blind.py::test_it")).verdict
    assert verdict.status is Status.UNPROVEN and "blind" in verdict.why


def test_names_that_a_script_binds() -> None:
    text = "import a\nx, (y, *z) = 1, (2, 3)\nfor i in [k for k in z]:\n    w: int = i\n"
    text += "for _ in x:\n    pass\ndef f():\n    inner = 1\nclass C:\n    member = 1\nif (n := 2):\n    __all__ = []\n"
    assert data_names(text) == ("i", "n", "w", "x", "y", "z")
    assert data_names("x = (") == ()


def test_names_of_loops_that_a_change_does_without() -> None:
    text = "n = 0\nfor i, x in xs:\n    y = x\n    n = y\n    z = y\nwhile n:\n    for k in z: pass\n"
    assert scratch_names(text, ["n = z"]) == {"i", "x", "y", "k"}
    assert scratch_names(text, ["n = z", "x + k"]) == {"i", "y"}
    assert scratch_names(text, ["("]) == set()
