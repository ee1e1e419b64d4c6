"""`jitmod pr`: push a branch and open or update its pull request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jitmod.cli.bot import (
    Base,
    Dashboard,
    Draft,
    Invited,
    Labels,
    MostHourly,
    MostOpen,
    OneFor,
    Remote,
    Repo,
    Target,
    deliver_bundle,
    described,
    rules_of,
)
from jitmod.cli.options import Quiet
from jitmod.cli.session import Talk, UsageError, failing_clearly

if TYPE_CHECKING:
    from jitmod.delivery.repository import Repository


def pr(
    branch: Annotated[
        str | None, typer.Argument(metavar="BRANCH", help="A branch that jitmod apply made; the only one if left out.")
    ] = None,
    repo: Repo = None,
    base: Base = None,
    remote: Remote = "origin",
    draft: Draft = False,
    label: Labels = None,
    reviewer: Annotated[list[str] | None, typer.Option("--reviewer", help="Whom to ask; may be repeated.")] = None,
    invited: Invited = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the title and the text; push and open nothing.")
    ] = False,
    bundle: Annotated[
        Path | None,
        typer.Option("--from", metavar="DIR", help="Deliver what jitmod apply --bundle DIR wrote, and no branch."),
    ] = None,
    path: Annotated[
        list[str] | None,
        typer.Option("--path", help="With --from: only below this folder may files change; may be repeated."),
    ] = None,
    one_for: OneFor = "codemod",
    most_open: MostOpen = 5,
    most_hourly: MostHourly = 2,
    dashboard: Dashboard = True,
    quiet: Quiet = False,
) -> None:
    """Push a branch of accepted patches and open its pull request, or bring the open one up to date.

    The token is that of GH_TOKEN or GITHUB_TOKEN, or of gh. Commits of other people on the remote branch are never
    overwritten, what people wrote into the description stays, and what a person closed is not opened again.

    With --from there is a pull request for each codemod or owner of a bundle, a few at a time; nothing of the project
    runs; what the bundle shows to be gone is closed.
    """
    with failing_clearly():
        from jitmod.delivery.pull import commits, push, remote_name, shown
        from jitmod.delivery.repository import Repository, scrubbed_environment

        if bundle is not None:
            if branch is not None or dry_run:
                raise UsageError("--from delivers a bundle: it goes without a branch and without --dry-run")
            if path is not None and not all(path):
                raise UsageError("--path: a folder, and not nothing at all; everything is `.`")
            rules = rules_of(one_for, most_open, most_hourly, base, draft, label, reviewer)
            deliver_bundle(bundle, path or ["."], Target(repo, remote, invited, dashboard), rules)
            return

        talk = Talk(quiet, False)
        with scrubbed_environment():
            repository = Repository.around(Path.cwd())
            name = branch or _only(repository)
            tip = repository.resolve(f"refs/heads/{name}")
            start = _start(repository, remote, base, tip)
            made = [one for one in commits(repository, start, tip) if one.is_ours]
            if not made:
                raise UsageError(f"{name} has no commits of jitmod's beyond {start[:10]}: jitmod apply makes them")
            told, text = described(made, name, start[:10])
            if dry_run:
                typer.echo(f"{told}\n\n{text}", nl=False)
                return
            from jitmod.delivery.hub import Hub, Request, token

            hub = Hub(repo or remote_name(repository, remote), token())
            if not invited:
                hub.check_invited()
            pushed = push(repository, remote, name, start, tip, hub.told(name))
            talk.say(f"{name} {'is pushed to' if pushed else 'is already on'} {shown(remote)}")
            wanted = Request(name, base, told, text, draft, tuple(label or ()), tuple(reviewer or ()))
            opened = hub.deliver(wanted)
        typer.echo(f"{opened.done}: {opened.url}")


def _only(repository: Repository) -> str:
    names = repository.git("for-each-ref", "--format=%(refname:short)", "refs/heads/jitmod/").split()
    if len(names) != 1:
        none = "there is no branch jitmod/...: jitmod apply makes one"
        raise UsageError(f"which branch? there are several: {', '.join(names)}" if names else none)
    return names[0]


def _start(repository: Repository, remote: str, base: str | None, tip: str) -> str:
    """Where the branch begins: its last commit that is on the base."""
    from jitmod.delivery.repository import GitFailed

    named = (f"refs/remotes/{remote}/{base}", f"refs/heads/{base}")
    for candidate in named if base else (f"refs/remotes/{remote}/HEAD", "HEAD"):
        try:
            return repository.git("merge-base", "--end-of-options", tip, candidate)
        except GitFailed:
            continue
    raise UsageError(f"it cannot be told where the branch begins: {base or 'HEAD'} is not here; fetch it")
