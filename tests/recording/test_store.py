"""Where recordings are, which of them count, and how one travels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from jitmod.source.document import Document
from jitmod.source.recording import SUMMARY, current, load, load_all, state_folder
from jitmod.trial.recording import store

from .conftest import Run

MAIN = "def f(xs):\n    return [x for x in xs]\n\nf([1])\n"


@pytest.fixture
def recording(write: Callable[..., None], recorded: Callable[..., Run], state: Path) -> Path:
    write({"main.py": MAIN, "other.py": MAIN})
    recorded("python", "main.py")
    (found,) = load_all(state)
    return found.folder


def test_the_folder_is_gits_own_or_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    one, two = tmp_path / "a" / "x", tmp_path / "b" / "x"
    assert state_folder(one).is_relative_to(tmp_path / "cache") and state_folder(one) != state_folder(two)
    subprocess.run(["git", "init", "--quiet", str(one)], check=True)
    assert state_folder(one) == one / ".git" / "jitmod"
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", *identity, "commit", "--quiet", "--allow-empty", "-m", "x"], cwd=one, check=True)
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(two)], cwd=one, check=True)
    assert state_folder(two) == one / ".git" / "jitmod"


@pytest.mark.parametrize("said", [b"", b"gitdir: .", b"gitdir: /nowhere", b"gitdir:", b"garbage\xff", b"gitdir: a\0b"])
def test_a_git_file_that_leads_to_no_repository_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / ".git").write_bytes(said)
    assert state_folder(tmp_path / "x").is_relative_to(tmp_path / "cache")


def test_a_file_that_changed_since_does_not_count(recording: Path, state: Path) -> None:
    same, changed = Document.parse("main.py", MAIN.encode()), Document.parse("main.py", (MAIN + "# x\n").encode())
    assert current(load_all(state), {"main.py": same}).function("main.py", "f") is not None
    assert current(load_all(state), {"main.py": changed}).function("main.py", "f") is None


def test_the_newest_recording_says_it(recording: Path, state: Path, recorded: Callable[..., Run]) -> None:
    recorded("python", "main.py")
    document = Document.parse("main.py", MAIN.encode())
    function = current(load_all(state), {"main.py": document}).function("main.py", "f")
    assert function is not None and function.folder == max((state / "recordings").iterdir())


def test_a_file_that_changes_while_it_is_planned_for_is_not_watched(
    write: Callable[..., None], tmp_path: Path, state: Path
) -> None:
    from jitmod.source.project import Project
    from jitmod.trial.recording.command import parse
    from jitmod.trial.recording.run import record
    from jitmod.trial.recording.targets import targets

    write({"main.py": MAIN})
    watched = targets(Project.build(tmp_path, ["main.py"]), tmp_path, ())
    write({"main.py": "\n" + MAIN})
    command = parse([sys.executable, str(tmp_path / "main.py")], Path(sys.executable))
    assert record(command, watched, root=tmp_path, state=state, stop=False).recording is None
    assert list((state / "recordings").iterdir()) == []


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda text: text[:-20], id="cut"),
        pytest.param(lambda text: text.replace('"schema_version": 1', '"schema_version": 99'), id="another version"),
        pytest.param(lambda text: text.replace("0-0.npz", "../0-0.npz"), id="a call outside"),
        pytest.param(lambda text: "[]", id="no object"),
    ],
)
def test_what_is_damaged_is_passed_over(recording: Path, state: Path, damage: Callable[[str], str]) -> None:
    summary = recording / SUMMARY
    summary.write_text(damage(summary.read_text()))
    assert load_all(state) == ()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners here")
def test_someone_elses_is_passed_over(recording: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = recording.stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert load_all(state) == ()


def test_old_recordings_and_what_killed_runs_left_go(recording: Path, state: Path) -> None:
    folder = state / "recordings"
    for number in range(7):
        copy = folder / f"20200101-00000{number}-000000000-1"
        (copy / "calls").mkdir(parents=True)
        (copy / SUMMARY).write_text((recording / SUMMARY).read_text())
    dead, alive = folder / "20200101-000000-000000000-999999999", folder / f"20200101-000000-000000000-{os.getpid()}"
    dead.mkdir()
    alive.mkdir()
    made = store.new_folder(state)
    left = set(folder.iterdir())
    assert {made, alive, recording} < left and dead not in left and len(left) == 6


def test_a_packed_recording_is_taken_and_anything_else_is_not(recording: Path, tmp_path: Path) -> None:
    packed, elsewhere = tmp_path / "packed.zip", tmp_path / "elsewhere"
    found = load(recording)
    assert found is not None
    store.export(found, packed)
    taken = store.trust(packed, elsewhere)
    assert taken.functions.keys() == found.functions.keys() and load_all(elsewhere) == (taken,)
    call = found.functions["main.py", "f"].calls[0].file
    assert (taken.folder / "calls" / call).read_bytes() == (recording / "calls" / call).read_bytes()
    for names in (["x"], [SUMMARY, "../x"], [SUMMARY, "calls/../../x.npz"], [SUMMARY]):
        with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
            for name in names:
                archive.writestr(name, json.dumps({}))
        with pytest.raises(store.NotARecording):
            store.trust(tmp_path / "bad.zip", elsewhere)
    (tmp_path / "bad.zip").write_text("no archive")
    with pytest.raises(store.NotARecording, match="cannot be read"):
        store.trust(tmp_path / "bad.zip", elsewhere)
    assert load_all(elsewhere) == (taken,)


def test_the_folder_is_the_users_alone(recording: Path) -> None:
    assert recording.stat().st_mode & 0o077 == 0
