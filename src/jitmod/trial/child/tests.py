"""A test as a workload: pytest collects it and makes its fixtures, and its body is what is called and timed."""

from __future__ import annotations

import ast
import importlib.util
import queue
import threading
import unittest
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .world import World

_KEEP = "__jitmod_keep__"
_OPTIONS = (
    "--assert=plain",  # the other way reads the test's file itself, and that is the user's and not the arm's
    "--capture=no", "--quiet", "-oaddopts=", "-pno:cacheprovider", "-pno:faulthandler", "-pno:threadexception",
    "-pno:unraisableexception",
)  # fmt: skip
_SHOWN = 500
_DATA = (jax.Array, np.ndarray, np.generic, bool, int, float, complex)

_kept: dict[str, Any] = {}  # the locals of the test that ran last


class TestError(Exception):
    """The test cannot be run; the message says why."""

    __test__ = False


def bind(world: World, place: str, name: str) -> tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]:
    """`run` and `setup` of the test `name` ("::test_x", "::TestY::test_x[1]") of the file at `place`.

    The arguments are the fixtures that hold data, the output is what data the test's locals hold in the end.
    """
    if importlib.util.find_spec("pytest") is None:
        raise TestError("a test is run by pytest, and this interpreter has none")
    session = _Session(place + name, world.tree.user_root)
    session.start()
    session.answer()

    def setup() -> tuple[Any, ...]:
        session.ask(session.set_up)
        fixtures = session.item.funcargs
        return ({key: value for key, value in fixtures.items() if _is_data(value)},)

    def run(fixtures: dict[str, Any]) -> dict[str, Any]:
        _kept.clear()
        session.item.funcargs.update(fixtures)
        session.ask(session.item.runtest)
        known = session.item.funcargs
        return {key: value for key, value in sorted(_kept.items()) if key not in known and _is_data(value)}

    return run, setup


def keep_locals(tree: ast.Module, name: str) -> None:
    """Make the test of this name keep its locals where it ends."""
    path = [part.partition("[")[0] for part in name.split("::")]
    body: list[ast.stmt] = tree.body
    for part in path:
        found = next((node for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == part),
                     None)  # fmt: skip
        if isinstance(found, ast.FunctionDef):
            _AtReturns().generic_visit(found)
            found.body.append(_keep(found.body[-1]))
            return
        body = found.body if found is not None else []


def injected() -> dict[str, Any]:
    return {_KEEP: _kept.update}


class _AtReturns(ast.NodeTransformer):
    """Keeps the locals before every return of one function."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        return [_keep(node), node]


def _keep(where: ast.stmt) -> ast.stmt:
    names = ast.Call(ast.Name("locals", ast.Load()), [], [])
    return ast.copy_location(ast.Expr(ast.Call(ast.Name(_KEEP, ast.Load()), [names], [])), where)


def _is_data(value: Any) -> bool:
    """Arrays and numbers, also in containers and Modules; a path differs from run to run, and a request is no data."""
    try:
        leaves = jax.tree_util.tree_leaves(value)
    except (TypeError, ValueError):
        return False
    return any(isinstance(x, _DATA) for x in leaves) and all(isinstance(x, _DATA) or callable(x) for x in leaves)


class _Session(threading.Thread):
    """A pytest session that stops before its test and then does what it is asked for, again and again.

    pytest has the body of a test run deep inside its own call, so that lives in a thread; the caller waits meanwhile.
    """

    def __init__(self, name: str, root: str) -> None:
        super().__init__(daemon=True, name="jitmod-pytest")
        self._arguments = [*_OPTIONS, f"--rootdir={root}", name]
        self._asked: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._is_set_up = False
        self._failed = ""
        self.item: Any = None

    def run(self) -> None:
        import pytest

        try:
            status: Any = pytest.main(self._arguments, plugins=[self])
            said = {4: "pytest finds no such test"}.get(int(status), f"pytest ends with status {int(status)}")
            self._answers.put(TestError(self._failed or said))
        except BaseException as error:
            self._answers.put(error)

    def ask(self, step: Callable[[], Any]) -> None:
        """Have `step` done in the session; raises what it raises."""
        self._asked.put(step)
        self.answer()

    def answer(self) -> None:
        error = self._answers.get()
        if isinstance(error, Exception | SystemExit | KeyboardInterrupt):
            raise error
        if error is None:
            return
        if type(error).__name__ == "Failed":  # pytest.fail, which is no Exception
            raise AssertionError(str(error))
        raise TestError(f"{type(error).__name__}: {error}")  # skipped, above all

    def pytest_collectreport(self, report: Any) -> None:
        """pytest's hook: why a file cannot be collected."""
        if report.failed:
            self._failed = str(report.longrepr)[-_SHOWN:]

    def pytest_runtestloop(self, session: Any) -> bool:
        """pytest's hook: called once everything is collected. Stays here while there is something to do."""
        if len(session.items) != 1:
            names = ", ".join(item.name for item in session.items[:5])
            self._answers.put(TestError(self._failed or f"name one test; {len(session.items)} match: {names}"))
            return True
        self.item = session.items[0]
        if not hasattr(self.item, "funcargs") or issubclass(self.item.cls or object, unittest.TestCase):
            self._answers.put(TestError("only pytest's own kind of test can be run again and again"))
            return True
        self._answers.put(None)
        while True:
            step = self._asked.get()
            try:
                step()
            except BaseException as error:
                self._answers.put(error)
            else:
                self._answers.put(None)

    def set_up(self) -> None:
        """Make all fixtures anew."""
        import pytest

        hooks = self.item.ihook
        if self._is_set_up:
            hooks.pytest_runtest_teardown(item=self.item, nextitem=None)
            self.item._initrequest()
        self._is_set_up = True
        made = pytest.CallInfo.from_call(lambda: hooks.pytest_runtest_setup(item=self.item), "setup")
        hooks.pytest_runtest_makereport(item=self.item, call=made)  # fixtures read how it went when they end
        if made.excinfo is not None:
            raise made.excinfo.value
