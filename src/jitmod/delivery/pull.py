"""From a branch of jitmod's to a remote: its commits with their evidence, and a push that takes from nobody."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jitmod.delivery.repository import DeliveryError, GitFailed, Repository

_OURS = re.compile(r"^Jitmod-Codemod: ", re.MULTILINE)
_DIGEST = re.compile(r"^Jitmod-Evidence: ([0-9a-f]{64})$", re.MULTILINE)
_SEEN = "refs/jitmod/seen"


@dataclass(frozen=True)
class Commit:
    """A commit of a branch: `job` and `evidence` are the documents of its trial, empty where they are not at hand."""

    sha: str
    message: str
    job: Mapping[str, Any] = field(default_factory=dict)
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_ours(self) -> bool:
        return _OURS.search(self.message) is not None


def commits(repository: Repository, base: str, tip: str) -> list[Commit]:
    """The commits of `base..tip`, the oldest first."""
    listed = repository.git("rev-list", "--reverse", "--end-of-options", f"{base}..{tip}").split()
    return [_commit(repository, sha) for sha in listed]


def _commit(repository: Repository, sha: str) -> Commit:
    message = repository.git("log", "-1", "--format=%B", "--end-of-options", sha)
    found = _DIGEST.search(message)
    document: Any = None
    if found is not None:
        with contextlib.suppress(OSError, ValueError):
            document = json.loads((repository.state / "evidence" / f"{found[1]}.json").read_text(encoding="utf-8"))
    if not isinstance(document, dict):
        return Commit(sha, message)
    return Commit(sha, message, document.get("job", {}), document.get("evidence", {}))


def push(repository: Repository, remote: str, branch: str, base: str) -> bool:
    """Put `branch` onto the remote; False where it is there already. Raises `DeliveryError`.

    A branch of the remote that holds commits of somebody else's stays as it is, also where they come meanwhile.
    """
    tip = repository.resolve(f"refs/heads/{branch}")
    with _there(repository, remote, branch) as seen:
        if seen == tip:
            return False
        if seen is not None and not repository.contains(tip, seen):
            theirs = [one for one in commits(repository, base, seen) if not one.is_ours]
            others = [one for one in theirs if not repository.contains(tip, one.sha)]
            if others:
                first = others[0].message.partition("\n")[0]
                raise DeliveryError(
                    f"{remote}/{branch} has commits that jitmod did not make ({others[0].sha[:10]} {first}): "
                    f"nothing is pushed; merge them into {branch}, or push under another name with --branch"
                )
        reference = f"refs/heads/{branch}"
        lease = f"--force-with-lease={reference}:{seen or ''}"
        try:
            repository.git("push", "--quiet", "--porcelain", lease, "--", remote, f"{tip}:{reference}")
        except GitFailed as error:
            raise DeliveryError(f"git push to {remote} failed: {error.said}") from None
    return True


@contextlib.contextmanager
def _there(repository: Repository, remote: str, branch: str) -> Iterator[str | None]:
    """The commit that the remote has under this name, fetched; None where there is no such branch."""
    try:
        listed = repository.git("ls-remote", "--", remote, f"refs/heads/{branch}").split()
    except GitFailed as error:
        raise DeliveryError(f"{remote} cannot be read: {error.said}") from None
    if not listed:
        yield None
        return
    kept = f"{_SEEN}/{branch}"
    what = f"+refs/heads/{branch}:{kept}"
    try:
        repository.git("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", remote, what)
    except GitFailed as error:
        raise DeliveryError(f"{branch} cannot be fetched from {remote}: {error.said}") from None
    try:
        yield repository.resolve(kept)
    finally:
        with contextlib.suppress(GitFailed):
            repository.git("update-ref", "-d", kept)


def remote_name(repository: Repository, remote: str) -> str:
    """`owner/name` of a remote on a GitHub server. Raises `DeliveryError`."""
    try:
        url = repository.git("remote", "get-url", "--", remote)
    except GitFailed:
        raise DeliveryError(f"there is no remote {remote}: git remote add {remote} URL, or --remote NAME") from None
    found = re.search(r"[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?$", url)
    if found is None:
        raise DeliveryError(f"it cannot be told which repository of GitHub {remote} is: pass --repo owner/name")
    return found[1]
