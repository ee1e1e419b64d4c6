"""The user's repository: read with care, never checked out, its environment kept out of ours."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import git

from jitmod.model import UserError
from jitmod.source.files import SUFFIXES

# Where the user keeps the configuration of git, and how it gets to a server, is the user's business; every other GIT_*
# variable may come from a hook that started us, and would send our commands to another index, another object store or
# another author.
_KEPT = frozenset([
    "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_CEILING_DIRECTORIES", "GIT_SSH",
    "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_ASKPASS", "GIT_TERMINAL_PROMPT", "GIT_PROXY_COMMAND",
])  # fmt: skip
_KEPT_TOO = ("GIT_SSL_", "GIT_HTTP_")

NO_COMMIT = ""  # as git takes it for "there is no such reference", whatever its hash
_UNNAMED = "refs/jitmod/run"


class DeliveryError(UserError):
    """The repository is not in a state in which the job can be done; the message says what to do about it."""


class GitFailed(DeliveryError):
    """A git command failed; `said` is what it printed."""

    def __init__(self, arguments: Sequence[str], said: str) -> None:
        super().__init__(f"git {' '.join(arguments[:2])} failed: {said}")
        self.said = said


def _plain(output: object) -> str:
    """GitPython hands over a child's output as `\\n  stderr: '...'`."""
    text = output.decode("utf-8", "replace") if isinstance(output, bytes) else str(output or "")
    text = text.strip().removeprefix("stderr: '").removeprefix("stdout: '").removesuffix("'").strip()
    return re.sub(r"(?<=://)[^/@\s]+@", "", text)  # an address may have a password


@contextlib.contextmanager
def scrubbed_environment() -> Iterator[None]:
    """Take `GIT_*` out of this process's environment, which git children inherit, and put it back."""
    foreign = [name for name in os.environ if name.startswith("GIT_") and not name.startswith(_KEPT_TOO)]
    taken = {name: os.environ.pop(name) for name in foreign if name not in _KEPT}
    try:
        yield
    finally:
        os.environ.update(taken)


@contextlib.contextmanager
def unattended() -> Iterator[None]:
    """Git children run no hooks, which may be the project's own code, and ask nobody for a password: they fail.

    Call it in a scrubbed environment.
    """
    setting = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.hooksPath", "GIT_CONFIG_VALUE_0": os.devnull,
               "GIT_TERMINAL_PROMPT": "0", "GCM_INTERACTIVE": "never"}  # fmt: skip
    before = {name: os.environ[name] for name in setting if name in os.environ}
    os.environ.update(setting)
    try:
        yield
    finally:
        for name in setting:
            os.environ.pop(name, None)
        os.environ.update(before)


