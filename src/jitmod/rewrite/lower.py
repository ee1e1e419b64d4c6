"""From a plan to edits: the compiled function is inserted, and the loop becomes its call.

What stays of the loop is edited in place, so that every line that stays is the user's own.
"""

from __future__ import annotations

import ast

from jitmod.analysis.collect import block_of, is_fold
from jitmod.analysis.loops import COLLECTING, Unplannable, header, is_path, is_range
from jitmod.analysis.reaching import reaching
from jitmod.analysis.values import Array
from jitmod.model import Edit
from jitmod.rewrite.collected import Collected
from jitmod.rewrite.loop_edits import LoopEdits
from jitmod.rewrite.names import plural
from jitmod.rewrite.text import indented, is_exact, splice
from jitmod.rewrite.windowed import moves_range
from jitmod.rewrite.wrapping import wrapped
from jitmod.source.nodes import walk

_WORDS = frozenset({"len", "list", "zip", "enumerate", "range", "all"})


class Lowering(LoopEdits):
    """The edits for any plan."""

    def edits(self) -> tuple[Edit, ...]:
        """The edits that put the plan into effect. Raises `Unplannable`."""
        if isinstance(self.plan.loop.node, ast.For):
            self._hoist()
        self.function.build()
        before = list(self.function.imports.added)
        self._check_shadows()
        self.function.imports.added[:] = before
        if isinstance(self.plan.loop.node, COLLECTING):
            user = (*self._comments_above(), *self._comprehension())
        else:
            user = self._statement()
        at = self.function.place()
        return (*self.function.imports.edits(), Edit(at, at, self.function.definition), *user)

    def _check_shadows(self) -> None:
        """The call is written in the user's function, where its words must mean what they mean elsewhere."""
        scope = self.module.scope_of(self.plan.loop.node)
        modules = ("jax.device_get", "jax.numpy.stack", "jax.numpy.asarray")
        words = {*_WORDS, *(self.function.imports.refer(m).split(".")[0] for m in modules)}
        for word in sorted(words):
            found = scope.find(word)
            iterable = header(self.plan.loop)[1]
            target = self.function.effects.inference.comprehension_binding(word, iterable, self.module)
            if target is not None or (found is not None and (found.parent is not None or word in _WORDS)):
                raise Unplannable("rebound-global", self.plan.loop.node, f"`{word}` means something else here")

    def _hoist(self) -> None:
        """Give iterables that are computed in the header a name, since the call and the loop both need them."""
        if moves_range(self.plan):
            target, iterable = header(self.plan.loop)
            wish = plural(target.id) if isinstance(target, ast.Name) and len(target.id) > 1 else "positions"
            scope = self.module.scope_of(self.plan.loop.node)
            own = {getattr(n, "id", getattr(n, "arg", "")) for n in walk(scope.node)}
            free = () if scope.parent is None or wish in own else (wish,)
            self.function.hoisted[iterable] = self.function.namer.fresh(wish, allowed=free)
        for source in self.plan.sources:
            if not is_path(source) and not is_range(source):
                wish = plural(next((s.name for s in self.plan.items if s.source is source), "item"))
                self.function.hoisted[source] = self.function.namer.fresh(wish)

    def _comprehension(self) -> tuple[Edit, ...]:
        loop = self.plan.loop
        (emit, *others) = self.plan.emits
        listed = isinstance(loop.node, ast.ListComp) and emit.readers == (loop.node.elt,)
        nested = isinstance(loop.node, COLLECTING) and len(loop.node.generators) > 1
        pure = listed and not others and not self.plan.keeps_iterable and not nested
        parent = self.module.parents[loop.node]
        infer = self.function.effects.inference
        stackable = pure and isinstance(emit.value.kind, Array)
        whole = self.function.returns_list
        if self.guard and not pure:
            what = "it cannot be told that every window lies inside of the array; collect the results in a loop"
            raise Unplannable("slice-bounds", loop.node, what)
        if stackable and isinstance(parent, ast.Call) and is_fold(parent, loop, infer) and not whole:
            otherwise = self.document.text(parent)
            text = f"{self.function.call()} if {self.guard} else {otherwise}" if self.guard else self.folded(parent)
            return (Edit(*self.document.span(parent), self.enclosed(parent, text)),)
        if stackable and not whole and not self.guard and (folds := self._later_folds()):
            if (inline := self._into(folds)) is not None:
                return inline
            count = self.count()
            text = self.function.call() + (f" if {count} else []" if count else "")
            kept = [self.restacked(f, ast.unparse(f.args[0])) for f in folds if self._is_stack(f)]
            return (Edit(*self.document.span(loop.node), text), *kept)
        if pure:
            assert isinstance(loop.node, ast.ListComp)
            count = self.count()
            call = self.function.call()
            text = call if whole else f"list({self.rows(call, emit.value)})"
            if self.guard:
                text += f" if {self.guard} else {self.document.text(loop.node)}"
            elif count and not whole:
                text += f" if {count} else []"
            return (Edit(*self.document.span(loop.node), self.enclosed(loop.node, text)),)
        target, iterable = header(loop)
        call = self.function.call()
        if all(e.pulled for e in self.plan.emits):
            call = f"{self.function.imports.refer('jax.device_get')}({call})"
        count = self.count()
        if others and any(not isinstance(e.value.kind, Array) for e in self.plan.emits):
            raise Unplannable("unknown-result", loop.node, "several results of an item, one of them a tuple")
        names = self._together([self.function.outer[e.value] for e in self.plan.emits])
        above = self._line_above(call, count, names) if (not others or whole) and not nested else None
        results = above[0] if above else call
        arrays = [self.rows(results, emit.value)] if not others else [results if whole else f"*{results}"]
        bound, sources = self._header(names, arrays)
        guarded = f"{sources} if {count} else ()" if count and not above else sources
        start, end = self.document.span(target)[0], self.document.span(iterable)[1]
        edits = [*above[1:]] if above else []
        edits.append(Edit(start, end, f"{bound} in {self._enclosed_iterable(guarded)}"))
        return (*edits, *self._reader_edits())

    def _later_folds(self) -> list[ast.Call]:
        """The later `jnp.stack(name)` and its like, where they are all that reads the name of the comprehension."""
        loop = self.plan.loop
        match loop.statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is loop.node:
                scope = self.module.scope_of(loop.node)
                uses = [n for n in walk(scope.node) if isinstance(n, ast.Name) and n.id == name]
                reads = [n for n in uses if isinstance(n.ctx, ast.Load)]
                mine = [n for n in reads if any(b.node is loop.statement for b in reaching(name, n, scope))]
                folds = [c for n in mine if isinstance(c := self.module.parents[n], ast.Call) and c.args == [n]]
                alone = all(len(reaching(name, n, scope)) == 1 and self.module.scope_of(n) is scope for n in mine)
                infer = self.function.effects.inference
                local = scope.parent is not None and name not in scope.rebinds
                whole = len(folds) == len(mine) and all(is_fold(f, loop, infer) for f in folds)
                return folds if local and alone and whole else []
        return []

    def _into(self, folds: list[ast.Call]) -> tuple[Edit, ...] | None:
        """`ys = jnp.array(ys)` right behind it, and nothing else reads the list: the call takes its place."""
        statement = self.plan.loop.statement
        block = block_of(self.plan.loop)
        following = block[index] if (index := block.index(statement) + 1) < len(block) else None
        if len(folds) > 1 or not isinstance(following, ast.Return | ast.Assign) or following.value is not folds[0]:
            return None
        lines = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
        if any(line in lines for line, _ in self.document.comments) or self.function.hoisted:
            return None
        text = self.enclosed(folds[0], self.folded(folds[0]))
        return self.removed(statement), Edit(*self.document.span(folds[0]), text)

    def _is_stack(self, fold: ast.Call) -> bool:
        return self.function.effects.inference.dotted(fold.func, self.module) == "jax.numpy.stack"

    def _line_above(self, call: str, count: str | None, names: list[str]) -> tuple[str, Edit] | None:
        """A statement that gives the results a name, where nothing of the loop's statement runs before the loop."""
        statement, loop = self.plan.loop.statement, self.plan.loop.node
        alone = isinstance(statement, ast.Return | ast.Assign | ast.AnnAssign) and statement.value is loop
        indent = self.document.indent(statement)
        if not alone or indent is None:
            return None
        name = self.function.namer.fresh("results" if len(names) > 1 else self.array_name(names[0].strip("()")))
        start = self.document.line_starts[statement.lineno - 1]
        guard = f" if {count} else ()" if count else ""
        return name, Edit(start, start, f"{indent}{name} = {call}{guard}\n")

    def _comments_above(self) -> list[Edit]:
        """Comments inside of a comprehension move above its statement."""
        statement, indent = self.plan.loop.statement, self.document.indent(self.plan.loop.statement)
        above = self.comments()
        if not above or indent is None:
            return []
        start = self.document.line_starts[statement.lineno - 1]
        return [Edit(start, start, "".join(f"{indent}{comment}\n" for comment in above))]

    def _enclosed_iterable(self, text: str) -> str:
        return f"({text})" if " if " in text else text

    def _reader_edits(self) -> list[Edit]:
        edits = []
        for emit in self.plan.emits:
            for reader in emit.readers:
                name = self.function.outer[emit.value]
                maker = emit.value.maker
                if maker is not None and maker.over is not None:
                    name += f"[{ast.unparse(maker.over.target)}]"
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
        collected = Collected(self.plan, self.function)
        edits = collected.edits() if self.plan.collectors else self._remaining_loop()
        return (self._guarded(self.guard, edits),) if self.guard else tuple(edits)

    def _guarded(self, guard: str, edits: list[Edit]) -> Edit:
        """The edited statement under the guard, and the loop as it was where the guard does not hold."""
        statement, iterable = self.plan.loop.statement, header(self.plan.loop)[1]
        start, end = self.document.span(statement)
        pieces, done = [], start
        for edit in sorted(edits, key=lambda e: (e.start, e.end)):
            if edit.start < done:
                raise Unplannable("unparsable", statement, "the loop's edits reach beyond it")
            pieces += [self.document.source[done : edit.start].decode(), edit.text]
            done = edit.end
        new = "".join([*pieces, self.document.source[done:end].decode()]).rstrip()
        old = splice(self.document, statement, {e: n for e, n in self.function.hoisted.items() if e is iterable})
        newline, step = f"\n{self.indent}", self.function.step
        arms = newline.join([f"if {guard}:", indented(new, step), "else:", indented(old, step)])
        return Edit(start, end, wrapped(self.named_lines() + arms, self.document, self.indent))

    def _remaining_loop(self) -> list[Edit]:
        """Host work stays in the loop, over the results."""
        loop, indent, step = self.plan.loop, self.indent, self.function.step
        assert isinstance(loop.node, ast.For)
        count = self.count()
        emits = self.plan.emits
        names = [self.function.outer[e.value] for e in emits]
        arrays = [self.function.namer.fresh(self.array_name(n)) for n in names]
        if self.function.returns_list:
            return self._loop_over_list(names, arrays)
        pulled = [a for a, e in zip(arrays, emits, strict=True) if e.pulled]
        call = self.function.call()
        get = self.function.imports.refer("jax.device_get") if pulled else ""
        whole = pulled == arrays and not self.plan.live_outs.keys
        lines = [f"{', '.join([*arrays, *self.plan.live_outs.keys])} = {f'{get}({call})' if whole else call}"]
        if pulled and not whole:
            argument = pulled[0] if len(pulled) == 1 else f"({', '.join(pulled)})"
            lines.append(f"{', '.join(pulled)} = {get}({argument})")
        if count:
            empties = "()" if len(arrays) == 1 else ", ".join("()" for _ in arrays)
            inner = f"\n{indent}{step}"
            lines = [f"{', '.join(arrays)} = {empties}", f"if {count}:{inner}{inner.join(lines)}"]
        bound, sources = self._header(names, [self.rows(a, e.value) for a, e in zip(arrays, emits, strict=True)])
        return self._with_header(lines, bound, sources)

    def _loop_over_list(self, names: list[str], arrays: list[str]) -> list[Edit]:
        """The call gives one result, or tuple of results, for each item."""
        call = self.function.call()
        if all(e.pulled for e in self.plan.emits):
            call = f"{self.function.imports.refer('jax.device_get')}({call})"
        results = arrays[0] if len(arrays) == 1 else self.function.namer.fresh("results")
        bound, sources = self._header(self._together(names), [results])
        return self._with_header([f"{results} = {call}"], bound, sources)

    def _together(self, names: list[str]) -> list[str]:
        """Several results of one item come as a tuple where the call gives a list."""
        return [f"({', '.join(names)})"] if self.function.returns_list and len(names) > 1 else names

    def _with_header(self, lines: list[str], bound: str, sources: str) -> list[Edit]:
        loop, indent = self.plan.loop, self.indent
        assert isinstance(loop.node, ast.For)
        before = wrapped(self.hoisted_lines() + "".join(f"{line}\n{indent}" for line in lines), self.document, indent)
        start = self.document.span(loop.node)[0]
        edits = [Edit(start, self._header_end(loop.node), f"{before}for {bound} in {sources}")]
        for node in (*self.plan.piece("scan"), *self.plan.piece("map")):
            if node.whole:
                edits.append(self.removed(node.statement, self.function.lines_of(node)))
        edits += [self.removed(statement) for statement in self.plan.body.spent]
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
        needed = {v.name for n in self.plan.body.host_nodes() for v in n.reads() if v.origin == "item"}
        needed |= self.plan.live_outs.targets
        results = ", ".join(names)
        zipped = arrays[0] if len(arrays) == 1 and not arrays[0].startswith("*") else f"zip({', '.join(arrays)})"
        if not needed and not self.plan.keeps_iterable:
            return results, zipped
        if not needed and not self.plan.bounded_elsewhere and len(arrays) == 1 and isinstance(iterable, ast.Call):
            first = self.plan.items[0].source
            if first is not None and iterable.args[:1] == [first]:  # a progress bar, now around the results
                return results, splice(self.document, iterable, {first: zipped})
        match target, iterable:
            case ast.Tuple(elts=[ast.Name(id=index), _]), ast.Call(func=ast.Name(id="enumerate"), args=[_, *start]):
                if needed == {index} and not self.plan.keeps_iterable:
                    inner = results if len(names) == 1 else f"({results})"
                    rest = "".join(f", {self.document.text(s)}" for s in start)
                    rest += "".join(f", {k.arg}={self.document.text(k.value)}" for k in iterable.keywords)
                    return f"{index}, {inner}", f"enumerate({zipped}{rest})"
            case ast.Tuple(elts=elts), ast.Call(func=ast.Name(id="zip"), args=parts, keywords=[]) if not any(
                s.tracked for s in self.plan.streams
            ):
                mapped = {ast.unparse(s.source) for s in self.plan.items if s.source is not None}
                kept = [(e, p) for e, p in zip(elts, parts, strict=True) if ast.unparse(p) not in mapped
                        or {n.id for n in walk(e) if isinstance(n, ast.Name)} & needed]  # fmt: skip
                bound = ", ".join(self._grouped(e) for e, _ in kept)
                sources = ", ".join(splice(self.document, p, self.function.hoisted) for _, p in kept)
                return f"{bound}, {results}", f"zip({sources}, {', '.join(arrays)})"
        own = splice(self.document, iterable, self.function.hoisted)
        return f"{self._grouped(target)}, {results}", f"zip({own}, {', '.join(arrays)})"

    def _grouped(self, target: ast.expr) -> str:
        text = self.document.text(target)
        return f"({text})" if isinstance(target, ast.Tuple) and not text.startswith("(") else text
