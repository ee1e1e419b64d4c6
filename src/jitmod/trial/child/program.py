"""A workload inside a world: loading its functions, calling them, and writing down what a call did."""

from __future__ import annotations

import inspect
import random
import sys
import time
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from . import files, guard, module_state, outside, replay, sabotage, sharing, state, surroundings, targets, tests
from .capture import Router, shown
from .snapshot import Entry, arrays, snapshot
from .world import World

Lines = list[tuple[str, str]]
REFUSED = "refused"  # in the place of an exception's type: what the trial does not let the workload do


class WorkloadError(Exception):
    """The workload cannot be loaded, for a reason that has nothing to do with the patch."""


class Elsewhere(Exception):
    """What project code raised in another process, as `describe` told it there."""

    def __init__(self, description: dict[str, str]) -> None:
        super().__init__(f"{description['type']}: {description['text']}")
        self.description = description


@dataclass(frozen=True)
class Observation:
    """What one call gave: its output, its arguments afterwards, what it showed, wrote and changed; or its exception.

    `earlier` is the output of the call before, if that looks otherwise by now: its buffers are used again. `globals`
    are the module globals that it changed, `known` the names of all there were, `process` is what else it changed for
    those that come later, by name and in words; `loads`: it imported libraries, `imports`: loading its code did;
    `cached` are functions that keep results, `rebound` are globals that functions set. `shared` are the parts of the
    output that are one. `rep` is the number of the call.
    """

    output: list[Entry] = field(default_factory=list)
    arguments: list[Entry] = field(default_factory=list)
    lines: Lines = field(default_factory=list)
    library_warnings: frozenset[tuple[str, str]] = frozenset()
    mutates: bool = False
    metric: float | None = None
    earlier: list[Entry] = field(default_factory=list)
    error: dict[str, str] | None = None
    globals: dict[str, list[Entry]] = field(default_factory=dict)
    known: frozenset[str] = frozenset()
    files: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    rep: int = 0
    cached: frozenset[str] = frozenset()
    process: dict[str, str] = field(default_factory=dict)
    loads: bool = False
    imports: bool = False
    shared: frozenset[sharing.Shared] = frozenset()
    rebound: frozenset[str] = frozenset()

    @property
    def is_renewable(self) -> bool:
        """Can its arguments be given other values?"""
        arrays = (entry for entry in self.arguments if entry.kind in {"jax array", "numpy array"})
        return any(entry.dtype.startswith(("float", "bfloat", "complex")) for entry in arrays)


