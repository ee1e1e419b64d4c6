"""Edits that every way of lowering a loop needs: a guard for no items, removed statements, kept comments."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property

from jitmod.analysis.batching import BatchPlan
from jitmod.analysis.loops import Unplannable, header, is_path, is_range, is_view
from jitmod.analysis.ssa import Value
from jitmod.analysis.values import Array, NdArray, length_of
from jitmod.model import Edit
from jitmod.rewrite.function import Compiled
from jitmod.rewrite.names import plural
from jitmod.rewrite.text import splice
from jitmod.rewrite.windowed import guards
from jitmod.rewrite.wrapping import wrapped
from jitmod.source.document import Document
from jitmod.source.project import SourceModule


@dataclass(frozen=True, eq=False)
class LoopEdits:
    """One plan and its compiled function, on their way to edits."""

    plan: BatchPlan
    function: Compiled

    @property
    def module(self) -> SourceModule:
        return self.plan.loop.module

    @property
    def document(self) -> Document:
        return self.plan.loop.module.document

    @property
    def indent(self) -> str:
        indent = self.document.indent(self.plan.loop.statement)
        if indent is None or "\f" in indent:
            raise Unplannable("unparsable", self.plan.loop.node, "the loop does not begin its line")
        return indent

    @cached_property
    def guard(self) -> str | None:
        """The condition under which the call may take the place of the loop; None where it always may."""
        iterable = header(self.plan.loop)[1]
        found = guards(self.plan, self.function.hoisted.get(iterable) or self.document.text(iterable))
        return " and ".join([c for c in (self._nonempty(),) if c] + list(found)) if found else None

    def hoisted_lines(self) -> str:
        """The statements before the loop's own; those before a guard come with it."""
        return "" if self.guard else self.named_lines()

    def named_lines(self) -> str:
        named = self.function.hoisted.items()
        lines = ((name, self.document.text(source)) for source, name in named)
        return "".join(f"{n} = {f'({t})' if chr(10) in t else t}\n{self.indent}" for n, t in lines)

    def count(self) -> str | None:
        """The text that is false where there are no items; None where there are some for certain, or it is all one."""
        return None if self.function.returns_list or self.guard else self._nonempty()

    def _nonempty(self) -> str | None:
        lengths = [length_of(s.kind) for s in self.plan.items]
        if lengths and all(isinstance(n, int) and n > 0 for n in lengths):
            return None
        source = self.plan.items[0].source if self.plan.items else header(self.plan.loop)[1]
        assert source is not None
        if source in self.function.hoisted:
            return f"len({self.function.hoisted[source]})"
        if is_range(source):
            return f"len({self.document.text(source)})"
        if not is_path(source):
            message = f"`{ast.unparse(source)}` may give no items and is written in the loop; give it a name first"
            raise Unplannable("may-be-empty", source, message)
        counted = source.func.value if is_view(source) else source  # type: ignore[attr-defined]
        return f"len({self.document.text(counted)})"

    def raises_when_empty(self) -> bool:
        """Whether the call itself raises for no items, as `jnp.stack` of an empty list does."""
        return any(not isinstance(s.kind, Array | NdArray) for s in self.plan.items)

    def folded(self, fold: ast.Call) -> str:
        """The call in place of `jnp.stack(results)`, with the old result where there are no items."""
        is_stack = self.function.effects.inference.dotted(fold.func, self.module) == "jax.numpy.stack"
        count = self.count() if not (is_stack and self.raises_when_empty()) else None
        if count is None:
            return self.function.call()
        empty = splice(self.document, fold, {fold.args[0]: "[]"})
        return f"{self.function.call()} if {count} else {empty}"

    def restacked(self, fold: ast.Call, name: str) -> Edit:
        """`jnp.stack(ys)` of what is an array already, if there were items."""
        text = f"{name} if len({name}) else {self.document.text(fold)}"
        return Edit(*self.document.span(fold), self.enclosed(fold, text))

    def enclosed(self, node: ast.expr, text: str) -> str:
        """Parentheses around a conditional expression, unless the place needs none."""
        parent = self.module.parents[node]
        alone = isinstance(parent, ast.Return | ast.Assign | ast.AnnAssign | ast.Expr | ast.Dict)
        return self._in_lines(node, text) if alone or " if " not in text else f"({text})"

    def _in_lines(self, node: ast.expr, text: str) -> str:
        """What takes the place of `node`, on several lines where its line would be too long."""
        start, end = self.document.span(node)
        before = self.document.source[self.document.line_starts[node.lineno - 1] : start].decode()
        behind = self.document.source[end:].decode().partition("\n")[0].rstrip("\r")
        lines = wrapped(f"{before}{text}{behind}", self.document)
        return lines.removeprefix(before).removesuffix(behind) if lines.startswith(before) else text

    def array_name(self, name: str) -> str:
        wish = plural(name)
        return f"all_{wish.removeprefix('all_')}" if wish in self.function.namer.taken else wish

    def comments(self) -> list[str]:
        """Comments of the loop that no moved statement takes along; one behind the last statement stays in place."""
        loop = self.plan.loop
        first, last = loop.node.lineno, loop.node.end_lineno or loop.node.lineno
        moved: set[int] = set()
        for node in (*self.plan.piece("scan"), *self.plan.piece("map")):
            if node.whole:
                start, end = self.function.lines_of(node)
                moved |= set(range(start, end + 1))
        return [c for line, c in self.document.comments if first <= line < last and line not in moved]

    def replaced(self, text: str) -> Edit:
        """The loop's statement with its comments above `text`."""
        above = "".join(f"{comment}\n{self.indent}" for comment in self.comments())
        whole = wrapped(above + self.hoisted_lines() + text, self.document, self.indent)
        return Edit(*self.document.span(self.plan.loop.statement), whole)

    def removed(self, statement: ast.stmt, lines: tuple[int, int] | None = None) -> Edit:
        """A statement taken out with its lines."""
        assert statement.end_lineno is not None
        first, last = lines or (statement.lineno, statement.end_lineno)
        document = self.document
        start, end = document.span(statement)
        line_end = document.line_starts[last] if last < len(document.line_starts) else len(document.source)
        behind = document.source[end:line_end].decode().strip()
        if document.indent(statement) is None or behind.startswith(";"):
            following = document.source[end:line_end].decode()
            skip = len(following) - len(following.lstrip("; \t")) if behind.startswith(";") else 0
            if document.indent(statement) is None and not behind.startswith(";"):
                raise Unplannable("unparsable", statement, "several statements on one line")
            return Edit(start, end + skip, "")
        return Edit(document.line_starts[first - 1], line_end, "")

    def rows(self, results: str, value: Value) -> str:
        """What gives the results of the items one by one: an array does, a tuple of arrays has to be zipped."""
        return results if self.function.returns_list or isinstance(value.kind, Array) else f"zip(*{results})"
