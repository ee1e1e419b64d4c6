"""Errors that say that memory ran out, of the device or of the machine."""

from __future__ import annotations

from collections.abc import Mapping


def is_memory(error: Mapping[str, str]) -> bool:
    """`error` as `program.describe` writes it down."""
    kind = error["type"].rpartition(".")[2]
    return kind == "MemoryError" or (kind.endswith("RuntimeError") and "RESOURCE_EXHAUSTED" in error["text"])
