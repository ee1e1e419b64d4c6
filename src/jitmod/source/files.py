"""Which files: the project's root, and the Python files and notebooks below it that are the project's own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pathspec

SUFFIXES = (".py", ".ipynb")
ROOT_MARKERS = (".git", "pyproject.toml")  # of a project, the stronger first

_VERSION_CONTROL = (".git", ".hg", ".svn", ".bzr", "_darcs")
_INSTALLED = (".venv", "venv", "site-packages", "node_modules", ".direnv", "__pypackages__")
_CACHES = ("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".ipynb_checkpoints")
_BUILT = (".tox", ".nox", ".eggs", "build", "dist", "_build")
_SKIPPED = frozenset((*_VERSION_CONTROL, *_INSTALLED, *_CACHES, *_BUILT))


def project_root(path: Path) -> Path:
    """The top of the git checkout around `path`, else the nearest folder with a pyproject.toml, else its own folder."""
    path = path.resolve()
    folder = path if path.is_dir() else path.parent
    around = (folder, *folder.parents)
    for marker in ROOT_MARKERS:
        for candidate in around:
            if (candidate / marker).exists():
                return candidate
    return folder


def discover(root: Path, paths: Iterable[Path], exclude: Iterable[str] = ()) -> list[str]:
    """The `.py` files and notebooks at and below `paths`, relative to `root`, with `/`, sorted.

    Left out are version control, environments, caches, build folders, other repositories, symbolic links (what they
    point to inside the root is found by its own path), what `.gitignore` files ignore, and what `exclude` (patterns as
    in a `.gitignore`, relative to `root`) names. A file that `paths` names itself is taken even where it is ignored.
    """
    root = root.resolve()
    excluded = _Rules("", pathspec.GitIgnoreSpec.from_lines(exclude))
    found: set[str] = set()
    for path in paths:
        path = path.resolve()
        if not path.is_relative_to(root):
            continue
        relative = path.relative_to(root).as_posix()
        if path.is_file():
            found.add(relative)
        elif path.is_dir():
            found.update(_walk(root, "" if relative == "." else relative, excluded))
    return sorted(found)


@dataclass(frozen=True)
class _Rules:
    """The patterns of one file of rules; they hold below `folder`, which is `""` or ends with `/`."""

    folder: str
    spec: pathspec.GitIgnoreSpec

    def verdict(self, path: str) -> bool | None:
        """True: ignored; False: taken back by a `!` pattern; None: not mentioned."""
        return self.spec.check_file(path.removeprefix(self.folder)).include


def _walk(root: Path, start: str, excluded: _Rules) -> Iterator[str]:
    rules = [excluded]
    above = Path(start).parts
    for depth in range(len(above)):  # the rules of the folders above the start, which itself is read by `_below`
        rules += _read_rules(root, "/".join(above[:depth]))
    yield from _below(root, start, tuple(rules))


def _below(root: Path, folder: str, rules: tuple[_Rules, ...]) -> Iterator[str]:
    rules += _read_rules(root, folder)
    try:
        entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if entry.is_symlink() or entry.name in _SKIPPED:
            continue
        if entry.is_dir():
            if not _is_foreign(Path(entry.path)) and not _ignored(f"{path}/", rules):
                yield from _below(root, path, rules)
        elif entry.name.endswith(SUFFIXES) and entry.is_file() and not _ignored(path, rules):
            yield path


def _is_foreign(folder: Path) -> bool:
    """Another repository (a submodule, a vendored clone) or an environment."""
    return (folder / ".git").exists() or (folder / "pyvenv.cfg").exists()


def _ignored(path: str, rules: tuple[_Rules, ...]) -> bool:
    excluded, *gitignores = rules
    if excluded.verdict(path):
        return True
    for one in reversed(gitignores):  # the nearest file of rules that mentions the path decides, as in git
        verdict = one.verdict(path)
        if verdict is not None:
            return verdict
    return False


def _read_rules(root: Path, folder: str) -> tuple[_Rules, ...]:
    names = [root / folder / ".gitignore"] if folder else [root / ".git" / "info" / "exclude", root / ".gitignore"]
    rules = []
    for name in names:
        try:
            lines = name.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        rules.append(_Rules(f"{folder}/" if folder else "", pathspec.GitIgnoreSpec.from_lines(lines)))
    return tuple(rules)
