"""What is seen of a run while it goes on: a live line on a terminal, plain lines where asked for, or nothing."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jitmod.delivery.tell import Silent

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from jitmod.cli.session import Talk
    from jitmod.delivery.tell import Tell

_REFRESHES = 2  # a second: a trial measures on the same machine
_BESIDE = 22  # columns: the spinner, the time and `123 of 456`
_SIGNS = {"accepted": ("✓", "green"), "rejected": ("✗", "red"), "crashed": ("✗", "red")}
_OPEN = ("?", "yellow")


@contextlib.contextmanager
def progress(talk: Talk) -> Iterator[Tell]:
    """The listener for a run. Whatever happens to the run, the terminal is as before at the end."""
    stderr = sys.stderr
    if talk.quiet or not (talk.verbose or stderr.isatty()):
        yield Silent()
    elif not stderr.isatty() or os.environ.get("TERM") in ("dumb", None):
        yield Lines(talk)
    else:
        from rich.console import Console

        with live(Console(stderr=True, highlight=False, markup=False)) as told:
            yield told


class Lines:
    """A line for every step, as it comes."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    def expect(self, patches: int) -> None:
        pass

    def begin(self, what: str, doing: str = "trying") -> None:
        self._talk.say(f"{what}: {doing}")

    def end(self, what: str, how: str) -> None:
        self._talk.say(f"{what}: {how}")


@contextlib.contextmanager
def live(console: Console) -> Iterator[Live]:
    """A line that moves, below those of the trials that have ended."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    # on a narrow terminal what is tried is cut, not the time
    cut = Column(no_wrap=True, max_width=max(console.width - _BESIDE, 1))
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False, table_column=cut), TimeElapsedColumn(),
               TextColumn("{task.fields[place]}", style="dim", markup=False))  # fmt: skip
    with Progress(*columns, console=console, transient=True, refresh_per_second=_REFRESHES) as shown:
        yield Live(shown)


class Live:
    """Counts the patches, and shows the one that is tried with the time that it takes."""

    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self._patches = 0
        self._met = set[str]()

    def expect(self, patches: int) -> None:
        self._patches = patches

    def begin(self, what: str, doing: str = "trying") -> None:
        self._met.add(what)
        self._clear()
        place = f"{len(self._met)} of {max(self._patches, len(self._met))}" if self._patches else ""
        self._shown.add_task(f"{what}  {doing}", total=None, place=place)

    def end(self, what: str, how: str) -> None:
        from rich.text import Text

        self._met.add(what)  # what is remembered does not begin
        self._clear()
        sign, style = _SIGNS.get(how.partition(":")[0].partition(" ")[0], _OPEN)
        self._shown.console.print(Text.assemble((f"{sign} ", style), what, "  ", (how, style)), soft_wrap=True)

    def _clear(self) -> None:
        for task in self._shown.task_ids:
            self._shown.remove_task(task)
