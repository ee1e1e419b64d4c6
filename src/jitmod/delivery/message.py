"""The commit message of an accepted patch: what, why it was slow, the evidence, trailers. Text from code is data."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Mapping
from typing import Any

from jitmod.delivery import figures
from jitmod.delivery.figures import one_line
from jitmod.model import Patch, Verdict

_HEADINGS = ("what it does", "why it is slow", "when it refuses", "safety", "references", "example", "examples")
_WIDTH = 72
_LABEL = 9
_UNDERLINE = re.compile(r"\s*[-=~]{3,}\s*")


def subject(patch: Patch) -> str:
    """`vmapify: batch the per-item loop in score_crops (src/x.py)`."""
    what = one_line(patch.message).partition(";")[0].rstrip(".")
    symbol = one_line(patch.site.symbol)
    if symbol != "<module>" and not re.search(rf"(?<!\w){re.escape(symbol)}(?!\w)", what):
        what += f" in {symbol}"
    return f"{patch.codemod}: {what} ({one_line(patch.site.path)})"


def commit_message(patch: Patch, verdict: Verdict, evidence: Mapping[str, Any], codemod: type) -> str:
    """The whole message. `codemod` is the class whose module's docstring says why such code is slow."""
    site = patch.site
    place = f"{one_line(site.shown_path)}:{site.shown_line}"
    what = f"{one_line(patch.message).rstrip('.')} ({place})."
    paragraphs = [subject(patch), _wrap(what)]
    why = section(page(codemod), "Why it is slow")
    if why:
        paragraphs += [_wrap(paragraph) for paragraph in why.split("\n\n")]
    paragraphs.append(_wrap(f"The trial: {one_line(verdict.why)}."))
    paragraphs.append("\n".join(evidence_table(patch, verdict, evidence)))
    paragraphs.append("\n".join(f"{key}: {one_line(value)}" for key, value in trailers(patch, verdict)))
    return "\n\n".join(paragraphs) + "\n"


def _wrap(paragraph: str) -> str:
    return textwrap.fill(one_line(paragraph), _WIDTH, break_long_words=False, break_on_hyphens=False)


def trailers(patch: Patch, verdict: Verdict) -> list[tuple[str, str]]:
    lines = [("Jitmod-Codemod", patch.codemod)]
    if verdict.speedup is not None:
        lines.append(("Jitmod-Speedup", f"{verdict.speedup:.3g}"))
    if verdict.device:
        lines.append(("Jitmod-Device", verdict.device))
    if verdict.evidence_digest:
        lines.append(("Jitmod-Evidence", verdict.evidence_digest))
    return lines


def evidence_table(patch: Patch, verdict: Verdict, evidence: Mapping[str, Any]) -> list[str]:
    """Aligned rows: both arms side by side, then what there is only one of."""
    rows = figures.comparison(verdict, evidence)
    lines = []
    if rows:
        table = [("", "baseline", "candidate", ""), *rows]
        widths = [max(len(row[column]) for row in table) for column in range(3)]
        for row in table:
            cells = [cell.ljust(width) for cell, width in zip(row, [max(widths[0], _LABEL), *widths[1:]], strict=False)]
            lines.append("  ".join([*cells, row[3]]))
    singles = [
        ("parity", figures.parity(verdict)),
        ("knobs", figures.knobs(verdict)),
        ("device", one_line(verdict.device or "")),
        ("gpu", figures.gpu(evidence)),
        *(("assumed", one_line(assumption.text)) for assumption in patch.assumptions),
        *(("compared", f"exactly, at {one_line(place)}: rounding may change that") for place in patch.compared),
    ]
    lines += [f"{label.ljust(_LABEL)}  {value}" for label, value in singles if value]
    return [f"    {line}".rstrip() for line in lines]


def page(codemod: type) -> str:
    """The rule page of a codemod: the docstring of its module."""
    return inspect.cleandoc(sys.modules[codemod.__module__].__doc__ or "")


def section(text: str, heading: str) -> str:
    """The text under one heading of a rule page; empty where the page has no such heading.

    A heading stands alone on a line: `Why it is slow`, also with a colon, underlined, or as `## Why it is slow`.
    """
    body: list[str] = []
    inside = False
    for line in text.splitlines():
        name = line.strip().lstrip("#").strip().rstrip(":").lower()
        if name in _HEADINGS or line.startswith("#"):
            inside = name == heading.lower()
        elif inside and not _UNDERLINE.fullmatch(line):
            body.append(line.rstrip())
    return textwrap.dedent("\n".join(body)).strip("\n")
