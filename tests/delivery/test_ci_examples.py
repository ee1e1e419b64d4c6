"""The files for CI and docs/security.md: commands that exist, rights that are promised, tests that are there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from typer.testing import CliRunner

from jitmod.cli.main import app

ROOT = Path(__file__).parents[2]
CI = ROOT / "docs" / "ci"
FILES = sorted(CI.glob("*.yml"))


def scripts(node: Any) -> list[str]:
    """All commands of a workflow."""
    found: list[str] = []
    if isinstance(node, dict):
        for key, value in node.items():
            lines = value if isinstance(value, list) else [value]
            found += [str(line) for line in lines] if key in ("run", "script", "before_script") else scripts(value)
    elif isinstance(node, list):
        for value in node:
            found += scripts(value)
    return found


@pytest.mark.parametrize("path", [*FILES, ROOT / "action.yml"], ids=lambda path: path.name)
def test_commands_and_options_exist(path: Path) -> None:
    program: Any = typer.main.get_command(app)
    lines = [line.strip() for script in scripts(yaml.safe_load(path.read_text())) for line in script.splitlines()]
    calls = [line for line in lines if line.startswith("jitmod ")]
    assert calls
    for line in calls:
        words = shlex.split(re.sub(r" (\|\||>).*", "", line))
        command = program.commands[words[1]]
        options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        assert {word for word in words[2:] if word.startswith("--")} <= options, line


@pytest.mark.parametrize("path", [path for path in FILES if path.name.startswith("github")], ids=lambda path: path.name)
def test_workflows_promise_what_they_do(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    triggers = workflow[True]  # YAML 1.1 reads `on` so
    assert "pull_request_target" not in triggers
    assert workflow["permissions"] in ({}, {"contents": "read"})
    for job in workflow["jobs"].values():
        text = yaml.safe_dump(job)
        rights = job.get("permissions", workflow["permissions"])
        steps = [step["uses"] for step in job["steps"] if "uses" in step]
        assert steps and all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", uses) for uses in steps), steps
        runs_project = "--editable ." in text
        assert runs_project != ("write" in rights.values()), "who runs the project may not write"
        assert runs_project != ("github.token" in text)
        if runs_project:
            assert "persist-credentials: false" in text
        if triggers == "pull_request":
            assert "head.repo.full_name == github.repository" in job["if"]


def test_every_promise_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    points = re.split(r"^\d\. ", text, flags=re.MULTILINE)[1:]
    assert len(points) == 8
    for point in points:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", point)
        assert named, point
        for path, test in named:
            assert f"def {test}(" in (ROOT / path).read_text(), (path, test)


def test_init_writes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    monkeypatch.chdir(tmp_path)
    names = [path.stem for path in FILES]
    init = ["init", *(word for name in names for word in ("--ci", name))]
    result = CliRunner().invoke(app, [*init, "--dry-run"])
    assert result.exit_code == 0 and len(list(tmp_path.rglob("*"))) == 1, result.output
    assert CliRunner().invoke(app, init).exit_code == 0
    written = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.yml")}
    assert sorted(written) == [
        ".github/workflows/jitmod-bot.yml", ".github/workflows/jitmod-guard.yml",
        ".github/workflows/jitmod-matrix.yml", "jitmod.gitlab-ci.yml",
    ]  # fmt: skip
    assert sorted(written.values()) == sorted(path.read_text() for path in FILES)
    again = CliRunner().invoke(app, init)
    assert again.exit_code == 2 and "is there already" in again.output
    unknown = CliRunner().invoke(app, ["init", "--ci", "x"]).output
    assert "--ci: github-bot, github-guard, github-matrix, gitlab, not x" in unknown
