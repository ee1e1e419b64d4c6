"""A program is stopped once every site was seen with calls enough: as Ctrl-C does it, and harder if need be."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jitmod.model import Patch, Refusal, Site
from jitmod.source.project import Project
from jitmod.trial.child import record_probes
from jitmod.trial.child.record_log import Log
from jitmod.trial.recording import run as running
from jitmod.trial.recording.command import parse
from jitmod.trial.recording.run import RecordedRun
from jitmod.trial.recording.targets import targets

HEAD = """\
    import atexit, itertools, sys, time

    def f(xs):
        return [x for x in xs]

    def g(xs):
        return [x for x in xs]

    """


@pytest.fixture
def stopped(write: Callable[..., None], tmp_path: Path, state: Path) -> Callable[[str], RecordedRun]:
    """Record a script that has a patch in `f`, and a refusal that no recording lifts in `g`, with `stop`."""

    def run(body: str) -> RecordedRun:
        write({"main.py": HEAD.rstrip(" ") + "    " + body.lstrip(" ")})
        project = Project.build(tmp_path, ["main.py"])
        findings = [
            Patch("x", Site("main.py", 4, 12, 4, "f"), "m", ()),
            Refusal("x", Site("main.py", 7, 12, 7, "g"), "carried-state", "m"),
        ]
        command = parse([sys.executable, str(tmp_path / "main.py")], Path(sys.executable))
        watched = targets(project, tmp_path, findings)
        return running.record(command, watched, root=tmp_path, state=state, stop=True)

    return run


def test_stops_after_three_distinct_calls_and_lets_the_program_tidy_up(
    stopped: Callable[[str], RecordedRun], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    done = stopped("""\
    atexit.register(lambda: print("atexit"))
    try:
        for n in itertools.count():
            f([n // 2])
            print("call", n)
    finally:
        open(sys.path[0] + "/tidy", "w").write("done")
    """)
    assert done.stopped and not done.interrupted and (tmp_path / "tidy").read_text() == "done"
    assert done.recording is not None
    f = done.recording.functions["main.py", "f"]
    assert (f.entries, len(f.calls)) == (5, 3)
    captured = capfd.readouterr()
    assert captured.out == "", "stdout is for jitmod's own results"
    assert captured.err == "call 0\ncall 1\ncall 2\ncall 3\natexit\n", "no traceback of the stop"


def test_calls_that_stay_the_same_are_enough_after_a_while(stopped: Callable[[str], RecordedRun]) -> None:
    done = stopped("for n in itertools.count():\n        f([1])\n")
    assert done.stopped and done.recording is not None
    f = done.recording.functions["main.py", "f"]
    assert len(f.calls) == 1 and 20 < f.entries < 100


def test_a_program_that_ends_before_is_not_stopped(stopped: Callable[[str], RecordedRun]) -> None:
    done = stopped("f([1])\n    sys.exit(3)\n")
    assert (done.stopped, done.status) == (False, 3)
    assert done.recording is not None and len(done.recording.functions["main.py", "f"].calls) == 1


def test_a_program_that_will_not_stop_is_ended(
    stopped: Callable[[str], RecordedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    graces = tuple((0.5, signal) for _, signal in running._GRACES)
    monkeypatch.setattr(running, "_GRACES", graces)
    done = stopped("""\
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        try:
            for n in itertools.count():
                f([n])
                time.sleep(0.01)
        except KeyboardInterrupt:
            pass
    """)
    assert done.stopped and done.status == 128 + 9
    assert done.recording is not None and len(done.recording.functions["main.py", "f"].calls) == 3


def test_only_sites_that_a_recording_can_help_are_waited_for(stopped: Callable[[str], RecordedRun]) -> None:
    done = stopped("for n in range(5):\n        f([n])\n    g([1])\n")
    assert done.stopped and done.recording is not None
    assert ("main.py", "g") not in done.recording.functions


@pytest.mark.parametrize(
    ("parameters", "patience", "enough"),
    [
        pytest.param(["xs"], 1e9, False, id="another call is waited for"),
        pytest.param(["xs"], 0.0, True, id="but not for ever"),
        pytest.param([], 1e9, True, id="a call without arguments has no like"),
    ],
)
def test_one_call_can_be_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parameters: list[str], patience: float, enough: bool
) -> None:
    monkeypatch.setattr(record_probes, "_PATIENCE", patience)
    about = {
        "number": 0, "file": "x.py", "code_line": 1, "name": "f", "store": True, "awaited": True, "unreachable": "",
        "parameters": parameters, "positional": len(parameters), "bound": 0, "vararg": False, "keywords": [],
        "kwarg": False,
    }  # fmt: skip
    asked: list[bool] = []
    recorder = record_probes.Recorder(
        [about], [], 0, str(tmp_path), Log(tmp_path), record_probes.Limits(3, 2**20, 2**20), lambda frame: None, dict,
        (), lambda: asked.append(True),
    )  # fmt: skip

    def f() -> None:
        recorder.enter(0, tuple([1] for _ in parameters))

    f()
    f()
    assert asked == [True] * enough
