"""Findings that a comment or a setting keeps away, and comments that keep nothing away."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import entry_points

from pathspec import GitIgnoreSpec

from jitmod.analysis.reasons import REASONS
from jitmod.model import UNUSED, Finding, Refusal, UserError
from jitmod.source.document import Document
from jitmod.source.nearest import suggestion
from jitmod.source.suppressions import Suppression, suppressions


def unsuppressed(
    findings: Iterable[Finding], document: Document, codemods: Sequence[str], usual: Callable[[], Iterable[str]]
) -> list[Finding]:
    """The findings of one file that no comment keeps away, and one for each comment that is of no use.

    A comment is judged where all that it is about have run, of the `usual` codemods where it does not name some.
    """
    comments = suppressions(document)
    if not comments:
        return list(findings)
    kept: list[Finding] = []
    used: set[Suppression] = set()
    for finding in findings:
        reason = finding.reason if isinstance(finding, Refusal) else None
        holding = [one for one in comments if one.holds_for(finding.site.line, finding.codemod, reason)]
        used.update(holding)
        kept += [] if holding else [finding]
    known = {*usual(), *codemods}
    unused = [one for one in comments if one not in used and _about(one, known) <= set(codemods)]
    return [*kept, *(_useless(one, document) for one in unused)]


def check_names(ignored: Mapping[str, Sequence[str]], running: Iterable[str] = ()) -> None:
    """Raises `UserError` where one is neither a reason nor a codemod, installed or `running`."""
    names = {name for listed in ignored.values() for name in listed}.difference(REASONS, running)
    known = {*REASONS, *running, *(point.name for point in entry_points(group="jitmod.codemods"))} if names else set()
    for name in sorted(names - known):
        raise UserError(f"per_file_ignores: there is no codemod and no reason {name!r}{suggestion(name, known)}")


def ignored_in(path: str, ignored: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """The codemods and reasons that the settings keep away from a file."""
    fitting = (names for pattern, names in ignored.items() if GitIgnoreSpec.from_lines([pattern]).match_file(path))
    return frozenset(name for names in fitting for name in names)


def _about(comment: Suppression, known: set[str]) -> set[str]:
    """The codemods whose findings it could keep away."""
    return known & comment.names if comment.names and not comment.names & REASONS.keys() else known


def _useless(comment: Suppression, document: Document) -> Refusal:
    unknown = sorted(comment.names - REASONS.keys() - {point.name for point in entry_points(group="jitmod.codemods")})
    why = f"there is no codemod and no reason {unknown[0]!r}" if unknown else "there is nothing that it keeps away"
    place = document.place(comment.line, comment.column)
    return Refusal(UNUSED, place, UNUSED, f"`{comment.text}` can go: {why} (line {comment.line})")
