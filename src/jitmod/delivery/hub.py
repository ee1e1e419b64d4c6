"""A repository on GitHub: finds, opens and updates the pull request of a branch. PyGithub speaks to the server."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jitmod.delivery.repository import DeliveryError

if TYPE_CHECKING:
    from github.PullRequest import PullRequest
    from github.Repository import Repository as Remote

BEGIN, END = "<!-- jitmod: begin -->", "<!-- jitmod: end -->"
_CLOSED = "<!-- jitmod: closed by jitmod itself -->"
_ASKING = "<!-- jitmod: labels and reviewers come next -->"
_BOARD, _BOARD_LABEL = "<!-- jitmod: dashboard -->", "jitmod"
_PUBLIC = "https://api.github.com"
_PATIENCE = 4  # tries of a request that a server or a limit turns away
_LONGEST_WAIT = 90.0  # seconds: who has to wait longer is told so


class NotOpened(DeliveryError):
    """There shall be no pull request; the message says why."""


@dataclass(frozen=True)
class Request:
    """What a pull request shall be."""

    branch: str
    base: str | None
    title: str
    body: str
    draft: bool = False
    labels: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Opened:
    """What became of it; `done` is opened, updated or unchanged."""

    url: str
    done: str


def token() -> str:
    """The token of the environment, or of the program gh. Raises `DeliveryError`; it is never shown."""
    for name in ("GH_TOKEN", "GITHUB_TOKEN"):
        found = os.environ.get(name, "").strip()
        if found and not re.fullmatch(r"[!-~]+", found):
            raise DeliveryError(f"{name} has characters that no token has")
        if found:
            return found
    try:
        asked = subprocess.run(["gh", "auth", "token"], capture_output=True, text=True, check=False, timeout=20)
        if asked.returncode == 0 and asked.stdout.strip():
            return asked.stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        pass
    raise DeliveryError("no token for GitHub: set GH_TOKEN or GITHUB_TOKEN, or log in with gh auth login")


class Hub:
    """One repository, `owner/name`. The address of another server is that of GITHUB_API_URL, as on its runners."""

    def __init__(self, name: str, secret: str) -> None:
        try:
            from github import Auth, Github, GithubRetry
        except ModuleNotFoundError:
            raise DeliveryError("pull requests need PyGithub: pip install 'jitmod[github]'") from None

        for talker in ("github", "urllib3"):  # what comes of it is told in our own words
            logging.getLogger(talker).setLevel(logging.CRITICAL)
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
            raise DeliveryError(f"not a repository of GitHub: {name!r}; it is called owner/name")
        waits = {"secondary_rate_wait": 30, "max_rate_limit_wait": _LONGEST_WAIT}
        retry = GithubRetry(total=_PATIENCE, backoff_factor=0.5, **waits)
        url = os.environ.get("GITHUB_API_URL") or _PUBLIC
        self.name = name
        try:
            self._github = Github(auth=Auth.Token(secret), base_url=url, retry=retry, timeout=30)
        except (AssertionError, AttributeError, ValueError):
            raise DeliveryError(f"GITHUB_API_URL is not the address of a server: {url!r}") from None
        with _in_words(name):
            self._remote: Remote = self._github.get_repo(name)

    @property
    def default_branch(self) -> str:
        return self._remote.default_branch

    def check_invited(self) -> None:
        """Raise `NotOpened` where the default branch does not have `[tool.jitmod]`: nobody has asked for it there."""
        from github import UnknownObjectException

        with _in_words(self.name):
            try:
                found: Any = self._remote.get_contents("pyproject.toml", ref=self.default_branch)
                tool = tomllib.loads(found.decoded_content.decode()).get("tool")
            except (UnknownObjectException, ValueError, AttributeError, AssertionError):  # no such file, or no TOML
                tool = None
        if not isinstance(tool, dict) or "jitmod" not in tool:
            raise NotOpened(
                f"{self.name} has no [tool.jitmod] in the pyproject.toml of {self.default_branch}, so nobody there has "
                f"asked for pull requests of jitmod: add the table, or pass --invited if somebody has"
            )

    def told(self, branch: str) -> str:
        """The text of the open request of a branch; empty where there is none."""
        with _in_words(self.name):
            head = f"{self._remote.owner.login}:{branch}"
            known = self._remote.get_pulls(state="open", head=head)
            return next((one.body or "" for one in known if one.head.ref == branch), "")

    def deliver(self, request: Request) -> Opened:
        """Open the pull request of a branch, or bring the open one up to date.

        Raises `NotOpened` where a person has closed it.
        """
        with _in_words(self.name):
            base = request.base or self.default_branch
            owner = self._remote.owner.login
            known = list(self._remote.get_pulls(state="all", head=f"{owner}:{request.branch}", sort="created"))
            mine = [one for one in known if one.head.ref == request.branch]
            current = next((one for one in mine if one.state == "open"), None)
            if current is not None:
                return self._updated(current, request, base)
            _check_wanted(mine)
            # What is asked of a request comes after it, and may fail: until it was done, the text says that it is due.
            body = sendable(framed(request.body))
            due = f"{body}\n{_ASKING}\n" if request.labels or request.reviewers else body
            made = self._remote.create_pull(
                base, request.branch, title=sendable(request.title), body=due, draft=request.draft,
                maintainer_can_modify=True,
            )  # fmt: skip
            if due != body:
                _ask(made, request.labels, request.reviewers)
                made.edit(body=body)
            return Opened(made.html_url, "opened")

    def open_pulls(self, prefix: str) -> dict[str, PullRequest]:
        """The open requests of jitmod's own branches, by branch; somebody else's may have a branch of that name."""
        with _in_words(self.name):
            found = self._remote.get_pulls(state="open", sort="created", direction="desc")
            return {one.head.ref: one for one in found if self._is_mine(one, prefix)}

    def check_wanted(self, branch: str) -> None:
        """Raise `NotOpened` where a person has closed a request of this branch."""
        with _in_words(self.name):
            head = f"{self._remote.owner.login}:{branch}"
            _check_wanted([one for one in self._remote.get_pulls(state="closed", head=head) if one.head.ref == branch])

    def opened_since(self, moment: datetime, prefix: str) -> int:
        """How many requests of jitmod's were opened after a moment."""
        with _in_words(self.name):
            newest = self._remote.get_pulls(state="all", sort="created", direction="desc")
            young = itertools.takewhile(lambda one: one.created_at > moment, newest)
            return sum(self._is_mine(one, prefix) for one in young)

    def _is_mine(self, pull: PullRequest, prefix: str) -> bool:
        own = pull.head.repo is not None and pull.head.repo.full_name == self._remote.full_name  # a fork's is not
        return own and pull.head.ref.startswith(prefix) and BEGIN in (pull.body or "")

    def close(self, pull: PullRequest, why: str) -> None:
        """Close a request; it may be opened again, unlike one that a person closed."""
        with _in_words(self.name):
            pull.edit(body=f"{_open(pull.body or '').rstrip()}\n\n{_CLOSED}\n", state="closed")
        with contextlib.suppress(DeliveryError), _in_words(self.name):  # it may be locked
            pull.create_issue_comment(why)

    def show(self, title: str, text: str) -> Opened | None:
        """Bring the one issue that tells how things are up to date; None where people do not want it."""
        with _in_words(self.name):
            if not self._remote.has_issues:
                return None
            body = sendable(f"{_BOARD}\n{text.strip()}\n")
            for issue in self._remote.get_issues(state="all", labels=[_BOARD_LABEL]):
                if _BOARD in (issue.body or ""):
                    if issue.state != "open":
                        return None
                    if (issue.body or "").replace("\r\n", "\n") == body:
                        return Opened(issue.html_url, "unchanged")
                    issue.edit(body=body)
                    return Opened(issue.html_url, "updated")
            return Opened(self._remote.create_issue(title, body=body, labels=[_BOARD_LABEL]).html_url, "opened")

    def _updated(self, current: PullRequest, request: Request, base: str) -> Opened:
        _ask(current, request.labels, request.reviewers)
        body = sendable(_open(merged(current.body or "", request.body)))
        changes: dict[str, Any] = {}
        if body != (current.body or ""):
            changes["body"] = body
        if current.title != sendable(request.title) and BEGIN in (current.body or ""):
            changes["title"] = sendable(request.title)
        if current.base.ref != base and request.base is not None:
            changes["base"] = base
        if changes:
            current.edit(**changes)
        return Opened(current.html_url, "updated" if changes else "unchanged")


