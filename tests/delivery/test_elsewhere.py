"""Jobs that are planned here, tried in another clone, and committed here: what is believed, and what is refused."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fixtures_git import run_git
from jitmod.codemods.vmapify import Vmapify
from typer.testing import CliRunner

from jitmod.cli.main import app
from jitmod.delivery.attempt import Terms
from jitmod.delivery.executor import Finished, Task, here, run_all
from jitmod.delivery.job import Delivered, Request, onto_branch, planned
from jitmod.delivery.plan import Plan, read_job, write_jobs
from jitmod.delivery.repository import DeliveryError, Repository
from jitmod.delivery.tell import Silent
from jitmod.delivery.worker import Missing, run_job
from jitmod.model import Status
from jitmod.source.config import GateSettings, Workload
from jitmod.trial.job import digest
from jitmod.trial.trial import try_patch

NET = """\
import equinox as eqx
import jax
import jax.numpy as jnp


class Score(eqx.Module):
    net: eqx.nn.MLP

    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.tanh(self.net(x))


def score(model: Score, xs: jax.Array) -> jax.Array:
    out = []
    for x in xs:
        out.append(model(x))
    return jnp.stack(out)
"""
BENCH = """\
import equinox as eqx
import jax

from app.net import Score, score


def setup():
    one, two = jax.random.split(jax.random.key(0))
    return Score(eqx.nn.MLP(4, 4, 8, 3, key=one)), jax.random.normal(two, (48, 4))


def run(model, xs):
    return score(model, xs)
"""
WORK = Workload("bench", "bench.py:run", "bench.py:setup")
SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"
REQUEST = Request((Vmapify(),), (".",))

Change = Callable[[dict[str, Any]], None]


def terms_for(root: Path, **changes: Any) -> Terms:
    terms = Terms(try_patch, root, (WORK,), GateSettings(), Path(sys.executable), 240.0)
    return replace(terms, **changes)


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a repository `one`, its clone `two`, a job planned in one, and the evidence of a trial in two."""
    folder = tmp_path_factory.mktemp("elsewhere")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("GIT_CONFIG_NOSYSTEM", "1")
        patched.setenv("GIT_CONFIG_GLOBAL", str(folder / "no-gitconfig"))
        one = folder / "one"
        (one / "app").mkdir(parents=True)
        (one / "app" / "net.py").write_text(NET)
        (one / "bench.py").write_text(BENCH)
        run_git(one, "init", "--quiet", "--initial-branch=main")
        for name, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
            run_git(one, "config", name, value)
        run_git(one, "add", ".")
        run_git(one, "commit", "--quiet", "-m", "start")
        run_git(folder, "clone", "--quiet", "one", "two")
        write_jobs(plan(one), folder / "jobs")
        assert run_all(tasks(folder), here(folder / "two", Path(sys.executable)), lambda name, how: None) == []
    yield folder


@pytest.fixture
def place(tried: Path, tmp_path: Path) -> Path:
    """A copy of that folder to work on."""
    return Path(shutil.copytree(tried, tmp_path / "copy"))


def plan(root: Path, **changes: Any) -> Plan:
    return planned(REQUEST, Repository.around(root), "jitmod/vmapify", None, terms_for(root, **changes))[0]


def tasks(folder: Path) -> list[Task]:
    return [Task(file.name, read_job(file), folder / "evidence" / file.name) for file in (folder / "jobs").iterdir()]


def deliver(place: Path, **changes: Any) -> tuple[str, str, Delivered]:
    """Commit what the evidence proves: the verdict, why, and all that came of it. No patch is tried."""
    root = place / "one"
    terms = terms_for(root, trial=fails, evidence=place / "evidence", **changes)
    done = onto_branch(REQUEST, Repository.around(root), "jitmod/vmapify", None, terms, Silent())
    verdict = done.entries[0].outcome.verdict
    assert verdict is not None
    return str(verdict.status), verdict.why, done


def fails(*arguments: Any, **options: Any) -> Any:
    raise AssertionError("nothing is to be tried here")


