"""What a page shows, made from the JSON of a run: all in words and figures, nothing left to decide but the layout."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from jitmod.analysis.reasons import REASONS
from jitmod.delivery import figures
from jitmod.delivery.figures import one_line
from jitmod.model import Status
from jitmod.report import checklist
from jitmod.report.html import charts, diffs
from jitmod.report.html.diffs import Piece
from jitmod.report.html.facts import Fact, facts
from jitmod.report.html.judged import Judged, judged
from jitmod.trial.needs import size

_OPEN = 24  # so many diffs are open when the page is; of more, those that were accepted
_NEAR = 20  # times what is needed: a limit beyond says nothing in a picture
_SHORT = 7  # digits of a commit

Words = tuple[Piece, ...]
"""Text for people; of kind "code" is what stands between backticks."""


Change = tuple[str, str] | None
"""A figure of both arms; None where it was not measured."""


@dataclass(frozen=True)
class Figure:
    """A picture with what it shows."""

    title: str
    picture: Markup
    caption: str = ""


@dataclass(frozen=True)
class Card:
    """One patch. `verdict` is None where it was not tried."""

    anchor: str
    place: str
    symbol: str
    codemod: str
    message: Words
    verdict: str | None
    failed: str
    why: Words
    speedup: str
    bar: Markup | None
    warm: Change
    cold: Change
    compiles: Change
    commit: str
    rows: tuple[tuple[str, str, str, str], ...]
    facts: tuple[Fact, ...]
    pictures: tuple[Figure, ...]
    notes: tuple[tuple[str, Words], ...]
    diff: tuple[diffs.Row, ...]
    is_open: bool


@dataclass(frozen=True)
class Left:
    """What is left alone for one reason, or one kind of advice: the places, each with what is said of it."""

    reason: str
    meaning: str
    places: tuple[tuple[str, str, Words], ...]


@dataclass(frozen=True)
class Scorecard:
    """The checklist of a function: how many of its lines are fine, and each with its mark and what is said of it."""

    place: str
    symbol: str
    good: int
    rows: tuple[tuple[str, str, Words], ...]


@dataclass(frozen=True)
class Page:
    """The whole page. `tally` are the verdicts with their counts."""

    title: str
    about: tuple[tuple[str, str], ...]
    tally: tuple[tuple[str, int], ...]
    is_dirty: bool
    links: tuple[tuple[str, str, int], ...]
    cards: tuple[Card, ...]
    whole: tuple[tuple[str, Judged, Words, tuple[tuple[str, str, str, str], ...]], ...]
    refused: tuple[Left, ...]
    advice: tuple[Left, ...]
    scorecards: tuple[Scorecard, ...]
    errors: tuple[tuple[str, Words], ...]


def page(run: Mapping[str, Any]) -> Page:
    """The page of a run that `reading.read` has let pass."""
    patches = [finding for finding in run["findings"] if finding["status"] == "patch"]
    trials = [judged(finding["trial"]) for finding in patches]
    scale = charts.speeds(value for trial in trials if trial is not None for value in trial.speeds)
    counts = [(str(status), sum(t is not None and t.verdict.status is status for t in trials)) for status in Status]
    tally = tuple((name, count) for name, count in counts if count)
    cards = tuple(_card(finding, trial, scale, is_open=len(patches) <= _OPEN)
                  for finding, trial in zip(patches, trials, strict=True))  # fmt: skip
    whole, refused, advice = tuple(_whole(run)), _left(run, "refused"), _left(run, "advice")
    scorecards = tuple(_scorecards(run["findings"]))
    errors = tuple((f"{_path(e)}:{e['line']}:{e['column']}", words(e["message"])) for e in run["errors"])
    links = [("patches", "Patches", len(cards)), ("whole", "The branch as a whole", len(whole)),
             ("refused", "Left alone", sum(len(group.places) for group in refused)),
             ("advice", "Advice", sum(len(group.places) for group in advice)),
             ("checklists", "Checklists", len(scorecards)),
             ("errors", "Files that could not be read", len(errors))]  # fmt: skip
    return Page(
        _title(len(patches), sum(count for _, count in tally), dict(tally).get("accepted", 0)),
        tuple(_about(run, [trial for trial in trials if trial is not None])),
        tally, run["summary"]["dirty"], tuple(link for link in links if link[2]), cards, whole, refused, advice,
        scorecards, errors,
    )  # fmt: skip


def words(text: str) -> Words:
    """Text from code or from a child process, for people: on one line, what has no sign named."""
    parts = one_line(text).split("`")
    if len(parts) % 2 == 0:  # a backtick without its partner
        parts = [one_line(text)]
    pieces = (diffs.visible(part, "code" if number % 2 else "") for number, part in enumerate(parts) if part)
    return tuple(piece for some in pieces for piece in some)


def _title(patches: int, tried: int, accepted: int) -> str:
    what = "1 patch" if patches == 1 else f"{patches} patches"
    if not patches:
        return "No patch found"
    return f"{accepted} of {what} accepted" if tried else f"{what} possible"


def _about(run: Mapping[str, Any], trials: Sequence[Judged]) -> Iterator[tuple[str, str]]:
    summary = run["summary"]
    if summary["branch"]:
        yield "branch", one_line(summary["branch"])
    if summary["base_commit"]:
        yield "from", summary["base_commit"][:_SHORT]
    devices = {trial.device for trial in trials if trial.device}
    if devices:
        yield "device", ", ".join(sorted(devices))
    versions = {name: version for trial in trials for name, version in trial.versions.items()}
    for name in ("python", "jax", "equinox"):
        if name in versions:
            yield name, versions[name]
    yield "jitmod", one_line(run["jitmod"])


def _card(finding: Mapping[str, Any], trial: Judged | None, scale: charts.Scale, *, is_open: bool) -> Card:
    verdict = trial.verdict if trial is not None else None
    status = str(verdict.status) if verdict is not None else None
    notes = [("assumed", words(text)) for text in finding["assumptions"]]
    notes += [("compared exactly", words(f"`{place}`: rounding may change that")) for place in finding["compared"]]
    changes = {what: (before, after) for what, before, after, _ in trial.rows} if trial is not None else {}
    own = finding["trial"] or {}
    if own.get("guard"):
        notes.append(("kept by", words(f"`{own['guard']}`")))
    if own.get("unguarded"):
        notes.append(("no test", words(own["unguarded"])))
    if verdict is not None and verdict.knobs:
        notes.append(("knobs", words(figures.knobs(verdict))))
    return Card(
        anchor=f"p-{finding['id']}",
        place=_place(finding),
        symbol="" if finding["symbol"] == "<module>" else one_line(finding["symbol"]),
        codemod=one_line(finding["codemod"]),
        message=words(finding["message"]),
        verdict=status,
        failed=one_line(verdict.test or "") if verdict is not None else "",
        why=words(verdict.why) if verdict is not None else (),
        speedup=f"{figures.three_digits(trial.speeds[0])}x" if trial is not None and trial.speeds else "",
        bar=None if trial is None or not trial.speeds else charts.whisker(trial.speeds[0], trial.interval, scale),
        warm=changes.get("warm call"),
        cold=changes.get("cold"),
        compiles=changes.get("compiles"),
        commit=(own.get("commit") or "")[:_SHORT],
        rows=trial.rows if trial is not None else (),
        facts=tuple(facts(trial.verdict.parity)) if trial is not None else (),
        pictures=tuple(_pictures(trial)) if trial is not None else (),
        notes=tuple(notes),
        diff=diffs.rows(finding["diff"], is_python=finding["path"].endswith(".py")),
        is_open=is_open or status == "accepted",
    )


def _pictures(trial: Judged) -> Iterator[Figure]:
    calls = charts.calls(trial.warm)
    if calls is not None:
        yield Figure("Warm calls", calls, "A dot is a sample, a row a process; medians are marked.")
    first = charts.phases(trial.first_calls, trial.verdict.cold)
    if first is not None:
        yield Figure("First call", first, "From light to dark: trace, lower, compile.")
    for knob, lines in trial.tuned.items():
        picture = charts.curves(lines, f"Seconds of a call over {knob}", figures.seconds, trial.form)
        if picture is not None:
            yield Figure(f"A call over {knob}", picture, f"Chosen: {figures.knobs(trial.verdict)}.")
    limit = trial.verdict.memory.get("limit")
    for knob, lines in trial.predicted.items():
        largest = max((needed for line in lines.values() for _, needed in line), default=0.0)
        most = limit if limit and 0 < limit < _NEAR * largest else None
        picture = charts.curves(lines, f"Bytes over {knob}", size, trial.form, most)
        if picture is not None:
            allowed = f" A call may take {size(limit)}." if limit else ""
            yield Figure(f"Memory over {knob}", picture, f"As the compiler predicts it.{allowed}")


def _whole(run: Mapping[str, Any]) -> Iterator[tuple[str, Judged, Words, tuple[tuple[str, str, str, str], ...]]]:
    for one in run["whole"]:
        trial = judged(one["trial"])
        if trial is not None:
            yield one_line(one["workload"]), trial, words(trial.verdict.why), trial.rows


def _left(run: Mapping[str, Any], status: str) -> tuple[Left, ...]:
    """By reason, the commonest first."""
    groups: dict[str, list[tuple[str, str, Words]]] = {}
    for finding in run["findings"]:
        if finding["status"] == status:
            entry = (_place(finding), one_line(finding["codemod"]), words(finding["message"]))
            groups.setdefault(finding["reason"], []).append(entry)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return tuple(Left(one_line(reason), REASONS.get(reason, ""), tuple(places)) for reason, places in ordered)


def _scorecards(findings: Sequence[Mapping[str, Any]]) -> Iterator[Scorecard]:
    """One for each function with a finding. An accepted patch is not held against it: the branch has it."""
    functions: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for finding in findings:
        functions.setdefault((_path(finding), one_line(finding["symbol"])), []).append(finding)
    for (path, symbol), own in functions.items():
        rows = [(mark, item.text, words(said)) for mark, item, said in checklist.rows([_note(one) for one in own])]
        yield Scorecard(path, symbol, sum(mark == "ok" for mark, _, _ in rows), tuple(rows))


def _note(finding: Mapping[str, Any]) -> checklist.Note:
    made = checklist.note(
        one_line(finding["codemod"]), finding["reason"], finding["line"], finding["message"],
        compares=bool(finding["compared"]), is_refused=finding["status"] == "refused",
    )  # fmt: skip
    accepted = (finding["trial"] or {}).get("verdict") == "accepted"
    return replace(made, settled="accepted") if accepted and not finding["compared"] else made


def _place(finding: Mapping[str, Any]) -> str:
    return f"{_path(finding)}:{finding['line']}:{finding['column']}"


def _path(of: Mapping[str, Any]) -> str:
    path = re.sub(r"\s+", " ", one_line(of["path"]))
    return f"{path}:cell {of['cell']}" if of["cell"] else path
