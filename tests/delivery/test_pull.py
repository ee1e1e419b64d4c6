"""A branch goes to a remote and becomes a pull request: nobody's work is lost, and nothing is opened against a will."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_hub import FakeHub
from fixtures_git import run_git
from git_over_http import HTTP_BACKEND, served
from typer.testing import CliRunner, Result

from jitmod.cli.main import app
from jitmod.delivery.hub import BEGIN, END, framed, merged

MESSAGE = "toy: hurry (src/app.py)\n\nWhy.\n\nJitmod-Codemod: toy\nJitmod-Speedup: 2.5\nJitmod-Device: cpu\n"
Pr = Callable[..., Result]


@pytest.fixture
def remote(checkout: Path) -> Path:
    """A bare repository that is the checkout's origin; the checkout has a branch jitmod/toy with one commit."""
    bare = checkout.parent / "own" / "app.git"
    bare.parent.mkdir()
    run_git(checkout, "clone", "--quiet", "--bare", str(checkout), str(bare))
    run_git(checkout, "remote", "add", "origin", f"file://{bare}")
    commit(checkout, "jitmod/toy", "one = 1\n", MESSAGE)
    return bare


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with FakeHub() as fake:
        monkeypatch.setenv("GITHUB_API_URL", fake.url)
        monkeypatch.setenv("GH_TOKEN", fake.secret)
        yield fake


@pytest.fixture
def pr(checkout: Path, remote: Path, monkeypatch: pytest.MonkeyPatch) -> Pr:
    monkeypatch.chdir(checkout)
    return lambda *arguments: CliRunner().invoke(app, ["pr", *arguments])


def commit(folder: Path, branch: str, text: str, message: str) -> str:
    """A commit on a branch that is not checked out."""
    there = run_git(folder, "for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}").strip()
    parent = there or run_git(folder, "rev-parse", "HEAD").strip()
    (folder.parent / "blob").write_text(text)
    blob = run_git(folder, "hash-object", "-w", str(folder.parent / "blob")).strip()
    own = {"GIT_INDEX_FILE": str(folder.parent / "index"), "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@e.org",
           "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@e.org"}  # fmt: skip

    def git(*arguments: str) -> str:
        ran = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True,
                             env={**os.environ, **own})  # fmt: skip
        return ran.stdout.strip()

    git("read-tree", parent)
    git("update-index", "--add", "--cacheinfo", f"100644,{blob},new.py")
    made = git("commit-tree", git("write-tree"), "-p", parent, "-m", message)
    run_git(folder, "update-ref", f"refs/heads/{branch}", made)
    return made


def tip(folder: Path, branch: str = "jitmod/toy") -> str:
    return run_git(folder, "rev-parse", f"refs/heads/{branch}").strip()


def test_opens_a_pull_request_and_brings_it_up_to_date(pr: Pr, hub: FakeHub, checkout: Path, remote: Path) -> None:
    result = pr("--label", "speed", "--reviewer", "ann", "--draft")
    assert result.exit_code == 0, result.output
    assert result.stdout == "opened: https://hub.test/own/app/pull/1\n"
    assert tip(remote) == tip(checkout)
    (pull,) = hub.pulls
    assert (pull["title"], pull["head"]["ref"], pull["base"]["ref"], pull["draft"]) == (
        "toy: hurry (src/app.py)", "jitmod/toy", "main", True)  # fmt: skip
    assert pull["body"].startswith(BEGIN) and "2.5x" in pull["body"] and "jitmod: ignore" in pull["body"]
    assert [one["name"] for one in pull["labels"]] == ["speed"]
    assert [one["login"] for one in pull["requested_reviewers"]] == ["ann"]

    asked = len(hub.requests)
    assert pr("--label", "speed", "--reviewer", "ann").stdout == "unchanged: https://hub.test/own/app/pull/1\n"
    assert all(method == "GET" for method, _, _ in hub.requests[asked:])

    pull["body"] = f"A note of mine.\r\n\r\n{pull['body']}\r\nAnother one."
    commit(checkout, "jitmod/toy", "two = 2\n", MESSAGE.replace("hurry", "hasten"))
    assert pr().stdout == "updated: https://hub.test/own/app/pull/1\n"
    assert tip(remote) == tip(checkout)
    assert pull["title"] == "toy: 2 rewrites, up to 2.5x faster on cpu"
    assert pull["body"].startswith("A note of mine.\n") and pull["body"].endswith("Another one.")
    assert pull["body"].count(BEGIN) == pull["body"].count(END) == 1 and "hasten" in pull["body"]
    assert "s3cret" not in str([result.output for result in (pr(), pr("--dry-run"))])


@pytest.mark.skipif(not HTTP_BACKEND.exists(), reason="this git has no server for HTTP")
def test_over_http(pr: Pr, hub: FakeHub, checkout: Path, remote: Path) -> None:
    run_git(remote, "config", "http.receivepack", "true")
    with served(remote.parent.parent) as address:
        run_git(checkout, "remote", "set-url", "origin", f"{address}/own/app.git")
        assert pr().stdout == "opened: https://hub.test/own/app/pull/1\n"
        assert tip(remote) == tip(checkout)
        theirs = commit(remote, "jitmod/toy", "mine = 3\n", "A fix by hand")
        commit(checkout, "jitmod/toy", "two = 2\n", MESSAGE)
        result = pr()
        assert result.exit_code == 2 and "A fix by hand" in result.stderr and tip(remote) == theirs


def test_what_a_person_closed_stays_closed(pr: Pr, hub: FakeHub) -> None:
    pr()
    hub.pulls[0]["state"] = "closed"
    result = pr()
    assert result.exit_code == 2 and "pull/1 was closed by a person" in result.stderr and len(hub.pulls) == 1
    hub.pulls[0]["merged_at"] = "2026-01-01T00:00:00Z"
    assert pr().stdout == "opened: https://hub.test/own/app/pull/2\n"


