"""Every setting with where it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from jitmod.source.config import load, read_table

DEFAULT = "default"


@dataclass(frozen=True)
class Setting:
    """A key as it is written below `tool.jitmod`, its value, and the file that sets it, or that it is the default."""

    name: str
    value: str
    origin: str


def settings(root: Path, explicit: Path | None = None) -> list[Setting]:
    """The settings of the project at `root`, in the order of the table. Raises `ConfigError` as `load` does."""
    config = load(root, explicit)
    path, table = read_table(root, explicit)
    file = "pyproject.toml" if explicit is None else str(path)
    return list(_settings(config, table if isinstance(table, dict) else {}, "", file))


def _settings(values: Any, written: Mapping[str, Any], prefix: str, file: str) -> Iterator[Setting]:
    known = {key.replace("-", "_"): value for key, value in written.items()}
    for key in fields(values):
        value, name = getattr(values, key.name), f"{prefix}{key.name}"
        if is_dataclass(value):
            yield from _settings(value, known.get(key.name, {}), f"{name}.", file)
        elif isinstance(value, tuple) and any(map(is_dataclass, value)):
            for number, one in enumerate(value):
                yield from _settings(one, known[key.name][number], f"{name}[{number}].", file)
        else:
            yield Setting(name, _shown(value), file if key.name in known else DEFAULT)


def _shown(value: Any) -> str:
    match value:
        case None | () | {} if not value:
            return "-"
        case Mapping():
            return "; ".join(f"{key}: {_shown(one)}" for key, one in value.items())
        case tuple():
            return ", ".join(map(str, value))
        case float():
            return f"{value:g}"
        case _:
            return str(value)
