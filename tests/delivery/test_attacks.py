"""What strangers may put into a bundle, what people do to a branch, and what servers answer: nothing acts, nothing of
theirs is lost, nothing is a traceback."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from documents import documents
from fake_hub import FakeHub
from fixtures_git import run_git
from test_bot import Deliver, Make, deliver, edit, first_file, make, on_main, reword  # noqa: F401
from test_pull import Pr, hub, pr, remote, tip  # noqa: F401
from typer.testing import CliRunner

from jitmod.cli.main import app
from jitmod.delivery.bundle import BadBundle, read_bundle
from jitmod.delivery.hub import Hub, token
from jitmod.delivery.repository import DeliveryError, GitFailed, scrubbed_environment, unattended
from jitmod.trial.job import digest

ACTING = {
    "": "\nco-authored-by: x <x@e.org>", "Fixes GH-1\n\n": "", "Closes: https://github.com/own/app/issues/1\n\n": "",
    "[skip actions]\n\n": "", "[actions skip]\n\n": "", "x\n\nskip-checks: true\n\n": "", "resolved own/app#1\n\n": "",
    "x\n\nCo-authored-by: x <x@e.org>\n\n": "", "x\u2028y\n\n": "", "x\n\n": "\nsigned-off-by:x <x@e.org>",
    "***NO_CI***\n\n": "",
}  # fmt: skip


def test_messages_that_act(make: Make) -> None:  # noqa: F811
    folder = make()
    good = (folder / "bundle.json").read_text()
    for before, after in ACTING.items():
        edit(folder, lambda d, b=before, a=after: reword(d, b, a))
        with pytest.raises(BadBundle, match="not a message"):
            read_bundle(folder, ["."])
        (folder / "bundle.json").write_text(good)
    edit(folder, lambda d: reword(d, "batch x[i - skip] in close() (#1), a[no - 1], prefix it\n\n", ""))
    assert len(read_bundle(folder, ["."]).commits) == 3


def test_documents_that_are_odd(make: Make, deliver: Deliver, hub: FakeHub) -> None:  # noqa: F811
    folder = make()
    good = (folder / "bundle.json").read_text()
    for change, said in (
        (lambda d: first_file(d).update(path="src/\ud800.py"), "not a path"),
        (lambda d: d["patches"][0].update(codemod="toy\n"), "patches/0/codemod"),
        (lambda d: d["refused"].update({"x\n::error::y": -1}), "refused/x ::error::y"),
    ):
        edit(folder, change)
        result = deliver(folder)
        assert result.exit_code == 2 and said in result.output, result.output
        assert not any(line.startswith("::") for line in result.output.splitlines())
        (folder / "bundle.json").write_text(good)
    edit(folder, lambda d: d["patches"][1].update(why="\ud800", symbol="\ud800"))
    assert deliver(folder).exit_code == 0 and len(hub.pulls) == 1
    assert deliver(folder, "--path", "").exit_code == 2


@pytest.mark.parametrize("at", [
    ("evidence", "judges", 0, "warm", "calls", "candidate", 0),
    ("evidence", "judges", 0, "cold", "baseline", 0, "trace", 10**400),
    ("job", "gate", "min_speedup", 10**400),
    ("job", "workload", []),
    ("job", "workload", "run", 7),
])  # fmt: skip
def test_evidence_that_is_odd(make: Make, deliver: Deliver, hub: FakeHub, at: tuple[Any, ...]) -> None:  # noqa: F811
    folder = make()
    job, evidence = documents("first")
    place: Any = {"job": job, "evidence": evidence}
    for key in at[:-2]:
        place = place[key]
    place[at[-2]] = at[-1]
    evidence["job"] = digest(job)
    name = digest(evidence)
    (folder / "evidence" / f"{name}.json").write_text(json.dumps({"job": job, "evidence": evidence}))

    def point(document: dict[str, Any]) -> None:
        first = document["commits"][0]
        first["message"] = first["message"].replace(first["evidence"], name)
        first["evidence"] = name

    edit(folder, point)
    result = deliver(folder)
    assert result.exit_code == 2 and "evidence" in result.output and hub.pulls == [], result.output


def amended(remote: Path, first: str, name: str) -> str:  # noqa: F811
    """Our last commit as somebody has changed it, who took it for his own, with our message."""
    people = {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER")
              for part, value in (("NAME", name), ("EMAIL", f"{name.lower()}@example.org"))}  # fmt: skip
    tree = run_git(remote, "rev-parse", "main^{tree}").strip()
    message = run_git(remote, "log", "-1", "--format=%B", first)
    command = ["git", "commit-tree", tree, "-p", f"{first}~", "-m", message]
    made = subprocess.run(command, cwd=remote, check=True, capture_output=True, text=True, env={**os.environ, **people})
    run_git(remote, "update-ref", "refs/heads/jitmod/toy", made.stdout.strip())
    return made.stdout.strip()


@pytest.mark.parametrize("name", ["Bob", "Ada"])  # Ada is whom our commits are by
def test_a_commit_that_was_amended_is_not_overwritten(
    make: Make, deliver: Deliver, hub: FakeHub, checkout: Path, remote: Path, name: str  # noqa: F811
) -> None:
    deliver(make())
    theirs = amended(remote, tip(remote), name)
    assert "touched: jitmod/toy" in deliver(make()).stdout and tip(remote) == theirs
    (checkout / "src" / "app.py").write_text("from speed import slow\n\n\ndef f(x):\n    return slow(x)\n")
    on_main(checkout, remote)
    assert "touched: jitmod/toy" in deliver(make()).stdout and tip(remote) == theirs


def test_pr_does_not_overwrite_an_amended_commit(
    pr: Pr, hub: FakeHub, checkout: Path, remote: Path  # noqa: F811
) -> None:
    pr()
    theirs = amended(remote, tip(remote), "Ada")
    result = pr()
    assert result.exit_code == 2 and "did not make" in result.stderr and tip(remote) == theirs


def test_another_machine_goes_on_where_the_text_says_what_is_ours(
    make: Make, deliver: Deliver, hub: FakeHub, checkout: Path, remote: Path  # noqa: F811
) -> None:
    deliver(make())
    for file in (checkout / ".git" / "jitmod" / "pushed").iterdir():
        file.unlink()
    run_git(checkout, "config", "user.name", "Bot")
    source = checkout / "src" / "app.py"
    source.write_text(source.read_text() + "\n\ndef third(x):\n    return slow(x)\n")
    on_main(checkout, remote)
    assert "updated: jitmod/toy" in deliver(make()).stdout
    for file in (checkout / ".git" / "jitmod" / "pushed").iterdir():
        file.unlink()
    hub.pulls[0]["body"] = hub.pulls[0]["body"].replace("jitmod: commits", "")  # now only whom they are by counts
    run_git(checkout, "config", "user.name", "Other")
    was = tip(remote)
    assert "touched: jitmod/toy" in deliver(make()).stdout and tip(remote) == was


def test_what_is_half_done_is_completed(
    make: Make, deliver: Deliver, hub: FakeHub, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    whole = hub.respond

    def without_labels(method: str, path: str, given: Any, secret: str | None) -> Any:
        refused = 403, {}, {"message": "Resource not accessible", "errors": None}
        return refused if path.endswith("/labels") else whole(method, path, given, secret)

    monkeypatch.setattr(hub, "respond", without_labels)
    folder = make()
    result = deliver(folder, "--label", "speed", "--reviewer", "ann")
    assert result.exit_code == 2 and "failed: jitmod/toy GitHub refuses (403)" in result.output
    assert "tried again by the next run" in hub.issues[0]["body"]
    monkeypatch.setattr(hub, "respond", whole)
    assert deliver(folder, "--label", "speed", "--reviewer", "ann").exit_code == 0
    assert [one["name"] for one in hub.pulls[0]["labels"]] == ["speed"]
    hub.pulls[0].update(requested_reviewers=[], reviews=[{"user": {"login": "ann"}}])
    asked = len(hub.requests)
    assert "unchanged" in deliver(folder, "--label", "speed", "--reviewer", "ann").stdout
    assert all(method == "GET" for method, _, _ in hub.requests[asked:])


def test_a_request_that_was_opened_again_is_closed_for_good(
    make: Make, deliver: Deliver, hub: FakeHub, checkout: Path, remote: Path  # noqa: F811
) -> None:
    deliver(make())
    source = checkout / "src" / "app.py"
    text = source.read_text()
    source.write_text(text + "\ndef (:\n")
    on_main(checkout, remote)
    assert "nothing to deliver" in deliver(make()).stdout  # nobody knows what is in that file
    source.write_text("x = 1\n")
    on_main(checkout, remote)
    assert "closed: jitmod/toy" in deliver(make()).stdout
    source.write_text(text)
    on_main(checkout, remote)
    hub.pulls[0]["state"] = "open"  # by a person
    assert "updated: jitmod/toy" in deliver(make()).stdout
    hub.pulls[0]["state"] = "closed"
    assert "unwanted: jitmod/toy" in deliver(make()).stdout and len(hub.pulls) == 1


@pytest.mark.parametrize(("status", "answer"), [
    (200, None), (200, {"message": "x"}), (204, None), (404, "x"), (410, []), (422, {"message": "x", "errors": ["y"]}),
    (403, {"message": "x", "errors": None}),
])  # fmt: skip
def test_answers_that_are_none(
    pr: Pr, hub: FakeHub, monkeypatch: pytest.MonkeyPatch, status: int, answer: Any  # noqa: F811
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr(hub, "respond", lambda *_: (status, {}, answer))
    result = pr()
    assert result.exit_code == 2 and result.stderr.startswith("jitmod: error: ") and hub.pulls == []


def test_settings_that_cannot_be(monkeypatch: pytest.MonkeyPatch, hub: FakeHub, pr: Pr) -> None:  # noqa: F811
    hub.pyproject = "tool = 5\n"
    assert "has no [tool.jitmod]" in pr().stderr
    for name in ("app", "own/app/x", "own/app?x", "https://github.com/own/app"):
        with pytest.raises(DeliveryError, match="owner/name"):
            Hub(name, "x")
    for url in ("github.com", "ftp://x", "http://", "http://[::1"):
        monkeypatch.setenv("GITHUB_API_URL", url)
        with pytest.raises(DeliveryError, match="GITHUB_API_URL"):
            Hub("own/app", "x")
    monkeypatch.setenv("GH_TOKEN", "s3cret\n")
    assert token() == "s3cret"
    monkeypatch.setenv("GH_TOKEN", "a\nb")
    with pytest.raises(DeliveryError, match="characters"):
        token()


def test_addresses_with_passwords_are_not_shown(make: Make, deliver: Deliver, hub: FakeHub) -> None:  # noqa: F811
    result = deliver(make(), "--repo", "own/app", "--remote", "http://x:pa55@127.0.0.1:9/own/app.git")
    assert result.exit_code == 2 and "127.0.0.1" in result.output and "pa55" not in result.output
    assert "pa55" not in str(GitFailed(["push"], "x"))


def test_files_with_odd_names(
    make: Make, deliver: Deliver, hub: FakeHub, checkout: Path, remote: Path  # noqa: F811
) -> None:
    text = "from speed import slow\n\n\ndef f(x):\n    return slow(x)\n"
    (checkout / "src" / "a\nb.py").write_text(text)
    (checkout / ".ci").mkdir()
    (checkout / ".ci" / "x.py").write_text(text)
    odd = checkout / "src" / os.fsdecode(b"\xff.py")
    try:
        odd.write_text(text)
    except OSError:
        pytest.skip("this file system has only names in UTF-8")
    on_main(checkout, remote)
    assert deliver(make()).exit_code == 0
    changed = subprocess.run(["git", "diff", "-z", "--name-only", "main", "jitmod/toy"], cwd=remote, check=True,
                             capture_output=True).stdout  # fmt: skip
    assert sorted(changed.split(b"\0")) == [b"", b"src/app.py", b"src/\xff.py"]
    assert "not delivered: not a path" in hub.issues[0]["body"]
    run_git(checkout, "checkout", "--quiet", "-b", "other")
    run_git(checkout, "commit", "--quiet", "--allow-empty", "-m", "x")
    assert "is not a commit of origin/main" in CliRunner().invoke(app, ["bot", "src"]).output


def test_git_asks_nobody_and_keeps_its_way_to_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_INDEX_FILE", "GIT_AUTHOR_NAME"):
        monkeypatch.setenv(name, "x")
    with scrubbed_environment():
        with unattended():
            assert os.environ["GIT_TERMINAL_PROMPT"] == "0"
        names = {name for name in os.environ if name.startswith("GIT_")}
    assert {"GIT_SSH_COMMAND", "GIT_SSL_CAINFO"} <= names and not names & {"GIT_INDEX_FILE", "GIT_AUTHOR_NAME"}
    assert "GIT_TERMINAL_PROMPT" not in os.environ
