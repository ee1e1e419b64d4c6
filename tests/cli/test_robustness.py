"""Files as they come: nothing raises, and no byte changes where nothing is found."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jitmod.cli.main import app

LOOP = """\
import equinox as eqx
import jax


def predict(net: eqx.nn.MLP, xs: jax.Array):
    return [net(x) for x in xs]
"""
PLAIN = "import jax\n\n\ndef f(x):\n    return jax.numpy.sum(x)\n"
NESTED = "import jax\ny = " + "(" * 150 + "1" + ")" * 150 + "\n"
DEEP = "import jax\nx = " + " + ".join(["1"] * 3000) + "\n"

QUIET = {
    "empty.py": b"",
    "blank.py": b"\n\n\n",
    "bom only.py": b"\xef\xbb\xbf",
    "crlf.py": PLAIN.replace("\n", "\r\n").encode(),
    "cr.py": PLAIN.replace("\n", "\r").encode(),
    "mixed ends.py": PLAIN.encode().replace(b"\n", b"\r\n", 2),
    "bom.py": b"\xef\xbb\xbf" + PLAIN.encode(),
    "latin.py": b"# coding: latin-1\n# caf\xe9\n" + PLAIN.encode(),
    "form feed.py": b"\x0c" + PLAIN.replace("\n\n\n", "\n\x0c\n").encode(),
    "tabs.py": PLAIN.replace("    ", "\t").encode(),
    "no end.py": PLAIN.rstrip("\n").encode(),
    "nested.py": NESTED.encode(),
    "größe 日本.py": PLAIN.encode(),
    "a'b\"c.py": PLAIN.encode(),
    "-dash.py": PLAIN.encode(),
    "new\nline.py": PLAIN.encode(),
    "big.py": PLAIN.encode() + b"# " + b"x" * 78 + b"\n" + (b"# " + b"y" * 78 + b"\n") * 64_000,
    "continued.py": b"import jax\nx = 1 + \\\n  2\n",
    "walrus.py": b"import jax\nif (n := 3) > 2: print(f'{n!r:>{n}}')\n",
    "match.py": b"import jax\nmatch [1]:\n    case [x, *_] if x: pass\n",
    "ending backslash.py": b"import jax\nx = 1\n# \\",
    "magic.ipynb": b'{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}',
}
UNREADABLE = {
    "bad.py": b"import jax\nx = = 1\n",
    "not utf-8.py": b"import jax\n# \xff\xfe\n",
    "utf-16.py": PLAIN.encode("utf-16"),
    "nul.py": b"import jax\nx = '\0'\n",
    "unknown coding.py": b"# coding: nonsense\nimport jax\n",
    "deep.py": DEEP.encode(),
    "too deep.py": b"import jax\nx = " + b"(" * 5000 + b")" * 5000 + b"\n",
    "bad.ipynb": b'{"cells": [',
}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "tree"
    root.mkdir()
    monkeypatch.chdir(root)
    return root


def contents(root: Path) -> dict[bytes, bytes]:
    return dict(_files(os.fsencode(root)))


def _files(root: bytes) -> Iterator[tuple[bytes, bytes]]:
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                with open(path, "rb") as file:
                    yield path, file.read()


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result.exit_code, result.stdout


def test_what_has_no_site_stays_byte_by_byte(tree: Path) -> None:
    for name, data in QUIET.items():
        (tree / name).write_bytes(data)
    before = contents(tree)
    for options in (["check"], ["check"], ["check", "--no-cache"], ["apply", "--dry-run"]):
        code, text = run(*options, ".")
        assert code == 0, (options, text)
    assert run("apply", "--dry-run", ".")[1] == "" and contents(tree) == before


def test_what_cannot_be_read_is_told_and_the_rest_goes_on(tree: Path) -> None:
    for name, data in UNREADABLE.items():
        (tree / name).write_bytes(data)
    (tree / "loop.py").write_text(LOOP)
    before = contents(tree)
    code, text = run("check", "-q", ".")
    assert code == 2 and text.startswith("loop.py:6:12 vmapify")
    assert {name for name in UNREADABLE if f"{name}:" in text} == set(UNREADABLE)
    assert "failed on this file" not in text
    code, text = run("apply", "--dry-run", ".")
    assert code == 2 and text.startswith("--- a/loop.py\n+++ b/loop.py\n") and contents(tree) == before


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("head", [b"", b"\xef\xbb\xbf", b"# coding: latin-1\n# caf\xe9\n"])
def test_what_is_found_in_odd_files_leaves_the_other_bytes_alone(tree: Path, end: str, head: bytes) -> None:
    (tree / "a b.py").write_bytes(head.replace(b"\n", end.encode()) + LOOP.replace("\n", end).rstrip(end).encode())
    before = contents(tree)
    code, text = run("apply", "--dry-run", ".")
    assert (code, bool(text)) == (1, True) and contents(tree) == before


def test_links_that_go_round_and_names_that_are_no_text(tree: Path) -> None:
    (tree / "loop.py").write_text(LOOP)
    (tree / "round").symlink_to(tree)
    (tree / "itself.py").symlink_to("itself.py")
    (tree / "gone.py").symlink_to("nowhere.py")
    try:
        with open(os.fsencode(tree) + b"/\xff\xfe.py", "wb") as file:
            file.write(LOOP.encode())
    except OSError:
        pytest.skip("names are text here")
    code, text = run("check", "--format", "json", ".")
    assert code == 1 and text.count('"codemod": "vmapify"') == 2
    assert run("check", "-q", "itself.py")[0] == 2


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_file_and_a_folder_that_may_not_be_read(tree: Path) -> None:
    (tree / "loop.py").write_text(LOOP)
    (tree / "closed.py").write_text(LOOP)
    (tree / "closed.py").chmod(0)
    (tree / "shut").mkdir(0)
    code, text = run("check", "-q", ".")
    (tree / "shut").chmod(0o700)
    assert code == 2 and "closed.py:1:1: error: cannot be opened" in text and "loop.py:6:12 vmapify" in text


def test_a_polite_kill_is_no_mistake_of_the_codemod_at_hand(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import jax\n")
    killed = "import os, signal\nfrom importlib.metadata import EntryPoint\n"
    killed += "EntryPoint.load = lambda self: os.kill(os.getpid(), signal.SIGTERM)\n"
    run = [sys.executable, "-c", killed + "from jitmod.cli.main import main\nmain()\n", "check", "--no-cache", "."]
    ended = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (ended.returncode, ended.stdout, ended.stderr) == (128 + signal.SIGTERM, "", "")
