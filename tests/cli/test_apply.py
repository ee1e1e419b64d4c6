"""`jitmod apply` as a user meets it: messages, exit codes, and what is left untouched."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures_git import snapshot
from toy import TrialLog
from typer.testing import Result

Run = Callable[..., Result]
Git = Callable[..., str]


def test_commits_and_says_so(run: Run, checkout: Path, git: Git) -> None:
    result = run(checkout, "apply", "--codemod", "toy", ".")
    tip = git("rev-parse", "jitmod/toy")
    assert result.exit_code == 1, result.output  # one patch is rejected
    assert f"jitmod/toy  {tip[:7]}  toy: hurry the call in second (src/app.py)\n" in result.stdout
    assert "src/app.py:9:12 toy rejected: slower - no good really\n" in result.stdout
    assert "src/app.py:20:12 toy may-be-empty slow() without an argument: give it one\n" in result.stdout
    assert "2.04x (1.9 to 2.2)" in result.stdout and "4 patches tried on cpu: 3 accepted, 1 rejected" in result.stdout
    assert "\x1b" not in result.output
    assert result.stderr == ""


def test_all_accepted_is_exit_code_0_and_a_rerun_has_nothing_to_do(run: Run, checkout: Path, git: Git) -> None:
    (checkout / "src" / "app.py").write_text("def one(x):\n    return slow(x)\n")
    git("commit", "--quiet", "-am", "one")
    assert run(checkout, "apply").exit_code == 0
    again = run(checkout, "apply")
    assert again.exit_code == 0
    assert again.stdout == "nothing more to do on jitmod/all (0 left alone)\n"


def test_works_from_a_subfolder_and_leaves_a_dirty_tree_alone(run: Run, checkout: Path, git: Git) -> None:
    app = checkout / "src" / "app.py"
    app.write_text(app.read_text() + "# stash me\n")
    git("stash")
    app.write_text(app.read_text() + "# mine\n")
    git("add", ".")
    (checkout / "src" / "new.py").write_text("")
    before = snapshot(checkout)
    result = run(checkout / "src", "apply", "--codemod", "toy", ".")
    assert snapshot(checkout) == before
    assert "changes in src/app.py, src/new.py; HEAD is tried" in result.stderr
    assert git("rev-list", "--count", "main..jitmod/toy").strip() == "3"
    assert "not part of this run" not in run(checkout, "apply", "--quiet", "--branch", "x").stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--codemod", "nonsense"], "no such codemod: nonsense (known: toy)", id="codemod"),
        pytest.param(["--codemod", "nonsense", "--codemod", "toy"], "no such codemod: nonsense", id="several"),
        pytest.param(["missing/dir"], "no such file or folder: missing/dir", id="path"),
        pytest.param(["pyproject.toml"], "not a Python file: pyproject.toml", id="not Python"),
        pytest.param([".", "/"], "/ is outside of", id="two projects"),
        pytest.param(["--workload", "nope.py:run"], "no such file in", id="workload file"),
        pytest.param(["--workload", "nope"], "must look like path/to/file.py:function", id="workload form"),
        pytest.param(["--config", "nope.toml"], "nope.toml: cannot be read", id="config"),
        pytest.param(["--python", "no-such-python"], "no such program: no-such-python", id="python"),
        pytest.param(["--base", "nope"], "no such revision: nope", id="base"),
        pytest.param(["--branch", "a..b"], "not a branch name: a..b", id="branch"),
        pytest.param(["--with-test", "--dry-run"], "--with-test goes with a commit", id="a test of a dry run"),
        pytest.param(["--trial"], "--trial goes with --dry-run", id="trial alone"),
    ],
)
def test_bad_arguments(run: Run, checkout: Path, trial: TrialLog, arguments: list[str], message: str) -> None:
    result = run(checkout, "apply", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("jitmod: error: ") and message in result.stderr
    assert result.stdout == "" and trial.calls == []


def test_bad_config(run: Run, checkout: Path) -> None:
    (checkout / "pyproject.toml").write_text("[tool.jitmod]\nsuelect = []\n")
    result = run(checkout, "apply")
    assert result.exit_code == 2 and "suelect" in result.stderr


def test_outside_of_a_repository(run: Run, tmp_path: Path) -> None:
    result = run(tmp_path, "apply")
    assert result.exit_code == 2
    assert "not a git repository" in result.stderr and "--dry-run" in result.stderr


@pytest.mark.parametrize(("options", "message"), [([], "no commit yet"), (["--bare"], "bare repository")])
def test_repository_without_anything_to_try(run: Run, tmp_path: Path, options: list[str], message: str) -> None:
    folder = tmp_path / "new"
    subprocess.run(["git", "init", "--quiet", *options, str(folder)], check=True)
    result = run(folder, "apply")
    assert result.exit_code == 2 and message in result.stderr


def test_no_identity(run: Run, checkout: Path, git: Git, trial: TrialLog) -> None:
    git("config", "--unset", "user.name")
    result = run(checkout, "apply")
    assert result.exit_code == 2 and "user.name" in result.stderr and trial.calls == []


def test_no_workload(run: Run, checkout: Path, git: Git) -> None:
    (checkout / "pyproject.toml").unlink()
    result = run(checkout, "apply")
    assert result.exit_code == 1
    assert "unproven: no workload (pass --workload FILE.py:function or add" in result.stdout
    assert git("branch", "--list", "jitmod/*") == ""


def test_workload_is_written_from_the_current_folder_or_the_root(run: Run, checkout: Path, trial: TrialLog) -> None:
    run(checkout / "bench", "apply", "--workload", "work.py:run", "..")
    run(checkout / "src", "apply", "--branch", "x", "--workload", "bench/work.py:run")
    assert {call["workload"].run for call in trial.calls} == {"bench/work.py:run"}
    trial.calls.clear()
    for target in ("work.py", "work.py::test_x"):
        run(checkout / "bench", "apply", "--branch", "y", "--workload", target, "..")
    assert {call["workload"].run for call in trial.calls} == {"bench/work.py", "bench/work.py::test_x"}
    missing = run(checkout, "apply", "--workload", "absent.py")
    assert missing.exit_code == 2 and "no such file" in missing.stderr


def test_options_reach_the_trial(run: Run, checkout: Path, trial: TrialLog) -> None:
    run(checkout, "apply", "--min-speedup", "1.5", "--budget", "7", "--require-gpu")
    call = trial.calls[0]
    assert (call["settings"].min_speedup, call["budget"], call["require_gpu"]) == (1.5, 7.0, True)


def test_unreadable_file_is_told_and_the_rest_goes_on(run: Run, checkout: Path, git: Git) -> None:
    (checkout / "src" / "broken.py").write_text("x = 1\ndef f(:\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "broken")
    result = run(checkout, "apply")
    assert result.exit_code == 2
    assert "src/broken.py:2:7: error: cannot be parsed" in result.stdout
    assert git("rev-list", "--count", "main..jitmod/all").strip() == "3"


def test_interrupt(run: Run, checkout: Path, git: Git) -> None:
    (checkout / "src" / "app.py").write_text("def interrupt(x):\n    return slow(x)\n")
    git("commit", "--quiet", "-am", "interrupt")
    result = run(checkout, "apply")
    assert result.exit_code == 130 and "interrupted" in result.stderr


def test_select_and_ignore_of_the_configuration(run: Run, checkout: Path) -> None:
    (checkout / "pyproject.toml").write_text('[tool.jitmod]\nignore = ["toy"]\n')
    assert "no patch found" in run(checkout, "apply").stdout
    (checkout / "pyproject.toml").write_text('[tool.jitmod]\nselect = ["other"]\n')
    assert "no such codemod: other" in run(checkout, "apply").stderr


def test_what_files_are_not_to_be_told(run: Run, checkout: Path) -> None:
    settings = checkout / "pyproject.toml"
    for pattern, told in (("src/", False), ("other/", True), ("app.py", False)):  # a result of before is no answer
        settings.write_text(f'[tool.jitmod.per-file-ignores]\n"{pattern}" = ["toy"]\n')
        for command in ("check", "apply --dry-run"):
            assert run(checkout, *command.split()).exit_code == told
    settings.write_text('[tool.jitmod.per-file-ignores]\n"src/" = ["tyo"]\n')
    assert "no codemod and no reason 'tyo'" in run(checkout, "check").stderr
    settings.write_text('[tool.jitmod]\nper_file_ignores = "tests"\n')
    assert "per_file_ignores: must be a table of patterns and lists, not 'tests'" in run(checkout, "check").stderr


def test_json_goes_to_stdout_alone(run: Run, checkout: Path, git: Git) -> None:
    (checkout / "src" / "new.py").write_text("")
    result = run(checkout, "apply", "--format", "json", "--verbose")
    report = json.loads(result.stdout)
    assert [f["trial"]["commit"] for f in report["findings"] if f["trial"] and f["trial"]["commit"]] == git(
        "rev-list", "--reverse", "main..jitmod/all"
    ).split()
    assert report["summary"]["dirty"] is True and report["summary"]["branch"] == "jitmod/all"
    assert "toy src/app.py:5: accepted 2.04x (1.9 to 2.2)" in result.stderr


def test_what_was_rejected_is_not_tried_again_until_something_changes(
    run: Run, checkout: Path, trial: TrialLog, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tried(*options: str) -> list[str]:
        before = len(trial.calls)
        result = run(checkout, "apply", "--codemod", "toy", *options, ".")
        assert result.exit_code == 1, result.output
        remembered = "no good really (as before; --fresh tries it again)" in result.stdout
        calls = [call["symbol"] for call in trial.calls[before:]]
        assert remembered is ("bad" not in "".join(calls))
        return calls

    first = tried()
    assert len(first) == 4 and len([symbol for symbol in first if symbol.startswith("bad")]) == 1
    (bad,) = [symbol for symbol in first if symbol.startswith("bad")]
    assert tried() == [bad]  # what was accepted meanwhile has changed the code
    assert tried() == []
    assert tried("--fresh") == [bad]
    assert tried() == []
    assert tried("--min-speedup", "1.5") == [bad]
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert tried() == [bad]
    for kept in (checkout / ".git" / "jitmod" / "rejected").iterdir():
        kept.write_text("{")
    assert tried() == [bad]
