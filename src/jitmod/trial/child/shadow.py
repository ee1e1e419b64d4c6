"""Site parity: every execution of a changed function runs the old version too, on the same live-ins."""

from __future__ import annotations

import functools
import inspect
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax

from . import compare, sabotage, trips, wrap
from .capture import Router
from .duplicate import CannotCopy, duplicate
from .pairs import Pair, bound_names, changed_pairs, find, keeps_classes
from .parity import slack
from .probes import Probes
from .regions import Generators, Given, Run, difference, run
from .snapshot import snapshot
from .twin import Texts, Twins

_ROUNDINGS = 4  # ups and downs of one run may cancel out
_LIMIT = 8  # executions that are compared

Function = Callable[..., Any]
Module = dict[str, Any]


@dataclass
class Findings:
    """Site parity in one world. Errors are in units of the tight bounds; `rounding` is what rounding alone makes.

    `lengths` are the trip counts for which shorter loops agreed. `unsettled`: values differ by no more than rounding.
    """

    executions: int = 0
    compared: int = 0
    traced: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    failure: dict[str, Any] | None = None
    error: float = 0.0
    rounding: float | None = None
    unsettled: bool = False
    lengths: list[int] = field(default_factory=list)
    without_items: dict[str, Any] | None = None

    @property
    def is_tight(self) -> bool:
        """Was something compared, and found equal under the tight bounds?"""
        return self.failure is None and ((self.compared > 0 and not self.unsettled) or any(n > 1 for n in self.lengths))

    def document(self) -> dict[str, Any]:
        errors = {"error_in_bounds": self.error, "rounding_in_bounds": self.rounding}
        finite = {name: None if value is None or math.isinf(value) else value for name, value in errors.items()}
        return {
            "executions": self.executions, "compared": self.compared, "traced": self.traced,
            "skipped": dict(self.skipped), "failure": self.failure, "unsettled": self.unsettled,
            "tight": self.is_tight, "trip_counts": self.lengths, "without_items": self.without_items, **finite,
        }  # fmt: skip


