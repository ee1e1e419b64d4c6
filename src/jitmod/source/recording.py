"""What recordings know: which kinds names held, which calls were stored, how often and how long sites ran.

A recording is tied to the contents of the files that it watched: what it says of a file that has changed since does not
count. Reading the calls themselves is code execution, so recordings lie where no clone or pull request puts anything.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jitmod.model import InCell, Site
from jitmod.source.document import Document

SCHEMA_VERSION = 1
SUMMARY = "recording.json"


@dataclass(frozen=True)
class Call:
    """One stored call. `structure` numbers the structures of a function's arguments; `mark` says how far the script was
    (`trial/child/record_marks.py`), `roots` where modules came from, `config` how jax was configured."""

    file: str
    structure: int
    module: str
    roots: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    mark: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class RecordedFunction:
    """A function that was entered. `target` is what is called again: the function, or the class that it makes.

    `folder` holds its calls; `label` is the program that was recorded.
    `kinds` and `shapes` are those of its parameters, `skipped` says why calls were not stored, `callers` are the
    functions (path, qualified name) whose calls reach this one.
    """

    folder: Path
    label: str
    path: str
    qualname: str
    target: str
    entries: int
    kinds: Kinds
    shapes: Mapping[str, tuple[tuple[str, ...], ...]]
    calls: tuple[Call, ...]
    skipped: Mapping[str, int]
    callers: tuple[tuple[str, str], ...]


Kinds = Mapping[str, tuple[Mapping[str, Any], ...]]
"""Every kind that a name held (`trial/child/record_kinds.py`)."""


@dataclass(frozen=True)
class RecordedSite:
    """A loop: how often it was entered, its iterations in all and at most, and the seconds it took in all."""

    site: Site
    entries: int
    steps: int
    longest: int
    seconds: float


@dataclass(frozen=True)
class RecordedScript:
    """A program of the project that ran to its end: its file, the name where it is run by `-m`, and its arguments."""

    folder: Path
    path: str
    module: str | None
    arguments: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Recording:
    """One recorded run of a program. `foreign` names the loaders of files that could not be watched because of them."""

    folder: Path
    label: str
    python: str
    seconds: float
    digests: Mapping[str, str]
    functions: Mapping[tuple[str, str], RecordedFunction]
    loops: Mapping[tuple[str, str], Kinds]
    sites: tuple[RecordedSite, ...]
    script: RecordedScript | None
    foreign: Mapping[str, str]

    def is_current(self, document: Document) -> bool:
        """Whether the recording saw the file as it is in `document`."""
        return self.digests.get(document.path) == digest_of(document)


@dataclass(frozen=True)
class Recorded:
    """What current recordings of a project know, the newest first: functions by path and qualified name, the names of
    loops by path and key (`source/loops.py`), scripts; and the share of the run's time that loops took, by path, line
    and column.

    Kinds are observations, not promises. Only those that are `believed` count for analysis: they are of names of the
    one loop `at` which the code will check them.
    """

    functions: Mapping[tuple[str, str], RecordedFunction] = field(default_factory=lambda: MappingProxyType({}))
    loops: Mapping[tuple[str, str], Kinds] = field(default_factory=lambda: MappingProxyType({}))
    scripts: tuple[RecordedScript, ...] = ()
    shares: Mapping[tuple[str, int, int], float] = field(default_factory=lambda: MappingProxyType({}))
    believed: Kinds = field(default_factory=lambda: MappingProxyType({}))
    at: ast.AST | None = None

    def function(self, path: str, qualname: str) -> RecordedFunction | None:
        return self.functions.get((path, qualname))

    def believing(self, kinds: Kinds, at: ast.AST) -> Recorded:
        """The same, but these kinds of names count inside of the loop `at`, and no others do."""
        return replace(self, believed=kinds, at=at)


NOTHING = Recorded()


def digest_of(document: Document) -> str:
    """The name of a file's contents."""
    return hashlib.sha256(document.encode(document.source)).hexdigest()


