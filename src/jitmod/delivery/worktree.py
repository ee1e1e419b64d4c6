"""A temporary worktree: the branch tip on disk, away from the user's tree, gone when the run is."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from jitmod.delivery.repository import GitFailed, Repository

_PREFIX = "jitmod-"


@contextlib.contextmanager
def temporary_worktree(repository: Repository, commit: str) -> Iterator[Path]:
    """A detached worktree of `commit`; removed on every way out. Call it under the repository's lock.

    Its path is written down before it is made: a run that is killed leaves the record, and the next run, which holds
    the lock then, removes what the record names.
    """
    record = repository.state / "worktree"
    _remove_stale(repository, record)
    tree = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve() / repository.root.name
    try:
        record.write_text(str(tree), encoding="utf-8")
        # No hooks here: a user's post-checkout hook is meant for the user's own checkouts.
        repository.git("-c", "core.hooksPath=/dev/null", "worktree", "add", "--quiet", "--detach", str(tree), commit)
        yield tree
    finally:
        _remove(repository, tree)
        record.unlink(missing_ok=True)


def _remove_stale(repository: Repository, record: Path) -> None:
    try:
        tree = Path(record.read_text(encoding="utf-8"))
    except OSError:
        return
    if tree.is_absolute() and tree.parent.name.startswith(_PREFIX):
        _remove(repository, tree)
    record.unlink(missing_ok=True)


def _remove(repository: Repository, tree: Path) -> None:
    """Remove one worktree. Not `git worktree prune`: that would forget the user's own on an unmounted disk too."""
    with contextlib.suppress(GitFailed):  # it may never have been made
        repository.git("worktree", "remove", "--force", str(tree))
    shutil.rmtree(tree.parent, ignore_errors=True)
