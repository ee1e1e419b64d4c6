"""What there is in the files as they are: nothing runs, and nothing is searched twice."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from jitmod.delivery import results
from jitmod.delivery.files import Files
from jitmod.delivery.queue import Preview
from jitmod.source.files import discover
from jitmod.source.recording import SUMMARY, load_all, state_folder

if TYPE_CHECKING:
    from jitmod.rewrite.codemod import Codemod


@dataclass(frozen=True)
class Asked:
    """What is asked for. `paths` are relative to `root`, `exclude` are patterns of the configuration.

    `ignored` are patterns of files as well, each with the codemods and reasons that are not for them.
    `codemods` is how they were named, and `load` finds them: nothing of that is needed for a result that is known.
    """

    root: Path
    paths: tuple[str, ...]
    exclude: tuple[str, ...]
    codemods: tuple[str, ...]
    load: Callable[[], tuple[Codemod, ...]]
    only_safe: bool = False
    keeps_results: bool = True
    processes: int = 0  # as many as there are processors
    ignored: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where results are kept."""
        return state_folder(self.root) / "results"


def findings(asked: Asked) -> Preview:
    """Every finding, each patch with its own diff."""
    return _searched("find", asked)


def diff(asked: Asked) -> Preview:
    """The same, and the cumulative diff of each file that changes."""
    return _searched("preview", asked)


def _searched(search: str, asked: Asked) -> Preview:
    selected = discover(asked.root, [asked.root / path for path in asked.paths], asked.exclude)
    whole = selected if asked.paths == (".",) else discover(asked.root, [asked.root], asked.exclude)
    files = Files.read(asked.root, {*selected, *whole})
    keeps = asked.keeps_results and not any(name.endswith(".py") for name in asked.codemods)
    recorded = _recorded(state_folder(asked.root))
    name = _name(search, asked, selected, files, recorded) if keeps else ""
    known = results.load(asked.folder, name) if keeps else None
    if known is not None:
        return known
    from jitmod.delivery.engine import is_whole, searched
    from jitmod.delivery.preview import Wanted, find, preview
    from jitmod.rewrite.codemod import is_ours

    codemods = asked.load()
    wanted = Wanted(codemods, tuple(selected), asked.only_safe, asked.ignored)
    recordings = load_all(state_folder(asked.root))
    keeps = keeps and all(map(is_ours, codemods)) and _recorded(state_folder(asked.root)) == recorded  # none came since
    how = find if search == "find" else preview
    processes = asked.processes or _processors()
    found = searched(how, wanted, files, recordings, asked.root.resolve().name, processes)
    if keeps and is_whole(found):
        results.store(asked.folder, name, found)
    return found


def _name(search: str, asked: Asked, selected: list[str], files: Files, recorded: list[str]) -> str:
    """The name of the result: of all that it can depend on."""
    ignored = [part for pattern, names in asked.ignored.items() for part in (pattern, *names, "")]
    named = [*ignored, "", *asked.codemods, "", *selected, ""]
    settings = [search, asked.root.resolve().name, str(asked.only_safe), *named]
    contents = [part for path, data in files.contents.items() for part in (path, hashlib.sha256(data).digest())]
    closed = [str(error) for error in files.errors.values()]
    return results.key(*settings, *recorded, "", *closed, "", *contents)


def _recorded(state: Path) -> list[str]:
    """The recordings there are; a recording is never changed in place."""
    try:
        names = sorted(os.listdir(state / "recordings"))
    except OSError:
        return []
    found = []
    for name in names:
        try:
            status = os.stat(state / "recordings" / name / SUMMARY)
        except OSError:
            continue
        found.append(f"{name} {status.st_size} {status.st_mtime_ns}")
    return found


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
