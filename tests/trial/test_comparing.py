"""Parity: what counts as equal in values, structure and printed text."""

from __future__ import annotations

import array
import collections
import contextvars
import dataclasses
import enum
import threading
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jitmod.trial.child import text
from jitmod.trial.child.compare import compare, stable, widened
from jitmod.trial.child.parity import Reference
from jitmod.trial.child.program import Observation
from jitmod.trial.child.snapshot import arrays, snapshot

X = jnp.linspace(0.0, 1.0, 6, dtype=jnp.float32).reshape(2, 3)


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclasses.dataclass
class Plain:
    a: Any


class Net(eqx.Module):
    w: jax.Array
    size: int = eqx.field(static=True)


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x

    def get(self) -> Any:
        return self.x


class Plainly:
    def __init__(self, number: int) -> None:
        self.number = number


class Unreadable:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __repr__(self) -> str:
        raise RuntimeError("no text")


@dataclasses.dataclass(frozen=True)
class Point:
    a: Any


def thawed(value: Any) -> Any:
    made = dataclasses.make_dataclass("Point", ["a"])
    made.__module__ = __name__
    return made(value)


class Tagged(np.ndarray[Any, Any]):
    pass


class Listed(list[Any]):
    pass


class Name(str):
    pass


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@jax.tree_util.register_pytree_node_class
class Registered:
    def __init__(self, a: Any, n: int) -> None:
        self.a, self.n = a, n

    def tree_flatten(self) -> tuple[tuple[Any], tuple[int]]:
        return (self.a,), (self.n,)

    @classmethod
    def tree_unflatten(cls, static: tuple[int], children: tuple[Any]) -> Registered:
        return cls(*children, *static)


RECORDS = np.array([(1.0, 2)], [("a", "f4"), ("b", "i4")])
FILLED = jnp.array([-1.0, -0.3, 0.4, 1.0, -1e9, -1e9, -1e9, -1e9, -1e9])


def noted(*notes: str) -> ValueError:
    made = ValueError("a")
    for note in notes:
        made.add_note(note)
    return made


def caused(cause: Exception | None) -> ValueError:
    made = ValueError("a")
    made.__cause__ = cause
    return made


def context(value: int) -> Any:
    made: contextvars.ContextVar[int] = contextvars.ContextVar("made")
    made.set(value)
    return made


def linked(length: int) -> Any:
    found: Any = None
    for number in range(length):
        found = (number, found)
    return found


def shared(levels: int) -> Any:
    found: Any = 0.5
    for _ in range(levels):
        found = [found, found]
    return found


def attributed(value: Any, number: int) -> Any:
    made = Listed(value) if isinstance(value, list) else value
    made.tag = number
    return made


def adding(number: int) -> Any:
    return lambda x: x + number


def started(steps: int) -> Any:
    made = (number for number in range(3))
    for _ in range(steps):
        next(made)
    return made


def knot(at: int) -> Any:
    inner: list[Any] = []
    outer = [inner]
    inner.append((outer, inner)[at])
    return outer


def moved_last(numbers: list[float], by: float) -> list[float]:
    return [*numbers[:-1], float(np.float32(numbers[-1] + by))]


