"""How far one question of the inference may lead."""

from __future__ import annotations

from dataclasses import dataclass

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
