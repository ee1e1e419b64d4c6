"""The way evidence leaves the child: lines of JSON on a file descriptor of its own."""

from __future__ import annotations

import json
import os
from typing import Any


class Channel:
    """Writes `{key: value}` lines. What was written before a crash stays readable, so a crash is evidence too."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)  # programs that the workload starts do not get it
        self._descriptor = descriptor

    def put(self, key: str, value: Any) -> None:
        os.write(self._descriptor, (json.dumps({key: value}) + "\n").encode())

    def stage(self, text: str) -> None:
        """Say what is about to run; the last stage names the culprit of a crash or a hang."""
        self.put("stage", text)
