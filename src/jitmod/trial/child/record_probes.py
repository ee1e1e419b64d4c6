"""What the probes do when they fire: describe and copy arguments, count, time, and say when enough was seen."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from . import record_transform as transform
from .record_kinds import core, describe, is_traced
from .record_log import Log
from .record_marks import Mark
from .record_values import Unrecordable, write

_CONFIG = (
    "jax_enable_x64", "jax_default_matmul_precision", "jax_numpy_dtype_promotion", "jax_numpy_rank_promotion",
    "jax_default_prng_impl", "jax_threefry_partitionable", "jax_debug_nans", "jax_disable_jit",
)  # fmt: skip
_EXAMINED = 40  # entries that are looked at one by one; of later ones those whose number is a power of two
_KINDS = 12  # different kinds kept of one parameter, and shapes
_PERIOD, _SHORT_PERIOD = 1.0, 0.1  # seconds between two notes of the counts; while calls are stored
_PATIENCE = 20.0  # seconds to wait for another call of a function that was called at all
_STEPS = 64  # iterations of a loop between two looks at the clock


@dataclass(frozen=True)
class Limits:
    """Calls kept of one function, bytes of one call, bytes of all."""

    calls: int
    call_bytes: int
    total_bytes: int


@dataclass
class Watched:
    """One function while the program runs. `kept` has the structure of each stored call."""

    about: Mapping[str, Any]
    entries: int = 0
    kinds: dict[str, list[Any]] = field(default_factory=dict)
    shapes: dict[str, list[Any]] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    digests: set[str] = field(default_factory=set)
    skipped: Counter[str] = field(default_factory=Counter)
    callers: set[int] = field(default_factory=set)
    wanted: bool = False
    since_new: int = 0
    last_new: float = 0.0

    def slot(self, structure: str, calls: int) -> int | None:
        """Where a call of this structure goes: a free place, or that of a call whose structure is there twice."""
        if len(self.kept) < calls:
            return len(self.kept)
        twice = [i for i, known in enumerate(self.kept) if known in self.kept[:i]]
        return twice[-1] if twice and structure not in self.kept else None

    def is_full(self, calls: int) -> bool:
        """Whether no further call will be stored: enough are, or the last ones brought nothing new."""
        return len(self.kept) >= calls or self.since_new >= _EXAMINED

    def is_settled(self, calls: int) -> bool:
        return self.entries > _EXAMINED and (not self.wanted or self.is_full(calls))


@dataclass
class Loop:
    """What the names of a loop held as it began."""

    names: Sequence[str]
    entries: int = 0
    kinds: dict[str, list[Any]] = field(default_factory=dict)


@dataclass
class Site:
    """One loop: entries, iterations of all and of the longest one, seconds of all."""

    entries: int = 0
    steps: int = 0
    longest: int = 0
    running: int = 0
    seconds: float = 0.0

    def end(self, started: float) -> None:
        self.seconds += time.perf_counter() - started
        self.longest = max(self.longest, self.running)
        self.running = 0


class Recorder:
    """All of a recording in this process. Nothing that fails in here reaches the program."""

    def __init__(
        self, functions: Sequence[Mapping[str, Any]], loops: Sequence[Mapping[str, Any]], sites: int, root: str,
        log: Log, limits: Limits, marker: Callable[[FrameType], Mark | None], foreign: Callable[[], dict[str, str]],
        secrets: Sequence[bytes], enough: Callable[[], None] | None,
    ) -> None:  # fmt: skip
        self._functions = {f["number"]: Watched(f, wanted=f["store"]) for f in functions}
        self._by_code = {(f["file"], f["code_line"], f["name"]): f["number"] for f in functions}
        self._loops = {loop["number"]: Loop(loop["names"]) for loop in loops}
        self._sites = {number: Site() for number in range(sites)}
        self._started: dict[tuple[int, int], float] = {}  # by frame: a generator may be left and entered again
        self._foreign = foreign
        self._foreigners: dict[str, str] = {}
        self._root = root
        self._log = log
        self._limits = limits
        self._marker = marker
        self._secrets = secrets
        self._enough = enough
        self._bytes = 0
        self._began = time.perf_counter()
        self._noted = 0.0
        self._own = threading.local()
        self._lock = threading.Lock()
        self._live = True

    def probes(self) -> dict[str, Any]:
        """The names that the transformed code calls."""
        found: tuple[Any, ...] = (self.enter, self.see, self.step, self.start, self.stop)
        return dict(zip(transform.NAMES, found, strict=True))

    def step(self, number: int) -> None:
        """A site begins an iteration."""
        site = self._sites.get(number)
        if site is not None:
            site.steps += 1
            site.running += 1
            if not site.running % _STEPS:
                self._note()

    def start(self, number: int) -> None:
        """A site is entered."""
        site = self._sites.get(number)
        if site is not None:
            site.entries += 1
            self._started[id(sys._getframe(1)), number] = time.perf_counter()

    def stop(self, number: int) -> None:
        """A site is left, in whatever way."""
        started = self._started.pop((id(sys._getframe(1)), number), None)
        if started is not None:
            self._sites[number].end(started)
            self._note()

    def enter(self, number: int, values: tuple[Any, ...]) -> None:
        """A function was entered."""
        watched = self._functions.get(number)
        if watched is None or sys._getframe(1).f_code.co_name != watched.about["name"]:
            return  # code that another recorded program has stored
        watched.entries += 1
        entries = watched.entries
        if not self._live or (entries & (entries - 1) and watched.is_settled(self._limits.calls)):
            return
        if getattr(self._own, "busy", False):  # the program's own code, run by the copying
            return
        self._own.busy = True
        frame = sys._getframe(1)
        try:
            with self._lock:
                self._examine(watched, values, frame)
        except Exception as error:
            watched.skipped[f"{type(error).__name__}: {error}"[:120]] += 1
        finally:
            self._own.busy = False
            del frame
        self._note(_SHORT_PERIOD if watched.wanted else _PERIOD)
        self._stop_if_enough()

    def see(self, number: int) -> None:
        """A loop begins."""
        loop = self._loops.get(number)
        if loop is None:
            return
        loop.entries += 1
        entries = loop.entries
        if not self._live or (entries > _EXAMINED and entries & (entries - 1)) or getattr(self._own, "busy", False):
            return
        self._own.busy = True
        frame = sys._getframe(1)
        try:
            known, wider = frame.f_locals, frame.f_globals
            for name in loop.names:
                if name in known or name in wider:
                    kind = core(describe(known[name] if name in known else wider[name]))
                    _add(loop.kinds.setdefault(name, []), kind, {"kind": "many"})
        except Exception:  # a value that cannot be described is one of a kind that nobody knows
            _add(loop.kinds.setdefault(name, []), {"kind": "many"}, {"kind": "many"})
        finally:
            self._own.busy = False
            del frame, known, wider

    def forget(self) -> None:
        """In a forked worker: the parent's recording is not ours to go on with."""
        self._live = False

    def finish(self) -> None:
        """The last note, where the program ends in good order."""
        self._foreigners = self._foreign()
        self.note()

    def note(self) -> None:
        """Write the counts down; the last note counts."""
        if not self._live:
            return
        self._noted = time.perf_counter()
        functions = {
            number: {"entries": w.entries, "kinds": w.kinds, "shapes": w.shapes, "skipped": dict(w.skipped),
                     "callers": sorted(w.callers)}
            for number, w in self._functions.items()
            if w.entries
        }
        loops = {number: loop.kinds for number, loop in self._loops.items() if loop.entries}
        sites = [
            [site.entries, site.steps, max(site.longest, site.running), site.seconds] for site in self._sites.values()
        ]
        seconds = self._noted - self._began
        self._log.counts({"functions": functions, "loops": loops, "sites": sites, "seconds": seconds,
                          "foreign": self._foreigners})  # fmt: skip

    def _note(self, period: float = _PERIOD) -> None:
        if self._live and time.perf_counter() - self._noted > period:
            self.note()
            self._stop_if_enough()

    def _examine(self, watched: Watched, values: tuple[Any, ...], frame: FrameType) -> None:
        kinds = [describe(value) for value in values]
        for name, kind in zip(watched.about["parameters"], kinds, strict=True):
            _add(watched.kinds.setdefault(name, []), core(kind), {"kind": "many"})
            if "shape" in kind:
                _add(watched.shapes.setdefault(name, []), kind["shape"], [])
        if not watched.wanted:
            return
        watched.since_new += 1
        why_not = watched.about["unreachable"] or ("traced" if any(map(is_traced, kinds)) else "")
        if why_not:
            watched.skipped[why_not] += 1
            self._ask_caller(watched, frame)
        elif (slot := watched.slot(repr(kinds), self._limits.calls)) is not None:
            self._store(watched, values, repr(kinds), frame, slot)

    def _store(self, watched: Watched, values: tuple[Any, ...], structure: str, frame: FrameType, slot: int) -> None:
        try:
            if self._bytes >= self._limits.total_bytes:
                raise Unrecordable("the recording is full")
            room = min(self._limits.call_bytes, self._limits.total_bytes - self._bytes)
            written = write(_as_call(watched.about, values), room, self._secrets)
        except Unrecordable as why:
            watched.skipped[str(why)] += 1
            return
        if written.digest in watched.digests:
            return
        name = f"{watched.about['number']}-{slot}.npz"
        module = frame.f_globals.get("__name__", "")
        mark = self._marker(frame) if written.uses_main or module == "__main__" else None
        structures = [*watched.kept[:slot], structure]
        self._log.call(name, written, {
            "function": watched.about["number"], "structure": structures.index(structure), "config": _config(),
            "mark": mark.as_json() if mark is not None else None, "module": module,
            "roots": _roots(self._root),
        })  # fmt: skip
        self._bytes += written.size
        watched.since_new, watched.last_new = 0, time.perf_counter()
        watched.digests.add(written.digest)
        watched.kept[slot : slot + 1] = [structure]

    def _ask_caller(self, watched: Watched, frame: FrameType) -> None:
        """The nearest function outside that can be called by itself will stand for this one."""
        outer = frame.f_back
        while outer is not None:
            code = outer.f_code
            number = self._by_code.get((os.path.realpath(code.co_filename), code.co_firstlineno, code.co_name))
            caller = self._functions.get(number) if number is not None else None
            if caller is not None and number is not None and self._stands_alone(caller):
                watched.callers.add(number)
                caller.wanted = True
                if not caller.about["parameters"] and not caller.kept:
                    self._store(caller, (), "[]", outer, 0)
                return
            outer = outer.f_back

    def _stands_alone(self, caller: Watched) -> bool:
        seen = [kind for kinds in caller.kinds.values() for kind in kinds]
        return not caller.about["unreachable"] and not any(is_traced(kind) for kind in seen)

    def _stop_if_enough(self) -> None:
        """Once every function that is waited for, or whoever stands for it, has calls enough."""
        if self._enough is None or not self._live:
            return
        if all(self._is_seen(w) for w in self._functions.values() if w.about["awaited"]):
            stop, self._enough = self._enough, None
            self.note()
            stop()

    def _is_seen(self, watched: Watched) -> bool:
        if watched.callers:
            return all(self._has_enough(self._functions[number]) for number in watched.callers)
        return self._has_enough(watched)

    def _has_enough(self, watched: Watched) -> bool:
        if watched.is_full(self._limits.calls):
            return True
        waited = time.perf_counter() - watched.last_new > _PATIENCE
        return bool(watched.kept) and (not watched.about["parameters"] or waited)