NUMBERS = [float(np.float32(x)) for x in (0.3, -0.7, 0.5, 0.2, 0.0009)]
EQUAL = {
    "rounding of float32": (X, X * (1 + 3e-6)),
    "tiny against the leaf's scale": (jnp.array([1e3, 0.0]), jnp.array([1e3, 5e-3])),
    "rounding of bfloat16": (X.astype(jnp.bfloat16), (X * 1.004).astype(jnp.bfloat16)),
    "NaN and infinity in the same places": (jnp.array([jnp.nan, jnp.inf, 1.0]), jnp.array([jnp.nan, jnp.inf, 1.0])),
    "keys that a compiled function has sorted": ({"b": X, "a": 1}, {"a": 1, "b": X}),
    "what jax says of its frames": (noted("mine"), noted("mine", "JAX has removed its internal frames.")),
    "modules": (Net(X, 3), Net(X, 3)),
    "empty": (jnp.zeros((0, 3)), jnp.zeros((0, 3))),
    "keys": (jax.random.key(3), jax.random.key(3)),
    "host copy of a float32 result": (float(X[1, 1]), float(X[1, 1] * (1 + 1e-6))),
    "what cancellation leaves beside ones": (jnp.array([1.0, 3e-8, -2e-8]), jnp.array([1.0, 0.0, 4e-8])),
    "a number of a list that is next to nothing": (NUMBERS, moved_last(NUMBERS, 3e-7)),
    "an array of a list that is next to nothing": ([*map(jnp.float32, NUMBERS)],
                                                   [*map(jnp.float32, moved_last(NUMBERS, 3e-7))]),
    "a number of each item of a list": ([{"loss": x} for x in NUMBERS],
                                        [{"loss": x} for x in moved_last(NUMBERS, 3e-7)]),
    "one rounding of float8": (jnp.ones(2, jnp.float8_e4m3fn), jnp.ones(2, jnp.float8_e4m3fn) * 1.125),
    "NaT": (np.array(["NaT"], "M8[s]"), np.array(["NaT"], "M8[s]")),
    "records": (RECORDS.copy(), RECORDS.copy()),
    "float0": (np.zeros(2, jax.dtypes.float0), np.zeros(2, jax.dtypes.float0)),
    "int4": (jnp.ones(2, jnp.int4), jnp.ones(2, jnp.int4)),
    "sets of objects": ({Plainly(i) for i in range(4)}, {Plainly(i) for i in reversed(range(4))}),
    "objects as keys": ({Plainly(1): X}, {Plainly(1): X}),
    "unreadable objects": (Unreadable(), Unreadable()),
    "long linked lists": (linked(3000), linked(3000)),
    "shared levels": (shared(40), shared(40)),
    "generators at the same place": (started(1), started(1)),
}
UNEQUAL = {
    "a small number of a list by more than rounding": (NUMBERS, moved_last(NUMBERS, 3e-5), "values"),
    "a small number of a tuple": (tuple(NUMBERS), tuple(moved_last(NUMBERS, 3e-7)), "values"),
    "numbers of two kinds": ([(x, 1e-6) for x in NUMBERS], [(x, 2e-6) for x in NUMBERS], "values"),
    "float32 off by a thousandth": (X, X * 1.001, "values"),
    "one element": (X, X.at[1, 2].add(1e-2), "values"),
    "integer off by one": (jnp.arange(4), jnp.arange(4).at[2].add(1), "values"),
    "NaN appears": (X, X.at[0, 0].set(jnp.nan), "values"),
    "infinity changes sign": (jnp.array([jnp.inf]), jnp.array([-jnp.inf]), "values"),
    "string": ("a", "b", "values"),
    "bool": (True, False, "values"),
    "key": (jax.random.key(3), jax.random.key(4), "values"),
    "static field": (Net(X, 3), Net(X, 4), "values"),
    "function": ([np.sin], [np.cos], "values"),
    "dtype": (X, X.astype(jnp.float16), "structure"),
    "shape": (X, X.T, "structure"),
    "numpy for jax": (X, np.asarray(X), "structure"),
    "Python number for array": (X[0, 0], float(X[0, 0]), "structure"),
    "numpy number for Python number": (1.0, np.float64(1.0), "structure"),
    "tuple for list": ([X], (X,), "structure"),
    "tuple for named tuple": (Pair(X, X), (X, X), "structure"),
    "longer list": ([X], [X, X], "structure"),
    "shorter list": ([X, X], [X], "structure"),
    "other key": ({"a": X}, {"b": X}, "structure"),
    "None for array": (X, None, "structure"),
    "inside a plain object": (Plain(X), Plain(X + 1), "values"),
    "beside a fill value": (FILLED, FILLED.at[:4].set(0.0), "values"),
    "beside one huge element": (jnp.array([1e6, 0.5]), jnp.array([1e6, 3.0]), "values"),
    "count in float32": (jnp.float32(100_000), jnp.float32(100_001), "values"),
    "count in a Python number": (20_000.0, 20_001.0, "values"),
    "host double, off by single precision": (np.array([0.1, 0.2]), np.float64([0.1, 0.2]) * (1 + 1e-7), "values"),
    "part of a complex NaN": (jnp.array([complex("nan+1j")]), jnp.array([complex("nan+2j")]), "values"),
    "field of a record": (RECORDS, np.array([(1.0, 3)], RECORDS.dtype), "values"),
    "deque": (collections.deque([X]), collections.deque([X + 1]), "values"),
    "slots": (Slotted(1), Slotted(2), "values"),
    "static data of a registered class": (Registered(X, 3), Registered(X, 4), "values"),
    "Decimal": (Decimal(1), Decimal(2), "values"),
    "Fraction": (Fraction(1), Fraction(2), "values"),
    "date": (date(2020, 1, 1), date(2021, 1, 1), "values"),
    "path": (PurePath("a"), PurePath("b"), "values"),
    "bytearray": (bytearray(b"a"), bytearray(b"b"), "values"),
    "array.array": (array.array("d", [1]), array.array("d", [2]), "values"),
    "mask": (np.ma.array([1.0, 2.0], mask=[0, 1]), np.ma.array([1.0, 2.0], mask=[1, 0]), "values"),
    "view of a dict": ({1: 1}.values(), {1: 2}.values(), "values"),
    "attribute of a list": (attributed([1], 1), attributed([1], 2), "values"),
    "attribute that is no field": (attributed(Plain(1), 1), attributed(Plain(1), 2), "values"),
    "state of a generator": (np.random.default_rng(0), np.random.default_rng(1), "values"),
    "arguments of an exception": (ValueError("a"), ValueError("b"), "values"),
    "closure": (adding(1), adding(2), "values"),
    "closure of a compiled function": (jax.jit(adding(1)), jax.jit(adding(2)), "values"),
    "object of a bound method": (Slotted(1).get, Slotted(2).get, "values"),
    "member of an enumeration": (Colour.RED, Colour.BLUE, "values"),
    "value of a member": (Colour.RED, enum.Enum("Colour", {"RED": 9}, module=__name__).RED, "values"),
    "what a dict makes of a missing key": (
        collections.defaultdict(list, a=1),
        collections.defaultdict(int, a=1),
        "values",
    ),
    "string of its own class": (Name("a"), Name("b"), "values"),
    "generators at other places": (started(0), started(1), "structure"),
    "where a cycle leads": (knot(0), knot(1), "values"),
    "keys in another order": ({"a": 1, "b": X}, {"b": X, "a": 1}, "structure"),
    "sorted keys where order matters": (
        collections.OrderedDict(b=1, a=1),
        collections.OrderedDict(a=1, b=1),
        "structure",
    ),
    "attribute of a registered class": (attributed(Registered(X, 3), 1), attributed(Registered(X, 3), 2), "values"),
    "attribute of an array": (attributed(np.ones(2).view(Tagged), 1), attributed(np.ones(2).view(Tagged), 2), "values"),
    "what a masked item is filled with": (
        np.ma.array([1.0], fill_value=1.0),
        np.ma.array([1.0], fill_value=2.0),
        "values",
    ),
    "note of an exception": (noted("mine"), noted("yours"), "values"),
    "cause of an exception": (caused(KeyError("a")), caused(None), "structure"),
    "object of a method that is written in C": ([1].append, [2].append, "values"),
    "context": (context(1), context(2), "values"),
    "what a thread has of its own": (attributed(threading.local(), 1), attributed(threading.local(), 2), "values"),
    "instances that may change": (Point(1), thawed(1), "structure"),
    "inside an object array": (np.array([X, None], object), np.array([None, X], object), "structure"),
}


