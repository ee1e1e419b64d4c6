"""What goes into one pull request: the files of one codemod, or of the same owners.

A file is in one group with all its commits, so that every group can be merged without the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pathspec

from jitmod.delivery.bundle import Bundled, Listed
from jitmod.delivery.repository import GitFailed, Repository

PREFIX = "jitmod/"
_OWNERS = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")  # the first that there is counts, as on GitHub
_CODEMOD = re.compile(r"^Jitmod-Codemod: (.*)$", re.MULTILINE)
Name = Callable[[str, str], str]
"""The branch of a patch: from its codemod and its file."""


class By(StrEnum):
    """What pull requests are made of."""

    CODEMOD = "codemod"
    OWNER = "owner"


@dataclass(frozen=True)
class Group:
    """The commits of one pull request, in order."""

    branch: str
    commits: tuple[Bundled, ...]


def namer(by: By, repository: Repository, base: str) -> Name:
    """How branches are named; owners are those of the commit `base`."""
    if by is By.CODEMOD:
        return lambda codemod, path: PREFIX + (_slug(codemod) or "unnamed")
    owners = Owners(_owners_file(repository, base))
    return lambda codemod, path: PREFIX + (_slug("-".join(owners.of(path))) or "without-owner")


def grouped(commits: Sequence[Bundled], name: Name) -> list[Group]:
    """The groups, in the order of their first commits; a commit of several files binds those together."""
    branch: dict[str, str] = {}
    for one in commits:
        codemod = codemod_of(one.message)
        known = [branch[change.path] for change in one.files if change.path in branch]
        joined = known[0] if known else name(codemod, one.files[0].path)
        branch = {path: joined if at in known else at for path, at in branch.items()}
        branch.update({change.path: joined for change in one.files})
    found: dict[str, list[Bundled]] = {}
    for one in commits:
        found.setdefault(branch[one.files[0].path], []).append(one)
    return [Group(at, tuple(those)) for at, those in found.items()]


def branches_of(patches: Sequence[Listed], name: Name) -> set[str]:
    """The branches where the patches of a run would be, were they all accepted."""
    return {name(one.codemod, one.path) for one in patches}


def codemod_of(message: str) -> str:
    found = _CODEMOD.findall(message)
    return found[-1].strip() if found else "jitmod"


class Owners:
    """A CODEOWNERS file. The last line that matches a path says whose it is; a line may say: nobody's."""

    def __init__(self, text: str) -> None:
        self._rules = [rule for line in text.splitlines() if (rule := _rule(line)) is not None]

    def of(self, path: str) -> tuple[str, ...]:
        for matches, owners in reversed(self._rules):
            if matches(path):
                return owners
        return ()


def _rule(line: str) -> tuple[Callable[[str], bool], tuple[str, ...]] | None:
    words = re.findall(r"(?:\\.|[^\s\\])+", re.sub(r"(?:^|(?<=\s))#.*", "", line))
    if not words or words[0].startswith("!"):
        return None
    pattern, owners = words[0], tuple(words[1:])
    spec = pathspec.GitIgnoreSpec.from_lines([pattern])
    if not pattern.endswith("/*"):
        return spec.match_file, owners
    # Unlike in .gitignore, `docs/*` is for what lies in docs itself alone.
    return lambda path: spec.match_file(path) and not spec.match_file(path.rpartition("/")[0]), owners


def _owners_file(repository: Repository, commit: str) -> str:
    for path in _OWNERS:
        try:
            return repository.blob(f"{commit}:{path}").decode("utf-8", "replace")
        except GitFailed:
            continue
    return ""


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:100].strip("-")
