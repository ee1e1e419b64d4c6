"""What a call shows is heard on every channel, in order."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jitmod.trial.child import capture, logs
from jitmod.trial.child.finder import Tree

Routers = tuple[capture.Router, capture.Router]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Routers]:
    """Installs routers until the test ends; pytest puts its own streams in place between a fixture and its test."""

    def start() -> Routers:
        for name in ("handle", "isEnabledFor"):
            monkeypatch.setattr(logging.Logger, name, getattr(logging.Logger, name))
        for owner, name in ((sys, "stdout"), (sys, "stderr"), (sys, "__stdout__"), (sys, "__stderr__"), (os, "write")):
            monkeypatch.setattr(owner, name, getattr(owner, name))
        return capture.install()

    return start


@pytest.fixture
def tree() -> Tree:
    here = str(Path(__file__).parent)
    return Tree(here, here, {})


def test_channels_share_one_order(install: Callable[[], Routers], tree: Tree) -> None:
    routers = install()
    logger = logging.getLogger("jitmod-test")
    handler = logging.StreamHandler(sys.stderr)  # bound before the call, as at import
    logger.addHandler(handler)
    with capture.shown(routers, tree) as seen:
        print("one")
        logger.warning("two")
        warnings.warn("three", stacklevel=1)
        print("four", end="")
    logger.removeHandler(handler)
    assert seen.lines == [("stdout", "one"), ("stderr", "two"), ("warning", "UserWarning: three"), ("stdout", "four")]


def test_a_recording_inside_another_that_shows_the_same(install: Callable[[], Routers], tree: Tree) -> None:
    routers = install()
    with capture.shown(routers, tree) as outer:
        with capture.muted(routers) as inner:
            capture.emit("bar", "inner")
        capture.emit("bar", "outer")
        with capture.muted(routers):
            capture.emit("bar", "outer")
        capture.emit("bar", "after")
    assert inner.lines == [("bar", "inner")]
    assert outer.lines == [("bar", "outer"), ("bar", "after")]


def test_progress_bars_do_not_count(install: Callable[[], Routers], tree: Tree) -> None:
    routers = install()
    with capture.shown(routers, tree) as seen:
        for step in range(3):
            print(f"\r{step}/3", end="", file=sys.stderr)
        print(file=sys.stderr)
        print("done\r\n", end="")
        print("\r2/3", end="")
        print(" loss 0.5")
    assert seen.lines == [("stdout", "done"), ("stdout", " loss 0.5")]


def test_warnings_of_libraries_are_a_set(install: Callable[[], Routers], tree: Tree) -> None:
    routers = install()
    library: dict[str, Any] = {}
    code = "def warn(n):\n    __import__('warnings').warn(f'value {n}', stacklevel=2)"
    exec(compile(code, "/usr/lib/library.py", "exec"), library)
    with capture.shown(routers, tree) as seen:
        for number in range(3):
            library["warn"](number)  # laid to this line, and still the library's
        warnings.warn("mine", stacklevel=3)
    assert seen.lines == [("warning", "UserWarning: mine")]
    assert seen.library_warnings == {("UserWarning", "value #")}


def test_compile_logs_of_jax_do_not_count(install: Callable[[], Routers], tree: Tree) -> None:
    routers = install()
    root = logging.getLogger()
    handler = logging.StreamHandler(sys.stdout)
    root.addHandler(handler)
    with capture.shown(routers, tree) as seen:
        logging.getLogger("jax._src.dispatch").warning("Finished tracing")
        logging.getLogger("app").warning("mine")
    root.removeHandler(handler)
    assert seen.lines == [("stdout", "mine")]


def test_records_that_nobody_has_asked_for(install: Callable[[], Routers], tree: Tree) -> None:
    routers = install()
    logs.listen(tree)
    logger = logging.getLogger("jitmod-asked")
    adapter = logging.LoggerAdapter(logger, {})
    handler = logging.StreamHandler(sys.stderr)
    logger.addHandler(handler)
    logger.info("before")
    with capture.shown(routers, tree) as seen:
        logger.info("loss %.1f", 0.5, extra={"step": 3})
        logger.debug("%d", "no number")
        adapter.debug("by an adapter")
        assert not logger.isEnabledFor(logging.INFO) and not adapter.isEnabledFor(logging.INFO)
        logger.handle(logging.makeLogRecord({"msg": "handed on", "levelno": logging.INFO}))
        logger.error("shown")
    logger.removeHandler(handler)
    assert seen.lines == [
        ("log", "INFO jitmod-asked: loss 0.5 step=3"),
        ("log", "DEBUG jitmod-asked: ('%d', ('no number',))"),
        ("log", "DEBUG jitmod-asked: by an adapter"),
        ("stderr", "handed on"),
        ("log", "ERROR jitmod-asked: shown"),
        ("stderr", "shown"),
    ]


@pytest.mark.skipif(not Path("/dev/stderr").exists(), reason="there is no such file")
def test_descriptors_that_are_opened_by_name(install: Callable[[], Routers], tree: Tree) -> None:
    routers = install()
    with capture.shown(routers, tree) as seen:
        for name in ("/dev/stderr", 2):
            with open(name, "w", closefd=name != 2) as file:
                file.write("said\n")
    assert seen.lines == [("stderr", "said"), ("stderr", "said")]


def test_ways_around_the_streams(install: Callable[[], Routers], tree: Tree) -> None:
    routers = install()
    forked = "import os, sys; print('program'); print('problem', file=sys.stderr)"
    with capture.shown(routers, tree) as seen:
        print("one", end="")
        os.write(1, b" two\n")
        sys.stdout.buffer.write(b"three\n")
        print("four", file=sys.__stdout__)
        os.write(2, b"five\n")
        subprocess.run([sys.executable, "-c", forked], check=True)
        if (worker := os.fork()) == 0:
            os.write(1, b"worker\n")
            os._exit(0)
        os.waitpid(worker, 0)
        with open("/dev/stdout", "a") as file:
            file.write("file\n")
        print("six", end="")
    lines = [line for line in seen.lines if line[0] != "warning"]  # jax warns where it has threads
    assert lines[:5] == [("stdout", "one two"), ("stdout", "three"), ("stdout", "four"), ("stderr", "five"),
                         ("stdout", "six")]  # fmt: skip
    assert lines[5:] == [("stdout", "file"), ("stdout", "program"), ("stdout", "worker"), ("stderr", "problem")]


def test_xla_speaks_as_often_as_it_compiles(install: Callable[[], Routers], tree: Tree) -> None:
    routers = install()
    write = os.write
    with capture.shown(routers, tree) as seen:
        os.writev(2, [b"very slow compile\n"])
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        os.writev(2, [b"E1130 10:53:49.1 alarm.cc:65] very slow\n", b"said\n"])
    assert seen.lines == [("stderr", "said")] and os.write is write
