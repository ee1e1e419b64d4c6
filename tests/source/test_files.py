"""Which files belong to a project."""

from __future__ import annotations

from pathlib import Path

import pytest

from jitmod.source.files import discover, project_root


def make(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(".git/hooks/a.py", id="version control"),
        pytest.param(".venv/lib/a.py", id="environment by name"),
        pytest.param("lib/site-packages/a.py", id="site-packages"),
        pytest.param("web/node_modules/a.py", id="node_modules"),
        pytest.param("__pycache__/a.py", id="cache"),
        pytest.param("build/lib/a.py", id="build folder"),
        pytest.param("a.pyi", id="stub"),
        pytest.param("a.txt", id="other suffix"),
    ],
)
def test_left_out(tmp_path: Path, path: str) -> None:
    make(tmp_path, path, "src/kept.py")
    assert discover(tmp_path, [tmp_path]) == ["src/kept.py"]


def test_environments_and_other_repositories_are_known_by_their_marks(tmp_path: Path) -> None:
    make(tmp_path, "myenv/pyvenv.cfg", "myenv/lib/a.py", "vendored/.git/HEAD", "vendored/b.py", "submodule/.git")
    make(tmp_path, "submodule/c.py", "kept.py")
    assert discover(tmp_path, [tmp_path]) == ["kept.py"]


def test_gitignore_of_every_level(tmp_path: Path) -> None:
    make(tmp_path, "gen/a.py", "gen/keep.py", "sub/gen_b.py", "sub/c.py", "sub/deep/only_here.py", "only_here.py")
    make(tmp_path, ".git/info/exclude")
    (tmp_path / ".gitignore").write_text("gen_*.py\n/gen/*\n!/gen/keep.py\n")
    (tmp_path / "sub" / ".gitignore").write_text("deep/only_here.py\n!gen_b.py\n")
    (tmp_path / ".git" / "info" / "exclude").write_text("sub/c.py\n")
    assert discover(tmp_path, [tmp_path]) == ["gen/keep.py", "only_here.py", "sub/gen_b.py"]


def test_rules_of_folders_above_the_start_hold(tmp_path: Path) -> None:
    make(tmp_path, "a/b/skip.py", "a/b/keep.py")
    (tmp_path / "a" / ".gitignore").write_text("skip.py\n")
    assert discover(tmp_path, [tmp_path / "a" / "b"]) == ["a/b/keep.py"]


def test_exclude_patterns_are_relative_to_the_root(tmp_path: Path) -> None:
    make(tmp_path, "old/a.py", "src/old/b.py", "src/c_pb2.py", "src/d.py")
    assert discover(tmp_path, [tmp_path], ["/old/", "*_pb2.py"]) == ["src/d.py", "src/old/b.py"]
    assert discover(tmp_path, [tmp_path / "old"], ["/old/"]) == []


def test_a_named_file_is_taken_even_if_ignored(tmp_path: Path) -> None:
    make(tmp_path, "gen.py", "script", "other.py")
    (tmp_path / ".gitignore").write_text("gen.py\n")
    assert discover(tmp_path, [tmp_path / "gen.py", tmp_path / "gen.py"]) == ["gen.py"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    make(root, "src/a.py")
    make(outside, "b.py")
    (root / "out").symlink_to(outside)
    (root / "out.py").symlink_to(outside / "b.py")
    (root / "loop").symlink_to(root)
    assert discover(root, [root, root / "out.py"]) == ["src/a.py"]


def test_order_does_not_depend_on_the_order_of_paths(tmp_path: Path) -> None:
    make(tmp_path, "b/z.py", "b/a.py", "a.py", "é/ü.py")
    expected = ["a.py", "b/a.py", "b/z.py", "é/ü.py"]
    assert discover(tmp_path, [tmp_path / "é", tmp_path / "b", tmp_path / "a.py", tmp_path / "b"]) == expected


@pytest.mark.parametrize(
    ("marks", "start", "root"),
    [
        pytest.param(["top/.git/HEAD", "top/pkg/pyproject.toml"], "top/pkg/src", "top", id="git comes first"),
        pytest.param(["top/.git", "top/pkg/x"], "top/pkg/src/a.py", "top", id="a worktree's .git is a file"),
        pytest.param(["top/pkg/pyproject.toml", "top/pyproject.toml"], "top/pkg/src", "top/pkg", id="nearest project"),
        pytest.param([], "top/pkg/src", "top/pkg/src", id="the folder itself"),
        pytest.param([], "top/pkg/src/a.py", "top/pkg/src", id="the folder of a file"),
    ],
)
def test_project_root(tmp_path: Path, marks: list[str], start: str, root: str) -> None:
    make(tmp_path, "top/pkg/src/a.py", *marks)
    assert project_root(tmp_path / start) == tmp_path / root
