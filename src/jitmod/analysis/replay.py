"""The oracle: runs a plan in pure Python, piece by piece, so that it can be compared with the loop itself.

Every value gets its own cell per iteration (full scalar expansion), and every node runs as a small function of the
values that it reads. A wrong dependence, phi, merge or block therefore shows as a wrong result, not as a wrong text.
"""

from __future__ import annotations

import ast
import copy
import types
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, cast

from jitmod.analysis.loops import COLLECTING, header, names_of
from jitmod.analysis.periods import Block
from jitmod.analysis.plan import LoopPlan, Piece
from jitmod.analysis.ssa import Node, Value
from jitmod.source.nodes import walk

_HOOK = "__replay__"
_SELF = "__items__"
Code = dict[tuple[Node, frozenset[str]], types.CodeType]


@dataclass(eq=False)
class Replay:
    """One run of a plan. `outer` are the names around the loop, `space` the globals of its module."""

    plan: LoopPlan
    outer: Mapping[str, Any]
    space: MutableMapping[str, Any]
    cells: list[dict[Value, Any]] = field(default_factory=list)
    elements: list[dict[ast.expr, Any]] = field(default_factory=list)  # what a comprehension collects
    code: Code | None = None  # kept from an earlier run of the same plan

    def run(self) -> dict[str, Any]:
        """The names that the loop leaves bound, with their values."""
        items = list(self._items())
        self.cells = [self._bound(item, position) for position, item in enumerate(items)]
        self.elements = [{} for _ in items]
        start = 0
        for stop in self._ends(len(items)):
            for piece in self.plan.pieces:
                order = range(start, stop)  # a map must not care in which order its items come
                for position in reversed(order) if piece.kind == "map" else order:
                    self._iteration(piece, position, start)
            start = stop
        return self._left()

    # -- blocks ------------------------------------------------------------------------------------------------------

    def _ends(self, count: int) -> Iterator[int]:
        """The positions behind the last iteration of each block."""
        block = self.plan.block
        if block.kind == "whole":
            yield from [count] if count else []
            return
        size = self._size(block)
        for position in range(count):
            if size <= 1 or position % size == block.phase % size or position == count - 1:
                yield position + 1

    def _size(self, block: Block) -> int:
        if isinstance(block.size, int):
            return block.size
        return int(eval(compile(ast.Expression(block.size), "<block>", "eval"), dict(self.space), dict(self.outer)))

    # -- one iteration -----------------------------------------------------------------------------------------------

    def _items(self) -> Any:
        _, iterable = header(self.plan.loop)
        names = {n.id for n in walk(iterable) if isinstance(n, ast.Name)}
        local = {name: self.outer[name] for name in names if name in self.outer}
        return eval(compile(ast.Expression(iterable), "<items>", "eval"), {**self.space, **local})

    def _bound(self, item: Any, position: int) -> dict[Value, Any]:
        """The values that an iteration begins with: its items, under the names of the target."""
        target, _ = header(self.plan.loop)
        cells: dict[Value, Any] = {}
        for value in self._item_values():
            for name, path in names_of(target):
                if name.id == value.name:
                    found = item
                    for index in path:
                        found = found[index]
                    cells[value] = found
        return cells

    def _item_values(self) -> list[Value]:
        body = self.plan.body
        read = [v for node in body.nodes for v in node.reads()]
        return list({v: None for v in [*read, *body.env.values()] if v.origin == "item"})

    def _iteration(self, piece: Piece, position: int, start: int) -> None:
        for node in piece.nodes:
            if all(bool(self._cell(g.condition, position, start)) == g.expected for g in node.guards):
                self._node(node, position, start)

    def _node(self, node: Node, position: int, start: int) -> None:
        cells = self.cells[position]
        if node.op == "merge":
            assert node.condition is not None
            for name, (then, other) in node.flows.items():
                chosen = then if self._cell(node.condition, position, start) else other
                if self._has(chosen, position, start):
                    cells[node.makes[name]] = self._cell(chosen, position, start)
            return
        reads: dict[str, Value] = {}
        parts: dict[ast.expr, str] = {}
        for expr, value in node.uses.items():
            if isinstance(expr, ast.Name) and value.name == expr.id:
                reads[expr.id] = value
            else:
                parts[expr] = f"__part{len(parts)}"
                reads[parts[expr]] = value
        reads |= {name: values[0] for name, values in node.flows.items()}
        given = {name: self._cell(v, position, start) for name, v in reads.items() if self._has(v, position, start)}
        result = self._function(node, frozenset(given), parts)(**given)
        for name, value in node.makes.items():
            if (name or _SELF) in result:
                cells[value] = result[name or _SELF]
        if node.op == "host" and isinstance(self.plan.loop.node, COLLECTING):
            assert isinstance(node.statement, ast.Expr)
            self.elements[position][node.statement.value] = result[_SELF]

    # -- values ------------------------------------------------------------------------------------------------------

    def _has(self, value: Value, position: int, start: int) -> bool:
        try:
            self._cell(value, position, start)
        except KeyError:
            return False
        return True

    def _cell(self, value: Value, position: int, start: int) -> Any:
        """A value as the iteration at `position`, of a block that begins at `start`, sees it. Raises KeyError."""
        if value.origin == "carried":
            before = (start if value.name in self.plan.block.steady else position) - 1
            return self.outer[value.name] if before < 0 else self.cells[before][self.plan.body.env[value.name]]
        if value.origin == "invariant":
            return self.outer[value.name] if value.name in self.outer else self.space[value.name]
        return self.cells[position][value]

    def _left(self) -> dict[str, Any]:
        if not self.cells:
            return {}
        last = self.cells[-1]
        return {name: last[value] for name, value in self.plan.body.env.items() if value in last}

    # -- code --------------------------------------------------------------------------------------------------------

    def _function(self, node: Node, given: frozenset[str], parts: dict[ast.expr, str]) -> Callable[..., dict[str, Any]]:
        """The node as a function of the names that it reads and that have a value; it returns all its names."""
        kept = {} if self.code is None else self.code
        key = (node, given)
        if key not in kept:
            statement = self._statement(node, parts)
            arguments = ast.arguments([], [ast.arg(name) for name in sorted(given)], None, [], [], None, [])
            body = [statement, ast.parse("return locals()").body[0]]
            tree = ast.Module([ast.FunctionDef(_HOOK, arguments, body, [], None, None)], [])
            compiled = compile(ast.fix_missing_locations(tree), f"<line {node.statement.lineno}>", "exec")
            kept[key] = next(c for c in compiled.co_consts if isinstance(c, types.CodeType))
        return types.FunctionType(kept[key], cast(dict[str, Any], self.space))

    def _statement(self, node: Node, parts: dict[ast.expr, str]) -> ast.stmt:
        replaced = _Replaced({e: _part(e, node.uses[e], name) for e, name in parts.items()})
        comprehension = isinstance(self.plan.loop.node, COLLECTING) and node.op == "host"
        expr = node.expr
        if comprehension:
            assert isinstance(node.statement, ast.Expr)
            expr = node.statement.value
        if expr is not None and not node.whole:
            value = replaced.of(expr)
            if node.over is not None:
                rounds = ast.comprehension(node.over.target, replaced.of(node.over.iter), [], is_async=0)
                value = ast.ListComp(value, [rounds])
            return ast.Assign([ast.Name(_SELF, ast.Store())], value, lineno=1)
        statement = replaced.of(node.statement)
        assert isinstance(statement, ast.stmt)
        return statement


