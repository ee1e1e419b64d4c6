"""A whole run, from a request to its outcomes: onto a branch, or in a scratch folder for a tried diff."""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from jitmod.delivery.apply import BranchPlace, FolderPlace, try_patches
from jitmod.delivery.attempt import Terms
from jitmod.delivery.branch import Branch
from jitmod.delivery.bundle import Listed, new_folder, write_bundle
from jitmod.delivery.figures import describe, one_line
from jitmod.delivery.memory import versions
from jitmod.delivery.plan import Plan, make_plan
from jitmod.delivery.preview import Wanted, preview
from jitmod.delivery.proofs import Proofs
from jitmod.delivery.queue import Entry, Preview
from jitmod.delivery.repository import (
    DeliveryError,
    Repository,
    Start,
    plan_start,
    scrubbed_environment,
    unnamed_start,
)
from jitmod.delivery.tell import Tell
from jitmod.delivery.whole import Whole, try_whole, without_cut
from jitmod.delivery.worktree import temporary_worktree
from jitmod.delivery.write import WritePlace, check_clean
from jitmod.model import Patch, Refusal, SourceError
from jitmod.rewrite.codemod import Codemod
from jitmod.source.files import discover
from jitmod.source.project import Project
from jitmod.source.recording import Recording, current


@dataclass(frozen=True)
class Request:
    """What is asked for. `paths` are relative to the project's root; `exclude` are patterns of the configuration.

    `recordings` are those of the project, the newest first; `ignored` is as in `Wanted`.
    """

    codemods: tuple[Codemod, ...]
    paths: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    only_safe: bool = False
    recordings: tuple[Recording, ...] = ()
    ignored: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Delivered:
    """What came of a run onto a branch. `refused` are files of evidence that prove nothing here, with the reason."""

    entries: tuple[Entry, ...]
    errors: tuple[SourceError, ...]
    start: Start
    whole: tuple[Whole, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Written:
    """What came of a run into the user's files: those that changed, and where they are as they were before."""

    entries: tuple[Entry, ...]
    errors: tuple[SourceError, ...]
    files: tuple[str, ...]
    backup: Path


def read(request: Request, root: Path) -> tuple[Wanted, Project]:
    """Index the project at `root`, and what of it is asked for."""
    selected = discover(root, [root / path for path in request.paths], request.exclude)
    everything = {*discover(root, [root], request.exclude), *selected}
    project = Project.build(root, everything)
    recorded = current(request.recordings, project.documents)
    wanted = Wanted(request.codemods, tuple(selected), request.only_safe, request.ignored)
    return wanted, project.with_recorded(recorded)


def tried_diff(request: Request, root: Path, terms: Terms, tell: Tell) -> Preview:
    """The same diff, with the outcome of a trial for every patch; nothing is committed, nothing written to `root`."""
    wanted, project = read(request, root)
    untried = preview(wanted, project)
    with _scratch(root, project) as scratch, scrubbed_environment():
        place = FolderPlace(scratch, _head(root))
        tried = try_patches(wanted, project, place, terms, tell)
    return replace(untried, entries=tried.entries)


def into_tree(request: Request, root: Path, state: Path, terms: Terms, tell: Tell) -> Written:
    """Try every patch of the files as they are, and write the accepted ones into them; backups go below `state`.

    Raises `DeliveryError` as `check_tree` does.
    """
    check_tree(request, root)
    wanted, project = read(request, root)
    with scrubbed_environment(), _scratch(root, project) as scratch:
        place = WritePlace(scratch, _head(root), root, state / "backups")
        tried = try_patches(wanted, project, place, terms, tell)
    return Written(tried.entries, tried.errors, tuple(place.written), place.backup)


def planned(
    request: Request, repository: Repository, branch: str, revision: str | None, terms: Terms
) -> tuple[Plan, Start]:
    """The jobs of what `onto_branch` would try. Nothing runs, nothing is written. Raises `DeliveryError`."""
    with scrubbed_environment(), repository.locked():
        start = plan_start(repository, branch, revision)
        with temporary_worktree(repository, start.tip) as tree:
            _check_paths(tree, request.paths, start)
            return make_plan(*read(request, tree), tree, start.tip, terms), start


def onto_branch(
    request: Request, repository: Repository, branch: str, revision: str | None, terms: Terms, tell: Tell,
    signoff: bool = False,
) -> Delivered:  # fmt: skip
    """Try every patch on the tip of `branch`, commit the accepted ones. Raises `DeliveryError` before any trial.

    Where the terms name a folder of evidence, no patch is tried here: what trials elsewhere have proved is committed.
    """
    with repository.locked():
        return _onto(plan_start(repository, branch, revision), request, repository, terms, tell, signoff)[0]


def into_bundle(
    request: Request, repository: Repository, folder: Path, revision: str | None, terms: Terms, tell: Tell
) -> Delivered:
    """Try every patch of `revision` (HEAD), write the accepted ones as commits to `folder`, and none to a branch.

    Raises `DeliveryError` before any trial.
    """
    with repository.locked(), unnamed_start(repository, revision) as start:
        new_folder(folder / "files").rmdir()  # found out before anything is tried
        done, tip = _onto(start, request, repository, terms, tell)
        listed, refused = _listed(done.entries)
        names = [codemod.id for codemod in request.codemods]
        write_bundle(folder, repository, start.base, tip, paths=request.paths, codemods=names, patches=listed,
                     refused=refused, unread=[error.path for error in done.errors])  # fmt: skip
    return done


def _onto(
    start: Start, request: Request, repository: Repository, terms: Terms, tell: Tell, signoff: bool = False
) -> tuple[Delivered, str]:
    """Commit what is accepted behind a start; what came of it, and the last commit."""
    repository.check_identity()
    older = _older_plan(request, repository, start, terms)
    with temporary_worktree(repository, start.tip) as tree:
        _check_paths(tree, request.paths, start)
        wanted, project = read(request, tree)
        proofs = None
        if terms.evidence is not None:
            plan = make_plan(wanted, project, tree, start.tip, terms)
            proofs = Proofs(terms.evidence, (plan, *older), tree, versions(terms.python), repository.has)
            terms = replace(terms, proofs=proofs)
        classes = {codemod.id: type(codemod) for codemod in request.codemods}
        made = Branch(repository, start, tree, signoff)
        place = BranchPlace(made, classes)
        tried = try_patches(wanted, project, place, terms, tell)
        whole: tuple[Whole, ...] = ()
        if terms.whole is not None:
            whole = try_whole(made, tried.workloads, terms.whole, terms, place.file_evidence, tell)
    refused = tuple(sorted(proofs.refused.items())) if proofs is not None else ()
    return Delivered(without_cut(tried.entries, made), tried.errors, start, whole, refused), made.tip


def _older_plan(request: Request, repository: Repository, start: Start, terms: Terms) -> tuple[Plan, ...]:
    """What was planned before the branch held a part of it, where there is evidence for that."""
    if terms.evidence is None or start.tip == start.base:
        return ()
    with temporary_worktree(repository, start.base) as tree:
        return (make_plan(*read(request, tree), tree, start.base, terms),)


def _listed(entries: Iterable[Entry]) -> tuple[list[Listed], Counter[str]]:
    """The patches of a run with what became of them, and how often something was refused, by reason."""
    listed: list[Listed] = []
    refused: Counter[str] = Counter()
    for outcome in (entry.outcome for entry in entries):
        found, verdict = outcome.finding, outcome.verdict
        if isinstance(found, Patch) and verdict is not None:
            site = found.site
            why = one_line(describe(verdict))[:1000]
            listed.append(Listed(found.codemod, site.path, site.line, site.symbol, str(verdict.status), why))
        elif isinstance(found, Refusal):
            refused[found.reason] += 1
    return listed, refused


def check_tree(request: Request, root: Path) -> None:
    """Raise `DeliveryError` where a file that may be written has changes that are not committed."""
    with scrubbed_environment():
        check_clean(_dirty(root), discover(root, [root / path for path in request.paths], request.exclude))


@contextlib.contextmanager
def _scratch(root: Path, project: Project) -> Iterator[Path]:
    """A copy of the project's sources."""
    with tempfile.TemporaryDirectory(prefix="jitmod-") as folder:
        scratch = Path(folder).resolve() / root.name
        for path in project.documents:
            (scratch / path).parent.mkdir(parents=True, exist_ok=True)
            (scratch / path).write_bytes((root / path).read_bytes())
        yield scratch


def _dirty(root: Path) -> list[str]:
    return Repository.around(root).dirty_files() if (root / ".git").exists() else []


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
