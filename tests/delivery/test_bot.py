"""A bundle becomes pull requests: limits, owners, people who close, change or do not want, code that moves or goes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fake_hub import FakeHub
from fixtures_git import run_git, snapshot
from test_pull import commit, hub, remote, tip  # noqa: F401
from toy import Toy, TrialLog
from typer.testing import CliRunner, Result

from jitmod.cli.main import app
from jitmod.delivery.attempt import Terms
from jitmod.delivery.bundle import SCHEMA
from jitmod.delivery.groups import Owners
from jitmod.delivery.job import Request, into_bundle
from jitmod.delivery.repository import Repository, scrubbed_environment
from jitmod.delivery.tell import Silent
from jitmod.source.config import GateSettings, Workload

Deliver = Callable[..., Result]
Make = Callable[..., Path]


class Joy(Toy):
    """The toy under another name."""

    id = "joy"


@pytest.fixture
def make(checkout: Path, tmp_path: Path) -> Make:
    """Make a bundle of the checkout's HEAD."""
    count = iter(range(99))

    def made(*codemods: Toy, paths: tuple[str, ...] = (".",)) -> Path:
        folder = tmp_path / f"bundle{next(count)}"
        work = (Workload("work", "bench/work.py:run"),)
        terms = Terms(TrialLog(proven=True), checkout, work, GateSettings(), Path("python"), 60.0)
        request = Request(codemods or (Toy(),), paths)
        with scrubbed_environment():
            into_bundle(request, Repository.around(checkout), folder, None, terms, Silent())
        return folder

    return made


