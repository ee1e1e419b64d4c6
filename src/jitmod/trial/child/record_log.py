"""Where a recording is written while the program runs: what was written stays, however the program ends."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from .record_values import Written

ENOUGH = "enough"


class Log:
    """A folder with one file a call, a line of JSON for each, and the counts as they were last noted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._calls = folder / "calls"
        self._calls.mkdir(exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        self._descriptor = os.open(folder / "calls.jsonl", flags, 0o600)

    def call(self, name: str, written: Written, about: dict[str, Any]) -> None:
        """Store one call. Its file is whole, or not there."""
        unfinished = self._calls / f".{name}"
        with unfinished.open("wb") as file:
            written.save(file)
        unfinished.replace(self._calls / name)
        line = json.dumps({"file": name, **about}, separators=(",", ":")) + "\n"
        os.write(self._descriptor, line.encode())

    def counts(self, value: Any) -> None:
        """The last counts are those that count. A full disk is not the program's business."""
        unfinished = self._folder / ".counts.json"
        with contextlib.suppress(OSError):
            unfinished.write_text(json.dumps(value), encoding="utf-8")
            unfinished.replace(self._folder / "counts.json")

    def script(self, value: Any) -> None:
        """The main file, and what it was called with."""
        with contextlib.suppress(OSError):
            (self._folder / "script.json").write_text(json.dumps(value), encoding="utf-8")

    def enough(self) -> None:
        with contextlib.suppress(OSError):
            (self._folder / ENOUGH).touch()
