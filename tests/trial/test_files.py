"""Files that a call writes go to a scratch folder and count as effects."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from jitmod.model import Status
from jitmod.trial.child import contents, files

from .conftest import write
from .planted.bench import Trials, trials

__all__ = ["trials"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    user, scratch = tmp_path / "user", tmp_path / "scratch"
    write(user, {"data.txt": "mine\n", "deep/er/log.txt": "old\n"})
    made = Path(files.scratch(str(user), str(scratch)))
    monkeypatch.chdir(made)
    yield made


def test_nothing_of_the_users_changes(folder: Path, tmp_path: Path) -> None:
    with files.written(str(folder)) as found:
        Path("data.txt").write_text("changed\n")
        with open("deep/er/log.txt", "a") as log:
            log.write("new\n")
        os.mkdir("made")
        os.rename("data.txt", "made/moved.txt")
        np.save("deep/array.npy", np.arange(3))
    assert (tmp_path / "user/data.txt").read_text() == "mine\n"
    assert (tmp_path / "user/deep/er/log.txt").read_text() == "old\n"
    assert not (tmp_path / "user/made").exists() and not (tmp_path / "user/deep/array.npy").exists()
    assert found["deep/er/log.txt"] == ["old", "new"]
    assert found["made/moved.txt"] == ["changed"] and found["data.txt"] == "gone"
    assert [entry.data for entry in contents.entries(found, "deep/array.npy")][1].tolist() == [0, 1, 2]


def test_binary_files_by_their_contents_and_text_to_the_last_line(folder: Path) -> None:
    with files.written(str(folder)) as found:
        Path("one").write_bytes(b"\0\xff1")
        Path("two").write_bytes(b"\0\xff2")
        Path("long").write_text("line\n" * 9000 + "last\n")
    one, two = (contents.entries(found, name)[0].data for name in ("one", "two"))
    assert one != two and len(found["long"]) == 9001


def test_texts_with_their_line_breaks(folder: Path) -> None:
    with files.written(str(folder)) as found:
        for number, data in enumerate((b"a\nb\n", b"a\nb", b"a\r\nb\r\n", b"", b"\n")):
            Path(str(number)).write_bytes(data)
    held = [found[str(number)] for number in range(5)]
    assert held == [["a", "b"], ["a", "b", contents.UNFINISHED], ["a\r", "b\r"], [], [""]]


def _write_tar(path: str, text: bytes, time: int) -> None:
    with tarfile.open(path, "w:gz") as tar:
        member = tarfile.TarInfo("run/log.txt")
        member.size, member.mtime = len(text), time
        tar.addfile(member, io.BytesIO(text))


def test_archives_by_what_they_hold(folder: Path) -> None:
    with files.written(str(folder)) as found:
        for number, text in enumerate((b"a\n", b"a\n", b"b\n")):
            Path(f"{number}.gz").write_bytes(gzip.compress(text, mtime=number))
            _write_tar(f"{number}.tgz", text, number)
            with zipfile.ZipFile(f"{number}.zip", "w") as packed:
                packed.writestr(zipfile.ZipInfo("log.txt", (2020 + number, 1, 1, 0, 0, 0)), text)
        Path("broken.gz").write_bytes(b"\x1f\x8b\xff")
    for name in ("{}.gz", "{}.tgz/run/log.txt", "{}.zip/log.txt"):
        assert [found[name.format(number)] for number in range(3)] == [["a"], ["a"], ["b"]]
    assert isinstance(found["broken.gz"], contents.Binary)


def test_rights_and_what_other_programs_write(folder: Path) -> None:
    with files.written(str(folder)) as found:
        Path("run.sh").write_text("true\n")
        os.chmod("run.sh", 0o755)
        subprocess.run(["cp", "data.txt", "copied.txt"], check=True)
    with files.written(str(folder)) as later:
        pass
    assert found["run.sh (rights)"] == "0o755" and found["copied.txt"] == ["mine"]
    assert later == {}


def test_files_that_were_opened_before_the_call_count(folder: Path) -> None:
    with open("log.txt", "w") as log:
        with files.written(str(folder)) as untouched:
            pass
        with files.written(str(folder)) as found:
            log.write("said\n")
    assert untouched == {} and found["log.txt"] == ["said"]


def test_temporary_files_are_no_effect(folder: Path) -> None:
    with files.written(str(folder)) as found, tempfile.TemporaryDirectory() as made:
        Path(made, "x").write_text("x")
    assert found == {}


def test_reading_is_no_effect(folder: Path) -> None:
    with files.written(str(folder)) as found:
        assert Path("data.txt").read_text() == "mine\n"
        assert os.listdir("deep/er") == ["log.txt"]
    assert found == {}


WRITES = """\
import jax
import jax.numpy as jnp
import numpy as np


def square(x):
    return x * x


def save(xs):
    with open("out/values.txt", "w") as file:
        for x in xs:
            y = square(x)
            file.write(f"{float(y.sum()):.4f}\\n")
    np.savez("sums.npz", total=np.asarray(sum(square(x) for x in xs)))
    return len(xs)
"""
BENCH = """\
import jax.numpy as jnp

from items import save


def setup():
    return (list(jnp.arange(12.0).reshape(4, 3)),)


def run(xs):
    return save(xs)
"""
RIGHT = WRITES.replace("def square", "@jax.jit\ndef square")
WRONG = {
    "another number": RIGHT.replace("y.sum()", "y.sum() + 1"),
    "a line fewer": RIGHT.replace("for x in xs:", "for x in xs[1:]:"),
    "another array": RIGHT.replace("square(x) for x in xs", "square(x) for x in xs[1:]"),
    "another name": RIGHT.replace("sums.npz", "sum.npz"),
    "one file more": RIGHT.replace("    return len", "    open('more.txt', 'w').close()\n    return len"),
}


@pytest.mark.parametrize("name", WRONG)
def test_other_files_are_other_effects(name: str, trials: Trials) -> None:
    assert WRONG[name] != RIGHT
    trials.write({"items.py": WRITES, "bench.py": BENCH, "out/values.txt": "old\n"})
    verdict = trials.screen({"items.py": WRONG[name]})
    assert verdict is not None and (verdict.status, verdict.test) == (Status.REJECTED, "effects"), verdict.why
    assert (trials.root / "out/values.txt").read_text() == "old\n"


def test_equal_files_are_equal_effects(trials: Trials) -> None:
    trials.write({"items.py": WRITES, "bench.py": BENCH, "out/values.txt": "old\n"})
    _, found = trials.explore({"items.py": RIGHT})
    assert found["parity"]["failure"] is None
