"""Scans without a trial: the same findings from one process or several, kept or not, whichever files are read."""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy import Toy

from jitmod.delivery import engine, results
from jitmod.delivery.preview import Wanted, find, preview
from jitmod.delivery.queue import Preview
from jitmod.delivery.untried import Asked, diff, findings
from jitmod.model import Finding, Patch
from jitmod.rewrite import codemod
from jitmod.rewrite.codemod import Codemod, select
from jitmod.source.document import Document
from jitmod.source.files import discover
from jitmod.source.project import Project

MODEL = """
    import equinox as eqx
    import jax

    class Net(eqx.Module):
        layer: eqx.nn.Linear

        def __call__(self, x):
            return jax.nn.relu(self.layer(x))
"""
LOOP = """
    import jax.numpy as jnp

    from net import Net

    def predict(net: Net, crops: jnp.ndarray):
        return [net(crop) for crop in crops]
"""
HELPER = """
    def each(f, xs):
        out = []
        for x in xs:
            out.append(f(x))
        return out
"""
MAIN = """
    import jax.numpy as jnp

    from helper import each
    from net import Net

    def main(net: Net):
        return each(net, jnp.ones((4, 3)))
"""
PLAIN = {f"plain/p{n}.py": f"def f{n}(xs):\n    return [x + {n} for x in xs]\n" for n in range(12)}
FILES = {"net.py": MODEL, "loop.py": LOOP, "helper.py": HELPER, "main.py": MAIN, **PLAIN}


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "app"
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(textwrap.dedent(text))
    return Asked(root, (".",), (), ("all",), load, processes=1)


def load() -> tuple[Codemod, ...]:
    return tuple(select("all"))


def of_the_whole(asked: Asked) -> tuple[Preview, Preview]:
    """What a scan finds that reads every file, in one process, with analyses that all files share."""
    paths = discover(asked.root, [asked.root])
    wanted, project = Wanted(load(), tuple(paths)), Project.build(asked.root, paths)
    return find(wanted, project), preview(wanted, project)


def test_every_way_gives_the_same(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    found, whole = of_the_whole(asked)
    assert any(isinstance(entry.outcome.finding, Patch) for entry in found.entries) and whole.diff
    monkeypatch.setattr(engine, "_GROUP", 2)
    monkeypatch.setattr(engine, "_WORTH_PROCESSES", 0)
    monkeypatch.setattr(engine, "_can_fork", lambda: True)
    for processes in (1, 3):
        fresh = replace(asked, keeps_results=False, processes=processes)
        assert findings(fresh) == found and diff(fresh) == whole
    assert findings(asked) == found == findings(asked)
    assert diff(asked) == whole == diff(asked)


def test_what_is_known_is_not_searched(asked: Asked) -> None:
    found = findings(asked)

    def never() -> tuple[Codemod, ...]:
        raise AssertionError("a codemod is loaded")

    assert findings(replace(asked, load=never)) == found
    with pytest.raises(AssertionError, match="loaded"):
        findings(replace(asked, load=never, codemods=("vmapify",)))
    with pytest.raises(AssertionError, match="loaded"):
        findings(replace(asked, load=never, only_safe=True))
    with pytest.raises(AssertionError, match="loaded"):
        diff(replace(asked, load=never))


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("net.py", "eqx.Module", "object"),
        ("net.py", "return jax", "print(x)\n        return jax"),
        ("main.py", "return each", "net = 3\n    return each"),
        ("plain/p0.py", "x + 0", "(x +"),
    ],
)
def test_a_change_of_one_file_is_seen_in_the_others(asked: Asked, path: str, old: str, new: str) -> None:
    before = findings(asked)
    file = asked.root / path
    file.write_text(file.read_text().replace(old, new))
    after, _ = of_the_whole(asked)
    assert findings(asked) == after and after != before
    assert findings(asked) == findings(replace(asked, keeps_results=False))


