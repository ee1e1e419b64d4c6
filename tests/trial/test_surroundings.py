"""What a call leaves changed in the process, outside of the project's own objects, is an effect of it."""

from __future__ import annotations

import atexit
import decimal
import gc
import io
import locale
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from jitmod.trial.child import outside, parity, surroundings
from jitmod.trial.child.finder import Tree
from jitmod.trial.child.program import Observation
from jitmod.trial.child.state import ProcessState

from .planted.bench import Trials, trials

__all__ = ["trials"]
_ended = threading.Event()
EXITS = "functions registered with atexit"

CHANGES: dict[str, tuple[Callable[[], Any], str]] = {
    "os.environ['STEP']": (lambda: os.environ.update(STEP="1"), "'1'"),
    "current folder": (lambda: os.chdir(".."), "'..'"),
    "umask": (lambda: os.umask(0o011), "9"),
    "random.getstate()": (random.random, "SHA-256"),
    "np.random.get_state()": (np.random.rand, "SHA-256"),
    "handler of SIGTERM": (lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN), "SIG_IGN"),
    "decimal.getcontext()": (lambda: setattr(decimal.getcontext(), "prec", 7), "prec=7"),
    "gc.isenabled()": (gc.disable, "False"),
    "gc.get_threshold()": (lambda: gc.set_threshold(701), "(701, "),
    "sys.getswitchinterval()": (lambda: sys.setswitchinterval(0.004), "0.004"),
    "sys.path": (lambda: sys.path.append("/opt/extra"), "/opt/extra"),
    "sys.stdout": (lambda: setattr(sys, "stdout", io.StringIO()), "StringIO"),
    "sys.excepthook": (lambda: setattr(sys, "excepthook", print), "builtins.print"),
    "logger mine": (lambda: logging.getLogger("mine").addHandler(logging.NullHandler()), "NullHandler(0, None)"),
    "logger root": (lambda: logging.getLogger().setLevel(7), "(7, True"),
    "warnings.filters": (lambda: warnings.simplefilter("ignore", ImportWarning), "builtins.ImportWarning"),
    "jax.config.jax_debug_nans": (lambda: jax.config.update("jax_debug_nans", True), "True"),
    "locale": (lambda: locale.setlocale(locale.LC_TIME, "C.UTF-8"), "UTF-8"),
    EXITS: (lambda: atexit.register(len, ()), "+1"),
    "threads left running": (lambda: threading.Thread(target=_ended.wait, name="audit 7").start(), "audit #"),
}


@pytest.fixture
def restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    state, python, host = ProcessState.capture(), random.getstate(), np.random.get_state()
    yield
    state.restore()
    random.setstate(python)
    np.random.set_state(host)
    _ended.set()


@pytest.mark.usefixtures("restored")
def test_changes_are_named_and_taken_back(tmp_path: Path) -> None:
    state, before = ProcessState.capture(), surroundings.now(str(tmp_path))
    assert surroundings.changes(before, surroundings.now(str(tmp_path))) == {}
    assert decimal.Decimal(1) / 3 < 1  # flags an operation as inexact
    assert surroundings.changes(before, surroundings.now(str(tmp_path))) == {}
    for change, _ in CHANGES.values():
        change()
    found = surroundings.changes(before, surroundings.now(str(tmp_path)))
    state.restore()
    assert found.keys() == CHANGES.keys()
    for name, (_, said) in CHANGES.items():
        assert said in found[name], name
    left = surroundings.changes(before, surroundings.now(str(tmp_path)))
    assert left.keys() == {"random.getstate()", "np.random.get_state()", "threads left running", EXITS}


@pytest.mark.parametrize(
    ("one", "again", "got", "loads", "differs"),
    [
        ({"umask": "9"}, {"umask": "9"}, {"umask": "9"}, False, False),
        ({"umask": "9"}, {"umask": "9"}, {}, True, True),
        ({"umask": "9"}, {"umask": "9"}, {"umask": "8"}, False, True),
        ({}, {}, {"umask": "9"}, True, True),
        ({"umask": "9"}, {"umask": "8"}, {}, False, False),  # it varies from run to run
        ({EXITS: "+1"}, {}, {}, False, False),  # once a process
        ({}, {}, {EXITS: "+1"}, False, True),
        ({}, {}, {EXITS: "+1"}, True, False),  # a library that is imported now
        ({}, {}, {EXITS + surroundings.LOADING: "+1"}, True, True),  # it was not when that happened
    ],
)
def test_what_both_runs_of_the_baseline_do_counts(one: Any, again: Any, got: Any, loads: bool, differs: bool) -> None:
    calls = [Observation(process=process) for process in (one, again)]
    reference = parity.Reference((calls[0],), (calls[1],), 1.0, None)
    failure = reference.judge(0, Observation(process=got, loads=loads)).failure
    assert (failure is not None and failure["test"] == "effects") is differs


def test_programs_and_connections_of_the_project(tmp_path: Path) -> None:
    here = Tree(str(Path(__file__).parent), str(tmp_path), {})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        with outside.listening(here) as found:
            subprocess.run(["true", "loss=0.25"], check=True)
            sender.sendto(b"", ("127.0.0.1", 9))
        with outside.listening(Tree(str(tmp_path), str(tmp_path), {})) as of_others:
            sender.sendto(b"", ("127.0.0.1", 9))
    said = "subprocess.Popen ['true', 'loss=#'], socket.sendto ('127.0.0.1', 9)"
    assert found == {"programs and connections": said} and of_others == {}


STEPS = """\
import os
import random
import threading

import jax
import jax.numpy as jnp
import numpy as np


END = threading.Event()


def audit(x):
    return [float(jnp.sin(x * k).sum()) for k in range(40)]


def steps(x, rep):
    random.random()
    os.environ["STEP"] = str(rep)
    out = [jnp.tanh(x + number) * np.random.rand() for number in range(4)]
    audit(x)
    return jnp.stack(out)
"""
RIGHT = STEPS.replace("[jnp.tanh(x + number) *", "[(jnp.tanh(x) if number == 0 else jnp.tanh(x + number)) *")
WRONG = {
    "np.geterr(), when it is loaded": ("import numpy as np\n", "import numpy as np\n\nnp.seterr(all='ignore')\n"),
    "random.getstate()": ("    random.random()\n", ""),
    "os.environ['STEP']": ("str(rep)", "'0'"),
    "np.random.get_state()": ("    audit(x)", "    np.random.rand(1)"),
    "threads left running": ("    audit(x)", "    threading.Thread(target=END.wait, daemon=True).start()"),
}


@pytest.mark.parametrize("name", [None, *WRONG])
def test_what_a_candidate_leaves_changed(name: str | None, trials: Trials) -> None:
    bench = "import jax.numpy as jnp\n\nfrom items import steps\n\nX = jnp.linspace(0.0, 1.0, 5)\n\n\n"
    trials.write({"items.py": STEPS, "bench.py": bench + "def run(rep):\n    return steps(X, rep)\n"})
    text = RIGHT if name is None else RIGHT.replace(*WRONG[name])
    _, found = trials.explore({"items.py": text}, setup=None)
    if name == "threads left running":  # such a project has a process for each arm
        assert found["apart"].startswith("the candidate starts threads")
        return
    failure = found["parity"]["failure"]
    assert (failure and failure["path"]) == name