def _check_wanted(pulls: Sequence[PullRequest]) -> None:
    for one in reversed(pulls):
        if one.state == "closed" and not one.merged_at and _CLOSED not in (one.body or ""):
            raise NotOpened(f"{one.html_url} was closed by a person and is not opened again; use another branch")


def _ask(pull: PullRequest, labels: Sequence[str], reviewers: Sequence[str]) -> None:
    """Labels and reviewers that it does not have yet."""
    new = [label for label in labels if label not in {one.name for one in pull.labels}]
    if new:
        pull.add_to_labels(*new)
    asked = {one.login for one in pull.requested_reviewers}
    wanted = [name for name in reviewers if name not in asked]
    if wanted:  # who has reviewed it is not among those who are asked any more
        done = {one.user.login for one in pull.get_reviews() if one.user is not None}
        wanted = [name for name in wanted if name not in done]
    if wanted:
        pull.create_review_request(reviewers=wanted)


def framed(body: str) -> str:
    """The text between marks, so that it can be found again among what people write around it."""
    return f"{BEGIN}\n{body.strip()}\n{END}\n"


def merged(old: str, body: str) -> str:
    """A description with a new text between the marks; what people wrote around them stays."""
    old = old.replace("\r\n", "\n")
    first, last = old.find(BEGIN), old.find(END)
    if first < 0 or last < first:
        return framed(body) if not old.strip() else f"{old.rstrip()}\n\n{framed(body)}"
    return f"{old[:first]}{framed(body).rstrip()}{old[last + len(END) :]}"