def _add(known: list[Any], new: Any, rest: Any) -> None:
    """Keep what is new; `rest` stands for all that do not fit."""
    if new not in known and len(known) <= _KINDS:
        known.append(new if len(known) < _KINDS else rest)


def _as_call(about: Mapping[str, Any], values: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments as they are passed: from the parameters in the order of the signature."""
    rest = list(values)
    positional = [rest.pop(0) for _ in range(about["positional"])][about["bound"] :]
    if about["vararg"]:
        positional += rest.pop(0)
    named = {name: rest.pop(0) for name in about["keywords"]}
    return tuple(positional), {**named, **(rest.pop(0) if about["kwarg"] else {})}


def _roots(root: str) -> list[str]:
    """The folders of the project that modules are imported from, relative to its root."""
    places = [os.path.realpath(entry or os.getcwd()) for entry in sys.path if isinstance(entry, str)]
    inside = [place for place in places if (place + os.sep).startswith(root + os.sep)]
    parts = [place[len(root) + 1 :].replace(os.sep, "/") for place in inside if "site-packages" not in place]
    return list(dict.fromkeys(parts))


def _config() -> dict[str, Any]:
    jax = sys.modules.get("jax")
    found = {name: getattr(jax.config, name, None) for name in _CONFIG} if jax is not None else {}
    return {name: value for name, value in found.items() if isinstance(value, bool | str | None)}
