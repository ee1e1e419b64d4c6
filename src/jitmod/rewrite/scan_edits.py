"""From a plan with a scan to edits: the compiled function is inserted, and the loop becomes calls of it.

Lists are filled from what the scan hands out. Host work stays a Python loop over it, in the user's own words.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property

from jitmod.analysis.legality import is_rebound_elsewhere
from jitmod.analysis.loops import Unplannable, header, is_path, trip_of
from jitmod.analysis.scannable import written_before
from jitmod.analysis.scanning import ScanPlan
from jitmod.analysis.ssa import Value
from jitmod.analysis.values import Array, Number
from jitmod.model import Edit
from jitmod.rewrite.loop_edits import LoopEdits
from jitmod.rewrite.names import Namer, plural
from jitmod.rewrite.scanned import LENGTH, START, Scanned, steps_text
from jitmod.rewrite.text import indented, reindent, splice
from jitmod.source.nodes import walk

_WORDS = frozenset({"len", "range", "zip", "enumerate", "min", "abs"})


@dataclass(frozen=True, eq=False)
class ScanEdits(LoopEdits):
    """The edits for a plan of a scan."""

    plan: ScanPlan
    function: Scanned
    names: dict[Value, str] = field(default_factory=dict)  # names in the user's function for what the scan hands out

    def edits(self) -> tuple[Edit, ...]:
        """The edits that put the plan into effect. Raises `Unplannable`."""
        loop = self.plan.loop
        if self.document.indent(loop.body[0]) is None:
            raise Unplannable("unparsable", loop.node, "the loop's body stands on the line of its header")
        self.function.build()
        self._name_outputs()
        self._check_shadows()
        lines = self.lines()
        at = self.function.place()
        text = indented("\n".join([*self.comments(), *lines]), self.indent).removeprefix(self.indent)
        start, end = self.document.span(loop.statement)
        line_end = self.document.source.find(b"\n", end)
        behind = self.document.source[end : line_end if line_end >= 0 else len(self.document.source)]
        if behind.lstrip().startswith(b"#"):  # a comment of the last statement, which is gone or has it
            end += len(behind.rstrip())
        user = [Edit(start, end, text), *self._fold_edits()]
        return (*self.function.imports.edits(), Edit(at, at, self.function.definition), *user)

    def _check_shadows(self) -> None:
        """The call is written in the user's function, where its words must mean what they mean elsewhere."""
        scope = self.module.scope_of(self.plan.loop.node)
        for word in sorted(_WORDS):
            if scope.find(word) is not None:
                raise Unplannable("rebound-global", self.plan.loop.node, f"`{word}` means something else here")
        used = {"jax", "jnp", *(n.split(".")[0] for n in (self.function.imports.refer("jax.numpy.asarray"),))}
        for word in sorted(used):
            found = scope.find(word)
            if found is not None and found.parent is not None:
                raise Unplannable("rebound-global", self.plan.loop.node, f"`{word}` means something else here")

    # -- one call ----------------------------------------------------------------------------------------------------

    def lines(self) -> list[str]:
        """One call for all steps, under a condition where there may be none."""
        lines = [*self._fed(), *self._call(), *self._extensions(), *self._host_loop("0")]
        lines += self._rebound() + self._positions_after()
        condition = self._condition()
        if condition is None:
            return lines
        return [f"if {condition}:", *indented("\n".join(lines), self.function.step).split("\n")]

    def _fed(self) -> list[str]:
        """The loop that makes the numbers which the scan takes."""
        if not self.plan.feeds:
            return []
        target, _ = header(self.plan.loop)
        lines = [f"{name} = []" for name in self.function.fed.values()]
        steps = [f"{name}.append({v.name})" for v, name in self.function.fed.items() if v.origin == "carried"]
        for statement in self.plan.loop.body:
            mine = [n for n in self.plan.feeders if n.statement is statement]
            if mine:
                steps += self._kept({statement})
                made = {v for n in mine for v in n.makes.values()}
                steps += [f"{name}.append({v.name})" for v, name in self.function.fed.items() if v in made]
        lines.append(f"for {self.document.text(target)} in {self._iterated()}:")
        return [*lines, *indented("\n".join(steps), self.function.step).split("\n")]

    def _condition(self) -> str | None:
        """What is true where there is a step; None where there is one for certain."""
        if not trip_of(self.plan.streams).may_be_zero:
            return None
        iterable = header(self.plan.loop)[1]
        match iterable:
            case ast.Call(func=ast.Name(id="range"), args=[ast.Call(func=ast.Name(id="len")) as length]):
                return self.document.text(length)
            case ast.Call(func=ast.Name(id="range"), args=[_, _, _]):
                return steps_text(self.plan, self.document.text, self.function.effects.inference)
            case ast.Call(func=ast.Name(id="range"), args=[first, stop]):
                return f"{self.document.text(first)} < {self.document.text(stop)}"
            case ast.Call(func=ast.Name(id="range"), args=[stop]):
                return f"{self.document.text(stop)} > 0"
        sources = [s.source for s in self.plan.streams if s.source is not None]
        if not self.plan.items and sources and is_path(sources[0]):  # `enumerate(xs)` of which the scan takes nothing
            return f"len({self.document.text(sources[0])})"
        return self.count()

    @cached_property
    def free(self) -> Namer:
        """Hands out names that the user's function does not have yet."""
        scope = self.module.scope_of(self.plan.loop.node)
        names = {n.id for n in walk(scope.node) if isinstance(n, ast.Name)} | set(self.module.scope.bindings)
        names |= {n.arg for n in walk(scope.node) if isinstance(n, ast.arg)}
        return Namer(names | {self.function.name})

    def _local(self, wish: str) -> str:
        name = self.free.fresh(wish)
        self.function.namer.taken.add(name)
        return name

    def _name_outputs(self) -> None:
        """A list that is only stacked later means an array from now on; other results get names of their own."""
        for append in self.plan.appends:
            if append.folds and append.value not in self.names:
                self.names[append.value] = append.name
        for value in self.function.outputs:
            if value not in self.names:
                wish = plural(self.function.outer[value])
                wish = f"all_{wish.removeprefix('all_')}" if wish in self.free.taken else wish
                self.names[value] = self._local(wish)

    def _call(self, start: str = "", length: str = "") -> list[str]:
        """The call, and the names that it binds."""
        lasts = [v.name for v in self.plan.lasts if not self.function.is_iterated(v)]
        targets = [*self.plan.handed, *(self.names[v] for v in self.function.outputs), *lasts]
        call = self.function.call().replace(START, start).replace(LENGTH, length)
        if not targets:
            raise Unplannable("too-small", self.plan.loop.node, "nothing reads what the loop computes")
        return [f"{', '.join(targets)} = {call}"]

    def _extensions(self) -> list[str]:
        """The lists that stay lists."""
        taken = {a.value for a in self.plan.appends if a.folds and self.names[a.value] == a.name}
        lines = []
        for append in self.plan.appends:
            if append.value in taken and self.names[append.value] == append.name:
                continue
            lines.append(f"{append.name}.extend({self.rows(self.names[append.value], append.value)})")
        return lines

    def _rebound(self) -> list[str]:
        """Names whose last value is read later, where all values have come."""
        values = [v for v in self.plan.lasts if self.function.is_iterated(v)]
        return [f"{v.name} = {self._last_of(v)}" for v in values]

    def _last_of(self, value: Value) -> str:
        if isinstance(value.kind, Array):
            return f"{self.names[value]}[-1]"
        return f"{self.function.imports.refer('jax.tree.map')}(lambda leaf: leaf[-1], {self.names[value]})"

    def _positions_after(self) -> list[str]:
        """The names of the header that are read after the loop: what the last step had."""
        loop = self.plan.loop
        if loop.counter is not None:
            name = loop.counter.name.id
            return [f"{name} = {self.document.text(loop.counter.stop)}"] if name in self.plan.live else []
        lines = []
        for stream in self.plan.streams:
            if stream.name not in self.plan.live_outs.targets or self._binds(stream.name):
                continue
            iterable = header(loop)[1]
            if stream.source is not None and isinstance(stream.kind, Array):
                self._check_last(stream.source)
                lines.append(f"{stream.name} = {self.document.text(stream.source)}[-1]")
            elif stream.source is None and len(self.plan.streams) == 1:
                self._check_last(iterable)
                match iterable:
                    case ast.Call(args=[ast.Constant(value=int(stop))]):
                        lines.append(f"{stream.name} = {stop - 1}")
                    case ast.Call(args=[stop]):
                        lines.append(f"{stream.name} = {self.document.text(stop)} - 1")
                    case _:
                        lines.append(f"{stream.name} = {self.document.text(iterable)}[-1]")
            else:
                message = f"`{stream.name}` is read after the loop"
                raise Unplannable("live-out-unbound", loop.node, message)
        return lines

    def _check_last(self, source: ast.expr) -> None:
        """Raise `Unplannable` where what the loop ran over is another thing when it is over."""
        changed = {n.id for n in walk(source) if isinstance(n, ast.Name)} & self.stored
        if changed:
            message = f"`{min(changed)}` is bound anew by the loop, whose last item is read after it"
            raise Unplannable("live-out-unbound", self.plan.loop.node, message)

    @cached_property
    def stored(self) -> set[str]:
        """The names that the loop binds anew, whatever it does now."""
        loop = self.plan.loop.node
        return {n.id for n in walk(loop) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}

    def is_fixed(self, name: str) -> bool:
        """Whether a name is local to the function, and no inner function binds it."""
        scope = self.module.scope_of(self.plan.loop.node)
        return scope.is_function and scope.find(name) is scope and not is_rebound_elsewhere(scope, name)

    def _binds(self, name: str) -> bool:
        """Whether the loop over results binds a name of the header."""
        return bool(self.plan.feeds) or (bool(self.plan.steady) and name in self._needed())

    # -- host work ---------------------------------------------------------------------------------------------------

    def _needed(self) -> set[str]:
        """The names of the header that host work reads, or that are read after the loop."""
        read = {v.name for n in self.plan.body.host_nodes() for v in n.reads() if v.origin == "item"}
        return read | self.plan.live_outs.targets

    def _check_header(self) -> None:
        """Raise `Unplannable` where the call binds a name anew by which the loop that stays says how long it is."""
        bound = {*self.plan.handed, *(v.name for v in self.plan.lasts), *self.names.values()}
        iterable = header(self.plan.loop)[1]
        changed = {n.id for n in walk(iterable) if isinstance(n, ast.Name)} & bound
        if changed:
            message = f"`{min(changed)}` says how often the loop runs, and a step binds it anew"
            raise Unplannable("carried-state", self.plan.loop.node, message)

    def _host_loop(self, start: str) -> list[str]:
        """The loop that stays, over what the steps have handed out; nothing where no work is left."""
        if not self.plan.steady:
            return []
        self._check_header()
        if self.plan.block.kind == "whole" and (sums := self._sums()) is not None:
            return sums
        read = [e for e in self.plan.emits if self._is_read(e.value)]
        bound = [self.function.outer[e.value] for e in read]
        get = "jax.device_get"
        arrays = []
        for emit in read:
            rows = self.names[emit.value] if emit.pulled else self.rows(self.names[emit.value], emit.value)
            arrays.append(f"{self.function.imports.refer(get)}({rows})" if emit.pulled else rows)
        target, _ = header(self.plan.loop)
        needed = self._needed() & {s.name for s in self.plan.streams}
        body = self._kept({n.statement for n in (*self.plan.steady, *self.plan.due)})
        blocks = self.plan.block.kind != "whole"
        results = ", ".join(bound)
        zipped = arrays[0] if len(arrays) == 1 else f"zip({', '.join(arrays)})"
        positions = [s for s in self.plan.streams if s.source is None]
        counts = len(positions) == 1 and needed <= {positions[0].name} and (positions[0].from_zero or blocks)
        if not arrays:
            steps = self._own_header(needed)
        elif not needed:
            steps = f"for {results} in {zipped}:"
        elif counts:
            inner = results if len(bound) == 1 else f"({results})"
            given = f", {start}" if start != "0" else ""
            steps = f"for {positions[0].name}, {inner} in enumerate({zipped}{given}):"
        elif blocks:
            raise Unplannable("unknown-iterable", self.plan.loop.node, "host work reads items of a block")
        else:
            own = self.document.text(target)
            own = f"({own})" if isinstance(target, ast.Tuple) and not own.startswith("(") else own
            steps = f"for {own}, {results} in zip({self._iterated()}, {', '.join(arrays)}):"
        return [steps, *indented("\n".join(body), self.function.step).split("\n")]

    def _sums(self) -> list[str] | None:
        """What counters of the loop come to, where all work that is left is to count: `n += 1` for every step."""
        if self.plan.live_outs.targets:
            return None
        count = steps_text(self.plan, self.document.text, self.function.effects.inference)
        commented = {line for line, _ in self.document.comments}
        lines = []
        for node in self.plan.steady:
            match node.statement:
                case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=ast.Constant(value=int(by))):
                    pass
                case ast.Assign(
                    targets=[ast.Name(id=name)],
                    value=ast.BinOp(left=ast.Name(id=other), op=ast.Add(), right=ast.Constant(value=int(by))),
                ) if other == name:
                    pass
                case _:
                    return None
            begun = written_before(name, self.plan.loop, self.function.effects)
            alone = sum(name in other.makes for other in self.plan.body.nodes) == 1 and not node.guards
            named = {n.id for n in walk(ast.parse(count, mode="eval")) if isinstance(n, ast.Name)}
            read = sum(v.name == name for other in self.plan.body.nodes for v in other.reads())
            plain = begun == Number("int") and alone and read <= 1 and node.statement.lineno not in commented
            if not plain or named & self.stored:
                return None
            lines.append(f"{name} += {count if by == 1 else f'{by} * {count}'}")
        return lines

    def _own_header(self, needed: set[str]) -> str:
        """The header of a loop that reads nothing of the scan."""
        target, iterable = header(self.plan.loop)
        if self.plan.block.kind != "whole":
            message = "host work of a block reads nothing of its steps"
            raise Unplannable("unknown-iterable", self.plan.loop.node, message)
        if needed or self.plan.loop.counter is not None or isinstance(iterable, ast.Call):
            return f"for {self.document.text(target)} in {self._iterated()}:"
        unused = "_" if ast.unparse(target) == "_" else self._local("_")
        return f"for {unused} in range({self.count()}):"

    def _iterated(self) -> str:
        """The text of what the loop runs over."""
        counter = self.plan.loop.counter
        if counter is not None:
            return f"range({counter.name.id}, {self.document.text(counter.stop)})"
        return self.document.text(header(self.plan.loop)[1])

    def _is_read(self, value: Value) -> bool:
        nodes = (*self.plan.steady, *self.plan.due)
        return any(value in n.uses.values() or any(value in v for v in n.flows.values()) for n in nodes)

    def _kept(self, statements: set[ast.stmt]) -> list[str]:
        """The text of the statements of the body that hold host work, without indentation, comments included."""
        before = header(self.plan.loop)[1].end_lineno or self.plan.loop.node.lineno
        return self._texts(self.plan.loop.body, statements, before)

    def _texts(self, body: list[ast.stmt], statements: set[ast.stmt], before: int) -> list[str]:
        """The text of those statements of a body that hold any of `statements`; `before` is the line above it."""
        first = self.document.indent(body[0]) or ""
        renamed = self._renamed()
        lines: list[str] = []
        comments = self.document.comments
        for statement in body:
            inside = set(walk(statement))
            if statements & inside:
                own = [c for line, c in comments if before < line < statement.lineno]
                text = reindent(splice(self.document, statement, renamed), first, "")
                beside = [c for line, c in comments if line == statement.end_lineno]
                tail = "".join(f"  {c}" for c in beside if not text.endswith(c))
                lines += [*own, *f"{text}{tail}".split("\n")]
            before = statement.end_lineno or before
        return lines

    def _renamed(self) -> dict[ast.expr, str]:
        """How host work writes what the scan has computed."""
        found: dict[ast.expr, str] = {}
        for emit in self.plan.emits:
            name = self.function.outer[emit.value]
            for reader in emit.readers:
                if self.document.text(reader) != name:
                    found[reader] = name
        return found

    # -- the rest ----------------------------------------------------------------------------------------------------

    def comments(self) -> list[str]:
        """Comments of the loop that no moved or kept statement takes along."""
        taken = {n.statement for n in self.plan.body.nodes}
        moved: set[int] = set()
        for statement in self.plan.loop.body:
            if taken & set(walk(statement)):
                node = next(n for n in self.plan.body.nodes if n.statement in set(walk(statement)))
                first, _ = self.function.lines_of(node) if node.statement is statement else (statement.lineno, 0)
                moved |= set(range(first, (statement.end_lineno or first) + 1))
        loop = self.plan.loop
        first, last = loop.node.lineno, loop.node.end_lineno or loop.node.lineno
        return [c for line, c in self.document.comments if first <= line < last and line not in moved]

    def _fold_edits(self) -> list[Edit]:
        """`jnp.stack(ys)` of what is an array, where there were steps."""
        named = [a for a in self.plan.appends if a.folds and self.names[a.value] == a.name]
        condition = self._condition()
        if condition is None:
            return [Edit(*self.document.span(f), a.name) for a in named for f in a.folds]
        infer = self.function.effects.inference
        edits = []
        for append in named:
            for fold in append.folds:
                if infer.dotted(fold.func, self.module) == "jax.numpy.asarray":
                    continue
                if not append.seeded:
                    edits.append(self.restacked(fold, append.name))
                elif self._still_holds(condition):
                    text = f"{append.name} if {condition} else {self.document.text(fold)}"
                    edits.append(Edit(*self.document.span(fold), self.enclosed(fold, text)))
        return edits

    def _still_holds(self, condition: str) -> bool:
        """Whether a condition means the same behind the loop as before it."""
        scope, last = self.module.scope_of(self.plan.loop.node), self.plan.loop.node.end_lineno or 0
        parsed = list(walk(ast.parse(condition, mode="eval")))
        names = {n.id for n in parsed if isinstance(n, ast.Name)}
        stores = [n for n in walk(scope.node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
        rebound = {n.id for n in stores if n.lineno > last} | {s.name for s in self.plan.streams}
        plain = not any(isinstance(n, ast.Attribute | ast.Call) for n in parsed)
        fixed = all(self.is_fixed(name) for name in names) and not names & rebound
        return plain and fixed and self.plan.loop.counter is None
