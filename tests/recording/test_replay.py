"""Recorded calls made again in a world: of the arm's own code, on what the script had made before."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from jitmod.model import Patch, Site
from jitmod.source.project import Project
from jitmod.source.recording import Recorded, current, load_all
from jitmod.trial.child import replay
from jitmod.trial.child.finder import Tree
from jitmod.trial.child.world import World
from jitmod.trial.recording.workload import RecordedWorkload, ScriptWorkload
from jitmod.trial.recording.workload import recorded as choose

from .conftest import Run

Again = Callable[..., list[Any]]


@pytest.fixture
def again(tmp_path: Path, state: Path, recorded: Callable[..., Run]) -> Iterator[Again]:
    """Record a command; then make the calls of the function around a line again, in a world with another text."""

    def run(words: list[str], path: str, line: int, overlay: dict[str, str] | None = None) -> list[Any]:
        recorded(*words)
        workload = _workload(tmp_path, state, path, line)
        texts = {name: dedent(text) for name, text in (overlay or {}).items()}
        world = World(Tree(str(tmp_path), str(tmp_path), texts), replay.shortened(workload, None))
        with world:
            bound = replay.bind(world, workload)
            assert bound is not None
            function, setup = bound
            (calls,) = setup()
            several = len(calls) > 1
            return [function([call] * len(calls), rep=0) if several else function([call]) for call in calls]

    yield run
    for name in list(sys.modules):
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def _known(root: Path, state: Path) -> tuple[Project, Recorded]:
    from jitmod.source.files import discover

    project = Project.build(root, discover(root, [root]))
    return project, current(load_all(state), project.documents)


@pytest.fixture
def script(tmp_path: Path, state: Path, recorded: Callable[..., Run]) -> Callable[..., Any]:
    """Record a command; then run the whole of it again in a world, for the place at a line."""

    def run(words: list[str], path: str, line: int, overlay: dict[str, str] | None = None, **environ: str) -> Any:
        recorded(*words, **environ)
        project, known = _known(tmp_path, state)
        found = choose(Patch("x", Site(path, line, 1, line), "m", ()), project.documents[path], known)
        if not found:
            return None
        assert isinstance(found[0], ScriptWorkload)
        with (world := World(Tree(str(tmp_path), str(tmp_path), overlay or {}))):
            bound = replay.bind(world, asdict(found[0]))
            assert bound is not None and bound[1]() == ()
            assert world is not None
            return bound[0]()

    return run


def _workload(root: Path, state: Path, path: str, line: int) -> dict[str, Any]:
    project, known = _known(root, state)
    patch = Patch("x", Site(path, line, 1, line), "m", ())
    found = choose(patch, project.documents[path], known)
    assert found and isinstance(found[0], RecordedWorkload)
    return asdict(found[0])


def test_a_script_runs_up_to_its_first_call_and_no_further(write: Callable[..., None], again: Again) -> None:
    text = dedent("""\
        import sys
        scale = 2
        log = open(sys.path[0] + "/log", "a")

        class Box:
            def __init__(self, value):
                self.value = value

        def f(box, xs):
            return [type(box) is Box, box.value, *[scale * x for x in xs]]

        scale = 3
        log.write("before")
        for n in range(2):
            f(Box(n), [1, n])
        log.write("after")
        raise SystemExit(1)
        """)
    write({"main.py": text})
    patched = text.replace("import sys\n", "import sys\nimport os\n", 1).replace("*[scale * x", "'new', *[scale * x")
    assert again(["python", "main.py"], "main.py", 10, {"main.py": patched}) == [
        [True, 0, "new", 3, 0], [True, 1, "new", 3, 3],
    ]  # fmt: skip


def test_a_main_guard_is_not_entered(write: Callable[..., None], again: Again) -> None:
    text = "def f(xs):\n    return [x for x in xs]\n\nif __name__ == '__main__':\n    f([1])\n    raise SystemExit(1)\n"
    write({"main.py": text})
    assert again(["python", "main.py"], "main.py", 2) == [[1]]


METHODS = """\
    class Adder:
        def __init__(self, *items, start=1):
            self.items = [start + item for item in items]

        def add(self, other, /, *, times=1, **named):
            return [item + other * times for item in self.items], named

        @classmethod
        def many(cls, n):
            return [cls(i).items for i in range(n)]

        @staticmethod
        def twice(xs):
            return [2 * x for x in xs]

        @property
        def squares(self):
            return [item ** 2 for item in self.items]
    """
USES = """\
    from pack.adder import Adder
    a = Adder(1, 2, start=3)
    a.add(1, times=2, z=0)
    Adder.many(2)
    Adder.twice([4])
    a.squares
    """


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(6, [([6, 7], {"z": 0})], id="method"),
        pytest.param(10, [[[1], [2]]], id="class method"),
        pytest.param(14, [[8]], id="static method"),
        pytest.param(18, [[16, 25]], id="property"),
    ],
)
def test_methods_of_a_package(write: Callable[..., None], again: Again, line: int, expected: list[Any]) -> None:
    write({"pack/__init__.py": "", "pack/adder.py": METHODS, "main.py": USES})
    assert again(["python", "main.py"], "pack/adder.py", line) == expected


def test_a_constructor_is_called_as_its_class(write: Callable[..., None], again: Again) -> None:
    write({"pack/__init__.py": "", "pack/adder.py": METHODS, "main.py": USES})
    made = again(["python", "main.py"], "pack/adder.py", 3)
    assert [(type(one).__name__, one.items) for one in made] == [("Adder", [4, 5]), ("Adder", [1]), ("Adder", [2])]


def test_namespace_packages_and_src_layouts_are_found_again(write: Callable[..., None], again: Again) -> None:
    write({
        "src/space/lib.py": "class Box:\n    pass\n\ndef f(box, xs):\n    return [type(box) is Box for x in xs]\n",
        "run.py": "import sys\nsys.path.insert(0, 'src')\nfrom space.lib import f, Box\nf(Box(), [1])\n",
    })  # fmt: skip
    assert again(["python", "run.py"], "src/space/lib.py", 5) == [[True]]


def test_a_local_function_is_the_arms_own(write: Callable[..., None], again: Again) -> None:
    text = """\
        def maker(k):
            def inner(x):
                return x * k
            return inner

        def f(g, xs):
            return [g(x) for x in xs]

        f(maker(3), [1, 2])
        f(lambda x: x + 1, [1, 2])
        """
    write({"main.py": text})
    patched = text.replace("x * k", "x * k + 100")
    # the second call was made further down the script, in another state of it
    assert again(["python", "main.py"], "main.py", 7, {"main.py": patched}) == [[103, 106]]


def test_the_caller_stands_for_what_cannot_be_called(write: Callable[..., None], again: Again) -> None:
    text = """\
        import jax
        import jax.numpy as jnp

        @jax.jit
        def traced(x):
            for _ in range(3):
                x = x + 1
            return x

        def outer(x):
            return float(traced(x)) + inner_sum(2)

        def inner_sum(n):
            def inner(k):
                return sum([k for _ in range(n)])
            return inner(1)

        def run():
            for n in range(4):
                outer(jnp.float32(n))

        run()
        """
    write({"main.py": text})
    assert again(["python", "main.py"], "main.py", 6)[0] == 5.0 + 1, "the first call was over before the loop was seen"
    assert again(["python", "main.py"], "main.py", 15) == [2]


def test_the_configuration_of_jax_comes_with_the_call(write: Callable[..., None], again: Again) -> None:
    import jax

    text = """\
        import jax
        import jax.numpy as jnp
        import lib

        jax.config.update("jax_enable_x64", True)
        lib.f(jnp.ones(2, dtype="float64"))
        """
    write({"main.py": text, "lib.py": "def f(xs):\n    return [str((x + 1).dtype) for x in xs]\n"})
    assert again(["python", "main.py"], "lib.py", 2) == [["float64", "float64"]]
    assert not jax.config.jax_enable_x64


def test_generators_and_coroutines_are_named(
    write: Callable[..., None], recorded: Callable[..., Run]
) -> None:
    text = """\
        import asyncio

        def g(xs):
            for x in xs:
                yield x

        async def c(xs):
            return [x for x in xs]

        list(g([1]))
        asyncio.run(c([1]))
        """
    write({"main.py": text})
    done = recorded("python", "main.py")
    assert done.recording is not None
    functions = done.recording.functions
    assert functions["main.py", "g"].skipped == {"a generator": 1} and not functions["main.py", "g"].calls
    assert functions["main.py", "c"].skipped == {"a coroutine": 1} and not functions["main.py", "c"].calls


FLAT = """\
import sys
import lib

