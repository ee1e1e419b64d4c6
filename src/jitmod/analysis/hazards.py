"""Hazards: reasons against tracing a piece of code."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from jitmod.source.project import SourceModule


@dataclass(frozen=True)
class Hazard:
    """Why a piece of code must not be traced: a reason code, where, and a few words.

    `when`: traced, or batched where a trace that runs the items one after another does what the code did.
    """

    reason: str
    path: str
    line: int
    what: str
    when: str = "traced"


def hazard(reason: str, node: ast.AST, module: SourceModule, what: str, when: str = "traced") -> Hazard:
    """The hazard at `node` of `module`."""
    return Hazard(reason, module.document.path, getattr(node, "lineno", 1), what, when)