def evidence_file(place: Path) -> Path:
    (file,) = (place / "evidence").iterdir()
    return file


def commit(root: Path, path: str, text: str) -> None:
    (root / path).write_text(text)
    run_git(root, "add", path)
    run_git(root, "commit", "--quiet", "-m", "changed")


def test_what_was_proved_in_another_clone_is_committed_without_a_trial(place: Path) -> None:
    status, why, done = deliver(place)
    assert status == "accepted", why
    assert done.refused == () and done.entries[0].outcome.commit is not None
    message = run_git(place / "one", "show", "-s", "--format=%B", "jitmod/vmapify")
    assert f"Jitmod-Evidence: {json.loads(evidence_file(place).read_text())['digest']}" in message
    assert "_score_batched" in run_git(place / "one", "show", "jitmod/vmapify:app/net.py")


def test_documents_are_as_their_schemas_say(place: Path) -> None:
    (job,) = (read_job(file) for file in (place / "jobs").iterdir())
    found = json.loads(evidence_file(place).read_text())
    for name, one in (("job", job), ("evidence", found)):
        schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator(schema).validate(one)
    assert found["planned"] == job


def test_an_interrupted_run_goes_on_with_the_evidence_of_its_base(place: Path) -> None:
    root = place / "one"
    again = NET[NET.index("def score") :].replace("def score", "def again")
    commit(root, "app/net.py", f"{NET}\n\n{again}")
    found = json.loads(evidence_file(place).read_text())
    evidence_file(place).unlink()
    jobs = {job["site"]["symbol"]: (name, job) for name, job in plan(root).jobs.items()}
    for symbol in ("score", "again"):
        name, job = jobs[symbol]
        (place / "evidence" / name).write_text(json.dumps(of_job(found, job)))
        _, _, done = deliver(place)
        commits = {e.outcome.finding.site.symbol for e in done.entries if e.outcome.commit}
        assert commits == {symbol} and done.refused == (), [e.outcome.verdict for e in done.entries]
    assert run_git(root, "rev-list", "--count", "main..jitmod/vmapify").strip() == "2"


def of_job(found: dict[str, Any], job: Any) -> dict[str, Any]:
    """Evidence as if it were of another job."""
    single = {key: value for key, value in job.items() if key != "otherwise"}
    evidence = {**found["evidence"], "job": digest(single)}
    return {**found, "planned": job, "evidence": evidence, "digest": digest(evidence)}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(lambda d: d["evidence"]["judges"][0]["warm"]["seconds"]["candidate"].__setitem__(0, 1e-9),
                     "tampered with: what it holds", id="samples"),
        pytest.param(lambda d: d["planned"]["gate"].__setitem__("min_speedup", 0.1),
                     "tampered with: its job is not the one that was tried", id="settings of the job"),
        pytest.param(lambda d: d["planned"]["candidates"][0]["files"].__setitem__("app/net.py", "x = 1\n"),
                     "tampered with: its job is not the one that was tried", id="text of the candidate"),
        pytest.param(lambda d: d.__setitem__("verdict", "rejected"),
                     "tampered with: it says rejected, and the gate says accepted", id="verdict"),
        pytest.param(lambda d: d.pop("planned"), "is no evidence of jitmod trial --job", id="without a job"),
        pytest.param(lambda d: d.__setitem__("schema_version", 99), "is of format 99", id="format"),
    ],
)  # fmt: skip
def test_evidence_that_was_changed_is_refused(place: Path, change: Change, why: str) -> None:
    file = evidence_file(place)
    found = json.loads(file.read_text())
    change(found)
    file.write_text(json.dumps(found))
    refused(place, why)


