"""Who hears how a run goes on while it does."""

from __future__ import annotations

from typing import Protocol


class Tell(Protocol):
    """One trial runs at a time: `begin` and `end` come in turn, and `expect` before them."""

    def expect(self, patches: int) -> None:
        """So many patches will be tried."""

    def begin(self, what: str, doing: str = "trying") -> None:
        """What is done now with the patch or the branch that `what` names."""

    def end(self, what: str, how: str) -> None:
        """How it ended."""


class Silent:
    """Nobody listens."""

    def expect(self, patches: int) -> None:
        pass

    def begin(self, what: str, doing: str = "trying") -> None:
        pass

    def end(self, what: str, how: str) -> None:
        pass
