"""`jitmod --help`, `--version`, `check`, `explain`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import Result

from jitmod.analysis.reasons import REASONS, REMEDIES

Run = Callable[..., Result]


def test_help_names_the_commands(run: Run, tmp_path: Path) -> None:
    result = run(tmp_path, "--help")
    assert result.exit_code == 0
    assert {"apply", "check", "explain"} <= set(result.stdout.split())


@pytest.mark.parametrize(
    "option",
    [
        *("--codemod", "--dry-run", "--trial", "--safe", "--workload", "--branch", "--base", "--require-gpu"),
        *("--min-speedup", "--budget", "--python", "--config", "--format", "--quiet", "--verbose"),
    ],
)
def test_help_of_apply_names_every_option(run: Run, tmp_path: Path, option: str) -> None:
    result = run(tmp_path, "apply", "--help")
    assert result.exit_code == 0 and option in result.stdout


def test_version(run: Run, tmp_path: Path) -> None:
    assert run(tmp_path, "--version").stdout == f"jitmod {version('jitmod')}\n"


def test_unknown_option_is_exit_code_2(run: Run, tmp_path: Path) -> None:
    assert run(tmp_path, "apply", "--nonsense").exit_code == 2


def test_help_loads_nothing_heavy() -> None:
    heavy = "{'jax', 'numpy', 'scipy', 'git', 'libcst'}"
    code = f"import sys, jitmod.cli.main; print(sorted({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_an_error_that_nobody_foresaw_is_exit_code_2() -> None:
    code = "import sys, jitmod.cli.main as m; m.app = lambda: 1 / 0; m.main()"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 2 and "ZeroDivisionError" in found.stderr


def test_check_lists_findings_and_refusals(run: Run, checkout: Path) -> None:
    result = run(checkout, "check", "-q", "src")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "src/app.py:5:12 toy hurry the call in first [safe]",
        "src/app.py:9:12 toy hurry the call in bad [safe]",
        "src/app.py:14:9 toy hurry the call in second [safe]",
        "src/app.py:15:9 toy hurry the call in second [safe]",
        "src/app.py:20:12 toy may-be-empty slow() without an argument: give it one",
        "4 patches possible, 1 left alone",
    ]


def test_check_without_patches_is_exit_code_0(run: Run, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def f():\n    slow()\n")
    result = run(tmp_path, "check", "--format", "json")
    assert result.exit_code == 0
    assert [finding["status"] for finding in json.loads(result.stdout)["findings"]] == ["refused"]


def test_check_of_a_file_that_is_not_python(run: Run, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("x = = 1\n")
    result = run(tmp_path, "check")
    assert result.exit_code == 2 and result.stdout.startswith("app.py:1:5: error: cannot be parsed")


def test_explain_a_codemod_prints_its_page(run: Run, tmp_path: Path) -> None:
    result = run(tmp_path, "explain", "toy")
    assert result.exit_code == 0 and "slow() thinks too much." in result.stdout


def test_explain_a_reason(run: Run, tmp_path: Path) -> None:
    lines = run(tmp_path, "explain", "loop-else").stdout.splitlines()
    assert lines[0] == "loop-else: the loop has an else branch"
    assert "What can be done: move the else branch behind the loop." in lines and "        else:" in lines
    assert lines[-1].startswith("Where it shall not be told: `# jitmod: ignore[loop-else]`")
    assert set(REMEDIES) == set(REASONS)


def test_a_comment_of_no_use_is_not_silenced_by_another(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import jax\n\nx = 1  # jitmod: ignore[vmapify, unused-suppression]\n")
    assert "unused-suppression" in run(tmp_path, "check", "a.py").stdout
    told = run(tmp_path, "explain", "unused-suppression").stdout.splitlines()[-1]
    assert told == "Where it shall not be told: per_file_ignores in [tool.jitmod]."
    (tmp_path / "pyproject.toml").write_text('[tool.jitmod.per_file_ignores]\n"a.py" = ["unused-suppression"]\n')
    assert "unused-suppression" not in run(tmp_path, "check", "a.py").stdout


def test_explain_list(run: Run, tmp_path: Path) -> None:
    lines = run(tmp_path, "explain", "--list").stdout.splitlines()
    assert lines[0].split(maxsplit=1) == ["toy", "slow(x) becomes fast(x)"]
    assert ["loop-else", "the loop has an else branch"] in [line.split(maxsplit=1) for line in lines]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "(jitmod explain --list shows all of them)"), (["tpy"], "did you mean toy?"), ([], "explain --list"),
        (["toy", "--measure"], "fuse-jits --measure"),
    ],
)
def test_explain_something_unknown(run: Run, tmp_path: Path, arguments: list[str], message: str) -> None:
    result = run(tmp_path, "explain", *arguments)
    assert result.exit_code == 2 and message in result.stderr


def test_a_new_codemod_works_at_once(run: Run, tmp_path: Path) -> None:
    assert run(tmp_path, "new-codemod", "tidy-trees").exit_code == 0
    result = run(tmp_path, "test", "tidy_trees.py")
    assert (result.exit_code, result.stdout) == (0, "tidy-trees: 2 of 2 examples hold\n")
    (tmp_path / "app.py").write_text("import jax\n\ny = jax.tree_map(abs, [1])\n")
    shown = run(tmp_path, "apply", "--codemod", "tidy_trees.py", "--dry-run", "app.py")
    assert shown.exit_code == 1 and "+y = jax.tree.map(abs, [1])\n" in shown.stdout
    again = run(tmp_path, "new-codemod", "tidy-trees")
    assert again.exit_code == 2 and "tidy_trees.py is there already" in again.stderr


def test_an_example_that_does_not_hold_is_shown(run: Run, tmp_path: Path) -> None:
    run(tmp_path, "new-codemod", "tidy-trees")
    path = tmp_path / "tidy_trees.py"
    path.write_text(path.read_text().replace("y = jax.tree.map(abs, [1, -2])", "y = jax.tree.map(abs, [1, 2])"))
    result = run(tmp_path, "test", "toy", "tidy_trees.py")
    assert result.exit_code == 1
    assert "tidy-trees: example 1 does not hold: another text:" in result.stdout
    assert "-y = jax.tree.map(abs, [1, 2])\n+y = jax.tree.map(abs, [1, -2])\n" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["new-codemod", "Tidy_trees"], "small letters"),
        (["test", "nothere.py"], "no such file: nothere.py"),
        (["test", "nonsense"], "no such codemod: nonsense"),
    ],
)
def test_names_that_cannot_be(run: Run, tmp_path: Path, arguments: list[str], message: str) -> None:
    result = run(tmp_path, *arguments)
    assert result.exit_code == 2 and message in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_bowler_cannot_read_is_exit_code_2(run: Run, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("from bowler import Query\n\nq = Query().select_function('a').rename('b')\n")
    (tmp_path / "app.py").write_text("def a(x, /):\n    return x\n")
    result = run(tmp_path, "check", "--codemod", "script.py", "app.py")
    assert result.exit_code == 2 and "app.py:1:1 script bowler-cannot-parse" in result.stdout


def test_init_names_what_runs_the_patches(run: Run, checkout: Path) -> None:
    (checkout / "bench.py").write_text("from app import first\n\n\ndef run():\n    return first(1)\n")
    before = "[project]\nname = 'app'\n"
    (checkout / "pyproject.toml").write_text(before)
    shown = run(checkout, "init", "--dry-run")
    assert shown.exit_code == 0 and 'run = "bench.py:run"\ncovers = ["src/app.py"]\n' in shown.stdout, shown.output
    assert (checkout / "pyproject.toml").read_text() == before
    (checkout / "broken.py").write_text("def f(:\n")
    shown = run(checkout, "init", "--dry-run")
    assert shown.exit_code == 2 and "broken.py:1:7: error" in shown.stderr and "bench.py:run" in shown.stdout


def test_a_guard_runs_every_workload(run: Run, checkout: Path) -> None:
    for side, text in (("a", "x = 1\n"), ("b", "x = 2\n")):
        (checkout / side).mkdir()
        (checkout / side / "m.py").write_text(text)
        (checkout / side / "w.py").write_text("def one():\n    pass\n\n\ndef two():\n    pass\n")
    both = ["--workload", "w.py:one", "--workload", "w.py:two", "--guard"]
    result = run(checkout, "trial", "a", "b", *both)
    assert (result.exit_code, result.stdout) == (0, "w.py:one: accepted 3x (2 to 4)\nw.py:two: accepted 3x (2 to 4)\n")
    assert run(checkout, "trial", "a", "a", *both).stdout == ""
    refused = run(checkout, "trial", "a", "b", *both, "--format", "json")
    assert refused.exit_code == 2 and "--guard" in refused.stderr