def with_right_digests(found: dict[str, Any]) -> str:
    """The text of evidence that somebody has changed and named anew."""
    return json.dumps(of_job(found, found["planned"]))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda d: d["planned"].__setitem__("workload", "x"), "is of no job that jitmod plan has made: workload: 'x'"),
        (lambda d: d["planned"]["contents"].__setitem__("workloads", []), "not as many as there are workloads"),
        (lambda d: d["evidence"]["explore"].__setitem__("versions", ["jax"]), "is no evidence of jitmod trial --job"),
        (lambda d: d["evidence"]["explore"]["device"].__setitem__("platform", [None]), "is no evidence of jitmod"),
    ],
)
def test_evidence_that_is_odd_is_refused(place: Path, change: Change, why: str) -> None:
    file = evidence_file(place)
    found = json.loads(file.read_text())
    change(found)
    file.write_text(with_right_digests(found))
    refused(place, why)


def test_of_several_files_about_one_patch_a_rejection_counts(place: Path) -> None:
    good = json.loads(evidence_file(place).read_text())
    bad = json.loads(json.dumps(good))
    for measured in bad["evidence"]["judges"]:
        seconds = measured["warm"]["seconds"]
        seconds["candidate"], seconds["baseline"] = seconds["baseline"], seconds["candidate"]
    bad["verdict"] = "rejected"
    (place / "evidence" / "a.json").write_text(with_right_digests(good))
    (place / "evidence" / "z.json").write_text(with_right_digests(bad))
    status, why, done = deliver(place)
    assert status == "rejected" and done.refused == (), (why, done.refused)


def test_another_patch_under_a_right_digest_is_refused(place: Path) -> None:
    file = evidence_file(place)
    found = json.loads(file.read_text())
    found["planned"]["candidates"][0]["files"]["app/net.py"] = NET + "# another text\n"
    file.write_text(json.dumps(of_job(found, found["planned"])))
    refused(place, "foreign: of another patch of the same place (candidates)")


def refused(place: Path, why: str, **changes: Any) -> None:
    """The evidence proves nothing, and everybody is told why."""
    status, said, done = deliver(place, **changes)
    assert status == "unproven" and why in said, said
    assert [name for name, _ in done.refused] == [evidence_file(place).name] and why in done.refused[0][1]
    assert run_git(place / "one", "branch", "--list", "jitmod/*") == ""


def test_stale_evidence_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(GateSettings(), min_speedup=1.5)
    refused(place, "stale: judged by other settings: min_speedup 1.03 (here 1.5)", settings=settings)
    refused(place, "a GPU is required, and it was measured on cpu", require_gpu=True)
    other = replace(WORK, run="bench.py:setup")
    refused(place, "foreign: it ran bench.py:run, and here other workloads are given", workloads=(other,))
    with monkeypatch.context() as patched:
        patched.setattr("jitmod.delivery.job.versions", lambda python: {"jax": "0.0.1"})
        refused(place, "(here 0.0.1)")
    with monkeypatch.context() as patched:
        patched.setattr("jitmod.delivery.plan.__version__", "99.0")
        refused(place, "and this is 99.0")


@pytest.mark.parametrize(
    ("path", "text", "why"),
    [
        ("bench.py", BENCH + "# changed\n", "stale: sources have changed since"),
        ("app/more.py", "x = 1\n", "stale: sources have changed since"),
        ("app/net.py", NET + "# changed\n", "stale: app/net.py is not what it was"),
    ],
)
def test_evidence_of_other_code_is_refused(place: Path, path: str, text: str, why: str) -> None:
    commit(place / "one", path, text)
    refused(place, why)


def test_what_no_source_is_may_change(place: Path) -> None:
    commit(place / "one", "README.md", "hello\n")
    assert deliver(place)[0] == "accepted"


def test_evidence_of_another_repository_is_refused(place: Path) -> None:
    shutil.rmtree(place / "one" / ".git")
    root = place / "one"
    run_git(root, "init", "--quiet", "--initial-branch=main")
    for name, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
        run_git(root, "config", name, value)
    commit(root, "app/net.py", NET.replace("jnp.tanh", "jnp.sin"))
    commit(root, "bench.py", BENCH)
    refused(place, "foreign: of another repository, whose commit")


