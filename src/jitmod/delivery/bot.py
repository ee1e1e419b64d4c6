"""A bundle becomes pull requests, on a schedule: a few at a time, each brought up to date, none against a will.

Nothing of the project runs here. A run that finds everything as it left it changes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from jitmod.delivery.bundle import BadBundle, Bundle, Change, changes_of
from jitmod.delivery.groups import PREFIX, By, Group, branches_of, codemod_of, grouped, namer
from jitmod.delivery.hub import Hub, NotOpened, Request, is_due
from jitmod.delivery.pull import (
    Commit,
    HumanCommits,
    check_untouched,
    commits,
    fetched,
    is_cut,
    listed,
    push,
    remove,
    shown,
)
from jitmod.delivery.replayed import replay, stale
from jitmod.delivery.repository import DeliveryError, GitFailed, Repository

if TYPE_CHECKING:
    from github.PullRequest import PullRequest

_GONE = "Closed by jitmod: the code that this rewrites is gone, or has been rewritten. It may come back with the code."
Describe = Callable[[Sequence[Commit], str, str], tuple[str, str]]
"""The title and the text of a pull request: of its commits, its branch and its base."""


class Done(StrEnum):
    """What became of one pull request."""

    OPENED = "opened"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    WAITING = "waiting"  # for room among the open ones, or for the next hour
    MOVED = "moved"  # the files are not what they were when the patches were tried
    UNWANTED = "unwanted"  # a person closed it
    TOUCHED = "touched"  # a person works on the branch
    UNPROVEN = "unproven"  # open, and no patch of it was accepted this time
    CLOSED = "closed"  # by us: its code is gone
    FAILED = "failed"  # the server or git refused; the next run takes it up again


@dataclass(frozen=True)
class Result:
    """One branch, what was done, and the address of its request or the reason."""

    branch: str
    done: Done
    said: str
    commits: int = 0


@dataclass(frozen=True)
class Rules:
    """How much is opened: `most_open` at one time, `most_hourly` within an hour; and what each one is made of."""

    most_open: int = 5
    most_hourly: int = 2
    by: By = By.CODEMOD
    base: str | None = None
    draft: bool = False
    labels: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()


def deliver(bundle: Bundle, repository: Repository, remote: str, hub: Hub, rules: Rules, describe: Describe
            ) -> list[Result]:  # fmt: skip
    """Push and open, or bring up to date, what the bundle has; close what it shows to be gone.

    Raises `DeliveryError` where the bundle is not of this repository's base.
    """
    base = rules.base or hub.default_branch
    with fetched(repository, remote, base) as now:
        if now is None:
            raise DeliveryError(f"{shown(remote)} has no branch {base}")
        _check_on(repository, bundle.base, now, f"{shown(remote)}/{base}")
        name = namer(rules.by, repository, bundle.base)
        groups = sorted(grouped(bundle.commits, name), key=lambda group: group.branch)
        run = _Run(bundle, repository, remote, hub, rules, describe, now, hub.open_pulls(PREFIX))
        results = [run.one(group) for group in groups]
        results += run.others({group.branch for group in groups}, branches_of(bundle.patches, name))
    return results


@dataclass(frozen=True)
class _Run:
    bundle: Bundle
    repository: Repository
    remote: str
    hub: Hub
    rules: Rules
    describe: Describe
    now: str  # the commit of the base as it is on the remote
    open: dict[str, PullRequest]

    def one(self, group: Group) -> Result:
        """Deliver one group. That one is refused keeps no other one. Raises `BadBundle`."""
        current, count = self.open.get(group.branch), len(group.commits)
        moved = stale(self.repository, self.now, group.commits)
        if moved:
            return Result(group.branch, Done.MOVED, f"{moved[0]} has changed since it was tried", count)
        try:
            if current is None:
                self.hub.check_wanted(group.branch)
                full = self._no_room()
                if full is not None:
                    return Result(group.branch, Done.WAITING, full, count)
            elif self._is_there(group, current.body or ""):
                return Result(group.branch, Done.UNCHANGED, current.html_url, count)
            made = replay(self.repository, self.bundle, group.commits)
            tip = made[-1].sha
            title, text = self._described(made, group)
            told = current.body or "" if current is not None else ""
            push(self.repository, self.remote, group.branch, self.now, tip, told)
            rules = self.rules
            opened = self.hub.deliver(
                Request(group.branch, rules.base, title, text, rules.draft, rules.labels, rules.reviewers)
            )
        except NotOpened as error:
            return Result(group.branch, Done.UNWANTED, str(error), count)
        except HumanCommits as error:
            return Result(group.branch, Done.TOUCHED, str(error), count)
        except BadBundle:
            raise
        except DeliveryError as error:
            return Result(group.branch, Done.FAILED, str(error), count)
        return Result(group.branch, Done.UPDATED if current is not None else Done.OPENED, opened.url, count)

    def _described(self, made: Sequence[Commit], group: Group) -> tuple[str, str]:
        """The title and the text; the gate has accepted the evidence, which may lack what only people read."""
        try:
            return self.describe(made, group.branch, self.bundle.base[:10])
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise BadBundle(f"the evidence for {group.branch} cannot be shown: {error!r}") from None

    def _no_room(self) -> str | None:
        """Why no further request may be opened now."""
        open_now = len(self.hub.open_pulls(PREFIX))
        if open_now >= self.rules.most_open:
            return f"{open_now} are open, and {self.rules.most_open} may be"
        young = self.hub.opened_since(datetime.now(UTC) - timedelta(hours=1), PREFIX)
        if young >= self.rules.most_hourly:
            return f"{young} were opened within the hour, and {self.rules.most_hourly} may be"
        return None

    def _is_there(self, group: Group, told: str) -> bool:
        """Whether the remote branch changes the same files in the same way, and the request's text is about it.

        Raises `HumanCommits`.
        """
        with fetched(self.repository, self.remote, group.branch) as seen:
            if seen is None or is_due(told):
                return False
            if is_cut(told, seen):
                there = f"{shown(self.remote)}/{group.branch}"
                raise HumanCommits(f"commits were dropped from {there}: it is left as it is")
            check_untouched(self.repository, self.remote, group.branch, self.now, seen, told)
            began = self._began(seen)
            if began is None or seen[:10] not in listed(told):
                return False
            try:
                return set(changes_of(self.repository, began, seen)) == set(_net(group))
            except DeliveryError:
                return False

    def others(self, delivered: set[str], found: set[str]) -> Iterator[Result]:
        """The open requests that the bundle has nothing for: their code may be gone."""
        for branch, pull in sorted(self.open.items()):
            if branch in delivered:
                continue
            with fetched(self.repository, self.remote, branch) as seen:
                if seen is None or not self._was_looked_for(seen):
                    continue
                try:
                    check_untouched(self.repository, self.remote, branch, self.now, seen, pull.body or "")
                except HumanCommits as error:
                    yield Result(branch, Done.TOUCHED, str(error))
                    continue
                if branch in found:
                    yield Result(branch, Done.UNPROVEN, pull.html_url)
                    continue
                try:
                    self.hub.close(pull, _GONE)
                    remove(self.repository, self.remote, branch, seen)
                except DeliveryError as error:
                    yield Result(branch, Done.FAILED, str(error))
                    continue
                yield Result(branch, Done.CLOSED, pull.html_url)

    def _was_looked_for(self, seen: str) -> bool:
        """Whether the run looked at everything that a branch changes, and for all that it does."""
        began = self._began(seen)
        if began is None:
            return False
        paths = self.repository.git("diff", "--name-only", "-z", began, seen, "--").strip("\0").split("\0")
        roots = [PurePosixPath(root) for root in self.bundle.paths]
        looked = all(any(PurePosixPath(path).is_relative_to(root) for root in roots) for path in paths)
        looked = looked and not set(paths) & set(self.bundle.unread)
        ours = [one for one in commits(self.repository, began, seen) if one.is_ours]
        return looked and all(codemod_of(one.message) in self.bundle.codemods for one in ours)

    def _began(self, seen: str) -> str | None:
        try:
            return self.repository.git("merge-base", self.now, seen)
        except GitFailed:
            return None


def _net(group: Group) -> Iterator[Change]:
    """What the commits of a group come to, for each file."""
    first: dict[str, str] = {}
    last: dict[str, str] = {}
    for one in group.commits:
        for change in one.files:
            first.setdefault(change.path, change.before)
            last[change.path] = change.after
    return (Change(path, first[path], last[path]) for path in first)


def check_head(repository: Repository, remote: str, base: str) -> None:
    """Raise `DeliveryError` where what HEAD is tried for could not be delivered."""
    with fetched(repository, remote, base) as now:
        if now is None:
            raise DeliveryError(f"{shown(remote)} has no branch {base}")
        _check_on(repository, repository.resolve("HEAD"), now, f"{shown(remote)}/{base}")


def _check_on(repository: Repository, commit: str, now: str, where: str) -> None:
    with contextlib.suppress(DeliveryError):
        if repository.contains(now, repository.resolve(commit)):
            return
    raise DeliveryError(f"{commit[:10]}, which was or would be tried, is not a commit of {where} here")
