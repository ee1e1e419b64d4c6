"""`jitmod apply --dry-run`: a diff that git takes, of the tree as it is, and nothing else."""

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


def git_apply(folder: Path, diff: bytes) -> None:
    subprocess.run(["git", "apply", "-"], cwd=folder, check=True, input=diff)


def test_diff_is_applied_by_git_and_a_second_run_has_nothing_to_show(
    run: Run, checkout: Path, git: Git, trial: TrialLog
) -> None:
    before = snapshot(checkout)
    result = run(checkout / "src", "apply", "--dry-run", "--codemod", "toy", ".")
    assert result.exit_code == 1
    assert snapshot(checkout) == before and trial.calls == [] and not (checkout / ".git" / "jitmod").exists()
    git_apply(checkout, result.stdout_bytes)
    assert (checkout / "src" / "app.py").read_text().count("fast(x, 4)") == 4
    again = run(checkout, "apply", "--dry-run")
    assert (again.exit_code, again.stdout) == (0, "")


def test_refusals_go_to_stderr(run: Run, checkout: Path) -> None:
    result = run(checkout, "apply", "--dry-run")
    assert "src/app.py:20:12 toy may-be-empty slow() without" in result.stderr
    assert "4 patches possible, 1 left alone" in result.stderr
    assert run(checkout, "apply", "--dry-run", "--quiet").stderr == ""


def test_the_tree_as_it_is_counts_also_outside_of_git(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "näive dir"
    folder.mkdir()
    source = b"# caf\xe9\x0c\r\ndef f(x):\r\n    return slow(x)"
    (folder / "mé.py").write_bytes(b"# coding: latin-1\r\n" + source)
    result = run(folder, "apply", "--dry-run")
    assert result.exit_code == 1
    git_apply(folder, result.stdout_bytes)
    expected = b"# coding: latin-1\r\nfrom speed import fast\r\n" + source.replace(b"slow(x)", b"fast(x, 4)")
    assert (folder / "mé.py").read_bytes() == expected


def test_project_code_is_never_imported(run: Run, checkout: Path) -> None:
    trap = "open('imported', 'w').close()\n"
    for path in ("src/app.py", "src/sitecustomize.py", "conftest.py", "bench/work.py"):
        (checkout / path).write_text(trap + "def f(x):\n    return slow(x)\n")
    for command in (["apply", "--dry-run"], ["check"], ["explain", "toy"]):
        run(checkout, *command)
    assert list(checkout.rglob("imported")) == []


def test_unreadable_file(run: Run, checkout: Path) -> None:
    (checkout / "src" / "broken.py").write_text("def f(:\n")
    result = run(checkout, "apply", "--dry-run")
    assert result.exit_code == 2
    assert "src/broken.py:1:7: error: " in result.stderr
    assert result.stdout.count("fast(x, 4)") == 4


def test_safe(run: Run, checkout: Path) -> None:
    (checkout / "src" / "app.py").write_text("def risky(x):\n    return slow(x)\n")
    assert run(checkout, "apply", "--dry-run").exit_code == 1
    result = run(checkout, "apply", "--dry-run", "--safe")
    assert (result.exit_code, result.stdout) == (0, "")


def test_trial_heads_the_same_diff_with_evidence_and_writes_nothing(
    run: Run, checkout: Path, git: Git, trial: TrialLog
) -> None:
    plain = run(checkout, "apply", "--dry-run").stdout
    before = snapshot(checkout)
    result = run(checkout, "apply", "--dry-run", "--trial")
    assert snapshot(checkout) == before and git("branch", "--list", "jitmod/*") == ""
    headings = [line for line in result.stdout.splitlines() if line.startswith("#")]
    assert headings[0] == "# src/app.py:5:12 toy accepted 2.04x (1.9 to 2.2); cold 500 ms -> 750 ms"
    assert headings[1].startswith("# src/app.py:9:12 toy rejected: slower - no good really")
    assert result.stdout.replace("\n".join(headings) + "\n", "") == plain and result.exit_code == 1
    git_apply(checkout, result.stdout_bytes)
    assert [call["text"].count(b"fast(x, 8)") for call in trial.calls] == [0, 1, 1, 2]
    assert all(not call["code_root"].exists() for call in trial.calls)


def test_trial_outside_of_git(run: Run, tmp_path: Path, trial: TrialLog) -> None:
    (tmp_path / "app.py").write_text("def f(x):\n    return slow(x)\n")
    (tmp_path / "work.py").write_text("def run(): pass\n")
    result = run(tmp_path, "apply", "--dry-run", "--trial", "--workload", "work.py:run")
    assert result.exit_code == 1 and len(trial.calls) == 1


@pytest.mark.parametrize("style", ["json", "github", "sarif"])
def test_formats(run: Run, checkout: Path, style: str) -> None:
    result = run(checkout, "apply", "--dry-run", "--format", style)
    assert result.exit_code == 1 and result.stderr == ""
    if style == "github":
        assert result.stdout.count("::warning ") == 4
    else:
        assert json.loads(result.stdout)