def is_due(text: str) -> bool:
    """Whether something about an open request is still to be done: its labels, or it was closed by us before."""
    return _ASKING in text or _CLOSED in text


def _open(text: str) -> str:
    """The text of a request that is open, and has all that was asked for."""
    return re.sub(rf"\n*(?:{re.escape(_CLOSED)}|{re.escape(_ASKING)})\n?", "\n", text)


def sendable(text: str) -> str:
    """Text without what UTF-8 has no bytes for, which names of files may have."""
    return text.encode("utf-8", "replace").decode()


@contextlib.contextmanager
def _in_words(name: str) -> Iterator[None]:
    """What the server or the way to it says, as one sentence to act on."""
    from github import BadCredentialsException, GithubException, RateLimitExceededException, UnknownObjectException

    try:
        yield
    except BadCredentialsException:
        raise DeliveryError("GitHub does not take the token: it may have expired, or be for another server") from None
    except RateLimitExceededException as error:
        again = (error.headers or {}).get("retry-after") or (error.headers or {}).get("x-ratelimit-reset") or "later"
        raise DeliveryError(f"GitHub's limit of requests is reached (try again: {again})") from None
    except UnknownObjectException:
        raise DeliveryError(f"GitHub has no repository {name}, or the token may not see it") from None
    except GithubException as error:
        raise DeliveryError(f"GitHub refuses ({error.status}): {_said(error.data)}") from None
    except OSError as error:  # of the connection, after all retries
        raise DeliveryError(f"GitHub cannot be reached: {type(error).__name__}") from None
    except (AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:  # half an answer, or another
        raise DeliveryError(f"the answer is not one of GitHub's ({type(error).__name__}): try again later") from None


def _said(data: Any) -> str:
    """The message of an error, and of its parts."""
    if not isinstance(data, dict):
        return str(data)[:300]
    errors = data.get("errors")
    listed = errors if isinstance(errors, list) else [errors]
    parts = [one.get("message") or one.get("code") if isinstance(one, dict) else one for one in listed]
    return "; ".join(str(part) for part in [data.get("message"), *parts] if part)[:300]
