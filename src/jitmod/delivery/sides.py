"""The two sides of a trial that a user names: revisions, a revision and the working tree, or two folders."""

from __future__ import annotations

import contextlib
import io
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from jitmod.delivery.repository import DeliveryError, GitFailed, Repository, scrubbed_environment
from jitmod.source.files import SUFFIXES, discover
from jitmod.source.notebook import SUFFIX
from jitmod.trial.notebooks import module_text
from jitmod.trial.scratch import scratch

Overlay = dict[str, str | None]


@dataclass(frozen=True)
class Sides:
    """The baseline as files at `code_root`; the candidate as the code of each source that differs (None: gone).

    Sources are Python files and notebooks. Everything else, data and cwd above all, comes from `user_root` for both.
    `unseen` are other files that differ.
    """

    code_root: Path
    user_root: Path
    candidate: Overlay
    base_commit: str = ""
    unseen: tuple[str, ...] = ()


@contextlib.contextmanager
def open_sides(base: str, candidate: str, here: Path) -> Iterator[Sides]:
    """The sides named on a command line that runs in `here`. Raises `DeliveryError`.

    A name that git knows is a revision of the repository around `here`; `.` as candidate is its working tree. Two
    folders need no git. Nothing is written to the repository.
    """
    with scrubbed_environment():
        revision = _revision(base, here)
        if revision is None:
            yield _folders(base, candidate, here)
            return
        repository, commit = revision
        with scratch() as files:
            _export(repository, commit, files, "base")
            if candidate == ".":
                overlay, unseen = _working_tree(repository, commit)
            else:
                other = repository.resolve(candidate)
                changed, unseen = _changed(repository, commit, other)
                _export(repository, other, files, "candidate")
                overlay = {path: _text(files / "candidate" / path) for path in changed}
            yield Sides(files / "base", repository.root, overlay, commit, unseen)


@contextlib.contextmanager
def exported(repository: Repository, commit: str) -> Iterator[Path]:
    """A folder with the Python files and notebooks of a commit, for as long as it is needed."""
    with scratch() as files:
        _export(repository, commit, files, "base")
        yield files / "base"


def project_of(base: str, here: Path) -> Path:
    """The root that workloads are relative to: the repository's where `base` is a revision, else the folder `base`."""
    with scrubbed_environment():
        revision = _revision(base, here)
    return _folder(base, here) if revision is None else revision[0].root


def _revision(name: str, here: Path) -> tuple[Repository, str] | None:
    """None where `name` is a folder. A name that is both is a revision, as for git; `./name` is the folder."""
    try:
        repository = Repository.around(here)
    except DeliveryError:
        if (here / name).is_dir():
            return None
        raise DeliveryError(f"{name} is no folder, and {here} is in no git repository") from None
    try:
        return repository, repository.resolve(name)
    except DeliveryError:
        if (here / name).is_dir():
            return None
        raise DeliveryError(f"neither a revision nor a folder: {name}") from None


def _folders(base: str, candidate: str, here: Path) -> Sides:
    old, new = _folder(base, here), _folder(candidate, here)
    paths = sorted({*discover(old, [old]), *discover(new, [new])})
    overlay = {path: _text(new / path) for path in paths if _bytes(old / path) != _bytes(new / path)}
    return Sides(old, old, overlay)


def _folder(name: str, here: Path) -> Path:
    folder = (here / name).resolve()
    if not folder.is_dir():
        raise DeliveryError(f"no such folder: {name} (the first side is a folder, so the second has to be one)")
    return folder


def _working_tree(repository: Repository, commit: str) -> tuple[Overlay, tuple[str, ...]]:
    changed, unseen = _changed(repository, commit)
    return {path: _text(repository.root / path) for path in [*changed, *repository.untracked_sources()]}, unseen


def _changed(repository: Repository, *commits: str) -> tuple[list[str], tuple[str, ...]]:
    """The sources that differ between two commits, or between one and the working tree; and the other files."""
    listed = repository.git("diff", "--name-only", "-z", "--no-renames", "--ignore-submodules", *commits, "--")
    paths = [path for path in listed.split("\0") if path]
    return [p for p in paths if p.endswith(SUFFIXES)], tuple(p for p in paths if not p.endswith(SUFFIXES))


def _export(repository: Repository, commit: str, files: Path, name: str) -> None:
    """Write the Python files and notebooks of `commit` to `files/name`, through an index of our own beside it."""
    (files / name).mkdir()
    listed = repository.git("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit, "--")
    paths = [path for path in listed.split("\0") if path.endswith(SUFFIXES)]
    index = {"GIT_INDEX_FILE": str(files / f"{name}.index")}
    try:
        repository.git("read-tree", commit, environment=index)
        for some in _portions(paths):
            prefix = f"--prefix={files / name}/"
            repository.git("checkout-index", "--force", "--quiet", prefix, "--", *some, environment=index)
    except GitFailed as error:
        raise DeliveryError(f"the files of {commit[:10]} cannot be read: {error.said}") from None


def _portions(paths: list[str], size: int = 500) -> Iterable[list[str]]:
    """Command lines are limited in length."""
    return (paths[start : start + size] for start in range(0, len(paths), size))


def _text(file: Path) -> str | None:
    """The text of a Python file in its own encoding, the code of a notebook; None where there is none."""
    data = _bytes(file)
    if data is None:
        return None
    if file.name.endswith(SUFFIX):
        return module_text(data)
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding)
    except (SyntaxError, ValueError, LookupError):
        return data.decode("utf-8", errors="replace")  # what cannot be read will not load, and that is a verdict


def _bytes(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None