def test_what_a_mistake_of_jitmod_left_out_is_not_kept(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = of_the_whole(asked)

    def lacking(*_: object) -> Preview:
        raise MemoryError

    with monkeypatch.context() as short:
        short.setattr("jitmod.delivery.preview.find", lacking)
        assert not findings(asked).entries
    assert findings(asked) == whole


def test_a_recording_that_comes_in_between_is_not_kept_under_the_name_without_it(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = iter([[], ["a recording"]])
    monkeypatch.setattr("jitmod.delivery.untried._recorded", lambda _: next(seen))
    findings(asked)
    assert not asked.folder.exists() or not list(asked.folder.iterdir())


def test_a_new_and_a_lost_file_are_seen(asked: Asked) -> None:
    before = findings(asked)
    (asked.root / "more.py").write_text(textwrap.dedent(LOOP))
    more = findings(asked)
    assert {entry.outcome.finding.site.path for entry in more.entries} > {"more.py"}
    (asked.root / "more.py").unlink()
    assert findings(asked) == before


def test_damaged_and_foreign_results_are_not_used(asked: Asked) -> None:
    found = findings(asked)
    (kept,) = asked.folder.iterdir()
    good = kept.read_bytes()
    for bad in (b"", good[:50], good[:-1] + b"x", b"\0" * 32 + good[32:]):
        kept.write_bytes(bad)
        assert results.load(asked.folder, kept.name) is None
        assert findings(asked) == found
    harmful = pickle.dumps(os.getcwd)
    kept.write_bytes(hashlib.sha256(harmful).digest() + harmful)
    assert results.load(asked.folder, kept.name) is None
    kept.unlink()
    kept.mkdir()
    assert findings(asked) == found


def test_a_folder_that_cannot_be_written_is_done_without(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    (asked.root / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(asked.root / "file" / "below"))
    assert findings(asked) == of_the_whole(asked)[0]


def test_many_at_once_disturb_each_other_in_nothing(asked: Asked) -> None:
    found = findings(asked)
    name = next(asked.folder.iterdir()).name
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda _: results.store(asked.folder, name, found), range(40)):
            kept = results.load(asked.folder, name)
            assert kept is None or kept == found
    assert [entry.name for entry in asked.folder.iterdir()] == [name]


def test_what_was_not_used_for_longest_makes_room(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    found = findings(asked)
    (first,) = asked.folder.iterdir()
    size = first.stat().st_size
    monkeypatch.setattr(results, "_LIMIT", 3 * size)
    for number in range(5):
        os.utime(first)
        time.sleep(0.01)
        results.store(asked.folder, f"{number}", found)
    left = {entry.name for entry in asked.folder.iterdir()}
    assert len(left) <= 3 and "4" in left and "0" not in left


def test_a_codemod_of_ones_own_sees_every_file_and_nothing_is_kept(asked: Asked) -> None:
    (asked.root / "plain/p0.py").write_text("def f(x):\n    return slow(x)\n")
    own = replace(asked, load=lambda: (Toy(),), codemods=("toy",))
    assert [e.outcome.finding.site.path for e in findings(own).entries] == ["plain/p0.py"]
    assert not asked.folder.exists() or not list(asked.folder.iterdir())


def test_a_process_that_dies_leaves_its_work_to_this_one(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    here, do = os.getpid(), engine._Work.do

    def dying(work: engine._Work, task: engine.Task) -> Preview:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return do(work, task)

    monkeypatch.setattr(engine._Work, "do", dying)
    monkeypatch.setattr(engine, "_GROUP", 2)
    monkeypatch.setattr(engine, "_WORTH_PROCESSES", 0)
    monkeypatch.setattr(engine, "_can_fork", lambda: True)
    assert findings(replace(asked, keeps_results=False, processes=2)) == of_the_whole(asked)[0]


def test_a_process_that_dies_before_all_work_was_given(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[engine.Task] = []

    def broken(pool: ProcessPoolExecutor, do: Any, task: engine.Task) -> Any:
        given.append(task)
        raise BrokenProcessPool("a process died")

    monkeypatch.setattr(ProcessPoolExecutor, "submit", broken)
    monkeypatch.setattr(engine, "_GROUP", 2)
    monkeypatch.setattr(engine, "_WORTH_PROCESSES", 0)
    monkeypatch.setattr(engine, "_can_fork", lambda: True)
    assert findings(replace(asked, keeps_results=False, processes=2)) == of_the_whole(asked)[0] and given


def test_an_interrupt_ends_all_processes(asked: Asked) -> None:
    for number in range(150):
        (asked.root / f"l{number}.py").write_text(textwrap.dedent(LOOP) * 20)
    code = "from jitmod.delivery import engine as e; e._WORTH_PROCESSES = 0; e._GROUP = 2\n"
    code += "from jitmod.cli.main import main; main()"
    run = [sys.executable, "-c", code, "check", "--no-cache", str(asked.root)]
    with subprocess.Popen(run, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while not _members(process.pid) - {process.pid} and time.monotonic() < deadline:
            time.sleep(0.05)
        assert _members(process.pid) - {process.pid}, "no process was begun"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
        assert process.returncode == 130 and b"Traceback" not in told
        while _members(process.pid) and time.monotonic() < deadline + 60:
            time.sleep(0.05)
        assert not _members(process.pid)


def _members(group: int) -> set[int]:
    """The running processes of a group."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                found.add(int(entry.name))
    return found


class Failing(Toy):
    """A codemod of jitmod's own that has a mistake."""

    def find(self, document: Document, project: Project) -> Iterator[Finding]:
        if document.path == "loop.py":
            raise KeyError("oops")
        yield from super().find(document, project)


def test_a_mistake_of_jitmod_costs_one_file(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codemod, "is_ours", lambda _: True)
    (asked.root / "main.py").write_text("import jax\n\ndef f(x):\n    return slow(x)\n")
    found = findings(replace(asked, load=lambda: (Failing(),), codemods=("toy",), keeps_results=False))
    assert [(error.path, "KeyError: 'oops'" in error.message) for error in found.errors] == [("loop.py", True)]
    assert [entry.outcome.finding.site.path for entry in found.entries] == ["main.py"]
