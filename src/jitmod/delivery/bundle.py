"""A bundle: the commits of a run as a folder of data, made where the project's code runs and delivered where it never
does.

    bundle.json              what the commits are, and what else was found (schema: docs/schema/bundle.json)
    files/HASH               the new bytes of a file, named as git names them
    evidence/DIGEST.json     the job and the evidence of a trial

Who reads one trusts nothing in it: it comes from a process that has run the project.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

from jitmod import __version__
from jitmod.delivery.repository import DeliveryError, Repository
from jitmod.model import Status
from jitmod.source.files import SUFFIXES

SCHEMA_VERSION: Final = 1
_LARGEST = 50_000_000  # bytes of one document or file
_SHA: Final = {"type": "string", "pattern": r"^([0-9a-f]{40}|[0-9a-f]{64})$(?!\n)"}
_TEXT: Final = {"type": "string", "maxLength": 20_000}
_PATH: Final = {"type": "string", "minLength": 1, "maxLength": 1000}


def _closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "required": list(properties), "properties": properties}


def _list(items: Mapping[str, Any], most: int = 10_000) -> dict[str, Any]:
    return {"type": "array", "maxItems": most, "items": items}


_CHANGE: Final = _closed({"path": _PATH, "before": _SHA, "after": _SHA})
_COMMIT: Final = _closed({
    "message": _TEXT,
    "files": {**_list(_CHANGE, 100), "minItems": 1},
    "evidence": {"type": "string", "pattern": r"^[0-9a-f]{64}$(?!\n)"},
})  # fmt: skip
_PATCH: Final = _closed({
    "codemod": {"type": "string", "pattern": r"^[a-zA-Z0-9._-]{1,100}$(?!\n)"},
    "path": _PATH,
    "line": {"type": "integer", "minimum": 1},
    "symbol": _TEXT,
    "status": {"enum": [str(status) for status in Status]},
    "why": _TEXT,
})  # fmt: skip
SCHEMA: Final = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A bundle of jitmod: what `jitmod apply --bundle` writes and `jitmod pr --from` delivers",
    **_closed({
        "schema_version": {"const": SCHEMA_VERSION},
        "jitmod": {"type": "string", "maxLength": 100},
        "base": _SHA,
        "paths": _list(_PATH, 1000),
        "codemods": _list(_PATCH["properties"]["codemod"], 100),
        "commits": _list(_COMMIT),
        "patches": _list(_PATCH, 100_000),
        "refused": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
        "unread": _list(_PATH, 100_000),
    }),
}  # fmt: skip


class BadBundle(DeliveryError):
    """The folder does not hold a bundle that may be delivered; the message says what is wrong."""


@dataclass(frozen=True)
class Change:
    """New bytes of one file: the names that git gives to its contents before and after."""

    path: str
    before: str
    after: str


@dataclass(frozen=True)
class Bundled:
    """One commit. `job` and `evidence` are the documents of its trial."""

    message: str
    files: tuple[Change, ...]
    job: Mapping[str, Any] = field(repr=False)
    evidence: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Listed:
    """A patch that was found, and what became of it."""

    codemod: str
    path: str
    line: int
    symbol: str
    status: str
    why: str


@dataclass(frozen=True)
class Bundle:
    """What a run made of the commit `base`. `paths` and `codemods` are what was asked for.

    `unread`: files that could not be read, so that nothing is known about their code.
    """

    folder: Path
    base: str
    paths: tuple[str, ...]
    codemods: tuple[str, ...]
    commits: tuple[Bundled, ...]
    patches: tuple[Listed, ...]
    refused: Mapping[str, int]
    unread: tuple[str, ...]

    def content(self, change: Change) -> bytes:
        """The new bytes of a file, whatever its name says. Raises `BadBundle`."""
        return _read(self.folder / "files" / change.after)


def write_bundle(
    folder: Path, repository: Repository, base: str, tip: str, *, paths: Sequence[str], codemods: Sequence[str],
    patches: Iterable[Listed], refused: Mapping[str, int], unread: Iterable[str],
) -> int:  # fmt: skip
    """Write the commits of `base..tip` to `folder`, which is empty or not there; their number.

    A file that would not be delivered is left out with all its commits, and its patches say so. Raises `DeliveryError`
    where a commit changes more than a bundle may.
    """
    commits: list[dict[str, Any]] = []
    files = new_folder(folder / "files")
    evidence = new_folder(folder / "evidence")
    for sha in repository.git("rev-list", "--reverse", "--end-of-options", f"{base}..{tip}").split():
        message = repository.git("log", "-1", "--format=%B", "--end-of-options", sha)
        digest = re.search(r"^Jitmod-Evidence: ([0-9a-f]{64})$", message, re.MULTILINE)
        if digest is None:
            raise DeliveryError(f"commit {sha[:10]} has no evidence of a trial: a bundle has only what a run accepts")
        (evidence / f"{digest[1]}.json").write_bytes((repository.state / "evidence" / f"{digest[1]}.json").read_bytes())
        changes = [vars(one) for one in changes_of(repository, f"{sha}~", sha)]
        for change in changes:
            (files / change["after"]).write_bytes(repository.blob(change["after"]))
        commits.append({"message": message, "files": changes, "evidence": digest[1]})
    why = _undeliverable(commits)
    commits = [one for one in commits if one["files"][0]["path"] not in why]
    patches = [replace(one, status=str(Status.UNPROVEN), why=why[one.path]) if one.path in why else one
               for one in patches]  # fmt: skip
    document = {
        "schema_version": SCHEMA_VERSION, "jitmod": __version__, "base": base, "paths": list(paths),
        "codemods": list(codemods), "commits": commits, "patches": [vars(one) for one in patches],
        "refused": dict(refused), "unread": sorted({*unread}),
    }  # fmt: skip
    text = json.dumps(document, indent=1, sort_keys=True).encode("utf-8", "replace") + b"\n"
    unfinished = folder / ".bundle.json"
    unfinished.write_bytes(text)
    unfinished.replace(folder / "bundle.json")  # comes last: a bundle is whole, or is none
    return len(commits)


def _undeliverable(commits: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The files of which a commit would be refused, and why; with them, what the same commits change."""
    why: dict[str, str] = {}
    for one in [*commits, *reversed(commits)]:
        paths = [change["path"] for change in one["files"]]
        try:
            for path in paths:
                _check_path(path, ["."])
            _check_message(one["message"], one["evidence"])
        except BadBundle as error:
            why.update(dict.fromkeys(paths, f"accepted, and not delivered: {error}"[:1000]))
        known = next((why[path] for path in paths if path in why), None)
        if known is not None:
            why.update(dict.fromkeys(paths, known))
    return why


