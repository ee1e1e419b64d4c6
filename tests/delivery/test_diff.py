"""Diffs that git takes, byte for byte."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from jitmod.delivery.diff import file_diff, raw

PLAIN = b"".join(b"line %d\n" % number for number in range(20))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(PLAIN, PLAIN.replace(b"line 3\n", b"").replace(b"line 17", b"last"), id="two hunks"),
        pytest.param(PLAIN.replace(b"\n", b"\r\n"), PLAIN.replace(b"\n", b"\r\n").replace(b"7", b"x"), id="CRLF"),
        pytest.param(b"a\nb", b"a\nc", id="no final newline"),
        pytest.param(b"a\nb", b"a\nb\n", id="final newline added"),
        pytest.param(b"a\nb\n", b"a\nb", id="final newline removed"),
        pytest.param(
            b"a\x0c\nb\x0bc\nd\xc2\x85e\xe2\x80\xa8f\ng\n",
            b"a\x0c\nb\x0bc\nD\xc2\x85e\xe2\x80\xa8f\ng\n",
            id="odd breaks",
        ),
        pytest.param(b"a\rb\nc\n", b"a\rb\nC\n", id="lone carriage return"),
        pytest.param(b"# caf\xe9\nx = 1\n", b"# caf\xe9\nx = 2\n", id="latin-1"),
        pytest.param(b"\xef\xbb\xbfx = 1\n", b"\xef\xbb\xbfx = 2\n", id="byte-order mark"),
    ],
)
@pytest.mark.parametrize(
    "path", ["a.py", "src/café.py", "with blank/two words.py", 'quo"te.py', "tab\tname.py", "back\\slash.py"]
)
def test_git_apply_makes_the_same_bytes(tmp_path: Path, path: str, before: bytes, after: bytes) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(before)
    (tmp_path / "x.diff").write_bytes(raw(file_diff(path, before, after)))
    subprocess.run(["git", "apply", "x.diff"], cwd=tmp_path, check=True, env={"PATH": "/usr/bin:/bin"})
    assert file.read_bytes() == after


def test_no_change_is_no_diff() -> None:
    assert file_diff("a.py", PLAIN, PLAIN) == ""
