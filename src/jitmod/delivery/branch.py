"""The branch that a run writes: one commit per accepted patch, made in the worktree, then the branch is moved to it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jitmod.delivery.repository import DeliveryError, GitFailed, Repository, Start


class CommitRefused(Exception):
    """Git did not make the commit: a hook failed, or a signature; the message is what git printed."""


class Branch:
    """Commits on top of a start. The branch is a consistent prefix of the run at any moment, also after a kill.

    `signoff`: whoever runs this certifies that the patches may be contributed.
    """

    def __init__(self, repository: Repository, start: Start, tree: Path, signoff: bool = False) -> None:
        self.repository, self.start, self.root = repository, start, tree
        self._signoff = ["--signoff"] if signoff else []
        self.tip = start.tip
        self.made: list[str] = []  # the commits of this run, in order
        self._held = start.old

    def keep(self, files: Mapping[str, bytes], message: str) -> str:
        """Commit `files`, by path; the new commit. Raises `CommitRefused`: then the tip is as before."""
        for path, content in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_bytes(content)
        text = self.root.parent / "message"
        text.write_text(message, encoding="utf-8", errors="replace")
        try:
            self._git("--literal-pathspecs", "add", "--", *files)
            # gc.auto: a collection in the background would outlive the run, and the worktree under it.
            options = ("--quiet", "--cleanup=whitespace", *self._signoff)
            self._git("-c", "gc.auto=0", "commit", *options, "--file", str(text))
        except GitFailed as error:
            self._restore()
            raise CommitRefused(error.said) from None
        commit = self._git("rev-parse", "HEAD")
        try:
            self._git("update-ref", "-m", "jitmod: accepted patch", self.start.reference, commit, self._held)
        except GitFailed as error:
            moved = f"branch {self.start.branch} was moved by someone else during the run: {error.said}"
            raise DeliveryError(moved) from None
        self.tip = self._held = commit
        self.made.append(commit)
        self._restore()  # hooks may leave files behind
        return commit

    def cut(self, commit: str) -> None:
        """Take the commits of this run behind `commit` off the branch."""
        name, reason = self.start.reference, "jitmod: the branch as a whole was rejected"
        self.made = self.made[: self.made.index(commit) + 1] if commit in self.made else []
        if self.made or self.start.resumed:
            self._git("update-ref", "-m", reason, name, commit, self._held)
        else:
            self._git("update-ref", "-m", reason, "-d", name, self._held)
        self.tip = self._held = commit
        self._restore()

    def _git(self, *arguments: str) -> str:
        return self.repository.git(*arguments, cwd=self.root)

    def _restore(self) -> None:
        self._git("reset", "--quiet", "--hard", self.tip)
        self._git("clean", "--quiet", "-d", "--force")


def store_evidence(repository: Repository, document: Mapping[str, Any], digest: str | None) -> str:
    """Write a trial's job and evidence to git's own folder; the digest that names the file."""
    text = json.dumps(document, indent=1, sort_keys=True, default=str)
    name = digest or hashlib.sha256(text.encode()).hexdigest()
    folder = repository.state / "evidence"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f".{name}"
        unfinished.write_text(text + "\n", encoding="utf-8")
        unfinished.replace(folder / f"{name}.json")
    except OSError as error:
        raise DeliveryError(f"the evidence of a trial cannot be written to {folder}: {error.strerror}") from None
    return name
