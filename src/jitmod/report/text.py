"""The report for people: a table of what was tried, what is left alone and why, what was committed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TextIO

from jitmod.delivery.figures import cold, compiles, describe, one_line, speedup
from jitmod.delivery.message import subject
from jitmod.model import Patch, Refusal, Status, Verdict
from jitmod.report.run import Run

_STYLES = {
    Status.ACCEPTED: "green",
    Status.REJECTED: "red",
    Status.UNPROVEN: "yellow",
    Status.INCONCLUSIVE: "yellow",
    Status.CRASHED: "red",
}
_EIGHTHS = "▏▎▍▌▋▊▉"
_BAR = 6  # characters
_ROOMY = 100  # columns, from which a table has room for bars
_WIDE = 1000  # into a pipe nothing is wrapped or cut to a terminal's width


def write(run: Run, stream: TextIO) -> None:
    """The whole report of a run that tried its patches."""
    _table(run, stream)
    compared = (line for patch, _ in run.patches() for line in compared_lines(patch))
    left = [*_reasons(run), *compared, *refusal_lines(run), *error_lines(run)]
    for line in [*left, *guard_lines(run), *commit_lines(run), *whole_lines(run), closing_line(run)]:
        stream.write(f"{line}\n")


def compared_lines(patch: Patch) -> Iterator[str]:
    """Where exact comparisons may fail after the patch."""
    if patch.compared:
        places = ", ".join(one_line(place) for place in patch.compared)
        yield f"{place(patch)} {patch.codemod} rounding may change what is compared exactly at {places}"


def refusal_lines(run: Run) -> Iterator[str]:
    for refusal in run.refusals():
        yield f"{place(refusal)} {refusal.codemod} {refusal.reason} {one_line(refusal.message)}"


def error_lines(run: Run) -> Iterator[str]:
    for error in run.errors:
        kind = "left alone" if error.is_foreign else "error"
        yield f"{one_line(error.shown_path)}:{error.line}:{error.column}: {kind}: {one_line(error.message)}"


def guard_lines(run: Run) -> Iterator[str]:
    """The regression tests that were asked for: where they are, or why there is none."""
    for patch, outcome in run.patches():
        if outcome.guard is not None:
            yield f"{place(patch)} {patch.codemod} is kept by {one_line(outcome.guard)}"
        elif outcome.unguarded is not None:
            yield f"{place(patch)} {patch.codemod} has no test: {one_line(outcome.unguarded)}"


def commit_lines(run: Run) -> Iterator[str]:
    for patch, outcome in run.patches():
        if outcome.commit:
            yield f"{run.target}  {outcome.commit[:7]}  {subject(patch)}"


def whole_lines(run: Run) -> Iterator[str]:
    """What the branch comes to as a whole: speed, the first call, and after how many calls that is paid back."""
    for whole in run.whole:
        change, calls = cold(whole.verdict), whole.verdict.cold.get("breakeven_calls")
        parts = [describe(whole.verdict), f"cold {change}" if change else ""]
        parts.append(f"paid back after {calls:.0f} calls" if calls else "")
        yield f"{run.target} as a whole, {one_line(whole.workload)}: {'; '.join(part for part in parts if part)}"


def closing_line(run: Run) -> str:
    """What it comes to, in one sentence."""
    summary = run.summary()
    refused = f"{summary['refused']} left alone"
    if summary["advice"]:
        refused += f", {_count(summary['advice'], 'piece', 'pieces')} of advice"
    if summary["patches"] == 0:
        if run.resumed:
            return f"nothing more to do on {run.branch} ({refused})"
        return f"no patch found ({refused})"
    if not run.tried:
        return f"{_count(summary['patches'], 'patch', 'patches')} possible, {refused}"
    verdicts = ", ".join(f"{summary[str(status)]} {status}" for status in Status if summary[str(status)])
    device = f" on {run.device}" if run.device else ""
    return f"{_count(summary['patches'], 'patch', 'patches')} tried{device}: {verdicts}; {refused}"


def evidence_lines(run: Run, path: str) -> Iterator[str]:
    """One line for each tried patch of a file, to head its diff with."""
    for patch, outcome in run.patches():
        if patch.site.path == path and outcome.verdict is not None:
            change = cold(outcome.verdict)
            ending = f"; cold {change}" if change else ""
            yield f"# {place(patch)} {patch.codemod} {describe(outcome.verdict)}{ending}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def place(finding: Patch | Refusal) -> str:
    """Where a finding is, as a reader of the file or notebook sees it."""
    site = finding.site
    return f"{one_line(site.shown_path)}:{site.shown_line}:{site.column}"


def _reasons(run: Run) -> Iterator[str]:
    """Why each patch that was not accepted was not."""
    for patch, outcome in run.patches():
        if outcome.verdict is not None and outcome.verdict.status is not Status.ACCEPTED:
            yield f"{place(patch)} {patch.codemod} {describe(outcome.verdict)}"


def _table(run: Run, stream: TextIO) -> None:
    rows = [(patch, outcome.verdict, outcome.commit) for patch, outcome in run.patches() if outcome.verdict is not None]
    if not rows:
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    terminal = stream.isatty()
    console = Console(file=stream, highlight=False, markup=False, width=None if terminal else _WIDE)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    headings = ("site", "codemod", "verdict", "speedup", "cold", "compiles", "commit")
    for heading in headings:
        table.add_column(heading, overflow="fold", no_wrap=not terminal)
    best = max((verdict.speedup or 0.0 for _, verdict, _ in rows), default=0.0)
    drawn = terminal and console.width >= _ROOMY and console.encoding.startswith("utf")
    told: list[Text] = []
    for patch, verdict, commit in rows:
        bar = _bar(verdict.speedup, best) if drawn else ""
        cells = [place(patch), patch.codemod, _verdict(verdict), bar + speedup(verdict)]
        cells += [cold(verdict), compiles(verdict), (commit or "")[:7]]
        texts = [Text(cell) for cell in cells]
        texts[2].stylize(_STYLES[verdict.status])
        texts[3].stylize(_STYLES[verdict.status], 0, len(bar))
        table.add_row(*texts)
        told.append(Text(" ").join(texts[:3]))
        told += [Text(f"  {name} ") + cell for name, cell in zip(headings[3:], texts[3:], strict=True) if cell]
    if Measurement.get(console, console.options.update(width=_WIDE), table).minimum <= console.width:
        console.print(table)
    else:  # cells would be cut within their words: a line for each of them, which the terminal wraps
        console.print(Text("\n").join(told), soft_wrap=True)


def _bar(value: float | None, best: float) -> str:
    """A speedup as a bar, on a logarithmic scale from 1 to the best of the run; of the same width for all."""
    if best <= 1:
        return ""
    part = math.log(value) / math.log(best) if value is not None and value > 1 else 0.0
    eighths = round(part * 8 * _BAR)
    full, rest = divmod(eighths, 8)
    return f"{'█' * full + (_EIGHTHS[rest - 1] if rest else ''):<{_BAR}} "


def _verdict(verdict: Verdict) -> str:
    return f"{verdict.status}: {verdict.test}" if verdict.test else str(verdict.status)
