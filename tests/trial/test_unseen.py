"""Changes of which a plain comparison of two calls learns nothing, or the wrong thing."""

from __future__ import annotations

import ast
import functools
import multiprocessing
import subprocess
import sys
import time
import types
import unittest.mock
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jitmod.model import Status
from jitmod.trial.child import guard, measure, module_state, reached, sabotage, stats, workers
from jitmod.trial.child.finder import Tree
from jitmod.trial.child.patches import Patches
from jitmod.trial.child.program import Observation
from jitmod.trial.child.snapshot import snapshot

from .conftest import NET, Try
from .planted.bench import Kept, Trials, trials

__all__ = ["trials"]

ITEMS = """\
import functools

import jax
import jax.numpy as jnp
import numpy as np

HANDLE = np.nditer(np.zeros(1))  # nothing tells what such an object holds


def scores(x, rep):
    out = []
    for number in range(4):
        out.append(jnp.tanh(x + number) * rep)
    return jnp.stack(out)


def other(x):
    return x + 1.0
"""
LOOP = ITEMS[ITEMS.index("    out = []") : ITEMS.index("def other")]
MAPPED = ITEMS.replace(LOOP, "    return jnp.tanh(x + jnp.arange(4.0)[:, None]) * rep\n\n\n")
BENCH = """\
import jax.numpy as jnp

from items import scores

X = jnp.linspace(0.0, 1.0, 5)
"""
WITH_REP = BENCH + "\n\ndef run(rep):\n    return scores(X, rep)\n"
WITHOUT = BENCH + "\n\ndef run():\n    return scores(X, 2.0)\n"

WRONG = {
    "right for the first two values only": (
        WITH_REP, MAPPED.replace("* rep", "* min(rep, 1)"), Status.REJECTED, "values at output"),
    "right for small values only": (
        WITH_REP, MAPPED.replace("* rep", "* min(rep, 99)"), Status.REJECTED, "values at output"),
    "another function, which does not run": (
        WITHOUT, MAPPED.replace("x + 1.0", "x + 2.0"), Status.UNPROVEN, "never runs items.py:other"),
    "something of the process left changed": (
        WITHOUT, MAPPED.replace("    return jnp.tanh", "    np.seterr(all='ignore')\n    return jnp.tanh"),
        Status.REJECTED, "effects at np.geterr()"),
    "a global that nothing can look into": (
        WITHOUT, MAPPED.replace("    return jnp.tanh", "    HANDLE.reset()\n    return jnp.tanh"),
        Status.UNPROVEN, "cannot compare items.HANDLE"),
    "results kept by value": (
        WITHOUT, ITEMS.replace("def scores(x, rep):\n", "_MEMO = {}\n\n\ndef scores(x, rep):\n    if rep in _MEMO:\n"
                               "        return _MEMO[rep]\n").replace(
            "    return jnp.stack(out)", "    _MEMO[rep] = jnp.stack(out)\n    return _MEMO[rep]"),
        Status.UNPROVEN, "keeps results in items._MEMO"),
    "results kept by functools": (
        WITHOUT, ITEMS.replace(
            "def scores(x, rep):\n    out", "def scores(x, rep):\n    return _scores(tuple(x.tolist()), rep)\n\n\n"
            "@functools.lru_cache\ndef _scores(x, rep):\n    x = jnp.array(x)\n    out"),
        Status.UNPROVEN, "keeps results in items._scores"),
    "results kept in a default argument": (
        WITHOUT, MAPPED.replace("def scores(x, rep):", "def scores(x, rep, _memo=[]):").replace(
            "    return jnp.tanh", "    if _memo:\n        return _memo[0]\n    _memo.append(jnp.tanh").replace(
            "* rep\n", "* rep)\n    return _memo[0]\n"),
        Status.REJECTED, "values at output"),
    "a number kept by a method": (
        WITHOUT, MAPPED.replace(
            "def scores", "class Scale:\n    @functools.cache\n    def of(self, n):\n        return 0.0 * n\n\n\n"
            "_SCALE = Scale()\n\n\ndef scores").replace("* rep\n", "* rep + _SCALE.of(1)\n"),
        Status.UNPROVEN, "keeps results in items.Scale.of"),
    "a function of a library replaced": (
        WITHOUT, MAPPED + "\n\n_tanh = jnp.tanh\njnp.tanh = lambda x: _tanh(x)\n", None, "replaces jax.numpy.tanh"),
    "worker processes": (
        WITHOUT, MAPPED.replace("    return jnp.tanh", "    import multiprocessing\n    multiprocessing.get_context("
                                "'spawn').Process(target=print).start()\n    return jnp.tanh"),
        Status.UNPROVEN, "in the candidate, the workload starts worker processes by spawn"),
}  # fmt: skip


