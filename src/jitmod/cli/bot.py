"""`jitmod bot`: try and deliver on a schedule; and the second half of it alone, which `jitmod pr --from` is."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jitmod.cli.options import Budget, CodemodNames, Paths, Quiet
from jitmod.cli.session import CANNOT_WORK, UsageError, failing_clearly, inert

if TYPE_CHECKING:
    from jitmod.delivery.bot import Rules
    from jitmod.delivery.groups import By
    from jitmod.delivery.hub import Hub
    from jitmod.delivery.pull import Commit
    from jitmod.delivery.repository import Repository

Repo = Annotated[
    str | None, typer.Option("--repo", metavar="OWNER/NAME", help="On GitHub; as the remote says if left out.")
]
Remote = Annotated[str, typer.Option("--remote", help="Where branches are pushed to.")]
Base = Annotated[
    str | None, typer.Option("--base", metavar="BRANCH", help="Where it shall go; the default branch if left out.")
]
Draft = Annotated[bool, typer.Option("--draft", help="Open drafts.")]
Labels = Annotated[list[str] | None, typer.Option("--label", help="A label; may be repeated.")]
Invited = Annotated[bool, typer.Option("--invited", help="Somebody there wants it, though there is no [tool.jitmod].")]
MostOpen = Annotated[int, typer.Option("--most-open", min=0, help="So many pull requests may be open at a time.")]
MostHourly = Annotated[int, typer.Option("--most-hourly", min=0, help="So many may be opened within an hour.")]
OneFor = Annotated[str, typer.Option("--one-for", metavar="codemod|owner", help="What one pull request is made of.")]
Dashboard = Annotated[bool, typer.Option("--dashboard/--no-dashboard", help="Keep one issue that tells how it stands.")]
_GRACE = 30.0  # seconds
_SECRET = ("TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")


def bot(
    paths: Paths = None,
    codemod: CodemodNames = None,
    repo: Repo = None,
    remote: Remote = "origin",
    base: Base = None,
    one_for: OneFor = "codemod",
    most_open: MostOpen = 5,
    most_hourly: MostHourly = 2,
    draft: Draft = False,
    label: Labels = None,
    invited: Invited = False,
    dashboard: Dashboard = True,
    budget: Budget = 600.0,
    quiet: Quiet = False,
) -> None:
    """Try every patch of HEAD, and bring the pull requests of the repository up to date with what was accepted.

    It is `jitmod apply --bundle` and then `jitmod pr --from`. The first runs the project, and gets no token; where
    other people's code may come in, give each a machine of its own (docs/bot.md).
    """
    from jitmod.delivery.bot import check_head
    from jitmod.delivery.repository import unattended

    with failing_clearly(), tempfile.TemporaryDirectory(prefix="jitmod-") as folder:
        bundle = Path(folder) / "bundle"
        target = Target(repo, remote, invited, dashboard)
        rules = rules_of(one_for, most_open, most_hourly, base, draft, label)
        with _opened(target) as (repository, hub), unattended():  # before hours of trials are for nothing
            outside = [path for path in paths or [] if not path.resolve().is_relative_to(repository.root)]
            if outside:
                raise UsageError(f"{outside[0]} is not in {repository.root}")
            check_head(repository, remote, base or hub.default_branch)
            allowed = [path.resolve().relative_to(repository.root).as_posix() for path in paths or []]
        command = [sys.executable, "-P", "-m", "jitmod", "apply", *(str(path) for path in paths or [Path(".")]),
                   "--bundle", str(bundle), "--budget", str(budget), *(["--quiet"] if quiet else [])]  # fmt: skip
        for names in codemod or []:
            command += ["--codemod", names]
        known = {name: value for name, value in os.environ.items() if not any(word in name.upper() for word in _SECRET)}
        ended = _ended(command, known)
        if not (bundle / "bundle.json").is_file():
            raise UsageError(f"jitmod apply made no bundle (exit code {ended}); what it said is above")
        deliver_bundle(bundle, allowed or ["."], target, rules)


def _ended(command: list[str], environment: dict[str, str]) -> int:
    """The exit code of a run. Where we are interrupted, it may tidy up first."""
    with subprocess.Popen(command, env=environment, stdout=sys.stderr) as process:
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE)
            process.kill()
            raise


@dataclass(frozen=True)
class Target:
    """Where it goes: `owner/name` on the hub, as the remote says if None, and the remote that takes branches."""

    repo: str | None
    remote: str
    invited: bool
    dashboard: bool


def deliver_bundle(folder: Path, allowed: Sequence[str], target: Target, rules: Rules) -> None:
    """Deliver what is in a folder, and print one line for every pull request. `allowed` are folders that may change."""
    from jitmod.delivery.bot import Done, deliver
    from jitmod.delivery.bundle import read_bundle
    from jitmod.delivery.repository import unattended
    from jitmod.report.dashboard import TITLE, dashboard

    bundle = read_bundle(folder, allowed)
    with _opened(target) as (repository, hub), unattended(), repository.locked():
        results = deliver(bundle, repository, target.remote, hub, rules, described)
        for one in results:
            typer.echo(f"{one.done}: {inert(f'{one.branch} {one.said}')}")
        if not results:
            typer.echo("nothing to deliver")
        if target.dashboard:
            shown = hub.show(TITLE, dashboard(bundle, results))
            typer.echo(f"dashboard {shown.done}: {shown.url}" if shown is not None else "no dashboard is wanted")
    if any(one.done is Done.FAILED for one in results):
        raise typer.Exit(CANNOT_WORK)


def described(commits: Sequence[Commit], branch: str, base: str) -> tuple[str, str]:
    """The title and the text of a pull request."""
    from jitmod.report.pull import Rewrite, body, title

    rewrites = [Rewrite(one) for one in commits]
    return title(rewrites), body(rewrites, branch, base, _job())


def _job() -> str | None:
    """The address of the job that we are, on a runner of GitHub's."""
    parts = [os.environ.get(name) for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")]
    return "{}/{}/actions/runs/{}".format(*parts) if all(parts) else None


@contextlib.contextmanager
def _opened(target: Target) -> Iterator[tuple[Repository, Hub]]:
    from jitmod.delivery.hub import Hub, token
    from jitmod.delivery.pull import remote_name
    from jitmod.delivery.repository import Repository, scrubbed_environment

    with scrubbed_environment():
        repository = Repository.around(Path.cwd())
        repository.check_identity()
        hub = Hub(target.repo or remote_name(repository, target.remote), token())
        if not target.invited:
            hub.check_invited()
        yield repository, hub


def rules_of(
    one_for: str, most_open: int, most_hourly: int, base: str | None, draft: bool, labels: Sequence[str] | None,
    reviewers: Sequence[str] | None = None,
) -> Rules:  # fmt: skip
    """Raises `UsageError`."""
    from jitmod.delivery.bot import Rules

    return Rules(most_open, most_hourly, _by(one_for), base, draft, tuple(labels or ()), tuple(reviewers or ()))


def _by(one_for: str) -> By:
    from jitmod.delivery.groups import By

    try:
        return By(one_for)
    except ValueError:
        raise UsageError(f"--one-for: codemod or owner, not {one_for}") from None
