"""A whole run, from a request to its outcomes: onto a branch, or in a scratch folder for a tried diff."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from jitmod.delivery.apply import BranchPlace, FolderPlace, Terms, try_patches
from jitmod.delivery.branch import Branch
from jitmod.delivery.preview import Preview, Wanted, find, preview
from jitmod.delivery.queue import Entry
from jitmod.delivery.repository import DeliveryError, Repository, Start, plan_start, scrubbed_environment
from jitmod.delivery.worktree import temporary_worktree
from jitmod.model import SourceError
from jitmod.rewrite.codemod import Codemod
from jitmod.source.files import discover
from jitmod.source.project import Project

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What is asked for. `paths` are relative to the project's root; `exclude` are patterns of the configuration."""

    codemods: tuple[Codemod, ...]
    paths: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    only_safe: bool = False


@dataclass(frozen=True)
class Delivered:
    """What came of a run onto a branch."""

    entries: tuple[Entry, ...]
    errors: tuple[SourceError, ...]
    start: Start


def read(request: Request, root: Path) -> tuple[Wanted, Project]:
    """Index the project at `root`, and what of it is asked for."""
    selected = discover(root, [root / path for path in request.paths], request.exclude)
    everything = {*discover(root, [root], request.exclude), *selected}
    return Wanted(request.codemods, tuple(selected), request.only_safe), Project.build(root, everything)


def findings(request: Request, root: Path) -> Preview:
    """What there is in the files as they are; nothing runs."""
    return find(*read(request, root))


def untried_diff(request: Request, root: Path) -> Preview:
    """All patches of the files as they are, composed; nothing runs."""
    return preview(*read(request, root))


def tried_diff(request: Request, root: Path, terms: Terms, tell: Tell) -> Preview:
    """The same diff, with the outcome of a trial for every patch; nothing is committed, nothing written to `root`."""
    wanted, project = read(request, root)
    untried = preview(wanted, project)
    with tempfile.TemporaryDirectory(prefix="jitmod-") as folder:
        scratch = Path(folder).resolve() / root.name
        for path in project.documents:
            (scratch / path).parent.mkdir(parents=True, exist_ok=True)
            (scratch / path).write_bytes((root / path).read_bytes())
        with scrubbed_environment():
            place = FolderPlace(scratch, _head(root))
            entries, _ = try_patches(wanted, project, place, terms, tell)
    return replace(untried, entries=entries)


def onto_branch(
    request: Request, repository: Repository, branch: str, revision: str | None, terms: Terms, tell: Tell
) -> Delivered:
    """Try every patch on the tip of `branch`, commit the accepted ones. Raises `DeliveryError` before any trial."""
    with repository.locked():
        start = plan_start(repository, branch, revision)
        repository.check_identity()
        with temporary_worktree(repository, start.tip) as tree:
            _check_paths(tree, request.paths, start)
            wanted, project = read(request, tree)
            classes = {codemod.id: type(codemod) for codemod in request.codemods}
            place = BranchPlace(Branch(repository, start, tree), classes)
            entries, errors = try_patches(wanted, project, place, terms, tell)
    return Delivered(entries, errors, start)


def _head(root: Path) -> str:
    try:
        return Repository.around(root).resolve("HEAD")
    except DeliveryError:
        return ""


def _check_paths(tree: Path, paths: Iterable[str], start: Start) -> None:
    for path in paths:
        if not (tree / path).exists():
            where = f"branch {start.branch}" if start.resumed else f"commit {start.tip[:10]}"
            raise DeliveryError(
                f"{path} is not in {where}: jitmod apply works on what is committed, so commit it first"
            )