@pytest.mark.parametrize("name", EQUAL)
def test_agrees(name: str) -> None:
    left, right = EQUAL[name]
    assert compare(snapshot(left), snapshot(right)).failure is None


@pytest.mark.parametrize("name", UNEQUAL)
def test_differs(name: str) -> None:
    left, right, test = UNEQUAL[name]
    failure = compare(snapshot(left), snapshot(right)).failure
    assert failure is not None and failure["test"] == test


@pytest.mark.parametrize(("got", "path"), [({"s": 7.5, "y": X}, None), ({"s": 0.5, "y": X + 1}, "output['y']")])
def test_what_varies_from_run_to_run_says_nothing(got: Any, path: str | None) -> None:
    runs = [snapshot({"s": seconds, "y": X}) for seconds in (0.1234567890123, 0.25)]
    found = stable(runs[0], runs[1], snapshot(got))
    assert (found.failure and found.failure["path"]) == path
    assert "output['s']" not in found.errors


def test_failure_names_the_worst_element() -> None:
    failure = compare(snapshot({"y": X}), snapshot({"y": X.at[1, 2].add(1.0).at[0, 1].add(0.1)})).failure
    assert failure is not None
    assert (failure["path"], failure["index"], failure["shape"]) == ("output['y']", [1, 2], [2, 3])
    assert (float(failure["expected"]), float(failure["got"])) == (1.0, 2.0)


