"""From a branch of jitmod's to a remote: its commits with their evidence, and a push that takes from nobody."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jitmod.delivery.repository import DeliveryError, GitFailed, Repository

_OURS = re.compile(r"^Jitmod-Codemod: ", re.MULTILINE)
_DIGEST = re.compile(r"^Jitmod-Evidence: ([0-9a-f]{64})$", re.MULTILINE)
_SEEN = "refs/jitmod/seen"
_SHORT = 10  # digits
_LISTING = re.compile(r"<!-- jitmod: commits ([0-9a-f ]*) -->")


@dataclass(frozen=True)
class Commit:
    """A commit of a branch: `job` and `evidence` are the documents of its trial, empty where they are not at hand.

    `foreign`: somebody else than us committed it as it is, who may have changed it since it was made.
    """

    sha: str
    message: str
    job: Mapping[str, Any] = field(default_factory=dict)
    evidence: Mapping[str, Any] = field(default_factory=dict)
    foreign: bool = False

    @property
    def is_ours(self) -> bool:
        return _OURS.search(self.message) is not None


def commits(repository: Repository, base: str, tip: str) -> list[Commit]:
    """The commits of `base..tip`, the oldest first."""
    return list(_walk(repository, base, tip))


def _walk(repository: Repository, base: str, tip: str) -> Iterator[Commit]:
    for sha in repository.git("rev-list", "--reverse", "--end-of-options", f"{base}..{tip}").split():
        yield _commit(repository, sha)


def _commit(repository: Repository, sha: str) -> Commit:
    told = repository.git("log", "-1", "--no-show-signature", "--format=%cn <%ce>%n%B", "--end-of-options", sha)
    committer, _, message = told.partition("\n")
    foreign = committer != repository.committer()
    found = _DIGEST.search(message)
    document: Any = None
    if found is not None:
        with contextlib.suppress(OSError, ValueError):
            document = json.loads((repository.state / "evidence" / f"{found[1]}.json").read_text(encoding="utf-8"))
    if not isinstance(document, dict):
        return Commit(sha, message, foreign=foreign)
    return Commit(sha, message, document.get("job", {}), document.get("evidence", {}), foreign)


class HumanCommits(DeliveryError):
    """A branch of the remote holds what jitmod did not make, and is left as it is."""


def push(repository: Repository, remote: str, branch: str, base: str, tip: str, told: str = "") -> bool:
    """Put the commit `tip` onto the remote as `branch`; False where it is there already. Raises `DeliveryError`.

    A branch of the remote that holds commits of somebody else's stays as it is, also where they come meanwhile. `told`
    is the text of its request.
    """
    with fetched(repository, remote, branch) as seen:
        if seen == tip:
            return False
        if seen is not None and not repository.contains(tip, seen):
            check_untouched(repository, remote, branch, base, seen, told, tip)
        _remember(repository, remote, branch, base, tip)
        _move(repository, remote, branch, seen, tip)
    return True


def remove(repository: Repository, remote: str, branch: str, seen: str) -> None:
    """Take a branch off the remote, where it is still at `seen`. Raises `DeliveryError`."""
    _move(repository, remote, branch, seen, "")


def check_untouched(
    repository: Repository, remote: str, branch: str, base: str, seen: str, told: str, tip: str | None = None
) -> None:
    """Raise `HumanCommits` where `base..seen` has commits that jitmod did not make, and `tip` does not hold either.

    Who amends a commit of ours leaves its message, and may have our name. So a commit is ours where the text of the
    request names it, `told`, or where this repository remembers that it pushed it. Only where it remembers nothing of
    this branch, as on a machine that is new with every run, it is enough that we have committed it.
    """
    pushed = _remembered(repository, remote, branch)
    known = {*listed(told), *(sha[:_SHORT] for sha in pushed)}
    theirs = (one for one in _walk(repository, base, seen)
              if not one.is_ours or (one.sha[:_SHORT] not in known and (pushed or one.foreign)))  # fmt: skip
    other = next((one for one in theirs if tip is None or not repository.contains(tip, one.sha)), None)
    if other is None:
        return
    first = other.message.partition("\n")[0]
    shallow = repository.git("rev-parse", "--is-shallow-repository") == "true"
    todo = ("this clone is shallow, so that may be wrong: git fetch --unshallow" if shallow
            else f"merge them into {branch}, or push under another name with --branch")  # fmt: skip
    raise HumanCommits(
        f"{shown(remote)}/{branch} has commits that jitmod did not make, or not as they are now "
        f"({other.sha[:10]} {first}): nothing is pushed; {todo}"
    )


def _remember(repository: Repository, remote: str, branch: str, base: str, tip: str) -> None:
    """Write down what is about to be pushed: a push that is interrupted may have been made."""
    file = _memory(repository, remote, branch)
    new = repository.git("rev-list", "--end-of-options", f"{base}..{tip}").split()
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="ascii") as lines:
            lines.writelines(f"{sha}\n" for sha in new)


def _remembered(repository: Repository, remote: str, branch: str) -> list[str]:
    try:
        return _memory(repository, remote, branch).read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return []


def _memory(repository: Repository, remote: str, branch: str) -> Path:
    name = hashlib.sha256(f"{remote}\0{branch}".encode("utf-8", "surrogateescape")).hexdigest()[:20]
    return repository.state / "pushed" / name


def shown(remote: str) -> str:
    """A remote as it may be shown: it may be an address with a password."""
    return re.sub(r"(?<=://)[^/@\s]+@", "", remote)


def _move(repository: Repository, remote: str, branch: str, seen: str | None, tip: str) -> None:
    reference = f"refs/heads/{branch}"
    lease = f"--force-with-lease={reference}:{seen or ''}"
    try:
        only = ("--no-follow-tags", "--recurse-submodules=no")  # whatever is configured
        repository.git("push", "--quiet", "--porcelain", *only, lease, "--", remote, f"{tip}:{reference}")
    except GitFailed as error:
        raise DeliveryError(f"git push to {shown(remote)} failed: {error.said}") from None


@contextlib.contextmanager
def fetched(repository: Repository, remote: str, branch: str) -> Iterator[str | None]:
    """The commit that the remote has under this name, fetched; None where there is no such branch."""
    try:
        listed = repository.git("ls-remote", "--", remote, f"refs/heads/{branch}").split()
    except GitFailed as error:
        raise DeliveryError(f"{shown(remote)} cannot be read: {error.said}") from None
    if not listed:
        yield None
        return
    kept = f"{_SEEN}/{branch}"
    what = f"+refs/heads/{branch}:{kept}"
    try:
        only = ("--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
        repository.git("fetch", "--quiet", *only, "--", remote, what)
    except GitFailed as error:
        raise DeliveryError(f"{branch} cannot be fetched from {shown(remote)}: {error.said}") from None
    try:
        yield repository.resolve(kept)
    finally:
        with contextlib.suppress(GitFailed):
            repository.git("update-ref", "-d", kept)


def listing(shown: Sequence[str]) -> str:
    """A comment for the text of a request that says which commits it had, by the first ten digits."""
    return f"<!-- jitmod: commits {' '.join(sha[:_SHORT] for sha in shown)} -->"


def listed(text: str) -> list[str]:
    """The commits that a request had when its text was written; empty where that does not say."""
    found = _LISTING.search(text)
    return found[1].split() if found is not None else []


def is_cut(text: str, tip: str) -> bool:
    """Whether somebody has dropped commits from the end of a branch since the text of its request was written."""
    return tip[:_SHORT] in listed(text)[:-1]


def remote_name(repository: Repository, remote: str) -> str:
    """`owner/name` of a remote on a GitHub server. Raises `DeliveryError`."""
    try:
        url = repository.git("remote", "get-url", "--", remote)
    except GitFailed:
        todo = f"git remote add {shown(remote)} URL, or --remote NAME"
        raise DeliveryError(f"there is no remote {shown(remote)}: {todo}") from None
    found = re.search(r"[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?$", url)
    if found is None:
        raise DeliveryError(f"it cannot be told which repository of GitHub {shown(remote)} is: pass --repo owner/name")
    return found[1]
