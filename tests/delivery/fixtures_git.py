"""A repository to work on, and git with a configuration of its own."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from jitmod.delivery.repository import Repository

SOURCE = """\
from speed import slow


def first(x):
    return slow(x)


def bad(x):
    return slow(x)


def second(x):
    # twice, the same text
    y = slow(x)
    y = slow(x)
    return y


def nothing():
    return slow()
"""


def run_git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def snapshot(root: Path) -> dict[str, str]:
    """A digest of every file outside of .git, and of what of .git belongs to the user's tree."""
    files = [path for path in root.rglob("*") if path.is_file() and ".git" not in path.relative_to(root).parts]
    files += [root / ".git" / name for name in ("HEAD", "index", "config", "refs/stash", "logs/refs/stash")]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.exists()}


@pytest.fixture(autouse=True)
def isolated_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("GIT_") or name == "EMAIL"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "no-gitconfig"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))


@pytest.fixture
def git(checkout: Path) -> Callable[..., str]:
    """Run git in the checkout."""
    return lambda *arguments: run_git(checkout, *arguments)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A committed project with one file of patches, a workload, and an identity."""
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "bench").mkdir()
    (root / "src" / "app.py").write_text(SOURCE)
    (root / "bench" / "work.py").write_text("def run():\n    return 1\n")
    (root / "pyproject.toml").write_text(
        '[[tool.jitmod.workloads]]\nname = "work"\nrun = "bench/work.py:run"\ncovers = ["src/**"]\n'
    )
    run_git(root, "init", "--quiet", "--initial-branch=main")
    run_git(root, "config", "user.name", "Ada")
    run_git(root, "config", "user.email", "ada@example.org")
    run_git(root, "add", ".")
    run_git(root, "commit", "--quiet", "-m", "start")
    return root


@pytest.fixture
def repository(checkout: Path) -> Repository:
    return Repository.around(checkout)