@pytest.fixture
def patched_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jnp, "tanh", jnp.tanh)
    monkeypatch.setattr(multiprocessing.process.BaseProcess, "start", multiprocessing.process.BaseProcess.start)


@pytest.mark.usefixtures("patched_libraries")
@pytest.mark.parametrize("name", WRONG)
def test_what_two_calls_do_not_show(name: str, trials: Trials, monkeypatch: pytest.MonkeyPatch) -> None:
    bench, candidate, status, said = WRONG[name]
    assert candidate not in (ITEMS, MAPPED)
    monkeypatch.setattr(guard._guard, "refused", [])
    workers.watch(guard._refuse)
    trials.write({"items.py": ITEMS, "bench.py": bench})
    if status is None:
        _, found = trials.explore({"items.py": candidate}, setup=None)
        assert found["apart"] == f"the candidate {said}"
        return
    verdict = trials.screen({"items.py": candidate}, setup=None)
    assert verdict is not None and verdict.status is status, verdict
    assert said in verdict.why


TOTAL = """\
import jax.numpy as jnp

X = jnp.linspace(0.0, 1.0, 5)


def total():
    return jnp.stack([jnp.tanh(X + number) for number in range(4)])
"""
ONCE = """\
def total({taken}):
    if {kept} is None:
        {kept} = jnp.tanh(X + jnp.arange(4.0)[:, None])
    return {kept}
"""
KEPT = {
    "items.total.<0>": ("_memo=[None]", "_memo[0]", ""),
    "a place that outlives its calls": ("", "_place.__kept__", "def _place(): ...\n\n\n_place.__kept__ = None\n\n\n"),
}


@pytest.mark.parametrize("place", KEPT)
def test_results_that_outlive_a_call(place: str, trials: Trials) -> None:
    """Of a function that takes nothing, so that only other values of its globals tell."""
    taken, kept, above = KEPT[place]
    trials.write({"items.py": TOTAL, "bench.py": "from items import total\n\n\ndef run():\n    return total()\n"})
    text = TOTAL[: TOTAL.index("def")] + above + ONCE.format(taken=taken, kept=kept)
    verdict = trials.screen({"items.py": text}, setup=None)
    assert verdict is not None and verdict.status is Status.UNPROVEN, verdict
    assert f"keeps results in {place}," in verdict.why


SCALED = """\
import jax
import jax.numpy as jnp

SCALE = 2.0


class Settings:
    @classmethod
    def scale(cls, value):
        def put():
            global SCALE
            SCALE = value
        put()


def scores(x, rep):
    return _scores(x + rep)


def _scores(x):
    for _ in range(4):
        x = jnp.tanh(x * SCALE)
    return x
"""
COMPILED = SCALED.replace("def _scores", "@jax.jit\ndef _scores")


@pytest.mark.parametrize(
    ("before", "after", "is_frozen"),
    [
        (SCALED, COMPILED, True),
        (COMPILED, COMPILED.replace("range(4)", "range(2 + 2)"), False),  # frozen in both
        (SCALED, COMPILED.replace("_scores(x)", "_scores(x, scale)").replace("* SCALE", "* scale").replace(
            "_scores(x + rep)", "_scores(x + rep, SCALE)"), False),
        (SCALED.replace("global SCALE", "SCALE = 0"), COMPILED.replace("global SCALE", "SCALE = 0"), False),
    ],
    ids=["a constant", "also in the baseline", "a parameter", "nobody sets it"],
)  # fmt: skip
def test_globals_that_are_set_between_calls(before: str, after: str, is_frozen: bool, trials: Trials) -> None:
    trials.write({"items.py": before, "bench.py": WITH_REP})
    verdict = trials.screen({"items.py": after}, setup=None)
    assert (verdict is not None) is is_frozen, verdict
    if verdict is not None:
        assert verdict.status is Status.UNPROVEN and "the old value of items.SCALE when" in verdict.why