def test_doubles_are_compared_as_doubles_whatever_jax_has_now() -> None:
    with jax.enable_x64(True):
        arrays = [snapshot(jnp.array([1.0 + off])) for off in (0.0, 1e-7, 1e-12)]
    for one, near, nearer in (arrays, [snapshot(1.0 + off) for off in (0.0, 1e-7, 1e-12)]):
        assert compare(one, near).failure is not None
        assert compare(one, nearer).failure is None


@pytest.mark.parametrize(("moved", "agrees"), [(1e-7, True), (1e-16, False)])
def test_doubles_that_single_precision_moves_have_its_bounds(moved: float, agrees: bool) -> None:
    exact, got = snapshot(0.1), snapshot(0.1 * (1 + 1e-6))
    rounding = compare(exact, snapshot(0.1 * (1 + 2 * moved))).errors
    allowed = {name: widened(name, 1.0, size) for name, size in rounding.items()}
    assert (compare(exact, got, slack=allowed).failure is None) is agrees


def test_snapshot_survives_donation_and_mutation() -> None:
    buffer = np.zeros(3)
    before = snapshot(buffer)
    buffer[1] = 7
    assert compare(before, snapshot(buffer)).failure is not None
    donated = jnp.ones(3)
    donated.delete()
    assert [entry.kind for entry in snapshot(donated)] == ["deleted"]


def test_cycles_and_opaque_objects_end() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert [entry.kind for entry in snapshot(loop)] == ["container", "cycle"]
    closed = np.nditer(np.zeros(1))
    assert compare(snapshot(closed), snapshot(closed)).opaque == ("output",)


def test_other_code_of_a_returned_function_cannot_be_compared() -> None:
    one, two = (lambda x: x * 2.0), (lambda x: x * 3.0)
    assert compare(snapshot(one), snapshot(two)).opaque == ("output.code",)
    assert compare(snapshot(one), snapshot(one)).opaque == ()
    first, second = ((2 * x for x in [1]), (3 * x for x in [1]))
    assert compare(snapshot(first), snapshot(second)).opaque == ("output.code",)
    twice, thrice = (jax.jit(f).lower(1.0).compile() for f in (one, two))
    assert compare(snapshot(twice), snapshot(thrice)).opaque == ("output",)
    assert compare(snapshot(twice), snapshot(twice)).opaque == ()


def test_weak_types_are_reported() -> None:
    assert compare(snapshot(jnp.asarray(1.0)), snapshot(jnp.float32(1.0))).weak_types == ("output",)


def test_arrays_inside_plain_objects_are_waited_for() -> None:
    assert len(arrays([X, Plain(X), "text"])) == 2
    assert len(arrays([Plain({"b": [X]}), collections.deque([X]), Slotted((X, X)), {1: Unreadable()}])) == 4


SAME_TEXT = {
    "equal": ("loss 0.5", "loss 0.5"),
    "rounding": ("loss 0.512345", "loss 0.512346"),
    "last printed digit": ("loss 0.512", "loss 0.513"),
    "coarse durations": ("epoch 3 took 1.2 s", "epoch 3 took 0.1 s"),
    "rates": ("12.3 it/s", "99.0 it/s"),
    "addresses": ("<f at 0x7f00aa>", "<f at 0x7f11bb>"),
    "width of arrays": ("[1. 2.]", "[ 1.0000001  2.       ]"),
    "nan": ("loss nan", "loss nan"),
}
OTHER_TEXT = {
    "number": ("loss 0.512", "loss 0.520"),
    "coarse number": ("loss 0.5", "loss 0.6"),
    "integer": ("step 10", "step 11"),
    "hash": ("params 0xdeadbeef", "params 0x12345678"),
    "padded number": ("run 007", "run 7"),
    "explicit sign": ("offset +5", "offset 5"),
    "version": ("release v1.10", "release v1.1"),
    "number of another kind": ("step 3", "step 3.0"),
    "word": ("loss 0.5", "cost 0.5"),
    "missing token": ("loss 0.5 0.7", "loss 0.5"),
    "simulated time": ("t = 5.0 s", "t = 4.99 s"),
    "steps that look like seconds": ("5 steps", "6 steps"),
}


@pytest.mark.parametrize("name", SAME_TEXT)
def test_text_agrees(name: str) -> None:
    left, right = SAME_TEXT[name]
    line = [("stdout", left)]
    assert text.compare(line, line, [("stdout", right)], 1.0) is None


@pytest.mark.parametrize("name", OTHER_TEXT)
def test_text_differs(name: str) -> None:
    left, right = OTHER_TEXT[name]
    line = [("stdout", left)]
    failure = text.compare(line, line, [("stdout", right)], 1.0)
    assert failure is not None and failure["test"] == "effects"


