"""Workloads that nobody wrote: recorded calls of a function, or calls with arguments made from annotations."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import os
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import jax

from . import replay_values, synthesis
from .finder import Transform
from .record_marks import Mark, until
from .record_references import resolve
from .world import World

Call = tuple[tuple[Any, ...], dict[str, Any]]


class ReplayError(Exception):
    """The calls cannot be made again; the message says why."""


def bind(world: World, workload: Mapping[str, Any]) -> tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]] | None:
    """`run` and `setup` of such a workload; None for any other. The world must be active.

    `run` takes `rep` where there are several calls: each is as good a workload as the others.
    """
    recording = workload.get("recording")
    if recording is not None:
        modules = _Modules(world, recording)
        function = _callable(resolve(recording["module"], recording["target"], modules.load))
        folder = os.path.join(recording["folder"], "calls")
        files = [os.path.join(folder, name) for name in recording["files"]]
        return _workload(function, lambda: [_read(file, modules) for file in files], recording["structures"])
    if workload.get("script") is not None:
        return _script(world, workload["script"]), tuple
    if workload.get("synthesis") is not None:
        file, _, name = workload["run"].rpartition(":")
        owner, _, method = name.rpartition(".")
        module = world.import_file(file)
        function = _callable(functools.reduce(getattr, name.split("."), module))
        holder = functools.reduce(getattr, owner.split("."), module) if owner else None
        receiver = holder if isinstance(holder, type) and not _is_static(holder, method) else None
        made = synthesis.calls(function, receiver)
        return _workload(function, lambda: synthesis.calls(function, receiver), [0] * len(made))
    return None


def shortened(workload: Mapping[str, Any], transform: Transform | None) -> Transform | None:
    """`transform`, after a recorded script is cut off where its first recorded call was made."""
    recording = workload.get("recording")
    if recording is None or recording["mark"] is None:
        return transform
    mark = Mark(**recording["mark"])

    def cut(path: str, tree: ast.Module) -> ast.Module:
        if path == mark.path:
            shorter = until(tree, mark)
            if shorter is None:
                raise ReplayError(f"{path} is not the script that was recorded")
            tree = shorter
        return transform(path, tree) if transform is not None else tree

    return cut


def _script(world: World, script: Mapping[str, Any]) -> Callable[[], dict[str, Any]]:
    """Runs a program as the interpreter would; what its statements have bound is the output."""
    place = world.tree.place(script["path"])
    if script["module"] is None:
        world.add_root(os.path.dirname(place))

    def run() -> dict[str, Any]:
        before = sys.argv[:]
        sys.argv[:] = [place, *script["arguments"]]
        try:
            if script["module"] is None:
                names = runpy.run_path(place, run_name="__main__")
            else:
                names = runpy.run_module(script["module"], run_name="__main__", alter_sys=True)
        except SystemExit as end:
            if end.code not in (None, 0):
                raise
            return {}
        finally:
            sys.argv[:] = before
        return {name: names[name] for name in script["names"] if name in names}

    return run


def _workload(
    function: Callable[..., Any], make: Callable[[], list[Call]], structures: Sequence[int]
) -> tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]:
    def setup() -> tuple[Any, ...]:
        return (make(),)

    def run_one(calls: list[Call]) -> Any:
        positional, named = calls[0]
        return function(*positional, **named)

    def run_several(calls: list[Call], rep: int) -> Any:
        positional, named = calls[_chosen(structures, rep)]
        return function(*positional, **named)

    return (run_several if len(structures) > 1 else run_one), setup


def _chosen(structures: Sequence[int], rep: int) -> int:
    """The call of a repetition: of the first one's structure, so that its values vary and nothing is compiled anew.

    The repetitions after the first take the other structures, where there are any: results are compared for those too.
    """
    alike = [number for number, structure in enumerate(structures) if structure == structures[0]]
    others = [number for number in range(len(structures)) if number not in alike]
    return others[rep - 1] if 0 < rep <= len(others) else alike[rep % len(alike)]


class _Modules:
    """How a recorded program's modules are found in a world."""

    def __init__(self, world: World, recording: Mapping[str, Any]) -> None:
        self._world = world
        self._main = recording["main"]
        for name, value in recording["config"].items():
            with contextlib.suppress(Exception):  # an option of another version of jax
                jax.config.update(name, value)  # type: ignore[no-untyped-call]
        for root in reversed(recording["roots"]):
            world.add_root(world.tree.place(root))

    def load(self, name: str) -> ModuleType:
        if name == "__main__":
            if self._main is None:
                raise ReplayError("the recorded values refer to a program that is not part of the project")
            return self._world.import_file(self._main)
        return importlib.import_module(name)


def _read(file: str, modules: _Modules) -> Call:
    with open(file, "rb") as stored:
        positional, named = replay_values.read(stored, modules.load)
    return positional, named


def _callable(found: Any) -> Callable[..., Any]:
    """A property is called through its getter."""
    inner = found.fget if isinstance(found, property) else getattr(found, "func", found)
    made = inner if isinstance(found, property | functools.cached_property) else found
    if not callable(made):
        raise ReplayError(f"{found!r} cannot be called")
    return made


def _is_static(holder: type, name: str) -> bool:
    return isinstance(vars(holder).get(name), staticmethod | classmethod)
