"""How far a script had come: the statement of its top level that was running, and the script up to there.

A function of a script runs on what the statements before have made. A replay runs those and no more of the script.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Mark:
    """A top-level statement: a digest of its syntax, its place among equal ones. Edits elsewhere do not matter."""

    path: str
    digest: str
    number: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def marks(tree: ast.Module, path: str) -> list[tuple[int, int, Mark]]:
    """First line, last line and mark of every top-level statement."""
    seen: Counter[str] = Counter()
    found = []
    for statement in tree.body:
        digest = _digest(statement)
        found.append((statement.lineno, statement.end_lineno or statement.lineno, Mark(path, digest, seen[digest])))
        seen[digest] += 1
    return found


def until(tree: ast.Module, mark: Mark) -> ast.Module | None:
    """`tree` up to the statement that `mark` names, without it; None where there is no such statement."""
    number = 0
    for index, statement in enumerate(tree.body):
        if _digest(statement) == mark.digest:
            if number == mark.number:
                return ast.Module(tree.body[:index], [])
            number += 1
    return None


def _digest(statement: ast.stmt) -> str:
    return hashlib.sha256(ast.dump(statement).encode()).hexdigest()
