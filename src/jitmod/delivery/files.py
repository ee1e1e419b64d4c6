"""The files of a project as bytes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from jitmod.model import SourceError


@dataclass(frozen=True)
class Files:
    """The files of a project: the bytes by path, and those that cannot be opened."""

    contents: Mapping[str, bytes]
    errors: Mapping[str, SourceError]

    @classmethod
    def read(cls, root: Path, paths: Iterable[str]) -> Files:
        contents: dict[str, bytes] = {}
        errors: dict[str, SourceError] = {}
        for path in sorted(paths):
            try:
                with open(os.path.join(root, path), "rb", buffering=0) as file:
                    contents[path] = file.read()
            except OSError as error:
                errors[path] = SourceError(path, 1, 1, f"cannot be opened: {error.strerror}")
        return cls(contents, errors)
