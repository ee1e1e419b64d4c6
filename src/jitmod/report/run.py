"""The one data model of every report: what a run found, tried and committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jitmod.delivery.queue import Entry
from jitmod.model import Outcome, Patch, Refusal, SourceError, Status

if TYPE_CHECKING:
    from jitmod.delivery.whole import Whole

UNREAD = "bowler-cannot-parse"  # the job is not done there


@dataclass(frozen=True)
class Run:
    """A finished run. `branch`, `base_commit` and `resumed` are set where a branch was the target.

    `bundle` is the folder that commits went to instead.

    `whole`: the trials of the branch as a whole, where several patches went in.
    """

    version: str
    entries: tuple[Entry, ...]
    errors: tuple[SourceError, ...] = ()
    branch: str | None = None
    bundle: str | None = None
    base_commit: str | None = None
    resumed: bool = False
    dirty: bool = False
    tried: bool = False
    whole: tuple[Whole, ...] = ()

    @property
    def device(self) -> str | None:
        """The device of the trials: the first that a verdict names."""
        verdicts = [entry.outcome.verdict for entry in self.entries]
        return next((v.device for v in verdicts if v is not None and v.device), None)

    def patches(self) -> Iterator[tuple[Patch, Outcome]]:
        for entry in self.entries:
            if isinstance(entry.outcome.finding, Patch):
                yield entry.outcome.finding, entry.outcome

    def refusals(self) -> Iterator[Refusal]:
        for entry in self.entries:
            if isinstance(entry.outcome.finding, Refusal):
                yield entry.outcome.finding

    def summary(self) -> dict[str, Any]:
        """The counts: findings, and verdicts by their name."""
        verdicts = Counter(str(o.verdict.status) for _, o in self.patches() if o.verdict is not None)
        return {
            "patches": sum(1 for _ in self.patches()),
            "refused": sum(not refusal.is_advice for refusal in self.refusals()),
            "advice": sum(refusal.is_advice for refusal in self.refusals()),
            "errors": len(self.errors),
            **{str(status): verdicts[str(status)] for status in Status},
            "commits": sum(1 for _, outcome in self.patches() if outcome.commit),
            "branch": self.branch,
            "bundle": self.bundle,
            "base_commit": self.base_commit,
            "dirty": self.dirty,
            "device": self.device,
        }

    @property
    def target(self) -> str | None:
        """Where commits went."""
        return self.branch or self.bundle

    @property
    def is_incomplete(self) -> bool:
        """Whether there are files that could not be read."""
        return any(not e.is_foreign for e in self.errors) or any(r.reason == UNREAD for r in self.refusals())

    def exit_code(self) -> int:
        """0: every patch was accepted, or there was none; 1: one was not, or was not tried; 2: a file is unreadable."""
        if self.is_incomplete:
            return 2
        accepted = [o.verdict is not None and o.verdict.status is Status.ACCEPTED for _, o in self.patches()]
        return 0 if all(accepted) else 1
