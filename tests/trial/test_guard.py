"""A trial changes no file of the user's, and leaves no process and no folder behind."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jitmod.model import Status
from jitmod.trial import descendants
from jitmod.trial.child import files, guard, writes

from .conftest import MAPPED, NET, Try, write


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's folder; the current folder is a scratch one, as in a trial."""
    root = tmp_path / "user"
    write(root, {"data.txt": "mine\n", "deep/er/log.txt": "old\n", "old/kept.txt": "kept\n"})
    made = files.scratch(str(root), str(tmp_path / "scratch"))
    monkeypatch.chdir(made)
    monkeypatch.setattr(guard._guard, "root", str(root.resolve()))
    monkeypatch.setattr(guard._guard, "scratch", str((tmp_path / "scratch").resolve()))
    monkeypatch.setattr(guard._guard, "confined", True)
    yield root
    guard.take_refused()


def contents(root: Path) -> dict[str, tuple[int, str]]:
    return {str(p.relative_to(root)): (p.stat().st_mode, p.read_text()) for p in root.rglob("*") if p.is_file()}


def write_through_descriptor(root: Path) -> None:
    folder = os.open("old", os.O_RDONLY)
    try:
        os.unlink("kept.txt", dir_fd=folder)
    finally:
        os.close(folder)


def change_mode_of_open_file(root: Path) -> None:
    with (root / "data.txt").open() as file:
        os.chmod(file.fileno(), 0o600)


def write_after_leaving(root: Path) -> None:
    os.chdir(root)
    Path("data.txt").write_text("spoiled")


REFUSED: dict[str, Callable[[Path], object]] = {
    "full path": lambda root: (root / "data.txt").write_text("spoiled"),
    "resolved": lambda root: Path("data.txt").resolve().write_text("spoiled"),
    "new file": lambda root: (root / "new.txt").touch(),
    "past a link": lambda root: Path("deep/er/../../data.txt").resolve().open("a"),
    "parent of a linked folder": lambda root: os.open("deep/../data.txt", os.O_WRONLY),
    "another current folder": write_after_leaving,
    "mode": lambda root: os.chmod(root / "data.txt", 0o600),
    "mode of an open file": change_mode_of_open_file,
    "times": lambda root: os.utime(root / "data.txt"),
    "length": lambda root: os.truncate(root / "data.txt", 0),
    "removal": lambda root: os.remove(root / "data.txt"),
    "removal in an open folder": write_through_descriptor,
    "renaming": lambda root: os.rename(root / "data.txt", root / "other.txt"),
    "another name": lambda root: os.link(root / "data.txt", "linked.txt"),
    "folder": lambda root: os.mkdir(root / "made"),
    "removed folders": lambda root: shutil.rmtree(root / "old", ignore_errors=True),
    "database": lambda root: sqlite3.connect(root / "run.db"),
}
REDIRECTED: dict[str, Callable[[], object]] = {
    "mode": lambda: os.chmod("data.txt", 0o600),
    "removed folders": lambda: shutil.rmtree("old"),
    "database": lambda: sqlite3.connect("data.txt").close(),
    "another name": lambda: os.link("data.txt", "deep/linked.txt"),
    "times": lambda: os.utime("deep/er/log.txt", (1, 1)),
    "length": lambda: os.truncate("data.txt", 0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_writes_to_the_users_files_are_refused_and_named(name: str, user: Path) -> None:
    before = contents(user)
    with pytest.raises(guard.Refused):
        REFUSED[name](user)
    assert contents(user) == before and not (user / "made").exists()
    refused = guard.take_refused()
    assert refused is not None and refused.startswith("the workload writes ")
    assert guard.take_refused() is None


@pytest.mark.parametrize("name", REDIRECTED)
def test_changes_below_the_current_folder_go_to_copies(name: str, user: Path) -> None:
    before = contents(user)
    REDIRECTED[name]()
    assert contents(user) == before
    assert guard.take_refused() is None


def test_reading_is_allowed(user: Path) -> None:
    assert (user / "data.txt").read_text() == Path("data.txt").read_text()
    place = f"file:{user / 'data.txt'}?mode=ro"
    sqlite3.connect(place, uri=True).close()
    assert list(writes.of_event("open", (str(user / "data.txt"), "rb", 0))) == []
    assert guard.take_refused() is None


def test_programs_are_refused_where_the_system_cannot_confine_them(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard._guard, "confined", False)
    with pytest.raises(guard.Refused, match="starts a program"):
        os.system("true")


SPOILS = """\
    import os, pathlib, shutil, sqlite3, subprocess, tempfile
    base = sqlite3.connect("run.db")
    base.execute("create table if not exists t (x)")
    base.commit()
    os.chmod("data.txt", 0o600)
    subprocess.run("echo spoiled >> data.txt; echo spoiled >> {root}/data.txt; rm -r {root}/app", shell=True)
    subprocess.Popen(["sleep", "977"], start_new_session=True)
    tempfile.mkdtemp()
"""
SWALLOWED = """\
    import pathlib
    try:
        (pathlib.Path(__file__).parent / "ckpt.txt").write_text("spoiled")
    except OSError:
        pass
"""


def with_body(text: str, added: str) -> str:
    return text.replace("def score(w, xs):\n", "def score(w, xs):\n" + added)


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a short name, as folders for temporary files have."""
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        yield Path(folder)


def test_programs_and_databases_leave_the_users_files_alone(
    project: Path, try_text: Try, monkeypatch: pytest.MonkeyPatch, short: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(short))
    monkeypatch.setattr(tempfile, "tempdir", None)
    added = SPOILS.format(root=project)
    write(project, {"data.txt": "mine\n", "run.db": "", "app/net.py": with_body(NET, added)})
    before = contents(project)
    trial = try_text(with_body(MAPPED, added))
    assert contents(project) == before
    assert trial.evidence["explore"].get("candidate_execution", {}).get("entered"), trial.verdict.why
    assert list(short.iterdir()) == []
    if sys.platform == "linux":
        assert not any("977" in line for line in running()), "a process was left behind"


def running() -> list[str]:
    """Command lines of processes that a trial started."""
    return [
        Path(f"/proc/{process}/cmdline").read_text() for process in descendants._ours()
        if any(word.startswith(descendants.MARK.encode()) for word in descendants._environment(process))
    ]  # fmt: skip


def test_a_refused_write_is_the_verdict_though_the_program_goes_on(project: Path, try_text: Try) -> None:
    write(project, {"app/net.py": with_body(NET, SWALLOWED)})
    verdict = try_text(with_body(MAPPED, SWALLOWED)).verdict
    assert verdict.status is Status.UNPROVEN
    assert verdict.why.startswith("the workload writes app/ckpt.txt")
    assert not (project / "app/ckpt.txt").exists()