def new_folder(folder: Path) -> Path:
    """Make a folder that is not there yet. Raises `DeliveryError`."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise DeliveryError(f"{folder.parent} holds a bundle already: name another folder, or remove it") from None
    except OSError as error:
        raise DeliveryError(f"{folder} cannot be made: {error.strerror}") from None
    return folder


def changes_of(repository: Repository, old: str, new: str) -> list[Change]:
    """What differs between two commits. Raises `DeliveryError` where that is more than bytes of Python sources."""
    listed = repository.git("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new)
    parts = listed.split("\0")
    changes = []
    for how, path in zip(parts[:-1:2], parts[1::2], strict=True):
        mode, after_mode, before, after, kind = how.removeprefix(":").split(" ")
        if kind != "M" or mode != after_mode or mode not in ("100644", "100755"):
            raise DeliveryError(f"{new[:10]} does more to {path} than change its text: that is not delivered")
        changes.append(Change(path, before, after))
    return changes


def read_bundle(folder: Path, allowed: Sequence[str]) -> Bundle:
    """The bundle at `folder`, of which every file lies below one of the folders `allowed`. Raises `BadBundle`."""
    from jsonschema import Draft202012Validator  # takes a while to load

    document = _document(folder / "bundle.json")
    fault = next(iter(Draft202012Validator(SCHEMA).iter_errors(document)), None)
    if fault is not None:
        where = "/".join(map(str, fault.absolute_path)) or "the document"
        raise BadBundle(f"{folder / 'bundle.json'}: {where}: {fault.message[:200]}")
    commits = tuple(_commit(one, folder, allowed) for one in document["commits"])
    patches = tuple(Listed(**one) for one in document["patches"])
    return Bundle(folder, document["base"], tuple(document["paths"]), tuple(document["codemods"]), commits, patches,
                  document["refused"], tuple(document["unread"]))  # fmt: skip


def _commit(entry: Mapping[str, Any], folder: Path, allowed: Sequence[str]) -> Bundled:
    from jitmod.trial.gate import judge
    from jitmod.trial.job import digest

    for change in entry["files"]:
        _check_path(change["path"], allowed)
    _check_message(entry["message"], entry["evidence"])
    document = _document(folder / "evidence" / f"{entry['evidence']}.json")
    try:
        job, evidence = document["job"], document["evidence"]
        verdict, name = judge(job, evidence), digest(evidence)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise BadBundle(f"{folder}: evidence {entry['evidence'][:10]} proves nothing: {error!r}") from None
    if verdict.status is not Status.ACCEPTED or name != entry["evidence"]:
        raise BadBundle(f"{folder}: evidence {entry['evidence'][:10]} does not accept the patch: {verdict.why}")
    return Bundled(entry["message"], tuple(Change(**change) for change in entry["files"]), job, evidence)


def _check_path(path: str, allowed: Sequence[str]) -> None:
    """Only sources, below what is allowed, and nothing that a service or git itself reads: those names have a dot."""
    parts = PurePosixPath(path).parts
    is_plain = "/".join(parts) == path and not path.startswith("/") and not re.search(r"[\x00-\x1f\x7f\\:]", path)
    if not is_plain or any(part.startswith(".") for part in parts):
        raise BadBundle(f"not a path that may be changed: {path!r}")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise BadBundle(f"not a path of any file: {path!r}") from None
    if not path.endswith(tuple(SUFFIXES)):
        raise BadBundle(f"not a Python file or a notebook: {path!r}")
    if not any(PurePosixPath(path).is_relative_to(root) for root in allowed):
        raise BadBundle(f"outside of {', '.join(allowed)}: {path!r}")


# What makes a server do something: a forged message could close issues, skip checks, or sign for others.
_ACTS = re.compile(
    r"""
    \b(?:clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?)\s*:?\s+
        (?:issues?\s+)?(?:[\w.-]+/[\w./-]*)?(?:[#!]|GH-|https?://)[\w]
    | \[(?:skip|no)[ -]RUNNER\] | \[RUNNER[ -]skip\] | \*\*\*\s*NO_CI\s*\*\*\*
    | ^[ \t]*(?:skip-checks|co-authored-by|signed-off-by|on-behalf-of)[ \t]*:
    """.replace("RUNNER", "(?:ci|actions|travis|circleci|netlify|azp|azurepipelines|appveyor|vercel)"),
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_TRAILERS = re.compile(r"^(?!Jitmod-)[a-z][\w-]*-[\w-]+[ \t]*:", re.MULTILINE | re.IGNORECASE)


def _check_message(message: str, digest: str) -> None:
    trailers = message.rstrip().rpartition("\n\n")[2]
    is_ours = "Jitmod-Codemod: " in trailers and f"Jitmod-Evidence: {digest}" in trailers.splitlines()
    odd = re.search(r"[\x00-\x09\x0b-\x1f\x7f\x85\u2028\u2029]", message)
    if not is_ours or odd or _ACTS.search(message) or _TRAILERS.search(trailers):
        raise BadBundle(f"not a message of jitmod's: {message.partition(chr(10))[0][:100]!r}")


def _document(path: Path) -> Any:
    try:
        return json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise BadBundle(f"{path} is not JSON: {error}") from None


def _read(path: Path) -> bytes:
    """The bytes of a plain file of a bounded size: no link, no device. Raises `BadBundle`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
                raise BadBundle(f"{path} is not a plain file of at most {_LARGEST // 1_000_000} MB")
            return file.read(_LARGEST + 1)
    except OSError as error:
        raise BadBundle(f"{path} cannot be read: {error.strerror}") from None
