"""Lowering of a loop that does nothing but fill lists: it becomes one call."""

from __future__ import annotations

import ast

from jitmod.analysis.collect import Collector, block_of
from jitmod.analysis.loops import Unplannable
from jitmod.model import Edit
from jitmod.rewrite.loop_edits import LoopEdits


class Collected(LoopEdits):
    """The edits for a plan with collectors."""

    def edits(self) -> list[Edit]:
        """Nothing but lists is filled: the loop becomes one call."""
        folded = all(c.folds for c in self.plan.collectors) and not self.function.returns_list and not self.guard
        if folded and len(self.plan.collectors) == 1 and not self.plan.live_outs.keys:
            inline = self._inlined(self.plan.collectors[0])
            if inline is not None:
                return inline
        return self._assigned() if folded else self._extended()

    def _inlined(self, collector: Collector) -> list[Edit] | None:
        """`return jnp.stack(ys)` right behind the loop: the call takes its place, loop and list go."""
        block = block_of(self.plan.loop)
        index = block.index(self.plan.loop.statement)
        if len(collector.folds) != 1 or index + 1 == len(block) or self.comments() or self.function.hoisted:
            return None
        (fold,) = collector.folds
        following = block[index + 1]
        if getattr(following, "value", None) is not fold or not isinstance(following, ast.Return | ast.Assign):
            return None
        text = self.folded(fold)
        removed = self.removed(self.plan.loop.statement)
        return [*self._without_init(collector), removed, Edit(*self.document.span(fold), text)]

    def _assigned(self) -> list[Edit]:
        """Every list is only stacked later: its name means the stacked array from now on.

        Where there may be no items it means the empty list then, which `jnp.stack` is left to refuse as it did.
        """
        edits = self._without_inits()
        names = [c.name for c in self.plan.collectors]
        targets = ", ".join([*names, *self.plan.live_outs.keys])
        count = self.count()
        text = self.function.call()
        if count is None:
            edits += [Edit(*self.document.span(f), c.name) for c in self.plan.collectors for f in c.folds]
        else:
            for collector in self.plan.collectors:
                edits += [self.restacked(f, collector.name) for f in collector.folds if not self._is_asarray(f)]
            empty = ", ".join(["[]"] * len(names) + list(self.plan.live_outs.keys))
            text += f" if {count} else {f'({empty})' if ', ' in empty else empty}"
        return [*edits, self.replaced(f"{targets} = {text}")]

    def _is_asarray(self, fold: ast.Call) -> bool:
        return self.function.effects.inference.dotted(fold.func, self.module) == "jax.numpy.asarray"

    def _extended(self) -> list[Edit]:
        """The lists are extended, so that they stay the same objects."""
        step, indent = self.function.step, self.indent
        count = self.count()
        inner = indent + step if count else indent
        names = [self.function.namer.fresh(self.array_name(self.function.outer[e.value])) for e in self.plan.emits]
        if self.function.returns_list and len(names) > 1:
            raise Unplannable("unknown-result", self.plan.loop.node, "several lists, and one list of results")
        buffers = any(c.update for c in self.plan.collectors)
        if buffers and self.function.returns_list:
            raise Unplannable("unknown-result", self.plan.loop.node, "a buffer, and a list of results")
        several = len(names) + len(self.plan.live_outs.keys) > 1 or len(self.plan.collectors) > 1 or buffers
        lines: list[str] = []
        if several:
            lines.append(f"{', '.join([*names, *self.plan.live_outs.keys])} = {self.function.call()}")
        values = [e.value for e in self.plan.emits]
        for collector in self.plan.collectors:
            source = names[values.index(collector.value)] if several else self.function.call()
            if collector.update:
                lines += self._updated(collector, source)
            else:
                lines.append(f"{collector.name}.extend({self.rows(source, collector.value)})")
        text = f"\n{inner}".join(lines)
        return [self.replaced(f"if {count}:\n{inner}{text}" if count else text)]

    def _updated(self, collector: Collector, results: str) -> list[str]:
        """One update of all rows; each result becomes a row as it did before, also where it is a scalar."""
        refer, name = self.function.imports.refer, collector.name
        rows, row = self.function.namer.fresh("rows"), "row" if name != "row" else "value"
        whole = f"lambda {row}: {refer('jax.numpy.broadcast_to')}({row}, {name}.shape[1:])"
        places = f"{refer('jax.numpy.arange')}(len({rows}))"
        return [
            f"{rows} = {refer('jax.vmap')}({whole})({results})",
            f"{name} = {name}.at[{places}].{collector.update}({rows})",
        ]

    def _without_init(self, collector: Collector) -> list[Edit]:
        assert collector.init is not None
        return self._trimmed(collector.init, {collector.name})

    def _without_inits(self) -> list[Edit]:
        inits: dict[ast.stmt, set[str]] = {}
        for collector in self.plan.collectors:
            assert collector.init is not None
            inits.setdefault(collector.init, set()).add(collector.name)
        return [edit for init, names in inits.items() for edit in self._trimmed(init, names)]

    def _trimmed(self, init: ast.stmt, names: set[str]) -> list[Edit]:
        """`a, b = [], []` without some of its names; nothing at all where none is left."""
        match init:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                left = [(t, v) for t, v in zip(targets, values, strict=True)
                        if not (isinstance(t, ast.Name) and t.id in names)]  # fmt: skip
                if left:
                    text = self.document.text
                    rest = f"{', '.join(text(t) for t, _ in left)} = {', '.join(text(v) for _, v in left)}"
                    return [Edit(*self.document.span(init), rest)]
        comment = [c for line, c in self.document.comments if line == init.end_lineno]
        if comment:
            return [Edit(*self.document.span(init), comment[0]),
                    self._comment_removed(init)]  # fmt: skip
        return [self.removed(init)]

    def _comment_removed(self, init: ast.stmt) -> Edit:
        """The comment behind a removed statement moves to its place; here its old copy goes."""
        document = self.document
        assert init.end_lineno is not None
        end = document.span(init)[1]
        line_end = document.line_starts[init.end_lineno] if init.end_lineno < len(document.line_starts) else len(
            document.source)  # fmt: skip
        rest = document.source[end:line_end]
        return Edit(end, end + len(rest.rstrip(b"\r\n")), "")
