"""The compiled function of a plan: its parameters, its body, its place in the file, and its call.

Statements of the map piece move into it with their comments; what they read from outside becomes a parameter.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from jitmod.analysis.effects import Effects
from jitmod.analysis.heap import is_immutable
from jitmod.analysis.loops import Stream, Unplannable, header, is_path
from jitmod.analysis.plan import Emit, LoopPlan
from jitmod.analysis.ssa import Node, Value
from jitmod.analysis.values import (
    UNKNOWN,
    Array,
    ClassRef,
    Instance,
    Kind,
    NdArray,
    Number,
    Routine,
    Sequence,
    Transformed,
)
from jitmod.model import Knob
from jitmod.rewrite.imports import Imports
from jitmod.rewrite.names import Namer, for_expression, plural, singular, snake
from jitmod.rewrite.text import document_comments, reindent, splice
from jitmod.source.document import Document
from jitmod.source.project import SourceModule
from jitmod.source.scopes import Scope


@dataclass(eq=False)
class Parameter:
    """A parameter of the compiled function: `text` is what the call passes for it."""

    name: str
    text: str
    annotation: str = ""
    first: bool = False


@dataclass(eq=False)
class Compiled:
    """The function that runs the map piece of one plan for all items."""

    plan: LoopPlan
    effects: Effects
    imports: Imports
    namer: Namer
    knob: Knob
    parameters: list[Parameter] = field(default_factory=list)
    names: dict[Value, str] = field(default_factory=dict)
    renamed: dict[ast.expr, str] = field(default_factory=dict)
    hoisted: dict[ast.expr, str] = field(default_factory=dict)  # iterables that get a name before the loop
    name: str = ""
    definition: str = ""

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
        """Fill in `name`, `names` and `definition`. Raises `Unplannable`."""
        symbol = self.plan.loop.symbol.replace("<module>", "module").replace("<lambda>", "loop")
        self.name = self.namer.fresh(f"_{snake(symbol)}_batched")
        self._name_values()
        self.definition = self._definition(self._per_item())

    def call(self) -> str:
        """The call, as the user's function writes it."""
        return f"{self.name}({', '.join(p.text for p in self.parameters)})"

    # -- names of values ---------------------------------------------------------------------------------------------

    def _name_values(self) -> None:
        """Give every emitted value the name by which the host reads it, and temporaries a name that reads well."""
        emitted = {e.value: e for e in self.plan.emits}
        kept = self._kept_names()
        for node in self.plan.body.mapped_nodes():
            for value in node.makes.values():
                emit = emitted.get(value)
                if value.name and not (emit and value.name in kept):
                    self.names[value] = value.name
                    continue
                wish = self._wish(value, emit, node)
                own = (wish,) if emit is not None and self._is_own_target(wish, emit) else ()
                self.names[value] = self.namer.fresh(wish, allowed=own)
        for emit in self.plan.emits:
            name = self.names[emit.value]
            later = [e for e in self.plan.emits if e is not emit and self.names[e.value] == name]
            if later:
                self.names[emit.value] = self.namer.fresh(name)

    def _kept_names(self) -> set[str]:
        """Names that the remaining loop binds or writes itself, so that no emitted value may take them."""
        if self.plan.collectors:
            return set()
        target, _ = header(self.plan.loop)
        targets = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
        written = {name for n in self.plan.body.host_nodes() for name in n.makes}
        return targets | written

    def _wish(self, value: Value, emit: Emit | None, node: Node) -> str:
        if value.name:
            return value.name
        if emit is not None and len(emit.readers) == 1:
            statement = self.module.parents.get(self.module.parents.get(emit.readers[0], node.statement))
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call()):
                    return name
        assert node.expr is not None
        callee = self.plan.heavy.func
        return for_expression(node.expr, frozenset({getattr(callee, "id", getattr(callee, "attr", ""))}))

    def _is_own_target(self, name: str, emit: Emit) -> bool:
        """`best = int(<value>)`: the value may be called `best` until that statement has run."""
        reader = emit.readers[0] if len(emit.readers) == 1 else None
        statement = self.module.parents[self.module.parents[reader]] if reader is not None else None
        match statement:
            case ast.Assign(targets=[ast.Name(id=target)]) if target == name:
                is_item = any(name == s.name for s in self.plan.streams)
                return not is_item and sum(name in n.makes for n in self.plan.body.nodes) == 1
        return False

    # -- parameters --------------------------------------------------------------------------------------------------

    def _parameter(self, text: str, wish: str, annotation: str = "", own: str = "", first: bool = False) -> str:
        """The name of the parameter for which the call passes `text`; `own` is the name that it takes the place of."""
        for parameter in self.parameters:
            if parameter.text == text:
                return parameter.name
        used = {p.name for p in self.parameters} | (self._mentioned() - {own} if text != wish else set())
        name = wish
        number = 1
        while name in used:
            number += 1
            name = f"{wish}_{number}"
        at = sum(p.first for p in self.parameters) if first else len(self.parameters)
        self.parameters.insert(at, Parameter(name, text, annotation, first))
        return name

    def _invariant(self, name: ast.Name, value: Value) -> None:
        """Make a parameter of what the map piece reads from outside, unless it is a definition of the module."""
        infer = self.effects.inference
        scope = infer.scope_binding(name.id, name, self.module)
        if scope is None or (scope.parent is None and self._is_definition(scope, name.id, value.kind)):
            return
        expr, kind = self._object(name, value.kind)
        if isinstance(kind, Routine | Transformed) and not isinstance(getattr(kind, "receiver", None), Instance):
            message = f"`{ast.unparse(expr)}` is made inside the function; at module level it would compile once"
            raise Unplannable("local-callable", expr, message)
        if kind == UNKNOWN:
            message = f"it cannot be told what `{ast.unparse(expr)}` is; annotate it (an Array, a Module, a number)"
            raise Unplannable("mutable-self", expr, message)
        if isinstance(kind, Instance) and not is_immutable(kind, self.effects):
            message = f"`{ast.unparse(expr)}` is a plain object; the compiled function would not see it change"
            raise Unplannable("mutable-self", expr, message)
        if isinstance(kind, Routine) and isinstance(kind.receiver, Instance):
            message = f"`{ast.unparse(expr)}` is a method of a plain object, which cannot be passed"
            raise Unplannable("mutable-self", expr, message)
        text = self.document.text(expr)
        wish = "module" if text == "self" else text.rpartition(".")[2].lstrip("_")
        wish = wish.lower() if wish.isupper() else wish
        passed = text
        if isinstance(kind, Number) and kind.type != "bool" and self._is_operand(expr):
            passed = f"{self.imports.refer('jax.numpy.asarray')}({text})"
        annotation = self._annotation(expr) if passed == text else ""
        own = expr.id if isinstance(expr, ast.Name) else ""
        parameter = self._parameter(passed, wish, annotation, own, first=isinstance(kind, Instance))
        if parameter != text:
            self.renamed[expr] = parameter

    def _is_definition(self, scope: Scope, name: str, kind: Kind) -> bool:
        """A module's import, function or class; or a callable that it makes once (`step = jax.jit(f)`)."""
        if {b.how for b in scope.bindings[name]} <= {"import", "def", "class"}:
            return True
        made = isinstance(kind, Routine | Transformed | ClassRef)
        return made and not self.effects.is_rebound(scope, name)

    def _object(self, name: ast.Name, kind: Kind) -> tuple[ast.Name | ast.Attribute, Kind]:
        """The attribute path from a name to the first object that may be passed: an array, a Module, a number."""
        expr: ast.Name | ast.Attribute = name
        while not is_immutable(kind, self.effects) and not isinstance(kind, Sequence | NdArray):
            parent = self.module.parents[expr]
            if not isinstance(parent, ast.Attribute):
                break
            expr, kind = parent, self.effects.inference.kind(parent, self.module)
        return expr, kind

    def _is_operand(self, expr: ast.expr) -> bool:
        """Whether a number only takes part in arithmetic with device values, where a weakly typed array is the same."""
        parent = self.module.parents[expr]
        if not isinstance(parent, ast.BinOp) or isinstance(parent.op, ast.Pow):
            return False
        other = parent.right if parent.left is expr else parent.left
        return isinstance(self.effects.inference.kind(other, self.module), Array)

    def _annotation(self, expr: ast.expr) -> str:
        """The user's own annotation, where a parameter of the function is passed on under its name."""
        function = self.plan.loop.function
        if isinstance(expr, ast.Name) and function is not None:
            for arg in function.parameters:
                if arg.arg == expr.id and arg.annotation is not None and len(function.scope.bindings[arg.arg]) == 1:
                    return self.document.text(arg.annotation)
        return ""

    # -- the compiled function ---------------------------------------------------------------------------------------

    def _rename_uses(self, node: Node) -> None:
        for expr, value in node.uses.items():
            if isinstance(expr, ast.Name) and value.origin == "invariant":
                self._invariant(expr, value)
            elif value.twin is not None and not value.mappable:
                self.renamed[expr] = self.names[value.twin]
            elif value in self.names and isinstance(expr, ast.Name) and self.names[value] != expr.id:
                self.renamed[expr] = self.names[value]

    def _items(self) -> list[tuple[Stream, str]]:
        """The streams that the function takes, with the name of an item."""
        found = []
        for stream in self.plan.streams:
            if stream.name.isidentifier() and not any(v.stream is stream for v in self.plan.body.item_reads.values()):
                found.append((stream, stream.name))
                continue
            name = self.namer.fresh(singular(stream.name.rpartition(".")[2]))
            found.append((stream, name))
            for expr, value in self.plan.body.item_reads.items():
                if value.stream is stream or value.name == stream.name:
                    self.renamed[expr] = name
        return found

    def _per_item(self) -> list[str]:
        """The lines of the compiled function's body, indented by one step."""
        step = self.step
        items = self._items()
        for node in self.plan.body.mapped_nodes():
            self._rename_uses(node)
        stacks: list[str] = []
        sources = [self._source(stream, stacks) for stream, _ in items]
        prelude: list[str] = []
        if stacks:
            strict = self.imports.refer("jax.numpy_dtype_promotion")
            prelude.append(f'with {strict}("strict"):  # items of several dtypes raise here instead of being cast')
            prelude += [f"{step}{line}" for line in stacks]
        names = [name for _, name in items]
        scan = self.plan.piece("scan")
        keys: list[str] = []
        if scan:
            lines, keys, scanned = self._scan(scan, sources[0])
            prelude += lines
            names += keys
            sources += scanned
        lines = []
        for node in self.plan.piece("map"):
            lines += self._mapped(node)
        results = [self.names[e.value] for e in self.plan.emits if e.value.maker not in scan]
        lines = _with_return(lines, results)
        lax_map = self.imports.refer("jax.lax.map")
        direct = _callee_of(lines, names) if len(names) == 1 else None
        if direct is not None:
            call = f"{lax_map}({direct}, {sources[0]}, batch_size={self._constant()})"
            function: list[str] = []
        else:
            one = len(names) == 1
            per_item = self._inner("per_item")
            argument = names[0] if one else self._inner("item")
            function = [""] if prelude and prelude[-1] else []
            function += [f"def {per_item}({argument}):"]
            function += [] if one else [f"{step}{', '.join(names)} = {argument}"]
            function += [f"{step}{line}" if line else "" for line in lines] + [""]
            xs = sources[0] if one else f"({', '.join(sources)})"
            call = f"{lax_map}({per_item}, {xs}, batch_size={self._constant()})"
        live = list(self.plan.live_keys)
        if not live:
            return [*prelude, *function, f"return {call}"]
        batch = ", ".join(plural(r) for r in results)
        return [*prelude, *function, f"{batch} = {call}", f"return {', '.join([batch, *live])}"]

    def _source(self, stream: Stream, stacks: list[str]) -> str:
        """The text, inside the function, of the array that holds a stream's items; lists are stacked first."""
        assert stream.source is not None
        text = self.hoisted.get(stream.source) or self.document.text(stream.source)
        wish = text.rpartition(".")[2].lstrip("_") if text.replace(".", "_").isidentifier() else plural(stream.name)
        wish = wish.lower() if wish.isupper() else wish
        if isinstance(stream.kind, Array | NdArray):
            return self._parameter(text, wish, self._annotation(stream.source))
        stack = self.imports.refer("jax.numpy.stack")
        name = self._parameter(text, wish, self._annotation(stream.source))
        if isinstance(stream.kind, Sequence) and stream.kind.uniform:
            return f"{stack}({name})"
        stacked = self._inner(f"stacked_{name}")
        stacks.append(f"{stacked} = {stack}({name})")
        return stacked

    def _inner(self, wish: str) -> str:
        """A name for use inside the function that nothing in it has yet."""
        return self.namer.fresh(wish, allowed=() if wish in self._mentioned() else (wish,))

    def _mentioned(self) -> set[str]:
        """The names that the map piece mentions, and the parameters."""
        nodes = [n for node in self.plan.body.mapped_nodes() for n in ast.walk(node.statement)]
        return {n.id for n in nodes if isinstance(n, ast.Name)} | {p.name for p in self.parameters}

    def _scan(self, scan: tuple[Node, ...], source: str) -> tuple[list[str], list[str], list[str]]:
        """The scan of the key chain: its lines, the names of the keys of an item, and of the arrays of them."""
        step = self.step
        carried = [n for n in self.plan.body.carried if any(n in node.targets for node in scan)]
        lines: list[str] = []
        for node in scan:
            for name, value in node.uses.items():
                if isinstance(name, ast.Name) and value.origin == "carried":
                    self._parameter(name.id, name.id)
            lines += self._mapped(node)
        inner = [v for node in scan for v in node.makes.values() if v.name not in carried]
        per_item = [self.names[v] for v in inner] or carried
        arrays = [self.namer.fresh(plural(n)) for n in per_item]
        state = ", ".join(carried)
        outputs = ", ".join(per_item)
        packed = f"({outputs})" if len(per_item) > 1 else outputs
        collected = f"({', '.join(arrays)})" if len(arrays) > 1 else arrays[0]
        function = self.namer.fresh("next_keys" if len(carried) > 1 else f"next_{carried[0]}")
        head = [f"def {function}({carried[0]}, _):"] if len(carried) == 1 else [
            f"def {function}(keys, _):", f"{step}{state} = keys"]  # fmt: skip
        packed_state = state if len(carried) == 1 else f"({state})"
        call = f"{self.imports.refer('jax.lax.scan')}({function}, {packed_state}, length={source}.shape[0])"
        body = [f"{step}{line}" if line else "" for line in lines]
        tail = [f"{step}return {packed_state}, {packed}", "", f"{packed_state}, {collected} = {call}", ""]
        return [*head, *body, *tail], per_item, arrays

    def _mapped(self, node: Node) -> list[str]:
        """The lines of one node of the map piece, comments included, without indentation."""
        assert node.expr is not None
        if not node.whole:
            text = reindent(splice(self.document, node.expr, self.renamed), self._depth(node), "    ")
            return f"{self.names[next(iter(node.makes.values()))]} = {text}".split("\n")
        renames = dict(self.renamed)
        for target in ast.walk(node.statement):
            if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store) and target.id in node.makes:
                name = self.names[node.makes[target.id]]
                if name != target.id:
                    renames[target] = name
        text = reindent(splice(self.document, node.statement, renames), self._depth(node), "")
        first, last = self.lines_of(node)
        own = node.statement.lineno
        above = [c for line, c in document_comments(self.document) if first <= line < own]
        beside = [c for line, c in document_comments(self.document) if line == last == node.statement.end_lineno]
        return [*above, *f"{text}{''.join(f'  {c}' for c in beside)}".split("\n")]

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

    def _constant(self) -> str:
        return f"{self.name.strip('_').replace('_batched', '').upper()}_BATCH_SIZE"

    def _definition(self, body: list[str]) -> str:
        step = self.step
        parameters = ", ".join(f"{p.name}: {p.annotation}" if p.annotation else p.name for p in self.parameters)
        lines = [
            *self._blank_lines(),
            f"{self._constant()} = {self.knob.token}",
            "",
            "",
            f"@{self.imports.refer('equinox.filter_jit')}",
            f"def {self.name}({parameters}):",
            *[f"{step}{line}" if line else "" for line in body],
            "",
            "",
            "",
        ]
        return "\n".join(lines)

    def _blank_lines(self) -> list[str]:
        """What is missing to two blank lines above the place."""
        before = self.document.source[: self.place()].decode().replace("\r\n", "\n").rstrip(" \t")
        missing = 2 - (len(before) - len(before.rstrip("\n")) - 1)
        return [""] * min(missing, 2) if before.strip() and missing > 0 else []

    def place(self) -> int:
        """The byte before the top-level statement that holds the loop, with its decorators and comments."""
        module, document = self.module, self.document
        top: ast.AST = self.plan.loop.statement
        for parent in module.ancestors(top):
            if parent is document.tree:
                break
            top = parent
        assert isinstance(top, ast.stmt)
        line = top.lineno
        if isinstance(top, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            line = min([line, *[d.lineno for d in top.decorator_list]])
        while line > 1 and document.line(line - 1).startswith("#") and not document.line(line - 1).startswith("#!"):
            line -= 1
        return document.line_starts[line - 1]


def _with_return(lines: list[str], results: list[str]) -> list[str]:
    """`y = f(x)` and `return y` are `return f(x)`."""
    if len(results) == 1 and lines and lines[-1].startswith(f"{results[0]} = ") and "  #" not in lines[-1]:
        return [*lines[:-1], "return " + lines[-1].removeprefix(f"{results[0]} = ")]
    return [*lines, f"return {', '.join(results)}"]


def _callee_of(lines: list[str], names: list[str]) -> str | None:
    """`return model(x)` with nothing around it is `model` itself."""
    if len(lines) != 1 or not lines[0].startswith("return "):
        return None
    expression = ast.parse(lines[0].removeprefix("return "), mode="eval").body
    match expression:
        case ast.Call(func=func, args=[ast.Name(id=name)], keywords=[]) if [name] == names and is_path(func):
            return ast.unparse(func)
    return None
