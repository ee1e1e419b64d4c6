"""A recorded program is the plain program: the same output, the same end; and what it did is kept whatever the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jitmod.model import Refusal, Site
from jitmod.source.project import Project
from jitmod.source.recording import load_all
from jitmod.trial.recording.command import parse
from jitmod.trial.recording.run import record
from jitmod.trial.recording.targets import targets

from .conftest import Run

LIB = """\
    def total(items, scale=1, *rest, flag=False, **named):
        '''A docstring.'''
        result = 0
        for item in items:
            result += item * scale
        return result + sum(rest)


    class Adder:
        def __init__(self, start):
            self.start = start
            for _ in range(2):
                pass

        def add(self, items):
            return [self.start + item for item in items]

        @classmethod
        def of(cls, values):
            return [cls(value) for value in values]

        @staticmethod
        def twice(values):
            return [2 * value for value in values]

        @property
        def several(self):
            return [self.start for _ in range(3)]
    """
USES = """\
    import sys
    from lib import Adder, total

    print(sys.argv, __name__, sys.path[0], __file__, sys.modules["__main__"].total is total)
    print(total([1, 2, 3]), total([1, 2], 2, 5, flag=True, other="x"))
    adder = Adder(3)
    print(adder.add([1]), [a.start for a in Adder.of([7])], Adder.twice([2]), adder.several)
    print("to stderr", file=sys.stderr)
    """


def _ending(text: str) -> str:
    return USES.rstrip(" ") + f"    {text}\n"


ENDS = {
    "falls off the end": "pass",
    "exits with a status": "sys.exit(3)",
    "exits with words": "sys.exit('no more')",
    "raises": "total(None)",
    "raises from a cause": "try: {}['x']\n    except KeyError as e: raise ValueError('y') from e",
    "ends at once": "sys.stdout.flush(); import os; os._exit(4)",
    "is killed": "sys.stdout.flush(); import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "is interrupted": "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
    "has its own hook": "sys.excepthook = lambda *a: print('hook', a[0], a[2].tb_lineno); 1 / 0",
    "closes its streams": "sys.stdout.close()",
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
def test_same_output_same_end_and_all_calls_kept(
    write: Callable[..., None], plain: Callable[..., Run], recorded: Callable[..., Run], end: str
) -> None:
    write({"lib.py": LIB, "main.py": _ending(end)})
    one, two = plain("python", "main.py", "a", "-b"), recorded("python", "main.py", "a", "-b")
    status = one.status if one.status >= 0 else 128 - one.status
    assert (two.out, two.err, two.status) == (one.out, one.err, status)
    assert two.recording is not None
    calls = {name: len(f.calls) for (_, name), f in two.recording.functions.items()}
    once = {f"Adder.{name}": 1 for name in ("add", "of", "twice", "several")}
    assert calls == {"total": 2 + end.count("total"), "Adder.__init__": 2, **once}


PROGRAMS = {
    "module": ["python", "-m", "pack.tool", "x"],
    "package": ["python", "-m", "pack", "x"],
    "code": ["python", "-c", "import lib, sys; print(sys.argv, lib.total([1]), sys.path[0] == '')", "x"],
    "unbuffered, with a warning filter": ["python", "-u", "-W", "error", "main.py"],
    "isolated": ["python", "-I", "alone.py"],
    "missing file": ["python", "nothing.py"],
    "missing module": ["python", "-m", "nothing"],
    "syntax error": ["python", "broken.py"],
}


@pytest.mark.parametrize("words", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_every_way_to_start_a_program(
    write: Callable[..., None], plain: Callable[..., Run], recorded: Callable[..., Run], words: list[str]
) -> None:
    tool = "from .inner import show\nimport sys\nprint(sys.argv, __name__, __spec__.name, __package__)\nshow([1, 2])\n"
    write({
        "lib.py": LIB, "main.py": USES, "pack/__init__.py": "", "pack/tool.py": tool, "pack/__main__.py": tool,
        "pack/inner.py": "def show(values):\n    for value in values:\n        print(value)\n",
        "alone.py": "import sys\n\ndef f(xs):\n    return [x for x in xs]\n\nprint(f([1]), sys.path)\n",
        "broken.py": "def f(:\n",
    })  # fmt: skip
    one, two = plain(*words), recorded(*words)
    assert (two.out, two.err, two.status) == (one.out, one.err, one.status)
    if one.status == 0:
        assert two.recording is not None and any(f.calls for f in two.recording.functions.values())


def test_pytest_of_a_project(
    write: Callable[..., None], plain: Callable[..., Run], recorded: Callable[..., Run]
) -> None:
    test = """\
        from lib import total

        def test_one():
            for n in range(5):
                assert total([n]) == n

        def test_two():
            assert total([1]) == 2, "wrong"
        """
    write({"lib.py": LIB, "test_lib.py": test})
    words = ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "one or two"]
    one, two = plain(*words), recorded(*words)
    strip = [line.rpartition(" in ")[0] or line for line in one.out.splitlines()]
    assert [line.rpartition(" in ")[0] or line for line in two.out.splitlines()] == strip
    assert one.status == two.status == 1
    assert two.recording is not None
    assert len(two.recording.functions["lib.py", "total"].calls) == 3


def test_forked_workers_leave_the_recording_alone(
    write: Callable[..., None], plain: Callable[..., Run], recorded: Callable[..., Run]
) -> None:
    text = """\
        import multiprocessing
        from lib import total

        if __name__ == "__main__":
            with multiprocessing.get_context("fork").Pool(2) as pool:
                print(sum(pool.map(total, [[n] for n in range(20)])))
            print(total([100]))
        """
    write({"lib.py": LIB, "main.py": text})
    one, two = plain("python", "main.py"), recorded("python", "main.py")
    assert (two.out, two.err, two.status) == (one.out, one.err, one.status)
    assert two.recording is not None
    function = two.recording.functions["lib.py", "total"]
    assert (function.entries, len(function.calls)) == (1, 1)


def test_an_interrupt_from_outside_keeps_what_was_seen(write: Callable[..., None], tmp_path: Path, state: Path) -> None:
    write({"main.py": "import time\n\ndef f(xs):\n    return [x for x in xs]\n\nf([1])\nprint('up', flush=True)\n"
                      "time.sleep(60)\n"})  # fmt: skip
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    code = f"from conftest import main; main({str(tmp_path)!r}, {str(state)!r}, ['python', 'main.py'])"
    child = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path},
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    assert child.stdout is not None and child.stdout.readline() == b"up\n"
    time.sleep(0.1)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does
    assert child.wait(30) == 128 + signal.SIGINT
    (recording,) = load_all(state)
    assert len(recording.functions["main.py", "f"].calls) == 1


def test_the_secrets_of_the_environment_are_not_stored(
    write: Callable[..., None], recorded: Callable[..., Run], state: Path
) -> None:
    text = """\
        import os

        def use(settings):
            return [s for s in settings]

        use([dict(os.environ)])
        use(os.environ)
        use({"token": os.environ["API_TOKEN"]})
        use([os.environ["DATABASE"]])
        use(["harmless"])
        """
    write({"main.py": text})
    done = recorded("python", "main.py", API_TOKEN="hunter2hunter2", DATABASE="postgres://me:pa55word@db/x")
    assert done.recording is not None
    function = done.recording.functions["main.py", "use"]
    assert len(function.calls) == 1
    assert set(function.skipped) == {"holds a secret of the environment", "the environment of the process"}
    stored = b"".join(path.read_bytes() for path in state.rglob("*") if path.is_file())
    assert b"hunter2" not in stored and b"pa55word" not in stored


def test_trips_entries_and_time_of_sites(write: Callable[..., None], tmp_path: Path, state: Path) -> None:
    text = """\
        def f(n):
            for i in range(n):
                if i == 5:
                    break
            return [j for j in range(n)]

        f(3), f(9), f(0)
        """
    write({"main.py": text})
    project = Project.build(tmp_path, ["main.py"])
    places = [Site("main.py", 2, 5, 4, "f"), Site("main.py", 5, 12, 5, "f")]
    watched = targets(project, tmp_path, [Refusal("x", place, "r", "m") for place in places])
    command = parse(["python", str(tmp_path / "main.py")], Path(sys.executable))
    done = record(command, watched, root=tmp_path, state=state, stop=False)
    assert done.recording is not None
    loop, comprehension = done.recording.sites
    assert (loop.entries, loop.steps, loop.longest) == (3, 9, 6)
    assert (comprehension.entries, comprehension.steps, comprehension.longest) == (3, 12, 9)
    assert 0 < loop.seconds < done.recording.seconds


def test_new_structures_take_the_places_of_calls_that_are_alike(
    write: Callable[..., None], recorded: Callable[..., Run]
) -> None:
    text = """\
        def f(xs, scale):
            return [x * scale for x in xs]

        for n in range(6):
            f([n], n)
        f([1, 2], 3)
        f([1, 2, 3], 3)
        f(["a"], 3)
        """
    write({"main.py": text})
    done = recorded("python", "main.py")
    assert done.recording is not None
    function = done.recording.functions["main.py", "f"]
    assert [call.structure for call in function.calls] == [0, 1, 2]
    assert len(list((function.folder / "calls").iterdir())) == 3


def test_threads_share_one_recording(write: Callable[..., None], recorded: Callable[..., Run]) -> None:
    text = """\
        import threading

        def f(xs):
            return [x for x in xs]

        threads = [threading.Thread(target=lambda n=n: [f([n, m]) for m in range(200)]) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        """
    write({"main.py": text})
    done = recorded("python", "main.py")
    assert done.recording is not None
    function = done.recording.functions["main.py", "f"]
    assert len({call.file for call in function.calls}) == len(function.calls) == 3 and not function.skipped


def test_a_file_that_another_hook_loads_is_named(write: Callable[..., None], recorded: Callable[..., Run]) -> None:
    text = """\
        import importlib.machinery, sys

        class Loader(importlib.machinery.SourceFileLoader):
            pass

        class Finder:
            def find_spec(self, name, path, target=None):
                spec = importlib.machinery.PathFinder.find_spec(name, path)
                if name == "lib":
                    spec.loader = Loader(name, spec.origin)
                return spec

        sys.meta_path.insert(0, Finder())
        import lib
        lib.total([1])
        """
    write({"main.py": text, "lib.py": LIB})
    done = recorded("python", "main.py")
    assert done.status == 0 and done.recording is not None
    assert done.recording.foreign == {"lib.py": "__main__.Loader"}
    assert ("lib.py", "total") not in done.recording.functions


def test_a_disk_that_is_full_is_not_the_programs_business(
    write: Callable[..., None], plain: Callable[..., Run], recorded: Callable[..., Run]
) -> None:
    text = """\
        import os, pathlib, sys, time

        def f(xs):
            return [x for x in xs]

        def full(*a, **k):
            raise OSError(28, "No space left on device")

        if len(sys.argv) > 1:
            pathlib.Path.replace = pathlib.Path.write_text = full
        print(f([1]))
        time.sleep(1.1)
        print(f([2]))
        """
    write({"main.py": text})
    one, two = plain("python", "main.py", "x"), recorded("python", "main.py", "x")
    assert (two.out, two.err, two.status) == (one.out, one.err, one.status)


def test_functions_that_a_program_stores_work_where_there_is_no_recorder(
    write: Callable[..., None], plain: Callable[..., Run], recorded: Callable[..., Run]
) -> None:
    pytest.importorskip("cloudpickle")
    text = """\
        import sys
        import cloudpickle

        class Net:
            def score(self, xs):
                out = []
                for x in xs:
                    out.append(x + 1)
                return out, [x * 2 for x in xs], {x: x for x in xs}

        if sys.argv[1] == "save":
            print(Net().score([1]))
            open("net.pkl", "wb").write(cloudpickle.dumps(Net))
        else:
            del Net
            print(cloudpickle.loads(open("net.pkl", "rb").read())().score([1, 2]))
        """
    write({"main.py": text})
    assert recorded("python", "main.py", "save").out == "([2], [2], {1: 1})\n"
    one, two = plain("python", "main.py", "load"), recorded("python", "main.py", "load")
    assert one.out == two.out == "([2, 3], [2, 4], {1: 1, 2: 2})\n" and one.err == two.err == ""
