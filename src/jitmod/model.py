"""The shared facts: what every floor of the house hands to the next one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class UserError(Exception):
    """Something that a user can set right: the message says what, and how."""


@dataclass(frozen=True)
class InCell:
    """A place as the reader of a notebook sees it: the cell by its number among all cells, the lines in that cell.

    `file_line` is the line of the file. All are 1-based.
    """

    cell: int
    line: int
    end_line: int
    file_line: int


@dataclass(frozen=True)
class Site:
    """A place in the user's code. Lines are 1-based, columns are 1-based characters, `path` is relative, with `/`.

    In a notebook lines are those of its cells seen as one module; `seen` is where that is.
    """

    path: str
    line: int
    column: int
    end_line: int
    symbol: str = "<module>"
    seen: InCell | None = None

    @property
    def shown_line(self) -> int:
        return self.seen.line if self.seen is not None else self.line

    @property
    def shown_end_line(self) -> int:
        return self.seen.end_line if self.seen is not None else self.end_line

    @property
    def shown_path(self) -> str:
        """The path, and the cell of a notebook."""
        return f"{self.path}:cell {self.seen.cell}" if self.seen is not None else self.path


@dataclass(frozen=True)
class Edit:
    """Replace bytes `[start, end)` of a document's UTF-8 text by `text`; `start == end` inserts."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Knob:
    """A number in the generated text that a trial may tune. `token` marks its place in the text of edits."""

    name: str
    default: int
    candidates: tuple[int, ...]

    @property
    def token(self) -> str:
        return f"\0{self.name}\0"  # no Python source holds a NUL


@dataclass(frozen=True)
class Variant:
    """One text of a patch. `form` names it; `knobs` are the numbers that its edits leave open."""

    form: str
    edits: tuple[Edit, ...]
    knobs: tuple[Knob, ...] = ()

    def defaults(self) -> dict[str, int]:
        return {knob.name: knob.default for knob in self.knobs}

    def realise(self, values: Mapping[str, int]) -> tuple[Edit, ...]:
        """The edits with every knob set; knobs that `values` leaves out take their default."""
        settings = self.defaults() | dict(values)
        edits = self.edits
        for knob in self.knobs:
            number = str(settings[knob.name])
            edits = tuple(Edit(e.start, e.end, e.text.replace(knob.token, number)) for e in edits)
        return edits


@dataclass(frozen=True)
class Assumption:
    """What could not be proved; `text` says it in words. Its violation is loud: it raises, or fails to trace."""

    code: str
    text: str


class Applicability(StrEnum):
    SAFE = "safe"
    TRIAL = "trial"
    MANUAL = "manual"


@dataclass(frozen=True)
class Patch:
    """A rewrite of one site. Its first variant is the one that an untried diff shows.

    `needs_fresh_values`: neither its gain nor its harm shows in calls that pass the same values again. `compared` are
    the places, `path:line`, that compare exactly what rounding may change now. `neutral`: it need not be faster.
    """

    codemod: str
    site: Site
    message: str
    variants: tuple[Variant, ...]
    assumptions: tuple[Assumption, ...] = ()
    new_functions: tuple[str, ...] = ()
    needs_fresh_values: bool = False
    compared: tuple[str, ...] = ()
    neutral: bool = False

    @property
    def applicability(self) -> Applicability:
        return Applicability.TRIAL if self.assumptions else Applicability.SAFE


@dataclass(frozen=True)
class Refusal:
    """Why a candidate is left alone: a code of the registry in `analysis/reasons.py` and a sentence to act on."""

    codemod: str
    site: Site
    reason: str
    message: str

    @property
    def is_advice(self) -> bool:
        """Whether it says what the user can do better, beyond why nothing is rewritten."""
        return self.reason in ADVICE


UNUSED = "unused-suppression"
ADVICE = frozenset(
    {"growing-shape", "frozen-by-jit", "state-not-returned", "same-key", "unblocked-timing", "cold-timing", UNUSED}
)

Finding = Patch | Refusal


@dataclass(frozen=True)
class SourceError:
    """A file that cannot be read as Python. `cell` is the cell of a notebook, 0 where it is no single one.

    `is_foreign`: nothing is wrong with it, but it is not ours to read: a notebook of another language, say.
    """

    path: str
    line: int
    column: int
    message: str
    cell: int = 0
    is_foreign: bool = False

    @property
    def shown_path(self) -> str:
        return f"{self.path}:cell {self.cell}" if self.cell else self.path

    def __str__(self) -> str:
        return f"{self.shown_path}:{self.line}:{self.column}: {self.message}"


class Status(StrEnum):
    """The ways a trial can end. Only `ACCEPTED` earns a commit."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNPROVEN = "unproven"
    INCONCLUSIVE = "inconclusive"
    CRASHED = "crashed"


@dataclass(frozen=True)
class Verdict:
    """What the gate made of the evidence. `test` names the failed test of a rejection, `why` says it in words.

    `measured` are the samples behind the figures, as `trial/measured.py` has them.
    """

    status: Status
    why: str
    test: str | None = None
    device: str | None = None
    speedup: float | None = None
    speedup_ci: tuple[float, float] | None = None
    knobs: Mapping[str, int] = field(default_factory=dict)
    cold: Mapping[str, Any] = field(default_factory=dict)
    compiles: Mapping[str, Any] = field(default_factory=dict)
    parity: Mapping[str, Any] = field(default_factory=dict)
    memory: Mapping[str, Any] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)
    evidence_digest: str | None = None


@dataclass(frozen=True)
class Outcome:
    """One finding at the end of a run: its diff, its verdict and its commit, where it has them.

    `guard` is the path of the regression test that went in with it; `unguarded` says why there is none where one was
    asked for.
    """

    finding: Finding
    diff: str = ""
    verdict: Verdict | None = None
    commit: str | None = None
    guard: str | None = None
    unguarded: str | None = None


def fingerprint(finding: Finding, text: str) -> str:
    """A stable name of a finding: codemod, path, symbol and the text of the site, but no line numbers."""
    parts = (finding.codemod, finding.site.path, finding.site.symbol, " ".join(text.split()))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:16]
