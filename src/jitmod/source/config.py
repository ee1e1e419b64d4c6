"""`[tool.jitmod]` of pyproject.toml: what to look at, what to run, and what earns a commit."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from jitmod.model import UserError
from jitmod.source.nearest import nearest

_PROGRAM = re.compile(r"[^:]+\.py(::[^:]+)*|[^:]+\.ipynb")  # a script, a test as pytest writes it, or a notebook
_FUNCTION = r"[^\W\d]\w*(\.[^\W\d]\w*)*"


class ConfigError(UserError):
    """The configuration cannot be used; the message names the file, the key and what to do."""


def _key(about: str, default: Any = MISSING, **limits: Any) -> Any:
    """A key of the table: what it says to a reader, and limits in the words of a JSON schema."""
    return field(default=default, metadata={"about": about, "limits": limits})


@dataclass(frozen=True)
class Workload:
    """What a trial runs: `run(*setup())`. Each function is written `path/to/file.py:function`, from the root.

    `run` may be a script or a notebook as well (`path/to/file.py`, `path/to/file.ipynb`), or a test as pytest writes it
    (`path/to/file.py::test_x`).
    """

    name: str = _key("Its name, in reports; each workload has its own.")
    run: str = _key(
        "What is timed: FILE.py:FUNCTION, a test (FILE.py::test_x), a script or a notebook. A function returns what "
        "must agree; with a parameter `rep` every call gets another number.",
        pattern=rf"^(.+\.py:{_FUNCTION}|{_PROGRAM.pattern})$",
    )
    setup: str | None = _key(
        "FILE.py:FUNCTION that makes the arguments of `run`.", None, pattern=rf"^.+\.py:{_FUNCTION}$"
    )
    metric: str | None = _key(
        "FILE.py:FUNCTION that makes one number of the output; that number decides about values.", None,
        pattern=rf"^.+\.py:{_FUNCTION}$",
    )  # fmt: skip
    metric_tolerance: float | None = _key("How far the metric may move, relatively; 0.0001 if not given.", None)
    covers: tuple[str, ...] = _key(
        "Patterns, as in .gitignore, of the files whose patches this workload can judge; all if not given.", ()
    )


@dataclass(frozen=True)
class GateSettings:
    """What the gate asks for. Speedups are ratios of times (1.03 is 3 % faster), seconds are wall time."""

    min_speedup: float = _key("The speedup of warm calls that earns a commit.", 1.03)
    confidence: float = _key("Of the bound that has to lie above it.", 0.99, exclusiveMinimum=0.5, exclusiveMaximum=1)
    min_cold_speedup: float = _key("The speedup of the first call that earns a commit where warm calls gain less.", 1.2)
    min_cold_seconds: float = _key("Seconds that the first call must gain for that.", 0.2)
    min_warm_for_cold: float = _key("What warm calls must keep of their speed for that.", 0.95)
    max_breakeven: float = _key("Calls after which a longer first call must be paid back.", 1000.0)
    min_share: float = _key("The share of a workload's time below which a place is not worth a patch.", 0.01)
    memory_share: float = _key(
        "The share of what there is, of a GPU or of the machine, that a call may take.", 0.7, exclusiveMinimum=0,
        maximum=1,
    )  # fmt: skip


@dataclass(frozen=True)
class Config:
    """The table `[tool.jitmod]`; lists are patterns (`exclude`) or names (`select`, `ignore`)."""

    exclude: tuple[str, ...] = _key("Patterns, as in .gitignore, of files that are not looked at.", ())
    select: tuple[str, ...] = _key("The codemods that run where --codemod names none; all if not given.", ())
    ignore: tuple[str, ...] = _key("Codemods that do not run where --codemod names none.", ())
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict,
        metadata={
            "about": "A table of patterns, as in .gitignore, and what is neither told nor rewritten in the files they "
            "name: codemods and reasons.",
            "limits": {},
        },
    )
    workloads: tuple[Workload, ...] = _key("What trials run.", ())
    gate: GateSettings = field(default_factory=GateSettings, metadata={"about": "What earns a commit.", "limits": {}})


def load(root: Path, explicit: Path | None = None) -> Config:
    """The configuration of the project at `root`, or of the file `explicit`. Raises `ConfigError`.

    A project without pyproject.toml, or without the table, has the defaults; an `explicit` file must exist.
    """
    path, table = read_table(root, explicit)
    return _config(path, table) if path is not None else Config()


def read_table(root: Path, explicit: Path | None = None) -> tuple[Path | None, object]:
    """The file, None where a project has no pyproject.toml, and what stands in its table. Raises `ConfigError`."""
    path = explicit or root / "pyproject.toml"
    if explicit is None and not path.is_file():
        return None, {}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not TOML: {error}") from None
    tool = document.get("tool", {})
    return path, tool.get("jitmod", {}) if isinstance(tool, dict) else {}


def parse_workload(text: str) -> Workload:
    """The workload that `--workload` names. Raises `ConfigError`."""
    check_run(text, f"--workload {text}")
    return Workload(name=text, run=text)


def _config(path: Path, table: object) -> Config:
    where = f"{path}: tool.jitmod"
    values = _table(table, where, {f.name for f in fields(Config)})
    lists = {key: _strings(values[key], f"{where}.{key}") for key in ("exclude", "select", "ignore") if key in values}
    per_file = values.get("per_file_ignores", {})
    if not isinstance(per_file, dict):
        raise ConfigError(f"{where}.per_file_ignores: must be a table of patterns and lists, not {per_file!r}")
    ignored = {pattern: _strings(names, f"{where}.per_file_ignores.{pattern}") for pattern, names in per_file.items()}
    listed = values.get("workloads", [])
    if not isinstance(listed, list):
        raise ConfigError(f"{where}.workloads: must be an array of tables; write [[tool.jitmod.workloads]]")
    workloads = tuple(_workload(entry, f"{where}.workloads[{number}]") for number, entry in enumerate(listed))
    names = [workload.name for workload in workloads]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{where}.workloads: two workloads are called {name!r}; give each its own name")
    gate = _gate(values.get("gate", {}), f"{where}.gate")
    return Config(**lists, per_file_ignores=ignored, workloads=workloads, gate=gate)


def _workload(entry: object, where: str) -> Workload:
    values = _table(entry, where, {f.name for f in fields(Workload)})
    for key in ("name", "run"):
        if key not in values:
            raise ConfigError(f'{where}.{key}: is missing; add {key} = "..."')
    texts = {}
    for key in ("name", "run", "setup", "metric"):
        if key in values:
            texts[key] = _string(values[key], f"{where}.{key}")
            if key != "name":
                (check_run if key == "run" else check_target)(texts[key], f"{where}.{key}")
    tolerance = values.get("metric_tolerance")
    return Workload(
        **texts,
        metric_tolerance=None if tolerance is None else _number(tolerance, f"{where}.metric_tolerance"),
        covers=_strings(values.get("covers", []), f"{where}.covers"),
    )


def _gate(entry: object, where: str) -> GateSettings:
    values = _table(entry, where, {f.name for f in fields(GateSettings)})
    settings = GateSettings(**{key: _number(value, f"{where}.{key}") for key, value in values.items()})
    if not 0.5 < settings.confidence < 1:
        raise ConfigError(f"{where}.confidence: must lie between 0.5 and 1, not {settings.confidence}")
    if not 0 < settings.memory_share <= 1:
        raise ConfigError(f"{where}.memory_share: must lie between 0 and 1, not {settings.memory_share}")
    return settings


def _table(entry: object, where: str, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(entry, dict):
        raise ConfigError(f"{where}: must be a table, not {entry!r}")
    values = {key.replace("-", "_"): value for key, value in entry.items()}
    for key in values:
        if key not in known:
            close = nearest(key, known)
            todo = f"did you mean {close}?" if close else f"remove it, or use one of {', '.join(sorted(known))}"
            raise ConfigError(f"{where}.{key}: unknown key; {todo}")
    return values


def _string(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{where}: must be a string, not {value!r}")
    return value


def _strings(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"{where}: must be a list of strings, not {value!r}")
    return tuple(_string(item, f"{where}[{number}]") for number, item in enumerate(value))


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= sys.float_info.max:
        raise ConfigError(f"{where}: must be a number of at least 0, not {value!r}")
    return float(value)


def check_run(text: str, where: str) -> None:
    """Raise `ConfigError` where `text` names neither a function of a file, nor a script, a notebook or a test."""
    if _PROGRAM.fullmatch(text) is None:
        check_target(text, where)


def target_file(target: str) -> str:
    """The file of a function, a script or a test."""
    file, suffix, _ = target.partition(".py")
    return file + suffix


def check_target(text: str, where: str) -> None:
    """Raise `ConfigError` where `text` does not name a function of a file."""
    file, _, function = text.rpartition(":")
    if not file.endswith(".py") or not all(part.isidentifier() for part in function.split(".")):
        raise ConfigError(f"{where}: must look like path/to/file.py:function, not {text!r}")