class Program:
    """`run`, `setup` and `metric` of a workload, loaded in one world. `script_names` are what a script gives."""

    def __init__(
        self, world: World, workload: dict[str, Any], seed: int, routers: tuple[Router, Router],
        script_names: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.world = world
        self._seed = seed
        self._routers = routers
        with world:
            self._seed_generators(0)
            found, libraries = surroundings.now(world.folder), set(sys.modules)
            bound = replay.bind(world, workload) or _bound(world, workload["run"], script_names)
            self._run = bound[0] if bound else _function(world, workload["run"])
            setup = _function(world, workload["setup"]) if workload.get("setup") else None
            self._setup = bound[1] if bound else setup
            self._metric = _function(world, workload["metric"]) if workload.get("metric") else None
            late = state.set_too_late()
            self._loaded = surroundings.of_loading(found, surroundings.now(world.folder))
        self._imports = bool(sys.modules.keys() - libraries - world.modules.keys())
        if late:
            why = "which comes too late in a trial; set that in the environment, or by jax.config.update"
            raise WorkloadError(f"its code sets {', '.join(late)}, {why}")
        self._last: tuple[Any, list[Entry]] | None = None
        self._changes: frozenset[str] = frozenset()  # globals that the observed calls changed
        self._mutates = False
        self.takes_rep = "rep" in inspect.signature(self._run).parameters

    def arguments(self, rep: int) -> tuple[Any, ...]:
        """Fresh arguments. Generators are seeded alike before every setup and call, in every world."""
        with self.world:
            self._seed_generators(rep)
            made = self._setup() if self._setup is not None else ()
            jax.block_until_ready(made)  # type: ignore[no-untyped-call]
            return tuple(made) if isinstance(made, tuple | list) else (made,)

    def observe(self, rep: int, given: tuple[Any, ...] | None = None) -> Observation:
        """Call the workload once, with `given` or with its own arguments, and write down everything visible."""
        try:
            arguments = self.arguments(rep) if given is None else given
        except BaseException as error:  # also one of asyncio, or an interrupt that it raises itself
            return Observation(error=_refused() or describe(error))
        before = snapshot(arguments, "arguments")
        known = module_state.state(self.world.modules)
        try:
            with (
                self.world, shown(self._routers, self.world.tree) as seen, files.written(self.world.folder) as written,
                outside.listening(self.world.tree) as done,
            ):  # fmt: skip
                self._seed_generators(rep)
                found, libraries = surroundings.now(self.world.folder), set(sys.modules)
                start = time.perf_counter()
                output = self.call(arguments, rep)
                seconds = time.perf_counter() - start
                jax.effects_barrier()  # type: ignore[no-untyped-call]
                left, loaded = surroundings.now(self.world.folder), sys.modules.keys() - libraries
            with self.world:
                noted = snapshot(output)
                earlier = self._earlier(output, noted)
                after, together = snapshot(arguments, "arguments"), sharing.shared(output, arguments)
                metric = float(self._metric(output)) if self._metric is not None else None
            changed = module_state.changed(known, self.world.modules)
            self._changes |= changed.keys()
            self._mutates |= not _identical(before, after)
        except BaseException as error:
            return Observation(error=_refused() or describe(error))
        refused = _refused()
        if refused is not None:
            return Observation(error=refused)
        return Observation(
            noted, after, seen.lines, frozenset(seen.library_warnings), not _identical(before, after), metric,
            earlier=earlier, globals=changed, known=frozenset(known), files=written, seconds=seconds, rep=rep,
            cached=module_state.cached(self.world.modules),
            process={**surroundings.changes(found, left), **done, **self._loaded},
            loads=bool(loaded - self.world.modules.keys()), imports=self._imports, shared=together,
            rebound=module_state.rebound(self.world.modules),
        )  # fmt: skip

    def observe_moved(self, rep: int, names: Collection[str]) -> Observation:
        """A call with other values in its arguments and in the globals of these names, and nothing compiled yet."""
        try:
            given = sabotage.moved(self.arguments(rep))
            with self.world:
                module_state.replace(self.world.modules, names, sabotage.moved)
        except (Exception, SystemExit) as error:
            return Observation(error=describe(error))
        jax.clear_caches()  # type: ignore[no-untyped-call]
        return self.observe(rep, given)

    def observe_set(self, rep: int, names: Collection[str]) -> Observation:
        """A call with other values in the globals of these names, as a function may have set them."""
        with self.world:
            module_state.replace(self.world.modules, names, sabotage.scaled)
        return self.observe(rep)

    def _earlier(self, output: Any, noted: list[Entry]) -> list[Entry]:
        """The last output as it looks now, where that is not as it was."""
        before, self._last = self._last, (output, noted)
        if before is None:
            return []
        now = snapshot(before[0])
        return [] if _identical(before[1], now) else [replace(e, path=f"earlier {e.path}") for e in now]

    def opaque(self) -> list[str]:
        """The module globals that nothing can look into."""
        return module_state.opaque(self.world.modules)

    def call(self, arguments: tuple[Any, ...], rep: int) -> Any:
        """Run and wait until every array of the output is there, and of what else calls change.

        The world must be active.
        """
        output = self._run(*arguments, rep=rep) if self.takes_rep else self._run(*arguments)
        left = [module_state.held(self.world.modules, name) for name in self._changes]
        jax.block_until_ready(arrays([output, *left, *(arguments if self._mutates else ())]))  # type: ignore[no-untyped-call]
        return output

    def _seed_generators(self, rep: int) -> None:
        random.seed(self._seed + rep)
        np.random.seed((self._seed + rep) % 2**32)


def _refused() -> dict[str, str] | None:
    """A write that was not allowed to happen; the program may have gone on without it."""
    why = guard.take_refused()
    return None if why is None else {"type": REFUSED, "text": why, "at": ""}


def describe(error: BaseException) -> dict[str, str]:
    """An exception as data: its type by name, because two worlds have two classes of it."""
    if isinstance(error, Elsewhere):
        return error.description
    if isinstance(error, guard.Refused):
        return {"type": REFUSED, "text": str(error), "at": ""}
    kind = type(error)
    where = traceback.extract_tb(error.__traceback__)
    place = f"{where[-1].filename}:{where[-1].lineno}" if where else ""
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    return {"type": name, "text": str(error)[:500], "at": place}


def _bound(world: World, target: str, names: tuple[str, ...]) -> targets.Bound | None:
    try:
        return targets.bind(world, target, names)
    except (FileNotFoundError, tests.TestError) as error:
        raise WorkloadError(str(error)) from None


def _function(world: World, target: str) -> Callable[..., Any]:
    file, _, name = target.rpartition(":")
    try:
        found: Any = world.import_file(file)
    except FileNotFoundError as error:
        raise WorkloadError(str(error)) from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise WorkloadError(f"{file} has no function {name}")
        found = getattr(found, part)
    if not callable(found):
        raise WorkloadError(f"{target} is not a function")
    return found  # type: ignore[no-any-return]


def _identical(before: list[Entry], after: list[Entry]) -> bool:
    def key(entry: Entry) -> tuple[Any, ...]:
        data = entry.data.tobytes() if isinstance(entry.data, np.ndarray) else repr(entry.data)
        return entry.path, entry.kind, entry.type, entry.dtype, entry.shape, data

    if any(entry.kind == "opaque" for entry in before):
        return False  # nobody can tell
    return [key(entry) for entry in before] == [key(entry) for entry in after]
