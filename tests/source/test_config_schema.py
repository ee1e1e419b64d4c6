"""The published schema of `[tool.jitmod]` says of a table what reading it says."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from jitmod.source.config import ConfigError, load
from jitmod.source.config_schema import schema
from jitmod.source.nearest import nearest, suggestion
from jitmod.source.origins import settings

RUN = "[[tool.jitmod.workloads]]\nname = 'a'\nrun = '{}'\n"
GOOD = {
    "empty": "[tool.jitmod]\n",
    "lists": "[tool.jitmod]\nexclude = ['a/**', 'b']\nselect = []\nignore = ['donate']\n",
    "the gate": "[tool.jitmod.gate]\nmin-speedup = 2\nmax_breakeven = 0.5\nconfidence = 0.9\n",
    "a function": RUN.format("bench/a b.py:Suite.run")
    + "setup = 'x.py:f'\nmetric-tolerance = 0.1\ncovers = ['src/**']\n",
    "a script": RUN.format("train.py"),
    "a test": RUN.format("tests/test_a.py::TestX::test_y[1-2]"),
    "a notebook": RUN.format("nb/x.ipynb"),
    "no workloads": "[tool.jitmod]\nworkloads = []\n",
}
BAD = {
    "an unknown key": "[tool.jitmod]\nexlude = []\n",
    "a text for a list": "[tool.jitmod]\nexclude = 'a'\n",
    "a number in a list": "[tool.jitmod]\nselect = [1]\n",
    "an empty text": "[tool.jitmod]\nselect = ['']\n",
    "no table": "[tool]\njitmod = 3\n",
    "a text for a number": "[tool.jitmod.gate]\nmin_speedup = 'fast'\n",
    "true for a number": "[tool.jitmod.gate]\nmin_speedup = true\n",
    "a negative number": "[tool.jitmod.gate]\nmin_share = -1\n",
    "a confidence": "[tool.jitmod.gate]\nconfidence = 99\n",
    "a confidence of a half": "[tool.jitmod.gate]\nconfidence = 0.5\n",
    "an unknown key of the gate": "[tool.jitmod.gate]\nmin_speed = 2\n",
    "one table": "[tool.jitmod.workloads]\nname = 'a'\nrun = 'a.py'\n",
    "nothing to run": "[[tool.jitmod.workloads]]\nname = 'a'\n",
    "no name": "[[tool.jitmod.workloads]]\nrun = 'a.py'\n",
    "no target": RUN.format("bench"),
    "no name of a function": RUN.format("a.py:no-name"),
    "no function": RUN.format("a.py:"),
    "a script as setup": RUN.format("a.py") + "setup = 'x.py'\n",
    "a text for a tolerance": RUN.format("a.py") + "metric_tolerance = 'x'\n",
}


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in {**GOOD, **BAD}.items()])
def test_both_say_the_same(text: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    jsonschema.Draft202012Validator.check_schema(schema())
    table = tomllib.loads(text)["tool"]["jitmod"]
    is_valid = jsonschema.Draft202012Validator(schema()).is_valid(table)
    if text in GOOD.values():
        load(tmp_path)
        assert is_valid
    else:
        with pytest.raises(ConfigError):
            load(tmp_path)
        assert not is_valid


def properties(table: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for one in table.get("properties", {}).values():
        yield one
        yield from properties(one.get("items", one))


def test_every_key_is_described() -> None:
    described = list(properties(schema()))
    assert len(described) > 15 and all(one["description"].endswith(".") for one in described)


def test_what_was_meant() -> None:
    known = ["exclude", "select", "vmapify"]
    assert [nearest(name, known) for name in ("exlude", "Vmapfy", "nothing")] == ["exclude", "vmapify", None]
    assert suggestion("selct", known) == "; did you mean select?" and suggestion("zzz", known) == ""


def test_settings_know_where_they_come_from(tmp_path: Path) -> None:
    text = "[tool.jitmod]\nselect = ['vmapify', 'donate']\n[tool.jitmod.gate]\nmin-speedup = 1.5\n" + RUN.format("a.py")
    (tmp_path / "pyproject.toml").write_text(text)
    found = {one.name: (one.value, one.origin) for one in settings(tmp_path)}
    assert found["select"] == ("vmapify, donate", "pyproject.toml") and found["exclude"] == ("-", "default")
    assert found["gate.min_speedup"] == ("1.5", "pyproject.toml") and found["gate.confidence"] == ("0.99", "default")
    assert found["workloads[0].run"] == ("a.py", "pyproject.toml") and found["workloads[0].setup"] == ("-", "default")
    other = tmp_path / "other.toml"
    other.write_text("[tool.jitmod]\nignore = ['x']\n")
    assert {one.origin for one in settings(tmp_path, other)} == {"default", str(other)}
    assert {one.origin for one in settings(tmp_path / "none")} == {"default"}
