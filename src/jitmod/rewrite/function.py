"""The compiled function of a plan: its parameters, its body, its place in the file, and its call.

Statements of the map piece move into it with their comments; what they read from outside becomes a parameter.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from jitmod.analysis.batching import BatchPlan, Emit
from jitmod.analysis.effects import Effects
from jitmod.analysis.loops import Stream, Unplannable, header, is_path
from jitmod.analysis.ssa import Node, Value
from jitmod.model import Knob
from jitmod.rewrite.imports import Imports
from jitmod.rewrite.names import Namer, for_expression, plural, singular, snake
from jitmod.rewrite.parameters import Parameters
from jitmod.rewrite.place import before_top_level, blank_lines
from jitmod.rewrite.stacking import Stacking
from jitmod.rewrite.text import indented, reindent, splice
from jitmod.rewrite.windowed import moved_numbers, window_text
from jitmod.rewrite.wrapping import wrapped
from jitmod.source.document import Document
from jitmod.source.nodes import walk
from jitmod.source.project import SourceModule


@dataclass(eq=False)
class Compiled:
    """The function that runs the map piece of one plan for all items."""

    plan: BatchPlan
    effects: Effects
    imports: Imports
    namer: Namer
    knob: Knob
    strengthens: bool = False  # whether the result is never weakly typed, as an array that is made of a list
    inner: dict[Value, str] = field(default_factory=dict)  # names inside the function
    outer: dict[Value, str] = field(default_factory=dict)  # names of emitted values in what is left of the loop
    captured: dict[Value, str] = field(default_factory=dict)  # earlier versions of a name, kept for the result
    hoisted: dict[ast.expr, str] = field(default_factory=dict)  # iterables that get a name before the loop
    stacking: Stacking | None = None
    name: str = ""
    definition: str = ""
    returns_list: ClassVar[bool] = False  # whether the call gives a list of results, not stacked arrays

    @property
    def module(self) -> SourceModule:
        return self.plan.loop.module

    @property
    def document(self) -> Document:
        return self.plan.loop.module.document

    @property
    def step(self) -> str:
        """One level of indentation, as the user writes it."""
        return "\t" if self.document.line(self.plan.loop.statement.lineno).startswith("\t") else "    "

    def build(self) -> None:
        """Fill in the names and `definition`. Raises `Unplannable`."""
        self.name = self.namer.fresh(f"_{self._stem()}_batched")
        self._name_values()
        self.definition = self._definition(self._per_item())

    def _stem(self) -> str:
        """What the name begins with: the function that the loop is in, or what a loop of the module calls."""
        symbol = self.plan.loop.symbol
        if symbol == "<module>":
            callee = self.plan.heavy.func
            symbol = callee.id if isinstance(callee, ast.Name) else "loop"
        return snake(symbol.replace("<lambda>", "loop").removesuffix("__call__"))

    def call(self) -> str:
        """The call, as the user's function writes it."""
        return f"{self.name}({', '.join(p.text for p in self.parameters.found)})"

    @cached_property
    def parameters(self) -> Parameters:
        return Parameters(self.plan, self.effects, self.imports, self._mentioned())

    @cached_property
    def constant(self) -> str:
        """The name of the constant that holds the batch size."""
        return self.namer.fresh(f"{self.name.strip('_').replace('_batched', '').upper()}_BATCH_SIZE")

    # -- names of values ---------------------------------------------------------------------------------------------

    def _name_values(self) -> None:
        """Names for values: the user's own inside the function; outside where nothing else has them there."""
        emitted = {e.value: e for e in self.plan.emits}
        last = {v.name: v for node in self.plan.body.device_nodes() for v in node.makes.values() if v.name}
        for node in self.plan.body.device_nodes():
            for value in node.makes.values():
                emit = emitted.get(value)
                if value.name:
                    self.inner[value] = value.name
                    if emit is not None and last[value.name] is not value:
                        self.captured[value] = self.namer.fresh(value.name)
                else:
                    wish = self._wish(value, emit, node)
                    own = (wish,) if emit is not None and self._is_own_target(wish, emit) else ()
                    self.inner[value] = self.namer.fresh(wish, allowed=own)
        for emit in reversed(self.plan.emits):
            name = self.inner[emit.value]
            free = name not in self.outer.values()
            if not emit.value.name or (free and self._keeps_name(emit)):
                self.outer[emit.value] = name
            else:
                self.outer[emit.value] = self.captured.get(emit.value) or self.namer.fresh(name)
        for name in self.plan.live_outs.names:
            if self.outer[self.plan.body.env[name]] != name:
                message = f"`{name}` is read after the loop, and the loop over results cannot bind it"
                raise Unplannable("live-out-unbound", self.plan.loop.node, message)
        for node in self.plan.body.host_nodes():
            for name, values in node.flows.items():
                if any(value in self.outer and self.outer[value] != name for value in values):
                    message = f"`{name}` is bound under a condition, and by the computation before"
                    raise Unplannable("live-out-unbound", node.statement, message)

    def _is_read_late(self, name: str) -> bool:
        """Whether a function or generator of the loop's scope reads the name, at a time that nobody knows."""
        lazy = (ast.Lambda, ast.GeneratorExp, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        scope = self.module.scope_of(self.plan.loop.node).node
        inner = [n for n in walk(scope) if isinstance(n, lazy) and n is not scope]
        return any(isinstance(n, ast.Name) and n.id == name for part in inner for n in walk(part))

    def _keeps_name(self, emit: Emit) -> bool:
        """Whether the loop over results may bind a value to the user's name: nothing binds it before it is read."""
        target, _ = header(self.plan.loop)
        name = emit.value.name
        if any(isinstance(n, ast.Name) and n.id == name for n in walk(target)):
            return False
        bound = False
        for node in self.plan.body.host_nodes():
            reads = emit.value in (node.uses.values() if node.op == "merge" else node.reads())
            if bound and reads:
                return False
            bound = bound or name in node.makes
        return True

    def _wish(self, value: Value, emit: Emit | None, node: Node) -> str:
        if value.name:
            return value.name
        if emit is not None and len(emit.readers) == 1:
            statement = self.module.parents.get(self.module.parents.get(emit.readers[0], node.statement))
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name())):
                    return name
        assert node.expr is not None
        callee = self.plan.heavy.func
        wish = for_expression(node.expr, frozenset({getattr(callee, "id", getattr(callee, "attr", ""))}))
        return wish if node.over is None else plural(wish)

    def _is_own_target(self, name: str, emit: Emit) -> bool:
        """`best = int(<value>)`: the value may be called `best` until that statement has run."""
        reader = emit.readers[0] if len(emit.readers) == 1 else None
        statement = self.module.parents[self.module.parents[reader]] if reader is not None else None
        match statement:
            case ast.Assign(targets=[ast.Name(id=target)]) if target == name:
                taken = any(name == s.name for s in self.plan.items) or name in self.plan.body.entry
                return (
                    not taken
                    and not self._is_read_late(name)
                    and sum(name in n.makes for n in self.plan.body.nodes) == 1
                )
        return False

    # -- the compiled function ---------------------------------------------------------------------------------------

    def _rename_uses(self, node: Node) -> None:
        items = {inner for read in self.plan.body.item_reads for inner in walk(read.value)}
        moved, unread = moved_numbers(self.plan), {n for w in self.plan.windows for n in w.bounds}
        for expr, value in node.uses.items():
            if expr in unread:
                continue
            if isinstance(expr, ast.Name) and value.origin == "invariant" and expr not in items:
                if expr not in moved or not self.parameters.number(expr):
                    self.parameters.invariant(expr, value)
            elif isinstance(expr, ast.Name) and value in self.inner and self.inner[value] != expr.id:
                self.parameters.renamed[expr] = self.inner[value]
            attribute = self.module.parents.get(expr)
            name = getattr(attribute, "attr", "")
            if isinstance(attribute, ast.Attribute) and name.startswith("__") and not name.endswith("__"):
                raise Unplannable("local-callable", expr, f"`{name}` is private to its class, and cannot be moved out")

    def _items(self) -> list[tuple[Stream, str]]:
        """The streams that the function takes, with the name of an item."""
        found = []
        for stream in self.plan.items:
            if stream.name.isidentifier() and not any(v.stream is stream for v in self.plan.body.item_reads.values()):
                found.append((stream, stream.name))
                continue
            name = self.namer.fresh(stream.name if stream.path else singular(stream.name.rpartition(".")[2]))
            found.append((stream, name))
            for expr, value in self.plan.body.item_reads.items():
                if value.stream is stream or value.name == stream.name:
                    self.parameters.renamed[expr] = name
        return found

    def _per_item(self) -> list[str]:
        """The lines of the compiled function's body, indented by one step."""
        step = self.step
        items = self._items()
        for node in self.plan.body.device_nodes():
            self._rename_uses(node)
        renamed = self.parameters.renamed
        renamed |= {w.expr: window_text(w, self.document, renamed, self.imports) for w in self.plan.windows}
        stacking = self.stacking = Stacking(self)
        sources = [stacking.source(stream, name) for stream, name in items]
        prelude = stacking.prelude()
        arange = self.imports.refer("jax.numpy.arange") if self.plan.positions else ""
        names = [name for _, name in items]
        scan = self.plan.piece("scan")
        keys: list[str] = []
        if scan:
            counted = stacking.taken[0][0] if stacking.taken else self._positions(arange, stacking)
            lines, keys, scanned = self._scan(scan, f"len({counted})")
            prelude += lines
            names += keys
            sources += scanned
        names += [position.name for position in self.plan.positions]
        sources += [self._positions(arange, stacking) for _ in self.plan.positions]
        lines = list(stacking.opening)
        for node in self.plan.piece("map"):
            lines += self._mapped(node)
        results = [self.captured.get(e.value) or self.inner[e.value] for e in self.plan.emits]
        lines = _with_return(lines, results)
        direct = _callee_of(lines, names) if len(names) == 1 else None
        if direct is not None:
            call = self._mapping(direct, sources)
            function: list[str] = []
        else:
            one = len(names) == 1
            per_item = self.inner_name("per_item")
            argument = names[0] if one else self.inner_name("item")
            function = [""] if prelude and prelude[-1] else []
            function += [f"def {per_item}({argument}):"]
            function += [] if one else [f"{step}{', '.join(names)} = {argument}"]
            function += [indented("\n".join(lines), step), ""]
            call = self._mapping(per_item, sources)
        live = list(self.plan.live_outs.keys)
        if not live and not self.strengthens:
            return [*prelude, *function, f"return {call}"]
        batches = [plural(r) for r in results]
        lines = [*prelude, *function, f"{', '.join(batches)} = {call}"]
        given = [f"{batch}.astype({batch}.dtype)" for batch in batches] if self.strengthens else batches
        if self.strengthens:
            lines.append("# not weakly typed, as no array that is made from a list is")
        return [*lines, f"return {', '.join([*given, *live])}"]

    def _positions(self, arange: str, stacking: Stacking) -> str:
        """The text of the positions of the items: as many as there are items, or what the loop's range gives."""
        if stacking.taken:
            return f"{arange}(len({stacking.taken[0][0]}))"
        iterable = header(self.plan.loop)[1]
        assert isinstance(iterable, ast.Call)
        given = ", ".join(self.document.text(argument) for argument in iterable.args)
        return self.parameters.add(f"{arange}({given})", "positions")

    def _mapping(self, function: str, sources: list[str]) -> str:
        """The call of `function` for all items."""
        xs = sources[0] if len(sources) == 1 else f"({', '.join(sources)})"
        return f"{self.imports.refer('jax.lax.map')}({function}, {xs}, batch_size={self.constant})"

    def inner_name(self, wish: str) -> str:
        """A name for use inside the function that nothing in it has yet."""
        return self.namer.fresh(wish, allowed=() if wish in self._mentioned() else (wish,))

    def _mentioned(self) -> set[str]:
        """The names that the map piece mentions, and the parameters."""
        moved = [(node.statement if node.whole else node.expr) for node in self.plan.body.device_nodes()]
        nodes = [n for root in moved if root is not None for n in walk(root)]
        names = {n.id for n in nodes if isinstance(n, ast.Name)} | {s.name for s in self.plan.items}
        libraries = {name for name, found in self.module.scope.bindings.items() if found[-1].how == "import"}
        return names | libraries | {"jax", "jnp", "eqx"} | set(self.inner.values()) | set(self.captured.values())

    def _scan(self, scan: tuple[Node, ...], length: str) -> tuple[list[str], list[str], list[str]]:
        """The scan of the key chain: its lines, the names of the keys of an item, and of the arrays of them."""
        step = self.step
        carried = [n for n in self.plan.body.carried if any(n in node.targets for node in scan)]
        for node in scan:
            for name, value in node.uses.items():
                if isinstance(name, ast.Name) and value.origin == "carried":
                    self.parameters.add(name.id, name.id)
        read = {v for node in self.plan.piece("map") for v in node.uses.values()}
        inner = [v for node in scan for v in node.makes.values() if v in read]
        last = {v.name: v for node in scan for v in node.makes.values()}
        if not inner:
            raise Unplannable("prng-order", scan[0].statement, "no key that is split off is used")
        for value in inner:
            if last[value.name] is not value:  # its name means another key at the end
                self.captured[value] = self.namer.fresh(value.name)
        for node in self.plan.piece("map"):
            renamed = {e: self.captured[v] for e, v in node.uses.items() if v in inner and v in self.captured}
            self.parameters.renamed |= renamed
        lines = [line for node in scan for line in self._mapped(node)]
        per_item = [self.captured.get(v) or self.inner[v] for v in inner]
        arrays = [self.namer.fresh(plural(n)) for n in per_item]
        state = ", ".join(carried)
        outputs = ", ".join(per_item)
        packed = f"({outputs})" if len(per_item) > 1 else outputs
        collected = f"({', '.join(arrays)})" if len(arrays) > 1 else arrays[0]
        function = self.namer.fresh("next_keys" if len(carried) > 1 else f"next_{carried[0]}")
        head = [f"def {function}({carried[0]}, _):"] if len(carried) == 1 else [
            f"def {function}(keys, _):", f"{step}{state} = keys"]  # fmt: skip
        packed_state = state if len(carried) == 1 else f"({state})"
        call = f"{self.imports.refer('jax.lax.scan')}({function}, {packed_state}, length={length})"
        body = [indented("\n".join(lines), step)]
        tail = [f"{step}return {packed_state}, {packed}", "", f"{packed_state}, {collected} = {call}", ""]
        return [*head, *body, *tail], per_item, arrays

    def _mapped(self, node: Node) -> list[str]:
        """The lines of one node of the map piece, comments included, without indentation."""
        assert node.expr is not None
        if not node.whole:
            text = reindent(splice(self.document, node.expr, self.parameters.renamed), self._depth(node), "    ")
            if node.over is not None:
                rounds = f"for {ast.unparse(node.over.target)} in {ast.unparse(node.over.iter)}"
                text = f"{self.imports.refer('jax.numpy.stack')}([{text} {rounds}])"
            name = self.inner[next(iter(node.makes.values()))]
            return [f"{name} = (\n    {text}\n)" if "\n" in text else f"{name} = {text}"]
        text = reindent(splice(self.document, node.statement, self.parameters.renamed), self._depth(node), "")
        first, last = self.lines_of(node)
        own = node.statement.lineno
        above = [c for line, c in self.document.comments if first <= line < own]
        beside = [c for line, c in self.document.comments if line == last == node.statement.end_lineno]
        kept = [f"{self.captured[v]} = {v.name}" for v in node.makes.values() if v in self.captured]
        return [*above, f"{text}{''.join(f'  {c}' for c in beside)}", *kept]

    def _depth(self, node: Node) -> str:
        line = self.document.line(node.statement.lineno)
        return line[: len(line) - len(line.lstrip(" \t"))]

    def lines_of(self, node: Node) -> tuple[int, int]:
        """The lines that belong to a statement of the body: comments above it included."""
        body = self.plan.loop.body
        index = body.index(node.statement)
        before = body[index - 1].end_lineno if index else header(self.plan.loop)[1].end_lineno
        assert before is not None and node.statement.end_lineno is not None
        return min(before + 1, node.statement.lineno), node.statement.end_lineno

    def _definition(self, body: list[str]) -> str:
        step = self.step
        parameters = ", ".join(f"{p.name}: {p.annotation}" if p.annotation else p.name for p in self.parameters.found)
        lines = [
            *blank_lines(self.document, self.place()),
            f"{self.constant} = {self.knob.token}",
            "",
            "",
            f"@{self.imports.refer('equinox.filter_jit')}",
            f"def {self.name}({parameters}):",
            indented("\n".join(body), step),
            "",
            "",
            "",
        ]
        return wrapped("\n".join(lines), self.document)

    def place(self) -> int:
        """The byte before the top-level statement that holds the loop, with its decorators and comments."""
        return before_top_level(self.plan.loop.statement, self.module)


def _with_return(lines: list[str], results: list[str]) -> list[str]:
    """`y = f(x)` and `return y` are `return f(x)`."""
    single = len(results) == 1 and bool(lines)
    if single and lines[-1].startswith(f"{results[0]} = ") and "  #" not in lines[-1]:
        return [*lines[:-1], "return " + lines[-1].removeprefix(f"{results[0]} = ")]
    return [*lines, f"return {', '.join(results)}"]


def _callee_of(lines: list[str], names: list[str]) -> str | None:
    """`return model(x)` with nothing around it is `model` itself."""
    if len(lines) != 1 or not lines[0].startswith("return ") or "\n" in lines[0]:
        return None
    expression = ast.parse(lines[0].removeprefix("return "), mode="eval").body
    match expression:
        case ast.Call(func=func, args=[ast.Name(id=name)], keywords=[]) if [name] == names and is_path(func):
            return ast.unparse(func)
    return None