def test_evidence_is_not_gathered_twice_and_a_lost_job_costs_one(place: Path) -> None:
    ran: list[str] = []

    def run(given: Any) -> Iterator[Finished]:
        for task in given:
            ran.append(task.name)
            yield Finished(task, missing="its worker was lost 2 times")

    assert run_all(tasks(place), run, lambda name, how: None) == [] and ran == []
    file = evidence_file(place)
    file.write_text(file.read_text()[:-100])
    assert run_all(tasks(place), run, lambda name, how: None) == [f"{file.name}: its worker was lost 2 times"]
    assert ran == [file.name]


def test_where_evidence_cannot_go_nothing_is_run(place: Path) -> None:
    (place / "file").write_text("")
    there = [replace(task, output=place / "file" / "x.json") for task in tasks(place)]
    with pytest.raises(DeliveryError, match=r"file: the evidence cannot be written"):
        run_all(there, fails, lambda name, how: None)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"budget": "600"}, "budget: '600' is not of type 'number'"),
        ({"candidates": []}, r"candidates: \[\] should be non-empty"),
        ({"jitmod": None}, "jitmod: None is not of type 'string'"),
        ({"otherwise": [1]}, "otherwise/0: 1 is not of type 'object'"),
    ],
)
def test_a_job_that_was_edited_says_where_it_is_wrong(place: Path, change: dict[str, Any], why: str) -> None:
    (file,) = (place / "jobs").iterdir()
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(DeliveryError, match=f"is no job of jitmod plan: {why}"):
        read_job(file)


def test_a_broken_job_costs_one_job(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "jobs" / "half.json").write_text('{"schema_version": 1, "ca')
    monkeypatch.chdir(place / "two")
    result = CliRunner().invoke(app, ["trial", "--job", str(place / "jobs"), "-o", str(place / "evidence")])
    assert result.exit_code == 2 and "half.json: is no job, because it is not JSON" in result.output
    assert "has its evidence in" in result.output


def test_a_worker_says_what_it_is_missing(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (job,) = (read_job(file) for file in (place / "jobs").iterdir())
    empty = tmp_path / "empty"
    empty.mkdir()
    run_git(empty, "init", "--quiet")
    with pytest.raises(Missing, match=rf"does not have the commit {job['base_commit']} .* git fetch origin"):
        run_job(job, empty, Path(sys.executable))
    with pytest.raises(Missing, match=r"planned by jitmod 99\.0"):
        run_job(job | {"jitmod": "99.0"}, place / "two", Path(sys.executable))
    absent = {**job["workload"], "run": "absent.py:run"}
    with pytest.raises(Missing, match=r"no file absent\.py, neither in the commit nor in"):
        run_job(job | {"workload": absent}, place / "two", Path(sys.executable))
    untracked = {**job["workload"], "run": "mine.py:run"}
    (place / "two" / "mine.py").write_text("def run(*given): return 1\n")
    with pytest.raises(Missing, match="not committed, and other ones where it was planned"):
        run_job(job | {"workload": untracked}, place / "two", Path(sys.executable))
    monkeypatch.setattr("jitmod.delivery.worker.versions", lambda python: {})
    with pytest.raises(Missing, match="has no jax"):
        run_job(job, place / "two", Path(sys.executable))


def test_a_new_plan_takes_the_place_of_an_old_one(place: Path) -> None:
    (old,) = (place / "jobs").iterdir()
    (place / "jobs" / "notes.json").write_text("{}")
    commit(place / "one", "app/net.py", NET.replace("out.append(model(x))", "out.append(model(x) + 1.0)"))
    (new,) = write_jobs(plan(place / "one"), place / "jobs")
    assert new.name != old.name and {file.name for file in (place / "jobs").iterdir()} == {new.name, "notes.json"}
    with pytest.raises(DeliveryError, match="is no job of jitmod plan"):
        read_job(place / "jobs" / "notes.json")


def test_a_patch_without_a_workload_has_no_job(place: Path) -> None:
    found = plan(place / "one", workloads=())
    assert found.jobs == {}
    (one,) = found.planned
    assert one.verdict is not None and one.verdict.status is Status.UNPROVEN and "no workload" in one.verdict.why
