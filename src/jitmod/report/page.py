"""The page of a codemod for readers, in Markdown: its docstring, then its examples, each with what becomes of it."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Sequence

from jitmod.rewrite.codemod import Codemod, Leaves, Refuses, Rewrites


def markdown(codemod: type[Codemod]) -> str:
    """The page of a codemod. The examples are those that the tests run."""
    docstring = inspect.getdoc(sys.modules[codemod.__module__]) or ""
    title, _, rest = docstring.partition("\n")
    lines = [f"# {codemod.id}", "", _sentence(title), "", *_sections(rest.strip().splitlines())]
    head = common_head([e.before for e in codemod.examples if isinstance(e, Rewrites)])
    if any(isinstance(example, Rewrites) for example in codemod.examples):
        lines += ["## What becomes of it", ""]
    if head:
        lines += ["Each of the examples begins with these lines:", "", *_fenced("python", head)]
    for example in codemod.examples:
        if isinstance(example, Rewrites):
            lines += _fenced("diff", _changes(example.before.removeprefix(head), example.after.removeprefix(head)))
    lines += ["## What it says" if codemod.advises else "## What is left alone", ""]
    for example in codemod.examples:
        match example:
            case Refuses(before, reason):
                told = f"`{reason}`:" if codemod.advises else f"Refused for `{reason}`:"
                lines += [told, "", *_fenced("python", before.removeprefix(head))]
            case Leaves(before):
                told = "Nothing:" if codemod.advises else "No site:"
                lines += [told, "", *_fenced("python", before.removeprefix(head))]
    return "\n".join(lines).rstrip() + "\n"


def _sentence(title: str) -> str:
    """`vmapify: a loop becomes a call.`, without the name that the heading has."""
    text = title.partition(": ")[2] or title
    return text[:1].upper() + text[1:]


def _sections(lines: Sequence[str]) -> list[str]:
    """Unindented lines are headings, indented ones their text."""
    found: list[str] = []
    for line in lines:
        if line and not line.startswith(" "):
            found += [f"## {line}", ""]
        else:
            text = line.strip()
            found.append(f"- <{text}>" if text.startswith("http") else text)
    return [*found, ""]


def common_head(texts: Sequence[str]) -> str:
    """The top-level parts with which all of some programs begin."""
    between = "\n\n\n"
    shared = [parts[0] for parts in zip(*(text.split(between) for text in texts), strict=False) if len(set(parts)) == 1]
    head = "".join(part + between for part in shared)
    return head if all(text.startswith(head) for text in texts) else ""


def _changes(before: str, after: str) -> str:
    """All lines of an example, those that go and those that come marked."""
    lines = list(difflib.ndiff(before.splitlines(), after.splitlines()))
    return "\n".join(line[:1] + line[2:] if line[2:] else line[:1].rstrip() for line in lines if line[:1] != "?")


def _fenced(language: str, text: str) -> list[str]:
    return [f"```{language}", text.strip("\n"), "```", ""]
