"""Which comparisons are told on a patch: those that rounding may break."""

from __future__ import annotations

from jitmod.codemods.donate import Donate
from jitmod.codemods.vmapify import Vmapify

from jitmod.model import Patch
from jitmod.rewrite.codemod import Codemod, scan
from jitmod.source.document import Document
from jitmod.source.project import Project

SCORES = """\
import equinox as eqx
import jax
import jax.numpy as jnp


def predict(net: eqx.nn.MLP, xs: jax.Array):
    return jnp.stack([net(x) for x in xs])


def best(net: eqx.nn.MLP, xs: jax.Array):
    return predict(net, xs).max()


def show(net: eqx.nn.MLP, xs: jax.Array):
    print(predict(net, xs))


class Runner:
    def count(self, net: eqx.nn.MLP, xs: jax.Array):
        return int((predict(net, xs) > 0).sum())
"""
TESTS = """\
import numpy as np
import pytest
from scores import Runner, best, predict, show


def test_array(net, xs):
    assert (predict(net, xs) == np.load("x.npy")).all()  # !


def test_names(net, xs):
    y = predict(net, xs)
    z = y.sum()
    z += 1
    assert y.shape == (3, 2) and len(y) == 3 and y.dtype == "float32"
    assert z == pytest.approx(1.5)
    np.testing.assert_allclose(y, 1)
    assert z == 1.5  # !
    assert z > 1.5 and y is not None
    if z == 2.5:
        print("rare")


def test_caller(net, xs):
    np.testing.assert_array_equal(best(net, xs), 4.0)  # !
    np.testing.assert_equal(best(net, xs), pytest.approx(4.0))
    assert np.array_equal(predict(net, xs), predict(net, xs))
    assert show(net, xs) == None


class TestRunner:
    def test_whole(self, net, xs):
        assert Runner().count(net, xs) == 3

    def test_text(self, net, xs):
        self.assertEqual(best(net, xs), 4.0)  # !
        assert str(best(net, xs)) == "4.0"


def other(net, xs):
    assert len(xs) == 3
    return xs == 4
"""


def patches(codemod: Codemod) -> list[Patch]:
    texts = {"scores.py": SCORES, "tests/test_scores.py": TESTS}
    project = Project.of({path: Document.parse(path, text.encode()) for path, text in texts.items()})
    return [f for f in scan([codemod], project, ["scores.py"]).findings if isinstance(f, Patch)]


def test_exact_comparisons_of_what_a_patch_computes_are_told() -> None:
    (patch,) = patches(Vmapify())
    lines = [n for n, line in enumerate(TESTS.splitlines(), 1) if line.endswith("# !")]
    assert patch.compared == tuple(f"tests/test_scores.py:{line}" for line in lines)


def test_nothing_is_told_where_nothing_is_rounded() -> None:
    assert not Donate.rounds and Vmapify.rounds