@pytest.mark.parametrize(
    ("got", "line"),
    [
        ([("stdout", "a")], 2),
        ([("stdout", "a"), ("stdout", "b"), ("stdout", "c")], 3),
        ([("stdout", "b"), ("stdout", "a")], 1),
        ([("stdout", "a"), ("stderr", "b")], 2),
    ],
    ids=["lost line", "new line", "other order", "other channel"],
)
def test_lines_count(got: list[tuple[str, str]], line: int) -> None:
    expected = [("stdout", "a"), ("stdout", "b")]
    failure = text.compare(expected, expected, got, 1.0)
    assert failure is not None and failure["line"] == line


IN_FILES = {
    "a cell fewer": ("1\t\t5", "1\t5", False),
    "a cell at the end": ("1\t", "1", False),
    "end of a line of csv.writer": ("1,2\r", "1,2", False),
    "indentation": ("  deeper: 1", "deeper: 1", False),
    "indentation of items": ("    - deeper", "  - deeper", False),
    "a word and a number": ("a 1,2", "a1,2", False),
    "a number and a word": ("5 m, 2", "5m, 2", False),
    "width of arrays": (" [ 1.  nan 2.]", "[1. nan  2.00001 ]", True),
    "columns": ("   0.5 a\t 1.25", "0.5  a\t1.25", True),
    "rates": ("took 12.3 it/s", "took 99.0 it/s", True),
    "space around signs": ("{'a' : 1}", "{'a': 1}", True),
}


@pytest.mark.parametrize("name", IN_FILES)
def test_white_space_in_files(name: str) -> None:
    left, right, agrees = IN_FILES[name]
    line = [("file a.tsv", left)]
    assert (text.compare(line, line, [("file a.tsv", right)], 1.0) is None) is agrees
    shown = [("stdout", left)]
    assert text.compare(shown, shown, [("stdout", right)], 1.0) is None


THIRD, SINGLE = 1 / 3, float(np.float32(1 / 3))


@pytest.mark.parametrize(
    ("one", "got", "slack", "agrees"),
    [
        (THIRD, THIRD + 2e-7, None, True),
        (THIRD, THIRD + 1e-6, None, False),
        (THIRD, THIRD + 1e-6, {"text 1.2 in double": 1.0}, True),  # rounding of single precision explains it
        (THIRD, THIRD + 1e-6, {"text 1.2 in double": 0.01}, False),
        (THIRD, SINGLE, None, True),
        (SINGLE, SINGLE + 2**-24, None, True),
        (f"{SINGLE:.12f}", f"{SINGLE + 2**-24:.12f}", None, True),
        (f"{THIRD:.9f}", f"{THIRD + 1e-6:.9f}", None, True),
        (THIRD, "nan", {"text 1.2 in double": 1.0}, False),
    ],
)
def test_doubles_in_text(one: Any, got: Any, slack: dict[str, float] | None, agrees: bool) -> None:
    said = [Observation(lines=[("stdout", f"mean {value}")]) for value in (one, got)]
    judged = Reference((said[0],), (said[0],), 1.0, None).judge(0, said[1], slack)
    assert (judged.failure is None) is agrees, judged.failure
    assert agrees or got == "nan" or 0.01 < judged.errors["text 1.2 in double"] < 1


def test_tokens_that_vary_in_the_baseline_do_not_count() -> None:
    first, again = [("stdout", "id 17 loss 0.5")], [("stdout", "id 23 loss 0.5")]
    assert text.compare(first, again, [("stdout", "id 99 loss 0.5")], 1.0) is None
    assert text.compare(first, again, [("stdout", "id 99 loss 0.7")], 1.0) is not None


@pytest.mark.parametrize(
    ("expected", "got", "agrees"),
    [
        (1.0, 1.004, True), (1.0, 1.006, False), (float("nan"), float("nan"), True), (float("nan"), 1.0, False),
        (float("inf"), float("inf"), True), (float("inf"), 1.0, False), (1.0, float("inf"), False),
        (float("-inf"), float("inf"), False),
    ],
)  # fmt: skip
def test_metrics_agree(expected: float, got: float, agrees: bool) -> None:
    calls = [Observation(output=snapshot(X), metric=metric) for metric in (expected, got)]
    judged = Reference((calls[0],), (calls[0],), 1.0, 0.005).judge(0, calls[1])
    assert (judged.failure is None) is agrees
