"""`[tool.jitmod]`: what is read, and how a mistake is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from jitmod.source.config import Config, ConfigError, GateSettings, Workload, load, parse_workload

FULL = """\
[tool.jitmod]
exclude = ["old/**"]
select = ["vmapify"]
ignore = ["donate"]

[tool.jitmod.gate]
min-speedup = 1.05
max_breakeven = 50

[tool.jitmod.per-file-ignores]
"tests/" = ["hoist-jit", "timing-loop"]

[[tool.jitmod.workloads]]
name = "crops"
run = "bench/crops.py:run"
setup = "bench/crops.py:setup"
metric = "bench/crops.py:mpjpe"
metric_tolerance = 0.005
covers = ["src/app/**"]
"""


def test_everything_is_read(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(FULL)
    run, setup, metric = (f"bench/crops.py:{name}" for name in ("run", "setup", "mpjpe"))
    crops = Workload("crops", run, setup, metric, 0.005, ("src/app/**",))
    gate = GateSettings(min_speedup=1.05, max_breakeven=50.0)
    ignored = {"tests/": ("hoist-jit", "timing-loop")}
    assert load(tmp_path) == Config(("old/**",), ("vmapify",), ("donate",), ignored, (crops,), gate)


@pytest.mark.parametrize("text", [None, "", "[tool.other]\nx = 1\n"])
def test_defaults(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    assert load(tmp_path) == Config()


@pytest.mark.parametrize(
    ("text", "key", "advice"),
    [
        ("[tool.jitmod]\nexlude = []\n", "tool.jitmod.exlude", "unknown key; did you mean exclude?"),
        ("[tool.jitmod]\nzzz = []\n", "tool.jitmod.zzz", "remove it, or use one of exclude, gate, ignore"),
        ("[tool.jitmod]\nexclude = 'a'\n", "tool.jitmod.exclude", "list of strings"),
        ("[tool.jitmod]\nselect = [1]\n", "tool.jitmod.select[0]", "string"),
        ("[tool]\njitmod = 3\n", "tool.jitmod", "table"),
        ("[tool.jitmod.gate]\nmin_speedup = 'fast'\n", "tool.jitmod.gate.min_speedup", "number"),
        ("[tool.jitmod.gate]\nmin_speedup = true\n", "tool.jitmod.gate.min_speedup", "number"),
        ("[tool.jitmod.gate]\nmin_speedup = nan\n", "tool.jitmod.gate.min_speedup", "number"),
        ("[tool.jitmod.gate]\nconfidence = 99\n", "tool.jitmod.gate.confidence", "between 0.5 and 1"),
        ("[tool.jitmod.workloads]\nname = 'a'\n", "tool.jitmod.workloads", "[[tool.jitmod.workloads]]"),
        ("[[tool.jitmod.workloads]]\nname = 'a'\n", "tool.jitmod.workloads[0].run", "missing"),
        ("[[tool.jitmod.workloads]]\nname = 'a'\nrun = 'bench'\n", "tool.jitmod.workloads[0].run", "file.py:function"),
        ("[[tool.jitmod.workloads]]\nname = 'a'\nrun = 'b.py:f'\n" * 2, "tool.jitmod.workloads", "its own name"),
        ("[tool.jitmod\n", "pyproject.toml", "not TOML"),
    ],
)
def test_mistakes_are_named(text: str, key: str, advice: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(ConfigError) as raised:
        load(tmp_path)
    message = str(raised.value)
    assert str(tmp_path / "pyproject.toml") in message and key in message and advice in message


def test_explicit_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"other\.toml"):
        load(tmp_path, tmp_path / "other.toml")


def test_workload_of_the_command_line() -> None:
    for right in ("bench/a.py:Suite.run", "bench/a.py", "tests/test_a.py::test_x[1]"):
        assert parse_workload(right) == Workload(right, right)
    for wrong in ("bench/a", "a:run", "a.py:", "a.py:no-name"):
        with pytest.raises(ConfigError, match=r"file\.py:function"):
            parse_workload(wrong)


def test_scripts_and_tests_are_workloads_and_no_helpers(tmp_path: Path) -> None:
    text = "[[tool.jitmod.workloads]]\nname = 'a'\nrun = 'work/train.py'\n{}\n"
    (tmp_path / "pyproject.toml").write_text(text.format(""))
    assert load(tmp_path).workloads == (Workload("a", "work/train.py"),)
    (tmp_path / "pyproject.toml").write_text(text.format("setup = 'work/setup.py'"))
    with pytest.raises(ConfigError, match=r"workloads\[0\]\.setup: must look like"):
        load(tmp_path)