total = 0
for n in range(int(sys.argv[1])):
    total += n
values = [lib.double(n) for n in range(3)]
"""
LIB = "def double(n):\n    return 2 * n\n"


def test_what_is_in_no_function_is_run_with_its_whole_script(write: Callable[..., None], script: Any) -> None:
    write({"main.py": FLAT, "lib.py": LIB})
    assert script(["python", "main.py", "4"], "main.py", 5) == {"n": 3, "total": 6, "values": [0, 2, 4]}
    other = {"main.py": FLAT.replace("total += n", "total += 10").replace("import lib", "import lib\nNEW = 1")}
    assert script(["python", "main.py", "4"], "main.py", 5, other)["total"] == 40
    assert "NEW" not in script(["python", "main.py", "4"], "main.py", 5, other)


def test_a_module_run_by_name_is_run_by_name(write: Callable[..., None], script: Any) -> None:
    write({"pack/__init__.py": "", "pack/tool.py": "from .lib import double\n" + FLAT.replace("lib.", "").replace(
        "import lib\n", ""), "pack/lib.py": LIB})  # fmt: skip
    assert script(["python", "-m", "pack.tool", "3"], "pack/tool.py", 5)["values"] == [0, 2, 4]


def test_a_function_whose_calls_cannot_be_stored_runs_with_its_script(write: Callable[..., None], script: Any) -> None:
    write({"main.py": "def f(xs):\n    return [x for x in xs]\n\nresult = f(iter([1, 2]))\n"})
    assert script(["python", "main.py"], "main.py", 2) == {"result": [1, 2]}


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["main.py", "2", "--api-token=abc"], id="a secret by its name"),
        pytest.param(["main.py", "2", "hunter2hunter2"], id="a secret by its value"),
        pytest.param(["main.py", "2", "postgres://me:pw@db"], id="an address with a password"),
        pytest.param(["main.py", "nonsense"], id="a program that failed"),
    ],
)
def test_arguments_that_may_be_secret_and_failures_are_not_kept(
    write: Callable[..., None], script: Any, state: Path, words: list[str]
) -> None:
    write({"main.py": FLAT, "lib.py": LIB})
    assert script(["python", *words], "main.py", 5, API_TOKEN="hunter2hunter2") is None
    stored = b"".join(path.read_bytes() for path in state.rglob("*") if path.is_file())
    assert words[-1].encode() not in stored


def test_repetitions_vary_values_and_meet_every_structure_once() -> None:
    assert [replay._chosen([0, 1, 0, 2], rep) for rep in (0, 1, 2, 3, 100, 101)] == [0, 1, 3, 2, 0, 2]
    assert [replay._chosen([0, 0, 0], rep) for rep in range(4)] == [0, 1, 2, 0]
