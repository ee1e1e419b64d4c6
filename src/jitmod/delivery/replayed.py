"""The commits of a bundle, made again on their base with the plumbing of git alone: no checkout, no hook, no filter, so
nothing of the project runs. No reference is written either; what is not pushed goes with git's next collection."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from jitmod.delivery.bundle import BadBundle, Bundle, Bundled, Change
from jitmod.delivery.pull import Commit
from jitmod.delivery.repository import DeliveryError, GitFailed, Repository


def stale(repository: Repository, commit: str, commits: Sequence[Bundled]) -> list[str]:
    """The files of a bundle's commits that `commit` has otherwise than they were made for."""
    first: dict[str, Change] = {}
    for one in commits:
        for change in one.files:
            first.setdefault(change.path, change)
    return [path for path, change in first.items() if _entry(repository, commit, path)[1] != change.before]


def replay(repository: Repository, bundle: Bundle, commits: Sequence[Bundled]) -> list[Commit]:
    """The commits on top of the bundle's base. Call it under the repository's lock.

    Raises `BadBundle` where one does not fit what is before it.
    """
    sign = ["-S"] if _is_set(repository, "commit.gpgSign") else []
    made: list[Commit] = []
    parent = bundle.base
    with _own_folder(repository) as folder:
        index = {"GIT_INDEX_FILE": str(folder / "index")}
        text = folder / "text"
        repository.git("read-tree", parent, environment=index)
        for one in commits:
            for change in one.files:
                mode, before = _entry(repository, parent, change.path)
                if before != change.before:
                    raise BadBundle(f"{change.path} is not in {parent[:10]} as the patch was made for it")
                text.write_bytes(bundle.content(change))
                after = repository.git("hash-object", "-w", "--no-filters", "--", str(text))
                if after != change.after:
                    raise BadBundle(f"{bundle.folder}: files/{change.after} does not hold what its name says")
                repository.git("update-index", "--cacheinfo", f"{mode},{after},{change.path}", environment=index)
            tree = repository.git("write-tree", environment=index)
            text.write_text(f"{one.message.strip()}\n", encoding="utf-8", errors="replace")
            parent = repository.git("commit-tree", tree, "-p", parent, *sign, "-F", str(text))
            made.append(Commit(parent, one.message, one.job, one.evidence))
    return made


@contextlib.contextmanager
def _own_folder(repository: Repository) -> Iterator[Path]:
    """A new folder, always at the same place: what a run leaves that was killed goes with the next one."""
    folder = repository.state / "replay"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(parents=True)
        yield folder
    except OSError as error:
        raise DeliveryError(f"{folder} cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _entry(repository: Repository, commit: str, path: str) -> tuple[str, str]:
    """The mode and the name of a plain file of a commit; empty where it has no such file."""
    listed = repository.git("--literal-pathspecs", "ls-tree", "-z", "--full-tree", commit, "--", path)
    for record in listed.split("\0"):
        how, _, found = record.partition("\t")
        if found == path:
            mode, kind, name = how.split()
            return (mode, name) if kind == "blob" and mode in ("100644", "100755") else ("", "")
    return "", ""


def _is_set(repository: Repository, key: str) -> bool:
    try:
        return repository.git("config", "--type=bool", "--get", key) == "true"
    except GitFailed:
        return False