@pytest.mark.parametrize("kept", ["_calls.append(0)", "pass"])
def test_wrong_after_many_calls(kept: str, trials: Trials) -> None:
    """Nothing but how often it ran tells such a function what to give."""
    bench = "from items import total\n\n\ndef run(rep):\n    return total() + rep\n"
    trials.write({"items.py": TOTAL, "bench.py": bench})
    text = TOTAL.replace("    return", f"    {kept}\n    return len(_calls[8:9]) +")
    text = text.replace("def", "_calls = []\n\n\ndef")
    job, _ = trials.explore({"items.py": text}, setup=None)
    channel = Kept()
    measure.measure(trials.host(job), channel, time.monotonic() + 60.0, 0, 1, stats.STEPS, False)
    failure = channel.found["late"]["failure"]
    assert (failure is not None and failure["test"] == "values") is (kept != "pass")


def test_globals_that_are_read_once_are_no_results(trials: Trials) -> None:
    """A compiled function takes a global for a constant; new values of it ask for another compilation."""
    trials.write({"items.py": TOTAL, "bench.py": "from items import total\n\n\ndef run():\n    return total()\n"})
    text = TOTAL.replace("def total", "@jax.jit\ndef total").replace("import jax.numpy", "import jax\nimport jax.numpy")
    assert trials.screen({"items.py": text}, setup=None) is None


@pytest.mark.parametrize("bench", [WITH_REP, WITHOUT], ids=["with rep", "without"])
def test_right_candidate_is_not_turned_away(bench: str, trials: Trials) -> None:
    cached = "\n\n@functools.lru_cache\ndef _step(n):\n    return jax.jit(lambda x: x * n)\n"
    text = MAPPED.replace("* rep\n", "* rep + 0 * _step(0)(x)\n") + cached
    trials.write({"items.py": ITEMS, "bench.py": bench})
    assert trials.screen({"items.py": text}, setup=None) is None


BEFORE = """\
def f(x):
    'a'
    return x

class C:
    def g(self):
        def h():
            return 1
        return h

def k(): pass
"""
AFTER = BEFORE.replace("def f", "@jit\ndef f").replace("'a'", "'b'").replace("return 1", "return y.z").replace(
    "def k(): pass", "def k():\n    'c'\n    pass\n\ndef new(): pass")  # fmt: skip


@pytest.mark.parametrize(
    ("given", "is_renewable"),
    [((), False), ((3, "a"), False), ((jnp.arange(3),), False), ((np.ones(2),), True), (({"w": jnp.ones(1)},), True)],
)
def test_arguments_that_can_be_given_other_values(given: Any, is_renewable: bool) -> None:
    assert Observation(arguments=snapshot(given, "arguments")).is_renewable is is_renewable


def test_changed_functions_by_what_they_do() -> None:
    before, after = ast.parse(BEFORE), ast.parse(AFTER)
    found = reached.touched("m.py", before, after)
    assert (found.changed, found.added) == (("f", "C.g.h"), ("new",))
    assert set(reached.names(after, found)) == {"jit", "x", "y", "z"}


@pytest.mark.parametrize(
    ("path", "is_test"),
    [
        ("tests/x.py", True),
        ("a/test_x.py", True),
        ("a/x_test.py", True),
        ("conftest.py", True),
        ("a/testing.py", False),
    ],
)
def test_files_of_tests(path: str, is_test: bool) -> None:
    assert reached.is_test(path) is is_test


def test_values_are_renewed() -> None:
    given = {"w": jnp.ones(3), "n": jnp.arange(3), "h": np.ones(2, np.float32), "key": jax.random.key(0), "f": len}
    one, two = sabotage.renewed(given), sabotage.renewed(given)
    assert one["f"] is len
    for name in ("w", "n", "h", "key"):
        assert one[name] is not given[name] and one[name].dtype == given[name].dtype
    assert not np.array_equal(one["h"], two["h"]) and np.allclose(one["h"], given["h"])
    assert not np.array_equal(one["w"], two["w"]) and np.allclose(one["w"], given["w"])
    assert np.array_equal(one["n"], given["n"])


@functools.lru_cache
def table(n: int) -> np.ndarray[Any, Any]:
    return np.arange(n)