def _part(expr: ast.expr, value: Value, name: str) -> ast.expr:
    """What stands for a part that another node has computed, for all rounds of an inner loop or once."""
    made = ast.Name(name, ast.Load())
    if value.maker is None or value.maker.over is None or value.maker.expr is not expr:
        return made
    target = value.maker.over.target
    assert isinstance(target, ast.Name)
    return ast.Subscript(made, ast.Name(target.id, ast.Load()), ast.Load())


@dataclass(eq=False)
class _Replaced:
    """Copies syntax, with others in place of the parts that other nodes have computed."""

    parts: dict[ast.expr, ast.expr]

    def of(self, node: Any) -> Any:
        if isinstance(node, ast.AST):
            if node in self.parts and isinstance(node, ast.expr):
                return self.parts[node]
            made = copy.copy(node)
            for name, value in ast.iter_fields(node):
                setattr(made, name, self.of(value))
            return made
        return [self.of(part) for part in node] if isinstance(node, list) else node


def replayed(plan: LoopPlan) -> tuple[ast.stmt | ast.expr, dict[str, Any]]:
    """What takes the loop's place in its file, to run the plan on the names that are bound there, and what that needs.

    The second result belongs into the globals in which the code will run.
    """
    node = plan.loop.node
    scope = plan.loop.module.scope_of(node)
    mentioned = {n.id for n in walk(node) if isinstance(n, ast.Name) and n.id in scope.bindings}
    hook = f"{_HOOK}{node.lineno}_{node.col_offset}"
    code: Code = {}
    if isinstance(node, COLLECTING):

        def elements(outer: Mapping[str, Any], space: MutableMapping[str, Any]) -> Any:
            run = Replay(plan, outer, space, code=code)
            run.run()
            if isinstance(node, ast.DictComp):
                return {found[node.key]: found[node.value] for found in run.elements}
            assert isinstance(node, ast.ListComp)
            return [found[node.elt] for found in run.elements]

        targets = {n.id for n in walk(header(plan.loop)[0]) if isinstance(n, ast.Name)}
        given = ", ".join(f"{name!r}: {name}" for name in sorted(mentioned - targets))
        return ast.parse(f"{hook}({{{given}}}, globals())", mode="eval").body, {hook: elements}

    def names(outer: Mapping[str, Any], space: MutableMapping[str, Any]) -> dict[str, Any]:
        return Replay(plan, outer, space, code=code).run()

    lines = ["__outer__ = {}"]
    lines += [f"try: __outer__[{n!r}] = {n}\nexcept NameError: pass" for n in sorted(mentioned)]
    lines.append(f"__left__ = {hook}(__outer__, globals())")
    stores = {n.id for n in walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    lines += [f"if {n!r} in __left__: {n} = __left__[{n!r}]" for n in sorted(mentioned & stores)]
    return ast.If(ast.Constant(True), list(ast.parse("\n".join(lines)).body), []), {hook: names}
