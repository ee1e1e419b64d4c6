"""The pages of docs about what is registered: codemods and reasons, and the settings, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import indent
from typing import Any

from jitmod.analysis.reasons import REASONS, REMEDIES
from jitmod.model import ADVICE, UNUSED
from jitmod.report.examples import EXAMPLES
from jitmod.report.page import common_head
from jitmod.rewrite.codemod import Codemod, Refuses, Rewrites, available
from jitmod.source.config_schema import schema

_SETTINGS = """\
# Settings

They are in the table `[tool.jitmod]` of `pyproject.toml`, or of the file that `--config` names. `jitmod debug-config`
shows what holds, and where it comes from. Keys may be written with a hyphen for the underscore. Editors can check the
table with [schema/config.json](schema/config.json).

A command line goes before the file: `--codemod` before `select` and `ignore`, `--workload` before `workloads`,
`--min-speedup` before `gate.min_speedup`.
"""


def reasons() -> str:
    """Every codemod with its summary, and every reason with its meaning and the codemods whose examples show it."""
    codemods = available()
    lines = [
        "# Codemods and reasons",
        "",
        "`jitmod explain NAME` prints the same in a terminal.",
        "",
        "## Codemods",
        "",
    ]
    lines += ["| name | what it does |", "|---|---|"]
    lines += [f"| [{name}](codemods/{name}.md) | {_cell(_summary(codemod))} |" for name, codemod in codemods.items()]
    lines += ["", "## Reasons", "", "Why a place is left alone. Codes do not change: count and suppress by them.", ""]
    for reason, meaning in REASONS.items():
        if reason not in ADVICE:
            lines += _reason(reason, meaning, codemods)
    lines += ["## Advice", "", "What you can do better, where nothing is rewritten.", ""]
    for reason in sorted(ADVICE):
        lines += _reason(reason, REASONS[reason], codemods)
    return "\n".join(lines).rstrip() + "\n"


def explained(reason: str) -> str:
    """A reason for a terminal: its meaning, what can be done, an example that the tests run, and how to silence it."""
    lines = [f"{reason}: {REASONS[reason]}", "", f"What can be done: {REMEDIES[reason]}."]
    examples = ((codemod, e) for codemod in available().values() for e in codemod.examples if isinstance(e, Refuses))
    codemod, example = next(((c, e) for c, e in examples if e.reason == reason), (None, None))
    if codemod is not None and example is not None:
        head = common_head([e.before for e in codemod.examples if isinstance(e, Rewrites)])
        does = "says so of" if codemod.advises or reason in ADVICE else "leaves this as it is"
        lines += ["", f"{codemod.id} {does}:", "", indent(example.before.removeprefix(head).strip("\n"), "    ")]
    elif reason in EXAMPLES:
        lines += ["", "vmapify leaves this as it is:", "", indent(EXAMPLES[reason].strip("\n"), "    ")]
    comment = "" if reason == UNUSED else f"`# jitmod: ignore[{reason}]`, or "  # of a comment, no comment silences it
    told = f"Where it shall not be told: {comment}per_file_ignores in [tool.jitmod]."
    return "\n".join([*lines, "", told])


def settings() -> str:
    """Every key of `[tool.jitmod]`, from its schema."""
    known = schema()["properties"]
    tables = {
        "tool.jitmod": {name: key for name, key in known.items() if name not in ("workloads", "gate")},
        "tool.jitmod.workloads": known["workloads"]["items"]["properties"],
        "tool.jitmod.gate": known["gate"]["properties"],
    }
    lines = [_SETTINGS]
    for name, keys in tables.items():
        heading = f"[[{name}]]" if name.endswith("workloads") else f"[{name}]"
        lines += [f"## `{heading}`", "", "| key | what it says | if not given |", "|---|---|---|", *_rows(keys), ""]
    return "\n".join(lines).rstrip() + "\n"


def _rows(keys: Mapping[str, Any]) -> Iterator[str]:
    for name, key in keys.items():
        if "-" not in name:
            default = f"`{key['default']}`" if "default" in key else ""
            yield f"| `{name}` | {_cell(key['description'])} | {default} |"


def _reason(reason: str, meaning: str, codemods: Mapping[str, type[Codemod]]) -> list[str]:
    shown = [name for name, codemod in codemods.items()
             if any(isinstance(e, Refuses) and e.reason == reason for e in codemod.examples)]  # fmt: skip
    examples = ", ".join(f"[{name}](codemods/{name}.md)" for name in shown)
    return [
        f"### {reason}",
        "",
        f"{_capital(meaning)}.",
        "",
        f"What can be done: {REMEDIES[reason]}.",
        *(["", f"Examples: {examples}."] if shown else []),
        *(["", "```python", EXAMPLES[reason].strip("\n"), "```"] if reason in EXAMPLES else []),
        "",
    ]


def _capital(text: str) -> str:
    """As a sentence begins, except where it begins with code or with jax."""
    first = text.partition(" ")[0]
    return text if "(" in first or first == "jax" else text[:1].upper() + text[1:]


def _summary(codemod: type[Codemod]) -> str:
    kind = "Advises only: " if codemod.advises else ""
    asked = " Only when it is named." if codemod.on_request else ""
    summary = codemod.summary.removesuffix(" (advice)")
    return f"{kind}{summary if kind else _capital(summary)}.{asked}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