@dataclass(frozen=True)
class Repository:
    """A checkout: `root` is the top of its working tree, `common` its git directory, shared by all its worktrees."""

    root: Path
    common: Path

    @classmethod
    def around(cls, path: Path) -> Repository:
        """The repository that holds `path`. Raises `DeliveryError` where there is none, or a bare one."""
        try:
            repo = git.Repo(path, search_parent_directories=True)
        except (git.InvalidGitRepositoryError, git.NoSuchPathError):
            raise DeliveryError(f"not a git repository: {path} (jitmod apply --dry-run works without one)") from None
        with repo:
            if repo.bare or repo.working_tree_dir is None:
                raise DeliveryError(f"{path} is a bare repository: run jitmod in a checkout of it")
            return cls(Path(repo.working_tree_dir).resolve(), Path(repo.common_dir).resolve())

    @property
    def state(self) -> Path:
        """The folder for evidence and locks. It is inside git's own, so no clone or pull request can supply it."""
        return self.common / "jitmod"

    def git(self, *arguments: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
        """What git prints. Raises `GitFailed`. Locks that git could do without are not taken."""
        try:
            command = ["git", "--no-optional-locks", *arguments]
            return str(git.Git(cwd or self.root).execute(command, env=dict(environment or {})))
        except git.GitCommandError as error:
            raise GitFailed(arguments, _plain(error.stderr) or _plain(error.stdout)) from None

    def blob(self, name: str) -> bytes:
        """The bytes that git has under this name. Raises `GitFailed`."""
        command = ["git", "cat-file", "blob", name]
        try:
            found = git.Git(self.root).execute(command, stdout_as_string=False, strip_newline_in_stdout=False)
        except git.GitCommandError as error:
            raise GitFailed(command[1:], _plain(error.stderr)) from None
        assert isinstance(found, bytes)
        return found

    def resolve(self, revision: str) -> str:
        """The commit that `revision` names. Raises `DeliveryError`."""
        try:
            return self.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        except GitFailed:
            if revision == "HEAD":
                raise DeliveryError("the repository has no commit yet: commit first, jitmod works on commits") from None
            raise DeliveryError(f"no such revision: {revision}") from None

    def has(self, commit: str) -> bool:
        try:
            self.resolve(commit)
        except DeliveryError:
            return False
        return True

    def branch_tip(self, branch: str) -> str | None:
        try:
            return self.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"refs/heads/{branch}^{{commit}}")
        except GitFailed:
            return None

    def contains(self, commit: str, ancestor: str) -> bool:
        try:
            self.git("merge-base", "--is-ancestor", ancestor, commit)
        except GitFailed:
            return False
        return True

    def checkout_of(self, branch: str) -> str | None:
        """The path of the worktree that has `branch` checked out."""
        path = ""
        for line in self.git("worktree", "list", "--porcelain").splitlines():
            if line.startswith("worktree "):
                path = line.removeprefix("worktree ")
            elif line == f"branch refs/heads/{branch}":
                return path
        return None

    def dirty_files(self) -> list[str]:
        """Tracked files that differ from HEAD, and Python files that git does not track."""
        status = self.git("status", "--porcelain", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules")
        changed = [record[3:] for record in status.split("\0") if record]
        return changed + self.untracked_sources()

    def untracked_sources(self) -> list[str]:
        """Python files and notebooks that git does not know and does not ignore."""
        patterns = [f"*{suffix}" for suffix in SUFFIXES]
        listed = self.git("ls-files", "--others", "--exclude-standard", "-z", "--", *patterns)
        return [path for path in listed.split("\0") if path]

    def check_identity(self) -> None:
        """Raise `DeliveryError` where git does not know whom a commit is by."""
        for who in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
            try:
                self.git("-c", "user.useConfigOnly=true", "var", who)
            except GitFailed:
                raise DeliveryError(
                    "git does not know who you are, so nothing could be committed: "
                    "set git config user.name and git config user.email"
                ) from None

    def committer(self) -> str:
        """Whom commits are by here: `name <address>`."""
        return self.git("var", "GIT_COMMITTER_IDENT").rpartition(" ")[0].rpartition(" ")[0]

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the repository against another jitmod. The lock dies with the process, however that ends."""
        with self._opened_lock() as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise DeliveryError("another jitmod is at work in this repository: wait for it to end") from None
            yield

    def check_writable(self) -> None:
        """Raise `DeliveryError` where nothing could be committed, because nothing can be written."""
        self._opened_lock().close()

    def _opened_lock(self) -> IO[str]:
        try:
            self.state.mkdir(parents=True, exist_ok=True)
            return (self.state / "lock").open("a")
        except OSError as error:
            todo = "nothing can be committed; jitmod apply --dry-run --trial only shows what would be"
            raise DeliveryError(f"{self.common} cannot be written ({error.strerror}): {todo}") from None


@dataclass(frozen=True)
class Start:
    """Where a run begins: `tip` is tried first; `old` is what the branch holds now (`NO_COMMIT`: no such branch).

    Without a name it is no branch of the user's: its commits have a reference of our own as long as the run lasts.
    """

    branch: str
    base: str
    tip: str
    old: str

    @property
    def reference(self) -> str:
        return f"refs/heads/{self.branch}" if self.branch else _UNNAMED

    @property
    def resumed(self) -> bool:
        return self.old != NO_COMMIT


def plan_start(repository: Repository, branch: str, revision: str | None) -> Start:
    """Decide what to try: the tip of `branch` where it exists and holds `revision` (HEAD), else that revision."""
    try:
        repository.git("check-ref-format", "--branch", branch)
    except GitFailed:
        raise DeliveryError(f"not a branch name: {branch}") from None
    base = repository.resolve(revision or "HEAD")
    tip = repository.branch_tip(branch)
    if tip is None:
        _check_room(repository, branch)
        return Start(branch, base, base, NO_COMMIT)
    held_by = repository.checkout_of(branch)
    if held_by is not None:
        raise DeliveryError(
            f"branch {branch} is checked out in {held_by}: switch that checkout to another branch, "
            f"or name another one with --branch"
        )
    if not repository.contains(tip, base):
        raise DeliveryError(
            f"branch {branch} exists and does not contain {revision or 'HEAD'} ({base[:10]}): rebase it, "
            f"delete it (git branch -D {branch}), or name another one with --branch"
        )
    return Start(branch, base, tip, tip)


@contextlib.contextmanager
def unnamed_start(repository: Repository, revision: str | None) -> Iterator[Start]:
    """A start at `revision` (HEAD) whose commits get no branch. Call it under the repository's lock."""
    with contextlib.suppress(GitFailed):  # of a run that was killed
        repository.git("update-ref", "-d", _UNNAMED)
    base = repository.resolve(revision or "HEAD")
    try:
        yield Start("", base, base, NO_COMMIT)
    finally:
        with contextlib.suppress(GitFailed):
            repository.git("update-ref", "-d", _UNNAMED)


def _check_room(repository: Repository, branch: str) -> None:
    """A branch `jitmod` leaves no room for `jitmod/vmapify`, nor the other way round; find out before any trial."""
    parts = branch.split("/")
    above = ["/".join(parts[:i]) for i in range(1, len(parts))]
    below = repository.git("for-each-ref", "--count=1", "--format=%(refname:short)", f"refs/heads/{branch}/")
    for name in [*(one for one in above if repository.branch_tip(one)), *below.splitlines()]:
        raise DeliveryError(f"branch {branch} cannot be made beside branch {name}: name another one with --branch")
