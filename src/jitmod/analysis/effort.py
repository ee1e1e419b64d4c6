"""Questions that lead to questions: how far one may lead, and what happens to one that leads to itself."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

_DEPTH = 60  # questions inside of questions; what lies deeper counts as unknown
_QUESTIONS = 4000  # that one question may lead to (200 are much): all of a large library hangs together


@dataclass
class Effort:
    """What the question in hand has cost so far. Inferences for one call's arguments share that of the question."""

    asked: int = 0
    open: int = 0

    def begins(self, depth: int) -> bool:
        """Whether one more question, inside of `depth` others, is still answered. `ends` closes one that is."""
        self.asked = self.asked + 1 if self.open else 1
        if depth > _DEPTH or self.asked > _QUESTIONS:
            return False
        self.open += 1
        return True

    def ends(self) -> None:
        self.open -= 1


@dataclass(eq=False, kw_only=True)
class Questions:
    """The questions that are being answered. `cycles` counts those that were cut short: unknown, for now."""

    effort: Effort = field(default_factory=Effort)
    cycles: int = 0
    _active: set[object] = field(default_factory=set)

    @contextmanager
    def once(self, key: object) -> Generator[bool]:
        """False where the question `key` is being answered already: a value defined through itself."""
        if not self.begins(key):
            yield False
            return
        try:
            yield True
        finally:
            self.ends(key)

    def begins(self, key: object) -> bool:
        """`once` without its cost, for a question that is asked a million times; `ends` closes one that begins."""
        if key in self._active or not self.effort.begins(len(self._active)):
            self.cycles += 1
            return False
        self._active.add(key)
        return True

    def ends(self, key: object) -> None:
        self._active.discard(key)
        self.effort.ends()

    @property
    def is_outermost(self) -> bool:
        """Whether the question in hand is the only one of its inference."""
        return len(self._active) == 1

    @property
    def is_first(self) -> bool:
        """Whether no other question has led to the one in hand, so that nothing but its own cycles cut it short."""
        return self.effort.open == 1
