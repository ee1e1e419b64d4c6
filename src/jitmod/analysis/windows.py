"""Windows: slices of one length that a loop's position moves along an array, `x[i : i + w]`.

Python's slices end where the array does, and negative bounds count from its end; `jax.lax.dynamic_slice` moves a window
that does not fit. Both give the same where every window lies inside, so that is proved here, or left to a guard.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from jitmod.analysis.loops import header, is_range
from jitmod.analysis.polynomials import Polynomial, constant, length_atom, polynomial
from jitmod.analysis.ssa import Body, Environment, Node, Value
from jitmod.analysis.values import Array, NdArray, Number, length_of
from jitmod.source.nodes import walk


@dataclass(frozen=True, eq=False)
class Cut:
    """A slice along one axis that begins at `start` and has `width` items, which no iteration changes.

    `position` is the loop's name in `start`, None where the cut stays where it is; `rises`: it never moves back where
    the loop's range counts upwards. `first` is where the first one begins, if that is known; `ends`: the last one is
    known to end inside of the array where the range counts upwards.
    """

    axis: int
    start: Polynomial
    width: Polynomial
    position: str | None = None
    rises: bool = True
    first: int | None = None
    ends: bool = False


@dataclass(frozen=True, eq=False)
class Window:
    """A part of the array `expr.value`, cut along some axes. `made`: host arithmetic that only says where."""

    expr: ast.Subscript
    cuts: tuple[Cut, ...]
    made: frozenset[Node] = frozenset()

    @property
    def names(self) -> list[ast.Name]:
        """The names that say where the part lies, one mention each where they are those of numbers, and its array's."""
        moved = {cut.axis for cut in self.cuts}
        roots: list[ast.expr] = [p for k, p in enumerate(axes_of(self.expr)) if k not in moved]
        roots += [node for cut in self.cuts for p in (cut.start, cut.width) for node in p.written.values()]
        nodes = [n for root in [self.expr.value, *roots] for n in walk(root)]
        return [n for n in nodes if isinstance(n, ast.Name) and n.id != "len"]

    @property
    def bounds(self) -> set[ast.AST]:
        """What the user's text says of the bounds, as far as `names` does without it."""
        return set(walk(self.expr.slice)) - set(self.names)


@dataclass(frozen=True)
class Outside(Exception):
    """A window that is known to end behind its array, or to begin before it."""


def window_of(expr: ast.Subscript, env: Environment) -> Window | None:
    """The window that an expression of a loop body is; None where it is another one. Raises `Outside`."""
    if not isinstance(expr.value, ast.Name | ast.Attribute) or not is_range(header(env.loop)[1]):
        return None
    kind = env.kind(expr.value)
    if not isinstance(kind, Array | NdArray) or (isinstance(kind, Array) and kind.is_key):
        return None
    if set(_origins(expr.value, env)) != {"invariant"} or not all(_is_basic(part, env) for part in axes_of(expr)):
        return None
    integers = _Integers(env)
    cuts = []
    for axis, part in enumerate(axes_of(expr)):
        moves = not set(_origins(part, env)) <= {"invariant"}
        if isinstance(part, ast.Slice) and part.lower is not None and (moves or set(_origins(part.lower, env))):
            cut = _cut(part, axis, expr.value, integers)
            if cut is None:
                return None
            cuts.append(cut)
        elif moves:
            return None
    return Window(expr, tuple(cuts), frozenset(integers.made)) if any(cut.position for cut in cuts) else None


def axes_of(expr: ast.Subscript) -> list[ast.expr]:
    """What a subscript says of each axis."""
    return expr.slice.elts if isinstance(expr.slice, ast.Tuple) else [expr.slice]


@dataclass(frozen=True, eq=False)
class _Integers:
    """Reads integers of a loop body down to the loop's position and what no iteration changes."""

    env: Environment
    made: set[Node] = field(default_factory=set)  # the statements on the way

    def of(self, expr: ast.expr, values: Mapping[ast.expr, Value] | None = None) -> Polynomial | None:
        """The polynomial of an expression; `values` are those of its names, unless it stands where the window does."""
        found = polynomial(expr)
        for atom, node in list(found.written.items()) if found is not None else ():
            for name in walk(node):
                if not isinstance(name, ast.Name) or name.id == "len":
                    continue
                if self.env.is_local(name):
                    return None
                value = self.env.read(name.id, name) if values is None else values[name]
                inner = self._made(value) if name is node and value.origin == "node" else None
                if inner is not None and found is not None:
                    found = found.at(atom, inner)
                elif value.origin not in ("invariant", "item") or self.env.read(name.id, name) is not value:
                    return None
        return found

    def _made(self, value: Value) -> Polynomial | None:
        """The polynomial behind `start = k * stride`."""
        match value.maker:
            case Node(op="host", statement=ast.Assign(targets=[ast.Name()], value=expr), guards=()) as maker:
                found = self.of(expr, maker.uses) if self.env.kind(expr) == Number("int") else None
                self.made.update({maker} if found is not None else ())
                return found
        return None


