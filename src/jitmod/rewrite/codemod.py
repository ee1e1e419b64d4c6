"""The base class of every codemod, the registry, and the walk over a project."""

from __future__ import annotations

import contextlib
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import ClassVar

from jitmod.analysis.equalities import exact_checks
from jitmod.analysis.jits import analyses
from jitmod.model import Finding, Patch, Refusal, Site, SourceError, UserError
from jitmod.rewrite.edits import compose
from jitmod.rewrite.observed import improved
from jitmod.rewrite.suppressed import ignored_in, unsuppressed
from jitmod.source.document import Document
from jitmod.source.nearest import suggestion
from jitmod.source.project import Project


@dataclass(frozen=True)
class Rewrites:
    """An example that becomes `after`."""

    before: str
    after: str


@dataclass(frozen=True)
class Leaves:
    """An example without a site: nothing is found."""

    before: str


@dataclass(frozen=True)
class Refuses:
    """An example whose site is refused for `reason`."""

    before: str
    reason: str


Example = Rewrites | Leaves | Refuses


class Codemod(ABC):
    """One rewrite: its module's docstring says what it is, `examples` show it, `find` finds its sites."""

    id: ClassVar[str]
    summary: ClassVar[str]
    examples: ClassVar[Sequence[Example]]
    advises: ClassVar[bool] = False  # a rule: it rewrites nothing, and what it finds is advice
    on_request: ClassVar[bool] = False  # `all` leaves it out: it makes nothing faster
    rounds: ClassVar[bool] = True  # what is computed may change by rounding
    tried_last: ClassVar[bool] = False  # what its patches give depends on whether the callers are compiled

    @classmethod
    def missing(cls) -> str | None:
        """What has to be installed for it, where that is not."""
        return None

    @abstractmethod
    def find(self, document: Document, project: Project) -> Iterator[Finding]:
        """Every site of this codemod in `document`, in order: a patch or a refusal each."""


_NAME = re.compile(r"[a-zA-Z0-9._-]{1,100}")
_PLACE = re.compile(r"([^\s(]+\.ipynb):(\d+)")


class UnknownCodemod(UserError):
    """No codemod of that name is installed; the message lists those that are."""


def available() -> dict[str, type[Codemod]]:
    """The installed codemods by name."""
    return {point.name: _loaded(point) for point in sorted(entry_points(group="jitmod.codemods"))}


def _loaded(point: EntryPoint) -> type[Codemod]:
    """The class of an installed codemod, which may be somebody else's. Raises `UnknownCodemod`."""
    try:
        found = point.load()
    except (Exception, SystemExit) as error:
        whose = f" of {point.dist.name}" if point.dist is not None else ""
        what = f"the codemod {point.name}{whose} cannot be loaded ({type(error).__name__}: {error})"
        raise UnknownCodemod(f"{what}: update that package, or remove it") from None
    if not (isinstance(found, type) and issubclass(found, Codemod)):
        raise UnknownCodemod(f"{point.value}, which is installed as the codemod {point.name}, is none")
    return found


def usual() -> list[str]:
    """The names that `all` stands for."""
    return [name for name, codemod in available().items() if not (codemod.on_request or codemod.missing())]


def select(names: str) -> list[Codemod]:
    """The codemods of a comma-separated list; `all` stands for every one that may make code faster, or advises.

    What ends in `.py` is a file that holds some. Raises `UnknownCodemod`.
    """
    from jitmod.rewrite.scripts import load

    known = available()
    wanted = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if "all" in wanted:
        wanted = list(dict.fromkeys([*usual(), *(name for name in wanted if name != "all")]))
    unknown = [name for name in wanted if name not in known and not name.endswith(".py")]
    if unknown or not wanted:
        meant = suggestion(unknown[0], known) if unknown else ""
        raise UnknownCodemod(f"no such codemod: {', '.join(unknown) or repr(names)}{meant} (known: {', '.join(known)})")
    lacking = [f"{name} needs {known[name].missing()}" for name in wanted if name in known and known[name].missing()]
    if lacking:
        raise UnknownCodemod("; ".join(lacking))
    found = [one for name in wanted for one in ([known[name]()] if name in known else load(Path(name)))]
    for one in found:
        name = getattr(one, "id", None)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            kind = type(one).__name__
            raise UnknownCodemod(f"{name!r} is no name for a codemod ({kind}.id): letters, digits, hyphens")
    return list({one.id: one for one in found}.values())


