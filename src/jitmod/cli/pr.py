"""`jitmod pr`: push a branch and open or update its pull request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jitmod.cli.options import Quiet
from jitmod.cli.session import Talk, UsageError, failing_clearly

if TYPE_CHECKING:
    from jitmod.delivery.repository import Repository


def pr(
    branch: Annotated[
        str | None, typer.Argument(metavar="BRANCH", help="A branch that jitmod apply made; the only one if left out.")
    ] = None,
    repo: Annotated[
        str | None, typer.Option("--repo", metavar="OWNER/NAME", help="On GitHub; as the remote says if left out.")
    ] = None,
    base: Annotated[
        str | None, typer.Option("--base", metavar="BRANCH", help="Where it shall go; the default branch if left out.")
    ] = None,
    remote: Annotated[str, typer.Option("--remote", help="Where the branch is pushed to.")] = "origin",
    draft: Annotated[bool, typer.Option("--draft", help="Open it as a draft.")] = False,
    label: Annotated[list[str] | None, typer.Option("--label", help="A label; may be repeated.")] = None,
    reviewer: Annotated[list[str] | None, typer.Option("--reviewer", help="Whom to ask; may be repeated.")] = None,
    invited: Annotated[
        bool, typer.Option("--invited", help="Somebody there wants it, though there is no [tool.jitmod].")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the title and the text; push and open nothing.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Push a branch of accepted patches and open its pull request, or bring the open one up to date.

    The token is that of GH_TOKEN or GITHUB_TOKEN, or of gh. Commits of other people on the remote branch are never
    overwritten, what people wrote into the description stays, and what a person closed is not opened again.
    """
    with failing_clearly():
        from jitmod.delivery.pull import commits, push, remote_name
        from jitmod.delivery.repository import Repository, scrubbed_environment
        from jitmod.report.pull import Rewrite, body, title

        talk = Talk(quiet, False)
        with scrubbed_environment():
            repository = Repository.around(Path.cwd())
            name = branch or _only(repository)
            tip = repository.resolve(f"refs/heads/{name}")
            start = _start(repository, remote, base, tip)
            rewrites = [Rewrite(one) for one in commits(repository, start, tip) if one.is_ours]
            if not rewrites:
                raise UsageError(f"{name} has no commits of jitmod's beyond {start[:10]}: jitmod apply makes them")
            told, text = title(rewrites), body(rewrites, name, start[:10])
            if dry_run:
                typer.echo(f"{told}\n\n{text}", nl=False)
                return
            from jitmod.delivery.hub import Hub, Request, token

            hub = Hub(repo or remote_name(repository, remote), token())
            if not invited:
                hub.check_invited()
            pushed = push(repository, remote, name, start)
            talk.say(f"{name} {'is pushed to' if pushed else 'is already on'} {remote}")
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
