"""The folder of recordings: a new one, its summary at the end, old ones gone, one packed up for another machine."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from jitmod.source.recording import SCHEMA_VERSION, SUMMARY, Recording, load
from jitmod.trial.child.record_log import ENOUGH
from jitmod.trial.environment import may_be_secret
from jitmod.trial.recording.targets import Targets

_KEPT = 5
_CALL = ("file", "structure", "module", "roots", "config", "mark")


class NotARecording(Exception):
    """A file that `--trust` cannot take; the message says why."""


def new_folder(state: Path) -> Path:
    """An empty folder for a recording; those beyond the last few, and what killed runs left, are removed."""
    recordings = state / "recordings"
    recordings.mkdir(parents=True, exist_ok=True, mode=0o700)
    _prune(recordings)
    folder = recordings / f"{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 10**9:09d}-{os.getpid()}"
    folder.mkdir(mode=0o700)
    return folder


@dataclass(frozen=True)
class Ended:
    """The program: what it is called, its interpreter, and whether it ran to a good end."""

    label: str
    python: str
    well: bool


def finish(folder: Path, targets: Targets, root: Path, ended: Ended) -> Recording | None:
    """Make the recording in `folder` readable, also after a program that ended badly; None where it saw nothing."""
    counts = _counts(folder)
    calls: dict[int, list[Mapping[str, Any]]] = {}
    for call in {call["file"]: call for call in _calls(folder)}.values():  # a later call may take the place of another
        calls.setdefault(call["function"], []).append(call)
    seen = {int(number): entry for number, entry in counts.get("functions", {}).items()}
    functions = targets.functions
    described = []
    for number in sorted(seen.keys() | calls.keys()):
        about, entry = functions[number], seen.get(number, {})
        described.append({
            **{key: about[key] for key in ("path", "qualname", "target")},
            "entries": entry.get("entries", len(calls.get(number, ()))),
            **{key: entry.get(key, {}) for key in ("shapes", "skipped")},
            "kinds": _relative(entry.get("kinds", {}), root),
            "callers": [[functions[c]["path"], functions[c]["qualname"]] for c in entry.get("callers", ())],
            "calls": [{key: call[key] for key in _CALL} for call in calls.get(number, ())],
        })  # fmt: skip
    sites = [
        {"site": asdict(s), **dict(zip(("entries", "steps", "longest", "seconds"), row, strict=True))}
        for s, row in zip(targets.sites, counts.get("sites", []), strict=False)
    ]  # fmt: skip
    summary = {
        "schema_version": SCHEMA_VERSION, "label": ended.label, "python": ended.python,
        "seconds": counts.get("seconds", 0.0), "script": _script(folder, ended),
        "digests": {entry["path"]: entry["digest"] for entry in targets.files},
        "functions": described, "loops": _loops(targets, counts, root), "sites": sites,
        "foreign": _foreign(targets, counts.get("foreign", {})),
    }  # fmt: skip
    if not described and not summary["foreign"] and summary["script"] is None:
        shutil.rmtree(folder)
        return None
    unfinished = folder / f".{SUMMARY}"
    unfinished.write_text(json.dumps(summary, indent=1), encoding="utf-8")
    unfinished.replace(folder / SUMMARY)
    for name in ("request.json", "calls.jsonl", "counts.json", "script.json", ENOUGH):
        (folder / name).unlink(missing_ok=True)
    return load(folder)


def is_enough(folder: Path) -> bool:
    """Whether the program has been told to stop."""
    return (folder / ENOUGH).exists()


def export(recording: Recording, file: Path) -> None:
    """Pack a recording into one file."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(recording.folder / SUMMARY, SUMMARY)
        for call in sorted((recording.folder / "calls").glob("*.npz")):
            archive.write(call, f"calls/{call.name}")


def trust(file: Path, state: Path) -> Recording:
    """Unpack what `export` wrote. Its calls run code when they are read: the user says that they may."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            if SUMMARY not in names or not all(_is_ours(name) for name in names):
                raise NotARecording(f"{file} is not a recording of jitmod's")
            folder = new_folder(state)
            archive.extractall(folder)
    except (OSError, zipfile.BadZipFile) as error:
        raise NotARecording(f"{file} cannot be read: {error}") from None
    recording = load(folder)
    if recording is None:
        shutil.rmtree(folder)
        raise NotARecording(f"{file} is not a recording that this version of jitmod reads")
    return recording


def _relative(described: Any, root: Path) -> Any:
    """Kinds with the files of classes relative to the project; empty for a library's."""
    match described:
        case {"class": [module, name, file], **rest}:
            inside = Path(file).resolve().is_relative_to(root.resolve()) and "site-packages" not in file
            place = Path(file).resolve().relative_to(root.resolve()).as_posix() if file and inside else ""
            return {**_relative(rest, root), "class": [module, name, place]}
        case dict():
            return {key: _relative(value, root) for key, value in described.items()}
        case list():
            return [_relative(item, root) for item in described]
    return described


def _is_ours(name: str) -> bool:
    path = PurePosixPath(name)
    return name == SUMMARY or (str(path.parent) == "calls" and path.suffix == ".npz" and "\\" not in name)


def _loops(targets: Targets, counts: Mapping[str, Any], root: Path) -> list[dict[str, Any]]:
    about = targets.loops
    found = [(about[int(number)], kinds) for number, kinds in counts.get("loops", {}).items()]
    return [{"path": loop["path"], "key": loop["key"], "kinds": _relative(kinds, root)} for loop, kinds in found]


def _foreign(targets: Targets, loaders: Mapping[str, str]) -> dict[str, str]:
    """By path, who loaded a file in which something was waited for, so that it could not be watched."""
    waiting = [entry for entry in targets.files if any(f["awaited"] for f in entry["functions"])]
    return {entry["path"]: loaders[entry["file"]] for entry in waiting if entry["file"] in loaders}


def _script(folder: Path, ended: Ended) -> Mapping[str, Any] | None:
    """The main file, if it can be run again as it was: to its end, with arguments that may be written down."""
    try:
        script: Mapping[str, Any] = json.loads((folder / "script.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return script if ended.well and not any(may_be_secret(word) for word in script["arguments"]) else None


def _counts(folder: Path) -> Mapping[str, Any]:
    try:
        counts: Mapping[str, Any] = json.loads((folder / "counts.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # the program ended before it noted any
        return {}
    return counts


def _calls(folder: Path) -> list[Mapping[str, Any]]:
    found = []
    with contextlib.suppress(OSError):
        for line in (folder / "calls.jsonl").read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):  # the last line may be cut
                found.append(json.loads(line))
    return found


def _prune(recordings: Path) -> None:
    finished = []
    for folder in sorted(recordings.iterdir()):
        if (folder / SUMMARY).is_file():
            finished.append(folder)
        elif not _is_alive(folder.name.rpartition("-")[2]):
            shutil.rmtree(folder, ignore_errors=True)
    for folder in finished[: -(_KEPT - 1)]:
        shutil.rmtree(folder, ignore_errors=True)


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