def test_commits_of_people_on_the_branch_are_not_overwritten(
    pr: Pr, hub: FakeHub, checkout: Path, remote: Path
) -> None:
    pr()
    theirs = commit(remote, "jitmod/toy", "mine = 3\n", "A fix by hand")
    commit(checkout, "jitmod/toy", "two = 2\n", MESSAGE)
    before = len(hub.requests)
    result = pr()
    assert result.exit_code == 2 and "A fix by hand" in result.stderr and tip(remote) == theirs
    assert all(method == "GET" for method, _, _ in hub.requests[before:])
    assert run_git(checkout, "for-each-ref", "refs/jitmod").strip() == ""
    run_git(checkout, "fetch", "--quiet", str(remote), "jitmod/toy")
    run_git(checkout, "update-ref", "refs/heads/jitmod/toy", "FETCH_HEAD")
    commit(checkout, "jitmod/toy", "two = 2\n", MESSAGE)
    assert pr().exit_code == 0 and tip(remote) == tip(checkout)  # on top of theirs


def test_a_branch_that_jitmod_made_anew_takes_the_place_of_its_old_one(
    pr: Pr, hub: FakeHub, checkout: Path, remote: Path
) -> None:
    pr()
    run_git(checkout, "branch", "-D", "jitmod/toy")
    made = commit(checkout, "jitmod/toy", "other = 1\n", MESSAGE)
    assert pr().exit_code == 0 and tip(remote) == made


def test_a_commit_that_comes_meanwhile_is_not_overwritten(
    pr: Pr, hub: FakeHub, checkout: Path, remote: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pr()
    run_git(checkout, "branch", "-D", "jitmod/toy")
    commit(checkout, "jitmod/toy", "other = 1\n", MESSAGE)
    from jitmod.delivery.repository import Repository

    plain, theirs = Repository.git, []

    def late(self: Repository, *arguments: str, **options: object) -> str:
        if arguments[0] == "push":
            theirs.append(commit(remote, "jitmod/toy", "mine = 3\n", "A fix by hand"))
        return plain(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Repository, "git", late)
    result = pr()
    assert result.exit_code == 2 and "git push to origin failed" in result.stderr and tip(remote) == theirs[0]


def test_nobody_is_asked_who_did_not_ask(pr: Pr, hub: FakeHub, remote: Path) -> None:
    for text in (None, "[project]\n", "no toml ["):
        hub.pyproject = text
        result = pr()
        assert result.exit_code == 2 and "has no [tool.jitmod]" in result.stderr
    assert hub.pulls == [] and run_git(remote, "for-each-ref", "refs/heads/jitmod").strip() == ""
    assert pr("--invited").exit_code == 0


FAILURES = {
    "502, then well": ([(502, {}, "Bad gateway")] * 2, 0, "opened"),
    "502 again and again": ([(502, {}, "Bad gateway")] * 9, 2, "GitHub"),
    "a secondary limit, then well": (
        [(403, {"Retry-After": "1"}, "You have exceeded a secondary rate limit.")], 0, "opened"),
    "a limit for an hour": (
        [(403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "9999999999"}, "API rate limit exceeded for x.")],
        2, "limit"),
    "forbidden": ([(403, {}, "Resource not accessible by integration")], 2, "Resource not accessible"),
    "unauthorised": ([(401, {}, "Bad credentials")], 2, "does not take the token"),
    "unknown": ([(404, {}, "Not Found")], 2, "no repository own/app"),
}  # fmt: skip


@pytest.mark.parametrize(("failures", "code", "said"), FAILURES.values(), ids=FAILURES)
def test_what_the_server_says_is_told(
    pr: Pr, hub: FakeHub, failures: list[tuple[int, dict[str, str], str]], code: int, said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    hub.failures = list(failures)
    result = pr()
    assert result.exit_code == code and said in result.output, result.output
    assert "Traceback" not in result.output and hub.secret not in result.output


def test_without_a_token_or_a_server(pr: Pr, monkeypatch: pytest.MonkeyPatch, remote: Path) -> None:
    for name in ("GH_TOKEN", "GITHUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    plain = subprocess.run

    def without_gh(command: list[str], **options: Any) -> Any:
        if command[0] == "gh":
            raise FileNotFoundError
        return plain(command, **options)

    monkeypatch.setattr("jitmod.delivery.hub.subprocess.run", without_gh)
    result = pr()
    assert result.exit_code == 2 and "no token for GitHub" in result.stderr
    monkeypatch.setenv("GH_TOKEN", "x")
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    result = pr()
    assert result.exit_code == 2 and "cannot be reached" in result.stderr
    assert run_git(remote, "for-each-ref", "refs/heads/jitmod").strip() == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["jitmod/none"], "no such revision"),
        (["main"], "no commits of jitmod"),
        (["--remote", "nowhere"], "there is no remote nowhere"),
        (["--base", "nothing"], "nothing is not here"),
    ],
)
def test_arguments_that_cannot_be(pr: Pr, hub: FakeHub, arguments: list[str], said: str) -> None:
    result = pr(*arguments)
    assert result.exit_code == 2 and said in result.stderr, result.output


def test_what_people_write_around_the_text_stays() -> None:
    once = merged("Mine.", "one")
    assert once == f"Mine.\n\n{framed('one')}"
    assert merged(once + "More.", "two") == f"Mine.\n\n{framed('two')}More."
    assert merged("", "one") == framed("one")
    assert merged(f"{END} {BEGIN}", "one").endswith(framed("one"))
