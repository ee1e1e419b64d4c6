"""The main job as a user runs it: real analysis, real trials in child processes, real commits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

MODEL = """\
import equinox as eqx
import jax


class Deep(eqx.Module):
    layers: list[eqx.nn.Linear]

    def __init__(self, key):
        self.layers = [eqx.nn.Linear(8, 8, key=k) for k in jax.random.split(key, 6)]

    def __call__(self, x):
        for layer in self.layers:
            x = jax.nn.tanh(layer(x))
        return x
"""

SCORE = """\
import jax
import jax.numpy as jnp

from .model import Deep


def score(model: Deep, xs: jax.Array):
    # every item on its own
    return jnp.stack([model(x) for x in xs])


def never(model: Deep, xs: jax.Array):
    return [model(x) for x in xs]


def rollout(model: Deep, x, n):
    for _ in range(n):
        x = model(x)
    return x
"""

BENCH = """\
import jax

from app.model import Deep
from app.score import never, rollout, score


def setup():
    return Deep(jax.random.key(0)), jax.random.normal(jax.random.key(1), (12, 8))


def run(model, xs):
    return score(model, xs), rollout(model, xs[0], 2)


def unused():
    never(*setup())
"""


CONFIG = """\
[[tool.jitmod.workloads]]
name = "bench"
run = "bench/run.py:run"
setup = "bench/run.py:setup"
"""


def git(root: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True).stdout


def jitmod(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from jitmod.cli.main import main; main()", *words]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {"app/__init__.py": "", "app/model.py": MODEL, "app/score.py": SCORE}
    files |= {"bench/run.py": BENCH, "pyproject.toml": CONFIG}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "config", "user.name", "A User")
    git(tmp_path, "config", "user.email", "user@example.org")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "start")
    return tmp_path


def test_accepted_patches_are_committed_and_nothing_else_changes(project: Path) -> None:
    (project / "app/model.py").write_text(MODEL + "\n# not committed\n")
    before = git(project, "status", "--porcelain", "--ignored"), git(project, "rev-parse", "HEAD")
    first = jitmod(project, "apply", "--codemod", "vmapify", "--format", "json", ".")
    assert first.returncode == 1, first.stderr  # `never` is not reached, and so unproven
    assert "HEAD" in first.stderr  # the tree is dirty, and HEAD is what was tried
    found = {f["symbol"]: f for f in json.loads(first.stdout)["findings"]}
    assert found["score"]["trial"]["verdict"] == "accepted", found["score"]["trial"]["why"]
    assert found["score"]["trial"]["speedup"] > 1
    assert found["never"]["trial"]["verdict"] == "unproven"
    assert (found["rollout"]["status"], found["rollout"]["reason"]) == ("refused", "carried-state")
    assert (git(project, "status", "--porcelain", "--ignored"), git(project, "rev-parse", "HEAD")) == before

    log = git(project, "log", "--format=%an%n%(trailers)", "main..jitmod/vmapify")
    assert log.splitlines()[0] == "A User"
    for trailer in ("Jitmod-Codemod: vmapify", "Jitmod-Speedup: ", "Jitmod-Device: cpu", "Jitmod-Evidence: "):
        assert log.count(trailer) == 1
    changed = git(project, "diff", "--stat", "main", "jitmod/vmapify")
    assert "app/score.py" in changed and "1 file changed" in changed
    assert "# every item on its own" in git(project, "show", "jitmod/vmapify:app/score.py")
    assert git(project, "worktree", "list").count("\n") == 1

    second = jitmod(project, "apply", "--codemod", "vmapify", "--format", "json", ".")
    assert "score" not in {f["symbol"] for f in json.loads(second.stdout)["findings"] if f["status"] == "patch"}
    assert git(project, "rev-list", "--count", "main..jitmod/vmapify").strip() == "1"


def test_dry_run_prints_what_git_applies(project: Path) -> None:
    shown = jitmod(project, "apply", "--codemod", "vmapify", "--dry-run", ".")
    assert shown.returncode == 1
    assert git(project, "status", "--porcelain") == ""
    subprocess.run(["git", "apply", "-"], cwd=project, input=shown.stdout, text=True, check=True)
    assert jitmod(project, "apply", "--codemod", "vmapify", "--dry-run", ".").stdout == ""
