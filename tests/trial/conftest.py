"""A tiny project without git, and a way to try a candidate text of its one module."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from jitmod.source.config import GateSettings, Workload
from jitmod.trial.trial import Trial, try_arms

NET = dedent(
    """\
    import sys

    import jax
    import jax.numpy as jnp

    from .layers import layer


    def score(w, xs):
        out = []
        for x in xs:
            y = layer(w, x)
            out.append(y)
        print("mean", float(jnp.mean(out[0])))
        return jnp.stack(out), jnp.sum(out[-1])


    def unused(x):
        return x + 1.0
    """
)
LAYERS = dedent(
    """\
    import jax.numpy as jnp

    from . import net


    def layer(w, x):
        return jnp.tanh(w @ x)
    """
)
BENCH = dedent(
    """\
    import jax

    from app.net import score


    def setup():
        one, two = jax.random.split(jax.random.key(0))
        return jax.random.normal(one, (32, 32)), list(jax.random.normal(two, (32, 32)))


    def run(w, xs):
        return score(w, xs)
    """
)
LOOP = "    out = []\n    for x in xs:\n        y = layer(w, x)\n        out.append(y)\n"
MAPPED = NET.replace(LOOP, "    out = _layers(w, xs)\n").replace("jnp.stack(out)", "out").replace(
    "def score", "@jax.jit\ndef _layers(w, xs):\n    return jax.vmap(layer, (None, 0))(w, jnp.stack(xs))\n\n\ndef score"
)  # fmt: skip

WORKLOAD = Workload("bench", "bench.py:run", "bench.py:setup")

Try = Callable[..., Trial]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """CI runs one test of each kind; `make slow` runs the others of this folder."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.get_closest_marker("slow") and "JITMOD_SLOW" not in os.environ:
            item.add_marker(pytest.mark.skip(reason="one of its kind runs; make slow runs the others"))


def one_of_each_kind(names: Collection[str]) -> list[Any]:
    """Parameters for planted candidates: a kind is what stands before the colon, and its first one is not slow."""
    first: dict[str, str] = {}
    for name in names:
        first.setdefault(name.partition(":")[0], name)
    return [pytest.param(name, marks=[pytest.mark.slow] if name not in first.values() else []) for name in names]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write(tmp_path, {"app/__init__.py": "", "app/net.py": NET, "app/layers.py": LAYERS, "bench.py": BENCH})
    return tmp_path


@pytest.fixture
def try_text(project: Path) -> Try:
    """Try `text` as the project's app/net.py, or the texts of `files`."""

    def attempt(
        text: str,
        workload: Workload = WORKLOAD,
        budget: float = 240.0,
        files: dict[str, str] | None = None,
        **options: Any,
    ) -> Trial:
        return try_arms(
            files or {"app/net.py": text}, code_root=project, user_root=project, workload=workload,
            settings=GateSettings(), python=Path(sys.executable), budget=budget, **options,
        )  # fmt: skip

    return attempt


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(dedent(text), encoding="utf-8")
