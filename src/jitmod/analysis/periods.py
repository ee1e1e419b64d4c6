"""Blocks of iterations: the whole loop, a period at whose end host work is due, or a chunk of fixed size.

In a period the host work below `if i % k == c:` runs at most once, at the end of a block. What it leaves for the next
iteration therefore leaves the block, and does not stand between the iterations inside of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from jitmod.analysis.graph import Edge
from jitmod.analysis.ssa import Body, Node, Value
from jitmod.analysis.values import Number
from jitmod.source.nodes import walk


@dataclass(frozen=True, eq=False)
class Block:
    """`kind` is whole, period or chunk. A block ends after every iteration `i` with `i % size == phase`.

    `size` is a number, or the expression that gives it. `due` are the nodes that run only at the end of a block,
    `steady` the carried names that only they change; `test` is the node of the condition. `at_last`: work is due after
    the last iteration, too, wherever in its block that comes.
    """

    kind: str
    size: int | ast.expr = 0
    phase: int = 0
    due: frozenset[Node] = field(default_factory=frozenset)
    steady: frozenset[str] = field(default_factory=frozenset)
    test: Node | None = None
    at_last: bool = False

    def dropped(self, edges: Iterable[Edge]) -> frozenset[Edge]:
        """The dependences that leave the block."""
        return frozenset(e for e in edges if e.carried and e.first in self.due)


WHOLE = Block("whole")


def chunk(size: int) -> Block:
    """Blocks of `size` iterations; the last may be shorter."""
    return Block("chunk", size, size - 1)


def periods(body: Body, count: str | None = None) -> Iterator[Block]:
    """The periods after which host work of the body is due, in the body's order.

    `count`: the text of the number of iterations, so that the last one can be told.
    """
    for test in body.nodes:
        expr = test.expr
        at_last = False
        match expr:
            case ast.BoolOp(op=ast.Or(), values=[first, other]) if _is_last(other, count, test):
                expr, at_last = first, True
        found = _period(expr, test) if test.op == "test" else None
        if found is not None:
            condition = test.makes[""]
            due = {n for n in body.nodes if any(g.condition is condition and g.expected for g in n.guards)}
            merges = {n for n in body.nodes if _changes_only_when_due(n, condition, due)}
            names = frozenset(name for n in merges for name in n.makes if body.env.get(name) is n.makes[name])
            yield Block("period", *found, frozenset(due | merges), names & frozenset(body.carried), test, at_last)


def _changes_only_when_due(node: Node, condition: Value, due: set[Node]) -> bool:
    """A merge whose other arm is what the name had when the iteration began."""
    if node.op != "merge" or node.condition is not condition:
        return False
    return all(arms[1].origin == "carried" and arms[1].name == name for name, arms in node.flows.items())


def _is_last(expr: ast.expr, count: str | None, test: Node) -> bool:
    """`i == n - 1` and `i + 1 == n`, for a position that counts from 0 in a loop of n iterations."""
    match expr:
        case ast.Compare(left=ast.Name() as name, ops=[ast.Eq()], comparators=[ast.BinOp(
            left=limit, op=ast.Sub(), right=ast.Constant(value=1))]):  # fmt: skip
            pass
        case ast.Compare(left=ast.BinOp(left=ast.Name() as name, op=ast.Add(), right=ast.Constant(value=1)),
                         ops=[ast.Eq()], comparators=[limit]):  # fmt: skip
            pass
        case _:
            return False
    inside = set(walk(limit))
    fixed = all(v.origin == "invariant" for e, v in test.uses.items() if e in inside)
    plain = not any(isinstance(part, ast.Attribute | ast.Subscript) for part in inside)  # which anybody may change
    return _counts(name, test) and fixed and plain and ast.unparse(limit) == count


def _period(expr: ast.expr | None, test: Node) -> tuple[int | ast.expr, int] | None:
    """Size and phase of `i % k == c`, `(i + 1) % k == 0`, `not i % k`, for a position that counts from 0."""
    match expr:
        case ast.Compare(left=ast.BinOp(op=ast.Mod()) as left, ops=[ast.Eq()], comparators=[ast.Constant() as c]):
            return _cycle(left, c.value, test) if type(c.value) is int else None
        case ast.UnaryOp(op=ast.Not(), operand=ast.BinOp(op=ast.Mod()) as left):
            return _cycle(left, 0, test)
    return None


def _counts(name: ast.Name, test: Node) -> bool:
    position = test.uses.get(name)
    return position is not None and position.is_position and position.stream is not None and position.stream.from_zero


def _cycle(left: ast.BinOp, remainder: int, test: Node) -> tuple[int | ast.expr, int] | None:
    match left.left:
        case ast.Name() as name:
            shift = 0
        case ast.BinOp(left=ast.Name() as name, op=ast.Add(), right=ast.Constant(value=int(shift))):
            pass
        case _:
            return None
    if not _counts(name, test):
        return None
    match left.right:
        case ast.Constant(value=int(size)) if size > 0 and not isinstance(size, bool):
            return size, (remainder - shift) % size if 0 <= remainder < size else -1
        case ast.Name() as size_name:
            size_value = test.uses.get(size_name)
            fixed = size_value is not None and size_value.origin == "invariant" and size_value.kind == Number("int")
            return (size_name, remainder - shift) if fixed else None
    return None
