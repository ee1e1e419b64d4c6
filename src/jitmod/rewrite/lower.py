"""From a plan to edits: the compiled function is inserted, and the loop becomes its call.

What stays of the loop is edited in place, so that every line that stays is the user's own.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from jitmod.analysis.batching import BatchPlan
from jitmod.analysis.collect import Collector, block_of, is_fold
from jitmod.analysis.loops import Unplannable, header, is_path
from jitmod.analysis.ssa import Value
from jitmod.analysis.values import Array, NdArray, length_of
from jitmod.model import Edit
from jitmod.rewrite.function import Compiled
from jitmod.rewrite.names import plural
from jitmod.rewrite.text import document_comments, is_exact, splice
from jitmod.source.document import Document
from jitmod.source.project import SourceModule


@dataclass(frozen=True, eq=False)
class Lowering:
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

    def edits(self) -> tuple[Edit, ...]:
        """The edits that put the plan into effect. Raises `Unplannable`."""
        if isinstance(self.plan.loop.node, ast.For):
            self._hoist()
        self.function.build()
        before = list(self.function.imports.added)
        self._check_shadows()
        self.function.imports.added[:] = before
        if isinstance(self.plan.loop.node, ast.ListComp):
            user = (*self._comments_above(), *self._comprehension())
        else:
            user = self._statement()
        at = self.function.place()
        return (*self.function.imports.edits(), Edit(at, at, self.function.definition), *user)

    def _check_shadows(self) -> None:
        """The call is written in the user's function, where its words must mean what they mean elsewhere."""
        scope = self.module.scope_of(self.plan.loop.node)
        modules = ("jax.device_get", "jax.numpy.stack", "jax.numpy.asarray")
        words = {"len", "list", "zip", "enumerate", *(self.function.imports.refer(m).split(".")[0] for m in modules)}
        for word in sorted(words):
            found = scope.find(word)
            if found is not None and (found.parent is not None or word in ("len", "list", "zip", "enumerate")):
                raise Unplannable("rebound-global", self.plan.loop.node, f"`{word}` means something else here")

    def _hoist(self) -> None:
        """Give iterables that are computed in the header a name, since the call and the loop both need them."""
        for source in self.plan.sources:
            if not is_path(source):
                wish = plural(next((s.name for s in self.plan.items if s.source is source), "item"))
                self.function.hoisted[source] = self.function.namer.fresh(wish)

    def _hoisted_lines(self) -> str:
        named = self.function.hoisted.items()
        lines = ((name, self.document.text(source)) for source, name in named)
        return "".join(f"{n} = {f'({t})' if chr(10) in t else t}\n{self.indent}" for n, t in lines)

    def _count(self) -> str | None:
        """The text that is false where there are no items; None where there are some for certain."""
        lengths = [length_of(s.kind) for s in self.plan.items]
        if lengths and all(isinstance(n, int) and n > 0 for n in lengths):
            return None
        source = self.plan.items[0].source
        assert source is not None
        if source in self.function.hoisted:
            return f"len({self.function.hoisted[source]})"
        if not is_path(source):
            message = f"`{ast.unparse(source)}` may give no items and is written in the loop; give it a name first"
            raise Unplannable("may-be-empty", source, message)
        return f"len({self.document.text(source)})"

    def _raises_when_empty(self) -> bool:
        """Whether the call itself raises for no items, as `jnp.stack` of an empty list does."""
        return any(not isinstance(s.kind, Array | NdArray) for s in self.plan.items)

    def _folded(self, fold: ast.Call) -> str:
        """The call in place of `jnp.stack(results)`, with the old result where there are no items."""
        is_stack = self.function.effects.inference.dotted(fold.func, self.module) == "jax.numpy.stack"
        count = self._count() if not (is_stack and self._raises_when_empty()) else None
        if count is None:
            return self.function.call()
        empty = splice(self.document, fold, {fold.args[0]: "[]"})
        return f"{self.function.call()} if {count} else {empty}"

    def _comprehension(self) -> tuple[Edit, ...]:
        loop = self.plan.loop
        assert isinstance(loop.node, ast.ListComp)
        (emit, *others) = self.plan.emits
        pure = not others and emit.readers == (loop.node.elt,) and not self.plan.bounded_elsewhere
        parent = self.module.parents[loop.node]
        infer = self.function.effects.inference
        stackable = pure and isinstance(emit.value.kind, Array)
        if stackable and isinstance(parent, ast.Call) and is_fold(parent, loop, infer):
            text = self._folded(parent)
            return (Edit(*self.document.span(parent), self._enclosed(parent, text)),)
        if pure:
            count = self._count()
            text = f"list({_rows(self.function.call(), emit.value)})" + (f" if {count} else []" if count else "")
            return (Edit(*self.document.span(loop.node), self._enclosed(loop.node, text)),)
        target, iterable = header(loop)
        call = self.function.call()
        if all(e.pulled for e in self.plan.emits):
            call = f"{self.function.imports.refer('jax.device_get')}({call})"
        count = self._count()
        if others and any(not isinstance(e.value.kind, Array) for e in self.plan.emits):
            raise Unplannable("unknown-result", loop.node, "several results of an item, one of them a tuple")
        arrays = [_rows(call, emit.value)] if not others else [f"*{call}"]
        names = [self.function.outer[e.value] for e in self.plan.emits]
        bound, sources = self._header(names, arrays)
        guarded = f"{sources} if {count} else ()" if count else sources
        start, end = self.document.span(target)[0], self.document.span(iterable)[1]
        edits = [Edit(start, end, f"{bound} in {self._enclosed_iterable(guarded)}")]
        return (*edits, *self._reader_edits())

    def _comments_above(self) -> list[Edit]:
        """Comments inside of a comprehension move above its statement."""
        statement, indent = self.plan.loop.statement, self.document.indent(self.plan.loop.statement)
        above = self._comments()
        if not above or indent is None:
            return []
        start = self.document.line_starts[statement.lineno - 1]
        return [Edit(start, start, "".join(f"{indent}{comment}\n" for comment in above))]

    def _enclosed_iterable(self, text: str) -> str:
        return f"({text})" if " if " in text else text

    def _enclosed(self, node: ast.expr, text: str) -> str:
        """Parentheses around a conditional expression, unless the place needs none."""
        parent = self.module.parents[node]
        alone = isinstance(parent, ast.Return | ast.Assign | ast.AnnAssign | ast.Expr | ast.Dict)
        return text if alone or " if " not in text else f"({text})"

    def _reader_edits(self) -> list[Edit]:
        edits = []
        for emit in self.plan.emits:
            for reader in emit.readers:
                name = self.function.outer[emit.value]
                start, end = self.document.span(reader)
                if not is_exact(self.document, reader) or self._is_shown(reader):
                    message = f"`{ast.unparse(reader)}` cannot be replaced where it stands (line {reader.lineno})"
                    raise Unplannable("unparsable", reader, message)
                if self.document.text(reader) != name:
                    edits.append(Edit(start, end, name))
        return edits

    def _is_shown(self, reader: ast.expr) -> bool:
        """Whether an f-string shows the text of the expression itself: `{float(y)=}`."""
        for parent in self.module.ancestors(reader):
            if isinstance(parent, ast.FormattedValue):
                end = self.document.span(parent.value)[1]
                return self.document.source[end:].lstrip(b" ")[:1] == b"="
            if isinstance(parent, ast.stmt):
                break
        return False

    def _statement(self) -> tuple[Edit, ...]:
        loop = self.plan.loop
        if self.document.indent(loop.body[0]) is None:
            raise Unplannable("unparsable", loop.node, "the loop's body stands on the line of its header")
        return tuple(self._collected() if self.plan.collectors else self._remaining_loop())

    def _collected(self) -> list[Edit]:
        """Nothing but lists is filled: the loop becomes one call."""
        folded = all(c.folds for c in self.plan.collectors)
        if folded and len(self.plan.collectors) == 1 and not self.plan.live_keys:
            inline = self._inlined(self.plan.collectors[0])
            if inline is not None:
                return inline
        return self._assigned() if folded else self._extended()

    def _inlined(self, collector: Collector) -> list[Edit] | None:
        """`return jnp.stack(ys)` right behind the loop: the call takes its place, loop and list go."""
        block = block_of(self.plan.loop)
        index = block.index(self.plan.loop.statement)
        if len(collector.folds) != 1 or index + 1 == len(block) or self._comments() or self.function.hoisted:
            return None
        (fold,) = collector.folds
        following = block[index + 1]
        if getattr(following, "value", None) is not fold or not isinstance(following, ast.Return | ast.Assign):
            return None
        text = self._folded(fold)
        removed = self._removed(self.plan.loop.statement)
        return [*self._without_init(collector), removed, Edit(*self.document.span(fold), text)]

    def _assigned(self) -> list[Edit]:
        """Every list is only stacked later: its name means the stacked array from now on.

        Where there may be no items it means the empty list then, which `jnp.stack` is left to refuse as it did.
        """
        edits = self._without_inits()
        names = [c.name for c in self.plan.collectors]
        targets = ", ".join([*names, *self.plan.live_keys])
        count = self._count()
        text = self.function.call()
        if count is None:
            edits += [Edit(*self.document.span(f), c.name) for c in self.plan.collectors for f in c.folds]
        else:
            for collector in self.plan.collectors:
                edits += [self._restacked(f, collector.name) for f in collector.folds if not self._is_asarray(f)]
            empty = ", ".join(["[]"] * len(names) + list(self.plan.live_keys))
            text += f" if {count} else {f'({empty})' if ', ' in empty else empty}"
        return [*edits, self._replaced(f"{targets} = {text}")]

    def _restacked(self, fold: ast.Call, name: str) -> Edit:
        """`jnp.stack(ys)` of what is an array already, if there were items."""
        text = f"{name} if len({name}) else {self.document.text(fold)}"
        return Edit(*self.document.span(fold), self._enclosed(fold, text))

    def _is_asarray(self, fold: ast.Call) -> bool:
        return self.function.effects.inference.dotted(fold.func, self.module) == "jax.numpy.asarray"

    def _extended(self) -> list[Edit]:
        """The lists are extended, so that they stay the same objects."""
        step, indent = self.function.step, self.indent
        count = self._count()
        inner = indent + step if count else indent
        names = [self.function.namer.fresh(self._array_name(self.function.outer[e.value])) for e in self.plan.emits]
        several = len(names) + len(self.plan.live_keys) > 1 or len(self.plan.collectors) > 1
        lines: list[str] = []
        if several:
            lines.append(f"{', '.join([*names, *self.plan.live_keys])} = {self.function.call()}")
        values = [e.value for e in self.plan.emits]
        for collector in self.plan.collectors:
            source = names[values.index(collector.value)] if several else self.function.call()
            lines.append(f"{collector.name}.extend({_rows(source, collector.value)})")
        text = f"\n{inner}".join(lines)
        return [self._replaced(f"if {count}:\n{inner}{text}" if count else text)]

    def _array_name(self, name: str) -> str:
        wish = plural(name)
        return f"all_{wish.removeprefix('all_')}" if wish in self.function.namer.taken else wish

    def _remaining_loop(self) -> list[Edit]:
        """Host work stays in the loop, over the results."""
        loop, indent, step = self.plan.loop, self.indent, self.function.step
        assert isinstance(loop.node, ast.For)
        count = self._count()
        emits = self.plan.emits
        names = [self.function.outer[e.value] for e in emits]
        arrays = [self.function.namer.fresh(self._array_name(n)) for n in names]
        pulled = [a for a, e in zip(arrays, emits, strict=True) if e.pulled]
        call = self.function.call()
        get = self.function.imports.refer("jax.device_get") if pulled else ""
        whole = pulled == arrays and not self.plan.live_keys
        lines = [f"{', '.join([*arrays, *self.plan.live_keys])} = {f'{get}({call})' if whole else call}"]
        if pulled and not whole:
            argument = pulled[0] if len(pulled) == 1 else f"({', '.join(pulled)})"
            lines.append(f"{', '.join(pulled)} = {get}({argument})")
        if count:
            empties = "()" if len(arrays) == 1 else ", ".join("()" for _ in arrays)
            inner = f"\n{indent}{step}"
            lines = [f"{', '.join(arrays)} = {empties}", f"if {count}:{inner}{inner.join(lines)}"]
        bound, sources = self._header(names, [_rows(a, e.value) for a, e in zip(arrays, emits, strict=True)])
        before = self._hoisted_lines() + "".join(f"{line}\n{indent}" for line in lines)
        start = self.document.span(loop.node)[0]
        edits = [Edit(start, self._header_end(loop.node), f"{before}for {bound} in {sources}")]
        for node in (*self.plan.piece("scan"), *self.plan.piece("map")):
            if node.whole:
                edits.append(self._removed(node.statement, self.function.lines_of(node)))
        return [*edits, *self._reader_edits()]

    def _header_end(self, node: ast.For) -> int:
        """The byte of the colon behind the iterable and its closing brackets. Raises `Unplannable`."""
        end = self.document.span(node.iter)[1]
        while self.document.source[end : end + 1] in (b" ", b"\t", b")", b"\n", b"\r"):
            end += 1
        if self.document.source[end : end + 1] != b":":
            raise Unplannable("unparsable", node.iter, "the header of the loop holds a comment or a continuation")
        return end

    def _header(self, names: list[str], arrays: list[str]) -> tuple[str, str]:
        """Target and iterable of the loop over results; the loop's own ones stay where the host piece reads them."""
        target, iterable = header(self.plan.loop)
        needed = {v.name for n in self.plan.body.host_nodes() for v in n.uses.values() if v.origin == "item"}
        results = ", ".join(names)
        zipped = arrays[0] if len(arrays) == 1 and not arrays[0].startswith("*") else f"zip({', '.join(arrays)})"
        if not needed and not self.plan.bounded_elsewhere:
            return results, zipped
        match target, iterable:
            case ast.Tuple(elts=[ast.Name(id=index), _]), ast.Call(func=ast.Name(id="enumerate"), args=[_, *start]):
                if needed == {index} and not self.plan.bounded_elsewhere:
                    inner = results if len(names) == 1 else f"({results})"
                    rest = "".join(f", {self.document.text(s)}" for s in start)
                    rest += "".join(f", {k.arg}={self.document.text(k.value)}" for k in iterable.keywords)
                    return f"{index}, {inner}", f"enumerate({zipped}{rest})"
            case ast.Tuple(elts=elts), ast.Call(func=ast.Name(id="zip"), args=parts, keywords=[]):
                mapped = {ast.unparse(s.source) for s in self.plan.items if s.source is not None}
                kept = [(e, p) for e, p in zip(elts, parts, strict=True) if ast.unparse(p) not in mapped
                        or {n.id for n in ast.walk(e) if isinstance(n, ast.Name)} & needed]  # fmt: skip
                bound = ", ".join(self._grouped(e) for e, _ in kept)
                sources = ", ".join(splice(self.document, p, self.function.hoisted) for _, p in kept)
                return f"{bound}, {results}", f"zip({sources}, {', '.join(arrays)})"
        own = splice(self.document, iterable, self.function.hoisted)
        return f"{self._grouped(target)}, {results}", f"zip({own}, {', '.join(arrays)})"

    def _grouped(self, target: ast.expr) -> str:
        text = self.document.text(target)
        return f"({text})" if isinstance(target, ast.Tuple) and not text.startswith("(") else text

    # -- edits of whole statements -----------------------------------------------------------------------------------

    def _comments(self) -> list[str]:
        """Comments of the loop that no moved statement takes along; one behind the last statement stays in place."""
        loop = self.plan.loop
        first, last = loop.node.lineno, loop.node.end_lineno or loop.node.lineno
        moved: set[int] = set()
        for node in (*self.plan.piece("scan"), *self.plan.piece("map")):
            if node.whole:
                start, end = self.function.lines_of(node)
                moved |= set(range(start, end + 1))
        return [c for line, c in document_comments(self.document) if first <= line < last and line not in moved]

    def _replaced(self, text: str) -> Edit:
        """The loop's statement with its comments above `text`."""
        above = "".join(f"{comment}\n{self.indent}" for comment in self._comments())
        return Edit(*self.document.span(self.plan.loop.statement), above + self._hoisted_lines() + text)

    def _removed(self, statement: ast.stmt, lines: tuple[int, int] | None = None) -> Edit:
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
        comment = [c for line, c in document_comments(self.document) if line == init.end_lineno]
        if comment:
            return [Edit(*self.document.span(init), comment[0]),
                    self._comment_removed(init)]  # fmt: skip
        return [self._removed(init)]

    def _comment_removed(self, init: ast.stmt) -> Edit:
        """The comment behind a removed statement moves to its place; here its old copy goes."""
        document = self.document
        assert init.end_lineno is not None
        end = document.span(init)[1]
        line_end = document.line_starts[init.end_lineno] if init.end_lineno < len(document.line_starts) else len(
            document.source)  # fmt: skip
        rest = document.source[end:line_end]
        return Edit(end, end + len(rest.rstrip(b"\r\n")), "")


def _rows(array: str, value: Value) -> str:
    """What gives the results of the items one by one: an array does, a tuple of arrays has to be zipped."""
    return array if isinstance(value.kind, Array) else f"zip(*{array})"