def _cut(part: ast.Slice, axis: int, array: ast.expr, integers: _Integers) -> Cut | None:
    if part.lower is None or part.upper is None or not (part.step is None or ast.unparse(part.step) == "1"):
        return None
    start, stop, env = integers.of(part.lower), integers.of(part.upper), integers.env
    if start is None or stop is None:
        return None
    nodes = [n for p in (start, stop) for node in p.written.values() for n in walk(node)]
    names = [n for n in nodes if isinstance(n, ast.Name) and n.id != "len"]
    moving, width = {n.id for n in names if env.read(n.id, n).origin == "item"}, stop - start
    if any(not env.body.env[name].is_position for name in moving) or len(moving) > 1:
        return None
    if width.number is not None and width.number <= 0:
        raise Outside
    if not moving:
        return Cut(axis, start, width)
    (position,) = moving
    slope = start.slope(position)
    if slope is None or width.mentions(position) or (slope.number is not None and slope.number <= 0):
        return None
    first, ends = _bounds(start, stop, position, array, axis, env)
    return Cut(axis, start, width, position, slope.number is not None, first, ends and slope.number is not None)


def _origins(part: ast.expr, env: Environment) -> Iterator[str]:
    """Where the values of the names in an expression come from."""
    for name in walk(part):
        if isinstance(name, ast.Name) and name.id != "len":
            yield "local" if env.is_local(name) else env.read(name.id, name).origin


def _is_basic(part: ast.expr, env: Environment) -> bool:
    """A slice or integer that takes up one axis."""
    bounds = [part.lower, part.upper, part.step] if isinstance(part, ast.Slice) else [part]
    return all(b is None or (env.kind(b) == Number("int") and polynomial(b) is not None) for b in bounds)


def _bounds(
    start: Polynomial, stop: Polynomial, position: str, array: ast.expr, axis: int, env: Environment
) -> tuple[int | None, bool]:
    """Where the first window begins, if that is known, and whether the last one ends in the array. Raises `Outside`."""
    begin, limit, step = range_of(header(env.loop)[1])
    low = start.at(position, begin) if begin is not None else None
    high = stop.at(position, limit - constant(1)) if limit is not None else None
    first = low.number if low is not None else None
    known = length_of(env.kind(array)) if axis == 0 else None
    lengths = [polynomial(ast.parse(length_atom(array, axis), mode="eval").body)]
    lengths += [constant(known)] if isinstance(known, int) else []
    room = [length - high for length in lengths if length is not None and high is not None]
    if (first is not None and first < 0) or (step == constant(1) and any((r.number or 0) < 0 for r in room)):
        raise Outside
    spare = [(length - high.at_most()).number for length in lengths if length is not None and high is not None]
    return first, any(number is not None and number >= 0 for number in spare)


def range_of(iterable: ast.expr) -> tuple[Polynomial | None, Polynomial | None, Polynomial | None]:
    """Start, stop and step of a range that is written out, each where it is a polynomial."""
    args = iterable.args if isinstance(iterable, ast.Call) else []
    found = [polynomial(a) for a in args]
    match found:
        case [stop]:
            return constant(0), stop, constant(1)
        case [start, stop]:
            return start, stop, constant(1)
        case [start, stop, step]:
            return start, stop, step
    return None, None, None


def drop_spent(body: Body, live: frozenset[str]) -> None:
    """Take out host arithmetic that only says where windows begin, where they all are traced: `start = k * stride`."""
    traced = {n for node in body.device_nodes() if node.expr is not None for n in walk(node.expr)}
    bounds = {n for w in body.windows.values() if w.expr in traced for n in w.bounds}
    made = {node for w in body.windows.values() for node in w.made}
    for node in reversed([n for n in body.nodes if n in made]):
        (name,) = node.makes
        value = node.makes[name]
        read = any(value in values for other in body.nodes for values in other.flows.values()) or any(
            value is used and expr not in bounds for other in body.nodes for expr, used in other.uses.items()
        )
        if not read and not (name in live and body.env[name] is value):
            body.nodes.remove(node)
            body.spent.append(node.statement)
