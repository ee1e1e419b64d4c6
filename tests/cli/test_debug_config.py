"""`jitmod debug-config`, completion, and names that are almost right."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Run = Callable[..., Result]


def rows(result: Result) -> dict[str, str]:
    assert result.exit_code == 0, result.output
    return {
        name: " ".join(rest.split()) for name, _, rest in (line.partition(" ") for line in result.stdout.splitlines())
    }


def test_settings_and_their_origins(run: Run, checkout: Path) -> None:
    (checkout / "pyproject.toml").write_text("[tool.jitmod.gate]\nmin_speedup = 1.5\n")
    found = rows(run(checkout, "debug-config"))
    assert found["root"] == f"holds .git {checkout}" and found["file"] == f"in the root {checkout}/pyproject.toml"
    assert found["gate.min_speedup"] == "pyproject.toml 1.5" and found["gate.min_share"] == "default 0.01"
    assert found["codemods"] == "default toy" and found["python"] == f"runs jitmod {sys.executable}"
    assert found["state"].endswith("/.git/jitmod") and found["recordings"] == "in the state -"


def test_what_the_command_line_says(run: Run, checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("[tool.jitmod]\nexclude = ['a', 'b']\n")
    options = ["--config", str(tmp_path / "other.toml"), "--codemod", "toy", "--python", sys.executable]
    found = rows(run(checkout, "debug-config", *options))
    assert found["file"] == f"--config {tmp_path}/other.toml" and found["exclude"] == f"{tmp_path}/other.toml a, b"
    assert found["codemods"] == "--codemod toy" and found["python"].startswith("--python ")


def test_a_bad_configuration_is_exit_code_2(run: Run, checkout: Path) -> None:
    (checkout / "pyproject.toml").write_text("[tool.jitmod]\nselct = []\n")
    result = run(checkout, "debug-config")
    assert result.exit_code == 2 and "selct: unknown key; did you mean select?" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [(["check", "--codemod", "tooy"], "did you mean toy?"), (["chek"], "Did you mean 'check'?")],
)
def test_names_that_are_almost_right(run: Run, checkout: Path, arguments: list[str], meant: str) -> None:
    result = run(checkout, *arguments)
    assert result.exit_code == 2 and meant in " ".join(result.stderr.replace("│", " ").split())


def test_completion(run: Run, tmp_path: Path) -> None:
    help = run(tmp_path, "--help").stdout
    assert "--install-completion" in help and "--show-completion" in help
    words = {"_JITMOD_COMPLETE": "complete_bash", "COMP_WORDS": "jitmod check --codemod vmapify,s", "COMP_CWORD": "3"}
    command = [sys.executable, "-c", "import sys; sys.argv[0] = 'jitmod'; from jitmod.cli.main import main; main()"]
    done = subprocess.run(command, env={**os.environ, **words}, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["vmapify,scanify"]
