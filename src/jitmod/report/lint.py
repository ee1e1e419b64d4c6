"""The report of `jitmod check`: every finding at its place, with the line it is about and what to do, or the counts."""

from __future__ import annotations

import shlex
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import TextIO

from jitmod.delivery.figures import one_line
from jitmod.delivery.queue import Entry
from jitmod.model import Patch, Refusal
from jitmod.report.run import Run
from jitmod.report.text import closing_line, compared_lines, error_lines, place

_RED, _BOLD, _PLAIN = "\x1b[31m", "\x1b[1m", "\x1b[0m"


def write(run: Run, stream: TextIO, *, brief: bool = False) -> None:
    """All findings in the order of files and lines; `brief`: one line each."""
    coloured = stream.isatty()
    for entry in run.entries:
        for line in finding_lines(entry, coloured=coloured, brief=brief):
            stream.write(f"{line}\n")
    for line in [*error_lines(run), closing_line(run)]:
        stream.write(f"{line}\n")


def write_statistics(run: Run, stream: TextIO) -> None:
    """How often everything was found, the most frequent first."""
    kinds = Counter(code(entry.outcome.finding) for entry in run.entries)
    width = len(str(max(kinds.values(), default=0)))
    for kind, count in sorted(kinds.items(), key=lambda item: (-item[1], item[0])):
        stream.write(f"{count:>{width}}  {kind}\n")
    for line in [*error_lines(run), closing_line(run)]:
        stream.write(f"{line}\n")


def code(finding: Patch | Refusal) -> str:
    """What a finding is counted as: the codemod, and why it leaves the place alone, or what its patch rests on."""
    if isinstance(finding, Patch):
        return f"{finding.codemod} [{finding.applicability}]"
    return finding.reason if finding.codemod == finding.reason else f"{finding.codemod} {finding.reason}"


def finding_lines(entry: Entry, *, coloured: bool = False, brief: bool = False) -> Iterator[str]:
    finding = entry.outcome.finding
    where, what = place(finding), one_line(finding.message)
    bold, red, plain = (_BOLD, _RED, _PLAIN) if coloured else ("", "", "")
    if isinstance(finding, Patch):
        yield f"{bold}{where}{plain} {red}{finding.codemod}{plain} {what} [{finding.applicability}]"
    else:
        yield f"{bold}{where}{plain} {red}{code(finding)}{plain} {what}"
    if not brief:
        number = str(finding.site.shown_line)
        margin = " " * len(number)
        if entry.excerpt.strip():
            before = entry.excerpt[: finding.site.column - 1]
            marked = entry.excerpt[finding.site.column - 1 :].rstrip() or " "
            yield f"{margin} |"
            yield f"{number} | {_shown(entry.excerpt.rstrip())}"
            yield f"{margin} | {_blank(before)}{red}{'^' * sum(map(_width, marked))}{plain}"
        yield f"{margin} = help: {_help(finding)}"
    if isinstance(finding, Patch):
        yield from compared_lines(finding)
    if not brief:
        yield ""


def _help(finding: Patch | Refusal) -> str:
    if isinstance(finding, Patch):
        path = shlex.quote(one_line(finding.site.path))
        return f"jitmod apply --codemod {finding.codemod} --dry-run {path} shows the rewrite"
    return f"jitmod explain {finding.reason}"


def _shown(text: str) -> str:
    """A line of source for a terminal: what would steer it is replaced."""
    return "".join(c if c == "\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _blank(text: str) -> str:
    """White space that is as wide as `text`."""
    return "".join("\t" if c == "\t" else " " * _width(c) for c in text)


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
