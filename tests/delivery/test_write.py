"""Accepted patches in the user's files: with a backup, and never over someone else's change."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from jitmod.delivery.write import FileChanged, WritePlace
from jitmod.model import Patch, Site, Status, Verdict

PATCH = Patch("toy", Site("a/x.py", 1, 1, 1), "m", ())
VERDICT = Verdict(Status.ACCEPTED, "faster")


@pytest.fixture
def place(tmp_path: Path) -> WritePlace:
    for folder in ("user", "scratch"):
        (tmp_path / folder / "a").mkdir(parents=True)
        (tmp_path / folder / "a" / "x.py").write_bytes(b"old\r\n")
    (tmp_path / "user" / "a" / "x.py").chmod(0o750)
    return WritePlace(tmp_path / "scratch", "", tmp_path / "user", tmp_path / "backups")


def test_two_patches_of_a_file_and_one_backup_of_what_was_there(place: WritePlace, tmp_path: Path) -> None:
    evidence: dict[str, Any] = {}
    assert place.keep(PATCH, b"new\r\n", VERDICT, evidence, {}) is None
    assert place.keep(PATCH, b"newer\r\n", VERDICT, evidence, {}) is None
    file = tmp_path / "user" / "a" / "x.py"
    assert file.read_bytes() == (tmp_path / "scratch" / "a" / "x.py").read_bytes() == b"newer\r\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o750
    assert (place.backup / "a" / "x.py").read_bytes() == b"old\r\n" and place.written == ["a/x.py"]
    assert sorted(p.name for p in file.parent.iterdir()) == ["x.py"]


def test_a_file_that_changed_meanwhile_is_left_alone(place: WritePlace, tmp_path: Path) -> None:
    file = tmp_path / "user" / "a" / "x.py"
    file.write_bytes(b"mine\n")
    with pytest.raises(FileChanged, match=r"a/x\.py was changed by someone else"):
        place.keep(PATCH, b"new\n", VERDICT, {}, {})
    assert file.read_bytes() == b"mine\n" and not place.backup.exists() and place.written == []