@pytest.fixture
def deliver(checkout: Path, remote: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> Deliver:  # noqa: F811
    monkeypatch.chdir(checkout)
    return lambda folder, *arguments: CliRunner().invoke(app, ["pr", "--from", str(folder), *arguments])


def on_main(checkout: Path, remote: Path, message: str = "work") -> None:  # noqa: F811
    run_git(checkout, "add", ".")
    run_git(checkout, "commit", "--quiet", "-m", message)
    run_git(checkout, "push", "--quiet", "origin", "main")


def test_a_bundle_is_data_and_leaves_no_branch(make: Make, checkout: Path) -> None:
    before = snapshot(checkout), run_git(checkout, "for-each-ref", "refs/heads")
    folder = make()
    assert (snapshot(checkout), run_git(checkout, "for-each-ref", "refs/heads")) == before
    document = json.loads((folder / "bundle.json").read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    published = Path(__file__).parents[2] / "docs" / "schema" / "bundle.json"
    assert json.loads(published.read_text()) == SCHEMA, "python -m jitmod.delivery.bundle > docs/schema/bundle.json"
    assert [len(document[key]) for key in ("commits", "patches")] == [3, 4]
    assert document["refused"] == {"may-be-empty": 1} and document["codemods"] == ["toy"]
    last = document["commits"][-1]["files"][0]["after"]
    assert (folder / "files" / last).read_text().count("fast(x, 8)") == 3


def test_opens_then_finds_everything_as_it_was(
    make: Make, deliver: Deliver, hub: FakeHub, checkout: Path, remote: Path  # noqa: F811
) -> None:
    before = snapshot(checkout), run_git(checkout, "for-each-ref", "refs/heads")
    folder = make()
    result = deliver(folder, "--label", "speed")
    assert result.exit_code == 0, result.output
    assert result.stdout == (
        "opened: jitmod/toy https://hub.test/own/app/pull/1\ndashboard opened: https://hub.test/own/app/issues/1000\n"
    )
    assert (snapshot(checkout), run_git(checkout, "for-each-ref", "refs/heads")) == before
    (pull,) = hub.pulls
    assert pull["title"] == "toy: 3 rewrites, up to 2.04x faster on cpu" and "To see it again" in pull["body"]
    assert [one["name"] for one in pull["labels"]] == ["speed"]
    assert run_git(remote, "show", "jitmod/toy:src/app.py").count("fast(x, 8)") == 3
    assert run_git(remote, "rev-list", "--count", "main..jitmod/toy").strip() == "3"
    (board,) = hub.issues
    assert "| jitmod/toy | open | https://hub.test/own/app/pull/1 |" in board["body"]
    assert "src/app.py:9" in board["body"] and "| `may-be-empty` | 1 |" in board["body"]

    asked, was = len(hub.requests), tip(remote)
    again = deliver(make())
    assert again.stdout == (
        "unchanged: jitmod/toy https://hub.test/own/app/pull/1\n"
        "dashboard unchanged: https://hub.test/own/app/issues/1000\n"
    )
    assert all(method == "GET" for method, _, _ in hub.requests[asked:]) and tip(remote) == was


def test_the_base_moves(make: Make, deliver: Deliver, hub: FakeHub, checkout: Path, remote: Path) -> None:  # noqa: F811
    deliver(make())
    was = tip(remote)
    (checkout / "other.py").write_text("x = 1\n")
    on_main(checkout, remote)
    assert "unchanged: jitmod/toy" in deliver(make()).stdout and tip(remote) == was  # its files are as they were
    old = make()
    source = checkout / "src" / "app.py"
    source.write_text(source.read_text() + "\n\ndef third(x):\n    return slow(x)\n")
    on_main(checkout, remote)
    assert "moved: jitmod/toy src/app.py has changed" in deliver(old).stdout and tip(remote) == was
    assert "updated: jitmod/toy" in deliver(make()).stdout
    assert run_git(remote, "rev-list", "--count", "main..jitmod/toy").strip() == "4"
    assert run_git(remote, "merge-base", "main", "jitmod/toy") == run_git(remote, "rev-parse", "main")
    assert "4 rewrites" in hub.pulls[0]["title"]


def test_people_are_stronger(make: Make, deliver: Deliver, hub: FakeHub, checkout: Path, remote: Path) -> None:  # noqa: F811
    deliver(make())
    first = tip(remote)
    theirs = commit(remote, "jitmod/toy", "mine = 1\n", "By hand")
    assert "touched: jitmod/toy" in deliver(make()).stdout and tip(remote) == theirs
    run_git(remote, "update-ref", "refs/heads/jitmod/toy", f"{first}~")  # one rewrite is not wanted
    assert "commits were dropped" in deliver(make()).stdout and tip(remote) != first
    amended = {"GIT_COMMITTER_NAME": "b", "GIT_COMMITTER_EMAIL": "b@e.org", "GIT_AUTHOR_NAME": "Ada",
               "GIT_AUTHOR_EMAIL": "ada@example.org"}  # fmt: skip
    message = run_git(remote, "log", "-1", "--format=%B", first)
    made = subprocess.run(
        ["git", "commit-tree", f"{first}^{{tree}}", "-p", f"{first}~", "-m", message], cwd=remote, check=True,
        capture_output=True, text=True, env={**os.environ, **amended},
    ).stdout.strip()  # fmt: skip
    run_git(remote, "update-ref", "refs/heads/jitmod/toy", made)
    assert "touched: jitmod/toy" in deliver(make()).stdout and tip(remote) == made
    hub.pulls[0]["state"] = "closed"
    result = deliver(make())
    assert "unwanted: jitmod/toy https://hub.test/own/app/pull/1 was closed by a person" in result.stdout
    assert len(hub.pulls) == 1 and tip(remote) == made and result.exit_code == 0
    hub.issues[0]["state"] = "closed"
    assert "no dashboard is wanted" in deliver(make()).stdout and len(hub.issues) == 1


def test_code_that_goes_and_comes_back(
    make: Make, deliver: Deliver, hub: FakeHub, checkout: Path, remote: Path  # noqa: F811
) -> None:
    deliver(make())
    source = checkout / "src" / "app.py"
    text = source.read_text()
    source.write_text("from speed import slow\n\n\ndef bad(x):\n    return slow(x)\n")
    on_main(checkout, remote)
    assert "unproven: jitmod/toy" in deliver(make()).stdout and hub.pulls[0]["state"] == "open"
    source.write_text("x = 1\n")
    on_main(checkout, remote)
    partly = make(paths=("bench",))
    assert "nothing to deliver" in deliver(partly).stdout and hub.pulls[0]["state"] == "open"  # nobody looked there
    assert "nothing to deliver" in deliver(make(Joy())).stdout and hub.pulls[0]["state"] == "open"  # nor for that
    assert "closed: jitmod/toy" in deliver(make()).stdout
    assert hub.pulls[0]["state"] == "closed" and "code" in hub.pulls[0]["comments"][0]
    assert run_git(remote, "for-each-ref", "refs/heads/jitmod").strip() == ""
    source.write_text(text)
    on_main(checkout, remote)
    assert "opened: jitmod/toy https://hub.test/own/app/pull/2" in deliver(make()).stdout


def test_only_so_many(make: Make, deliver: Deliver, hub: FakeHub, checkout: Path, remote: Path) -> None:  # noqa: F811
    (checkout / "src" / "more.py").write_text("from speed import slow\n\n\ndef f(x):\n    return slow(x)\n")
    (checkout / "CODEOWNERS").write_text("* @own/core\n/src/more.py @ann\n")
    on_main(checkout, remote)
    folder = make()
    result = deliver(folder, "--one-for", "owner", "--most-hourly", "1")
    assert "opened: jitmod/ann" in result.stdout and "waiting: jitmod/own-core 1 were opened within" in result.stdout
    hub.pulls[0]["created_at"] = (hub.now - timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    result = deliver(folder, "--one-for", "owner", "--most-open", "1")
    assert "unchanged: jitmod/ann" in result.stdout and "waiting: jitmod/own-core 1 are open" in result.stdout
    assert "waits | 1 are open" in hub.issues[0]["body"]
    result = deliver(folder, "--one-for", "owner", "--most-hourly", "1")
    assert "opened: jitmod/own-core" in result.stdout and len(hub.pulls) == 2
    changed = run_git(remote, "diff", "--name-only", "main...jitmod/own-core").split()
    assert changed == ["src/app.py"] and len(hub.issues) == 1
    assert deliver(folder, "--one-for", "nobody").exit_code == 2


def test_somebody_elses_request_with_such_a_branch_is_left_alone(
    make: Make, deliver: Deliver, hub: FakeHub, checkout: Path, remote: Path  # noqa: F811
) -> None:
    (checkout / "src" / "app.py").write_text("x = 1\n")
    commit(checkout, "jitmod/theirs", "x = 2\n", "By hand")
    run_git(checkout, "push", "--quiet", "origin", "jitmod/theirs")
    theirs = {"title": "t", "head": "jitmod/theirs", "base": "main", "body": ""}
    hub.respond("POST", "/repos/own/app/pulls", theirs, hub.secret)
    on_main(checkout, remote)
    assert "nothing to deliver" in deliver(make()).stdout and hub.pulls[0]["state"] == "open"


def test_interrupted_between_push_and_request(
    make: Make, deliver: Deliver, hub: FakeHub, remote: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    from jitmod.delivery.hub import Hub

    whole, broken = Hub.deliver, []

    def failing(self: Hub, request: Any) -> Any:
        if not broken:
            broken.append(request)
            raise KeyboardInterrupt
        return whole(self, request)

    monkeypatch.setattr(Hub, "deliver", failing)
    folder = make()
    assert deliver(folder).exit_code == 130 and hub.pulls == [] and tip(remote)
    assert "opened: jitmod/toy" in deliver(folder).stdout
    assert listed_tip(hub) == tip(remote)[:10]


def listed_tip(hub: FakeHub) -> str:  # noqa: F811
    text: str = hub.pulls[0]["body"]
    return text.partition("<!-- jitmod: commits ")[2].partition(" -->")[0].split()[-1]


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads((folder / "bundle.json").read_text())
    change(document)
    (folder / "bundle.json").write_text(json.dumps(document))


def first_file(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["commits"][0]["files"][0]
    return found


def reword(document: dict[str, Any], before: str, after: str) -> None:
    document["commits"][0]["message"] = f"{before}{document['commits'][0]['message'].strip()}{after}"


FORGED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a workflow": (lambda d: first_file(d).update(path=".github/workflows/ci.yml"), "not a path"),
    "a script of a workflow": (lambda d: first_file(d).update(path=".github/x.py"), "not a path"),
    "a hidden folder": (lambda d: first_file(d).update(path="src/.ci/x.py"), "not a path"),
    "above": (lambda d: first_file(d).update(path="../x.py"), "not a path"),
    "absolute": (lambda d: first_file(d).update(path="/etc/x.py"), "not a path"),
    "not normal": (lambda d: first_file(d).update(path="src//app.py"), "not a path"),
    "no source": (lambda d: first_file(d).update(path="src/app.sh"), "not a Python file"),
    "a new file": (lambda d: first_file(d).update(path="src/new.py"), "has changed"),
    "another base": (lambda d: d.update(base="0" * 40), "is not a commit of"),
    "no sha": (lambda d: d.update(base="--upload-pack=x"), "bundle.json: base"),
    "more keys": (lambda d: d.update(hook="x"), "Additional properties"),
    "other bytes": (lambda d: first_file(d).update(after="1" * 40), "cannot be read"),
    "no evidence": (lambda d: d["commits"][0].update(evidence="1" * 64), "not a message"),
    "a closing word": (lambda d: reword(d, "Fixes #1\n\n", ""), "not a message"),
    "a word to the runner": (lambda d: reword(d, "[skip ci]\n\n", ""), "not a message"),
    "a signature": (lambda d: reword(d, "", "\nSigned-off-by: x <x@e.org>"), "not a message"),
    "a later version": (lambda d: d.update(schema_version=2), "schema_version"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "said"), FORGED.values(), ids=FORGED)
def test_forged(
    make: Make, deliver: Deliver, hub: FakeHub, remote: Path, change: Callable[[dict[str, Any]], object], said: str  # noqa: F811
) -> None:
    folder = make()
    edit(folder, change)
    result = deliver(folder)
    assert said in result.output and "Traceback" not in result.output, result.output
    assert hub.pulls == [] and run_git(remote, "for-each-ref", "refs/heads/jitmod").strip() == ""


def test_files_of_a_bundle_that_are_not_what_they_say(
    make: Make, deliver: Deliver, hub: FakeHub, checkout: Path  # noqa: F811
) -> None:
    folder = make()
    one = next((folder / "files").iterdir())
    kept = one.read_bytes()
    one.write_bytes(b"x = 1\n")
    assert "does not hold what its name says" in deliver(folder).output
    one.unlink()
    one.symlink_to(checkout / "pyproject.toml")
    assert deliver(folder).exit_code == 2
    one.unlink()
    one.write_bytes(kept)
    evidence = next((folder / "evidence").iterdir())
    text = evidence.read_text()
    for old, new in (('"takes_rep": true', '"takes_rep": false'), ('"placed": 1', '"placed": {}'), (text, "[]")):
        evidence.write_text(text.replace(old, new))
        result = deliver(folder)
        assert result.exit_code == 2 and "evidence" in result.output, result.output
    evidence.write_text(text)
    assert hub.pulls == []
    assert "outside of lib" in deliver(folder, "--path", "lib").output
    assert deliver(folder, "--path", "src").exit_code == 0


def test_nothing_of_the_project_runs(make: Make, deliver: Deliver, hub: FakeHub, checkout: Path) -> None:  # noqa: F811
    folder = make()
    for hook in ("pre-commit", "commit-msg", "post-commit", "reference-transaction"):
        path = checkout / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {checkout}/ran-{hook}\n")
        path.chmod(0o755)
    (checkout / ".gitattributes").write_text("*.py filter=evil\n")
    run_git(checkout, "config", "filter.evil.clean", f"touch {checkout}/ran-filter; cat")
    assert deliver(folder).exit_code == 0
    assert not list(checkout.glob("ran-*"))


def test_bundles_that_cannot_be(make: Make, deliver: Deliver, tmp_path: Path, checkout: Path) -> None:
    assert "bundle.json cannot be read" in deliver(tmp_path / "none").output
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "bundle.json").write_text("{" * 9)
    assert "is not JSON" in deliver(tmp_path / "bad").output
    folder = make()
    result = CliRunner().invoke(app, ["apply", "--bundle", str(folder), "--codemod", "vmapify", "src"])
    assert result.exit_code == 2 and "holds a bundle already" in result.output
    for more in (["--dry-run"], ["--write"], ["--branch", "x"], ["--with-test"]):
        result = CliRunner().invoke(app, ["apply", "--bundle", str(tmp_path / "b"), *more])
        assert result.exit_code == 2 and "--bundle goes without" in result.output
    shutil.rmtree(folder)


def test_the_bot_tries_without_a_token_and_delivers(
    make: Make, deliver: Deliver, hub: FakeHub, checkout: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    asked: list[list[str]] = []

    def apply(command: list[str], env: dict[str, str]) -> int:
        asked.append(command)
        assert "GH_TOKEN" not in env and hub.secret not in env.values() and "PATH" in env
        if "nothing" not in command[-1]:
            make().rename(command[command.index("--bundle") + 1])
        return 1

    monkeypatch.setattr("jitmod.cli.bot._ended", apply)
    result = CliRunner().invoke(app, ["bot", "src", "--codemod", "toy", "--draft", "--repo", "own/app"])
    assert result.exit_code == 0 and "opened: jitmod/toy" in result.stdout, result.output
    assert hub.pulls[0]["draft"] and asked[0][1:6] == ["-P", "-m", "jitmod", "apply", "src"]
    result = CliRunner().invoke(app, ["bot", "--codemod", "nothing"])
    assert result.exit_code == 2 and "made no bundle" in result.output
    hub.pyproject = None
    result = CliRunner().invoke(app, ["bot", "src"])
    assert result.exit_code == 2 and "has no [tool.jitmod]" in result.output and len(asked) == 2
    assert CliRunner().invoke(app, ["bot", "/", "--invited"]).exit_code == 2


def test_a_run_that_is_interrupted_tidies_up(tmp_path: Path) -> None:
    note = tmp_path / "note"
    imports = "import os, signal, sys, time\n"
    child = f"{imports}def tidy(*_):\n    open({str(note)!r}, 'w').write('x')\n    sys.exit(1)\n"
    child += "signal.signal(signal.SIGTERM, tidy)\nprint('ready', file=sys.stderr, flush=True)\ntime.sleep(60)\n"
    ours = f"{imports}from jitmod.cli.bot import _ended\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n"
    ours += f"_ended([sys.executable, '-c', {child!r}], dict(os.environ))\n"
    with subprocess.Popen([sys.executable, "-c", ours], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None and process.stderr.readline() == "ready\n"
        process.terminate()
        assert process.wait(30) == 3 and note.read_text() == "x"


def test_owners() -> None:
    owners = Owners(
        "# all\n* @core\n*.ipynb @note  # notebooks\ndocs/* @docs @second\n/src/a/ @a\nsrc/a/free.py\n"
        "**/deep/x.py @deep\nwith\\ blank.py @blank\n!src @no\n"
    )
    assert owners.of("x.py") == ("@core",) and owners.of("a/b.ipynb") == ("@note",)
    assert owners.of("docs/x.py") == ("@docs", "@second") and owners.of("docs/a/x.py") == ("@core",)
    assert owners.of("src/a/b/c.py") == ("@a",) and owners.of("src/a/free.py") == ()
    assert owners.of("p/src/a/c.py") == ("@core",) and owners.of("q/deep/x.py") == ("@deep",)
    assert owners.of("with blank.py") == ("@blank",) and Owners("").of("x.py") == ()