class Shadow:
    """Watches the pairs of changed files. Only the outermost one on the stack is compared: its callers are unchanged,
    so what it takes and gives back must not change; between changed functions it may."""

    def __init__(
        self, texts: Iterable[Texts], routers: tuple[Router, Router], deadline: float, judges_empty: bool
    ) -> None:
        self.judges_empty = judges_empty  # a codemod vouches for loops without items; a person's change may not
        self._texts = {one.path: one for one in texts}
        self.pairs = {p.mark: p for t in self._texts.values() for p in changed_pairs(t.before, t.after, t.path)}
        self.findings = Findings()
        every = list(self.pairs.values())
        for one in self._texts.values():
            if not keeps_classes(one.before, one.after, [pair for pair in every if pair.path == one.path]):
                self.findings.skipped[f"classes of {one.path} have other members now"] += 1
                self.pairs = {}
        self._routers = routers
        self._deadline = deadline
        self._probes = Probes()
        self._old = Twins(self._texts, self._probes)
        self._rounding = Twins(self._texts, Probes(), sabotage.nudged)
        self._within: Twins | None = None  # whose versions the nested pairs are: the old ones', else the new ones
        self._running = False
        self._mixed = False
        self._structures: dict[str, set[str]] = {}

    def injected(self) -> dict[str, Any]:
        return wrap.injected(self._call)

    def _call(self, mark: str, module: Module, new: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        pair, found = self.pairs[mark], self.findings
        if self._running:
            self._mixed = self._mixed or wrap.is_tracing()  # what was traced for one version must not serve the other
            return (new if self._within is None else self._within.get(pair, module))(*args, **kwargs)
        found.executions += 1
        if found.failure is not None or found.compared >= _LIMIT or time.monotonic() > self._deadline:
            return new(*args, **kwargs)
        tracing = wrap.is_tracing()
        structure = _structure((args, kwargs))
        seen = self._structures.setdefault(mark, set())
        if not tracing and structure in seen and found.executions & (found.executions - 1):
            return new(*args, **kwargs)  # every new structure, and of the others the powers of two
        try:
            copies = [duplicate((args, kwargs)) for _ in range(1 if tracing else 4)]
        except CannotCopy as error:
            found.skipped[f"an argument is {error}"] += 1
            return new(*args, **kwargs)
        one = _Execution(self, pair, module, new, first=not seen)
        seen.add(structure)
        return one.compare_traced((args, kwargs), copies[0]) if tracing else one.compare((args, kwargs), copies)

    def old(self, pair: Pair, module: Module) -> Function:
        return self._old.get(pair, module)

    def run_old(self, pair: Pair, module: Module, given: Given, state: Generators | None) -> tuple[Run, Any]:
        done, result, _ = self._run(self._old, self._old.get(pair, module), given, state)
        return done, result

    def run_rounded(self, pair: Pair, module: Module, given: Given, state: Generators) -> Run:
        """The old version with everything that it takes and computes moved by a unit in the last place."""
        old = self._rounding.get(pair, module)
        return self._run(self._rounding, old, sabotage.nudged(given), state)[0]

    def run_new(self, new: Function, given: Given, state: Generators | None) -> tuple[Run, Any, Exception | None]:
        return self._run(None, new, given, state)

    def _run(
        self, within: Twins | None, function: Function, given: Given, state: Generators | None
    ) -> tuple[Run, Any, Exception | None]:
        self._running, self._within = True, within
        if state is not None:
            state.restore()
        try:
            return run(function, given, self._routers)
        finally:
            self._running, self._within = False, None
            if self._mixed:
                self._mixed = False
                jax.clear_caches()  # type: ignore[no-untyped-call]

    def trips(self) -> dict[str, int]:
        """Iterations of the old version's loops since the last time."""
        counted = dict(self._probes.trips)
        self._probes.forget()
        return counted

    def blocks(self, pair: Pair, below: int) -> list[int]:
        """Lengths of blocks that the texts of both versions suggest."""
        texts = self._texts[pair.path]
        kept = [find(texts.before, pair.qualname), *texts.new_statements()]
        return list(dict.fromkeys(k for tree in kept if tree is not None for k in trips.blocks(tree, below)))

    def lost(self, pair: Pair, unbound: str | None) -> bool:
        """Is that a name which the baseline's module binds? Then the baseline itself does not miss it."""
        return unbound is not None and unbound in bound_names(self._texts[pair.path].before)

    @property
    def is_late(self) -> bool:
        return time.monotonic() > self._deadline


class _Execution:
    """One execution of a pair."""

    def __init__(self, shadow: Shadow, pair: Pair, module: Module, new: Function, first: bool) -> None:
        self._shadow, self._pair, self._module, self._new, self._first = shadow, pair, module, new, first
        self._state = Generators.now()

    def compare(self, given: Given, copies: list[Given]) -> Any:
        """Run the old version twice, and the new one; the program goes on with what the new one gives."""
        shadow, found = self._shadow, self._shadow.findings
        shadow.trips()
        old, _ = self._run_old(copies[0])
        if shadow.lost(self._pair, old.unbound):
            found.skipped[f"the baseline's {old.unbound} cannot be brought here"] += 1
            return self._new(*given[0], **given[1])
        counted = shadow.trips()
        again, _ = self._run_old(copies[1])
        noise = difference(old, again, again, compare.MAX_FACTOR / 2)
        if noise.failure is None and self._first and old.error is None:
            bound = trips.bind(shadow.old(self._pair, self._module), copies[3])
            if bound is not None:
                self._move((bound.args, bound.kwargs))
                self._vary(bound, counted)
        new, result, raised = shadow.run_new(self._new, given, self._state)
        if noise.failure is not None:
            found.skipped["it does something else when it is run again"] += 1
        elif found.failure is None:
            found.compared += 1
            self._judge(old, again, new, max(1.0, 2 * noise.error), copies[2], None)
        if raised is not None:
            raise raised
        return result

    def _judge(self, old: Run, again: Run, new: Run, factor: float, copied: Given, how: str | None) -> None:
        """A difference counts, unless rounding alone makes one of its size in the old version."""
        found = self._shadow.findings
        if any(entry.kind == "callable" for entry in old.output):
            found.skipped["its result holds a function, which only calls of that can show"] += 1
            return
        judged = difference(old, again, new, factor)
        found.error = max(found.error, judged.error if how is None else 0.0)
        if judged.failure is None:
            return
        failure = {**judged.failure, "function": self._pair.mark} | ({} if how is None else {"how": how})
        errors: dict[str, float] = {}
        for _ in range(_ROUNDINGS):
            rounded = self._shadow.run_rounded(self._pair, self._module, duplicate(copied), self._state)
            rounding = difference(old, again, rounded, compare.MAX_FACTOR)
            errors = {name: max(errors.get(name, 0.0), rounding.errors.get(name, 0.0))
                      for name in errors | dict(rounding.errors)}  # fmt: skip
            found.rounding = max(found.rounding or 0.0, rounding.error)
            if difference(old, again, new, factor, slack(factor, errors)).failure is None:
                found.unsettled = found.unsettled or how is None
                return
        found.failure = failure

    def _move(self, copied: Given) -> None:
        """Both versions on other values: a result that is right for one input may be a constant."""
        moved = [sabotage.scaled(duplicate(copied)) for _ in range(3)]
        old, _ = self._run_old(moved[0])
        if old.error is None:
            new, _, _ = self._shadow.run_new(self._new, moved[1], self._state)
            self._judge(old, old, new, 1.0, moved[2], "with live-ins scaled by 1.01")

    def _vary(self, bound: inspect.BoundArguments, counted: Mapping[str, int]) -> None:
        """Both versions for other trip counts, where arguments say how long a loop is."""
        shadow, found = self._shadow, self._shadow.findings
        blocks = shadow.blocks(self._pair, max(counted.values(), default=0))
        for shorter in trips.shorten(bound, counted):
            lengths = shorter.lengths(blocks)
            if not lengths or not self._follows(shorter, lengths[0]):
                continue
            for length in lengths:
                if shadow.is_late or found.failure is not None:
                    return
                given = [duplicate(shorter.arguments(length)) for _ in range(3)]
                old, _ = self._run_old(given[0])
                if old.error is None:
                    new, _, _ = shadow.run_new(self._new, given[1], self._state)
                    if length == 0 and not shadow.judges_empty:
                        found.without_items = difference(old, old, new, 1.0).failure
                        continue
                    self._judge(old, old, new, 1.0, given[2], f"with {length} iterations")
                    if found.failure is None:
                        found.lengths.append(length)
            return

    def _follows(self, shorter: trips.Shorter, length: int) -> bool:
        """Does the loop make `length` iterations with these arguments?"""
        self._shadow.trips()
        old, _ = self._run_old(duplicate(shorter.arguments(length)))
        return old.error is None and self._shadow.trips().get(shorter.loop) == length

    def compare_traced(self, given: Given, copied: Given) -> Any:
        """Inside a trace there are no values yet: both versions are traced, and compared when the program runs."""
        shadow, found = self._shadow, self._shadow.findings
        old, expected = shadow.run_old(self._pair, self._module, copied, None)
        _, result, raised = shadow.run_new(self._new, given, None)
        if raised is not None:
            raise raised
        if old.error is not None:
            found.skipped[f"the baseline's version raises {old.error} in this trace"] += 1
            return result
        found.traced += 1
        structure = compare.compare(snapshot(expected), snapshot(result), 1.0)
        if structure.failure is not None:
            found.failure = {**structure.failure, "function": self._pair.mark}
        else:
            leaves = [_arrays(expected), _arrays(result)]
            jax.debug.callback(functools.partial(self._compare_values, shadow.findings), *leaves)
        return result

    def _compare_values(self, found: Findings, old: list[Any], new: list[Any]) -> None:
        if found.failure is not None or found.compared >= _LIMIT:
            return
        found.compared += 1
        judged = compare.compare(snapshot(old), snapshot(new), 1.0)
        found.error = max(found.error, judged.error)
        if judged.error > compare.MAX_FACTOR and judged.failure is not None:
            found.failure = {**judged.failure, "function": self._pair.mark}
        elif judged.failure is not None:
            found.unsettled = True  # a longer loop inside the trace may do that; its rounding cannot be told here

    def _run_old(self, given: Given) -> tuple[Run, Any]:
        return self._shadow.run_old(self._pair, self._module, given, self._state)


def _arrays(value: Any) -> list[jax.Array]:
    return [leaf for leaf in _leaves(value) if isinstance(leaf, jax.Array)]


def _structure(value: Any) -> str:
    """What kinds of leaves there are, of which dtypes and shapes."""
    return " ".join(f"{getattr(x, 'dtype', type(x).__name__)}{getattr(x, 'shape', '')}" for x in _leaves(value))


def _leaves(value: Any) -> list[Any]:
    try:
        return list(jax.tree_util.tree_leaves(value))
    except (TypeError, ValueError):  # keys that cannot be sorted
        return [value]