@dataclass(frozen=True)
class Scan:
    """What a walk found, in the order of paths and lines, and the files that could not be read."""

    findings: tuple[Finding, ...]
    errors: tuple[SourceError, ...]


def scan(
    codemods: Iterable[Codemod],
    project: Project,
    paths: Iterable[str],
    ignored: Mapping[str, Sequence[str]] | None = None,
) -> Scan:
    """Run `codemods` over the documents at `paths` (relative to the project's root).

    `ignored` are patterns of files, each with the codemods and reasons that are not for them.
    """
    wanted, codemods = sorted(set(paths)), tuple(codemods)
    errors = tuple(project.errors[path] for path in wanted if path in project.errors)
    findings: list[Finding] = []
    for path in wanted:
        if path in project.documents:
            document = project.documents[path]
            own = project.around(document)
            here: list[Finding] = []
            left_out = ignored_in(path, ignored or {})
            running = [codemod for codemod in codemods if codemod.id not in left_out]
            for codemod in running:
                found = _found(codemod, document, own)
                here += [_with_checks(f, document, own) if codemod.rounds else f for f in found]
            kept = unsuppressed(here, document, [codemod.id for codemod in running], usual)
            told = [f for f in kept if not (isinstance(f, Refusal) and f.reason in left_out)]
            findings += [_in_cell(finding, document, project) for finding in told]
    findings.sort(key=lambda f: (f.site.path, f.site.line, f.site.column, f.codemod))
    return Scan(tuple(findings), errors)


def _found(codemod: Codemod, document: Document, project: Project) -> list[Finding]:
    """What a codemod finds in a file. One that is not jitmod's own may fail: that is a refusal of the file."""
    with contextlib.redirect_stdout(sys.stderr):  # results alone go to stdout, whatever a codemod prints
        try:
            found = improved(list(codemod.find(document, project)), codemod.find, document, project)
            if not is_ours(codemod):
                for variant in (v for f in found if isinstance(f, Patch) for v in f.variants):
                    compose(document, variant.realise({}))
        except (Exception, SystemExit) as error:
            if is_ours(codemod):
                raise
            what = f"{codemod.id} raised {type(error).__name__}: {error}"
            return [Refusal(codemod.id, Site(document.path, 1, 1, 1), "unparsable", what)]
    return found


def is_ours(codemod: Codemod) -> bool:
    """Whether a codemod is one of jitmod's own."""
    return type(codemod).__module__.partition(".")[0] == "jitmod"


def _with_checks(finding: Finding, document: Document, project: Project) -> Finding:
    """A patch with the places that compare exactly what its function gives."""
    if not isinstance(finding, Patch):
        return finding
    function = project.module(document).function_at(finding.site.line, finding.site.line)
    if function is None:
        return finding
    effects, _ = analyses(project)
    return replace(finding, compared=exact_checks(function, effects.inference))


def _in_cell(finding: Finding, document: Document, project: Project) -> Finding:
    """A finding as the reader of a notebook wants it: lines are those of cells, and a cell that is timed stays."""

    def placed(found: re.Match[str]) -> str:
        other = project.documents.get(found[1])
        if other is None or other.notebook is None:
            return found[0]
        cell, line = other.notebook.place(int(found[2]))
        return f"{found[1]}:cell {cell}:{line}"

    message = _PLACE.sub(placed, finding.message)
    if document.notebook is not None:
        if document.notebook.is_timed(finding.site.line):
            return Refusal(finding.codemod, finding.site, "timing-loop", "the cell is run by a magic that times it")
        message = document.notebook.in_words(message)
    return finding if message == finding.message else replace(finding, message=message)