def current(recordings: Iterable[Recording], documents: Mapping[str, Document]) -> Recorded:
    """What of `recordings`, the newest first, holds for `documents`."""
    found: dict[tuple[str, str], RecordedFunction] = {}
    loops: dict[tuple[str, str], Kinds] = {}
    scripts: list[RecordedScript] = []
    shares: dict[tuple[str, int, int], float] = {}
    for recording in recordings:
        valid = {path for path, document in documents.items() if recording.is_current(document)}
        for name, function in recording.functions.items():
            if name[0] in valid:
                found.setdefault(name, function)
        for key, kinds in recording.loops.items():
            if key[0] in valid:
                loops.setdefault(key, kinds)
        for ran in recording.sites:
            if ran.site.path in valid and ran.seconds > 0:  # a loop that was still running has no time yet
                place = ran.site.path, ran.site.line, ran.site.column
                shares.setdefault(place, ran.seconds / recording.seconds)
        if recording.script is not None and recording.script.path in valid:
            scripts.append(recording.script)
    return Recorded(MappingProxyType(found), MappingProxyType(loops), tuple(scripts), MappingProxyType(shares))


def state_folder(root: Path) -> Path:
    """Where jitmod keeps what belongs to a project: in git's own folder, which no clone or pull request supplies;
    outside git in the user's cache."""
    git = root / ".git"
    if git.is_dir():
        return git / "jitmod"
    shared = _linked(git) if git.is_file() else None
    if shared is not None:
        return shared / "jitmod"
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    place = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:16]
    return Path(cache) / "jitmod" / f"{root.resolve().name}-{place}"


def _linked(git: Path) -> Path | None:
    """The folder that git shares between worktrees, which a `.git` file leads to; None where it leads to none."""
    try:
        marker, _, named = git.read_text(encoding="utf-8").strip().partition(" ")
        folder = (git.parent / named).resolve()
        if marker != "gitdir:" or not named or not (folder / "HEAD").is_file():
            return None
        common = folder / "commondir"
        return (folder / common.read_text(encoding="utf-8").strip()).resolve() if common.is_file() else folder
    except (OSError, ValueError):
        return None


def load_all(state: Path) -> tuple[Recording, ...]:
    """The recordings below `state`, the newest first. What is damaged, or someone else's, is passed over."""
    try:
        entries = sorted((state / "recordings").iterdir(), key=lambda entry: entry.name, reverse=True)
    except OSError:
        return ()
    found = [load(entry) for entry in entries]
    return tuple(recording for recording in found if recording is not None)


def load(folder: Path) -> Recording | None:
    """The recording in `folder`; None where there is none to trust."""
    summary = folder / SUMMARY
    try:
        if hasattr(os, "getuid") and summary.stat().st_uid != os.getuid():
            return None
        document = json.loads(summary.read_text(encoding="utf-8"))
        return _recording(folder, document) if document["schema_version"] == SCHEMA_VERSION else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _recording(folder: Path, document: Mapping[str, Any]) -> Recording:
    functions = [_function(entry, folder, document["label"]) for entry in document["functions"]]
    sites = [RecordedSite(_site(entry["site"]), *(entry[k] for k in ("entries", "steps", "longest", "seconds")))
             for entry in document["sites"]]  # fmt: skip
    loops: dict[tuple[str, str], Kinds] = {}
    for entry in document["loops"]:
        key = entry["path"], entry["key"]
        loops[key] = _both(loops.get(key, {}), {name: tuple(kinds) for name, kinds in entry["kinds"].items()})
    ran = document["script"]
    script = None
    if ran is not None:
        script = RecordedScript(folder, ran["path"], ran["module"], tuple(ran["arguments"]), document["seconds"])
    return Recording(
        folder, document["label"], document["python"], document["seconds"], document["digests"],
        {(function.path, function.qualname): function for function in functions}, loops, tuple(sites), script,
        document["foreign"],
    )  # fmt: skip


def _site(entry: Mapping[str, Any]) -> Site:
    seen = entry.get("seen")
    return Site(**{**entry, "seen": InCell(**seen) if seen is not None else None})


def _both(one: Kinds, other: Kinds) -> Kinds:
    """The kinds of two loops of the same text."""
    return {name: (*one.get(name, ()), *other.get(name, ())) for name in {*one, *other}}


def _function(entry: Mapping[str, Any], folder: Path, label: str) -> RecordedFunction:
    calls = [Call(**{**call, "roots": tuple(call["roots"])}) for call in entry["calls"]]
    if any(Path(call.file).name != call.file for call in calls):
        raise ValueError("a call outside of its recording")
    return RecordedFunction(
        folder, label, entry["path"], entry["qualname"], entry["target"], entry["entries"],
        {name: tuple(kinds) for name, kinds in entry["kinds"].items()},
        {name: tuple(tuple(shape) for shape in shapes) for name, shapes in entry["shapes"].items()},
        tuple(calls), entry["skipped"], tuple((path, name) for path, name in entry["callers"]),
    )  # fmt: skip