@functools.cache
def maker(n: int) -> Any:
    return jax.jit(lambda x: x + n)


def test_globals_that_keep_results_or_cannot_be_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType(__name__)
    closed = np.nditer(np.zeros(1))
    vars(module).update(table=table, maker=maker, closed=closed, plain=[1])
    assert module_state.opaque({__name__: module}) == [f"{__name__}.closed"]
    table.cache_clear()
    maker(1)
    assert module_state.cached({__name__: module}) == frozenset()
    table(3)
    assert module_state.cached({__name__: module}) == {f"{__name__}.table"}


def test_what_calls_change_is_found_again() -> None:
    module = types.ModuleType("a.b")
    vars(module).update(state={"x": 1}, place=types.SimpleNamespace(x=2))
    modules = {"a": types.ModuleType("a"), "a.b": module}
    found = [module_state.held(modules, name) for name in ("a.b.state", "a.b.place.x", "a.b.gone", "c.x")]
    assert found == [{"x": 1}, 2, None, None]


def test_compiled_code_in_a_global_is_no_result() -> None:
    module, key = types.ModuleType("m"), (len, 3)
    vars(module).update(compiled={}, made={}, results={})
    before = module_state.state({"m": module})
    lowered = jax.jit(lambda x: x + 1).lower(1.0)
    vars(module).update(compiled={key: lowered.compile()}, made={key: lowered}, results={key: 1.0})
    assert set(module_state.changed(before, {"m": module})) == {"m.results"}


def test_patches_of_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patches = Patches(Tree(str(tmp_path), str(tmp_path), {}))
    jax.jit(lambda x: jnp.sin(x))(1.0)
    assert patches.found() == []
    space: dict[str, Any] = {}
    exec(compile("def slow(x): return x", str(tmp_path / "m.py"), "exec"), space)
    monkeypatch.setattr(jnp, "sin", space["slow"])
    monkeypatch.setattr(jnp, "cos", jnp.tan)
    monkeypatch.setattr(np, "sum", functools.partial(space["slow"]))
    monkeypatch.setattr(subprocess.Popen, "planted", space["slow"], raising=False)
    monkeypatch.setattr(np, "anything", unittest.mock.call, raising=False)  # has any attribute, __wrapped__ as well
    assert sorted(patches.found()) == ["jax.numpy.cos", "jax.numpy.sin", "numpy.sum", "subprocess.Popen.planted"]


PROGRAMS = {
    "script": ("subprocess.Popen", ("python", ["python", "-u", "part.py"], None, None), True),
    "script elsewhere": ("subprocess.Popen", ("python", ["python", "/part.py"], None, None), False),
    "script from another folder": ("subprocess.Popen", ("python3", [sys.executable, "b.py"], "sub", None), True),
    "module": ("os.posix_spawn", ("python", ["python", "-m", "sub.b"], {}), True),
    "module of a library": ("os.exec", ("python", ["python", "-m", "pip"], {}), False),
    "shell": ("os.system", (b"python3 part.py --x",), True),
    "shell of subprocess": ("subprocess.Popen", ("/bin/sh", ["/bin/sh", "-c", "python part.py"], None, None), True),
    "another program": ("subprocess.Popen", ("cat", ["cat", "part.py"], None, None), False),
    "code": ("subprocess.Popen", ("python", ["python", "-c", "print(1)"], None, None), False),
    "code that imports": ("subprocess.Popen", ("python", ["python", "-c", "from sub import b"], None, None), True),
    "not a command": ("os.system", ("'",), False),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_interpreters_for_files_of_the_project(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "part.py").touch()
    (tmp_path / "sub" / "b.py").touch()
    monkeypatch.chdir(tmp_path)
    event, arguments, refused = PROGRAMS[name]
    assert (workers.project_program(event, arguments, str(tmp_path)) is not None) is refused


def test_changed_file_that_is_never_loaded(project: Path, try_text: Try) -> None:
    (project / "app" / "late.py").write_text("V = 1\n")
    candidate = {"app/net.py": NET.replace("jnp.sum(out[-1])", "out[-1].sum()"), "app/late.py": "V = 2\n"}
    verdict = try_text("", files=candidate).verdict
    assert (verdict.status, verdict.why) == (
        Status.UNPROVEN, "the workload never runs app/late.py, and that is changed as well")  # fmt: skip
