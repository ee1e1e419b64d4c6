"""The compiled function of a loop with a carried state: one `jax.lax.scan` over its steps."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

from jitmod.analysis.batching import Emit
from jitmod.analysis.carries import begins_as_number, has_static_parts, literal_before
from jitmod.analysis.infer import Inference
from jitmod.analysis.loops import Stream, Unplannable, header, is_range, trip_of
from jitmod.analysis.scanning import ScanPlan
from jitmod.analysis.ssa import Node, Value
from jitmod.analysis.values import Array, Kind, Number
from jitmod.rewrite.function import Compiled
from jitmod.rewrite.names import plural, singular
from jitmod.rewrite.place import blank_lines
from jitmod.rewrite.stacking import Stacking
from jitmod.rewrite.text import indented
from jitmod.source.nodes import walk
from jitmod.source.scopes import Scope

START, LENGTH = "\0start\0", "\0length\0"  # what the call passes for the block's first step, and its number of steps
_WEAK = "typed as weakly as Python numbers are"
_STRONG = "a type of its own, as later steps have it"
_STRICT = "a first step in another precision raises here"


@dataclass(eq=False)
class Scanned(Compiled):
    """The function that runs the scan of one plan for all steps of a block."""

    plan: ScanPlan
    arrays: dict[Value, str] = field(default_factory=dict)  # names inside for what the steps hand out
    fed: dict[Value, str] = field(default_factory=dict)  # the lists of numbers that host arithmetic makes first
    literals: dict[str, str] = field(default_factory=dict)  # carried names that begin as a number that is written here
    weak: list[str] = field(default_factory=list)  # lines that make positions as weakly typed as numbers
    unrolls: bool = False  # whether several steps run between two turns of the loop
    length: str = ""  # the name of the parameter that says how many steps there are, where nothing else does

    def build(self) -> None:
        """Fill in the names and `definition`. Raises `Unplannable`."""
        kind = "scan" if self.plan.block.kind == "whole" else "block"
        self.name = self.namer.fresh(f"_{self._stem()}_{kind}")
        self._name_values()
        self.definition = self._definition(self._per_item())

    @property
    def results(self) -> list[Value]:
        """What every step hands out: the values of all steps, and those of which the last is wanted."""
        found = [e.value for e in self.plan.emits]
        return [*found, *(v for v in self.plan.lasts if v not in found)]

    @cached_property
    def split(self) -> tuple[str, ...]:
        """The carried names that may hold more than arrays."""
        if not self.uses_equinox:
            return ()
        return tuple(c.name for c in self.plan.carry if has_static_parts(c, self.plan.loop, self.effects))

    @cached_property
    def uses_equinox(self) -> bool:
        modules = self.effects.inference.project.by_path.values()
        return any(d.partition(".")[0] == "equinox" for m in modules for d in _imported(m.scope))

    # -- the parts of the function -----------------------------------------------------------------------------------

    def _name_values(self) -> None:
        begun = [e.value for e in self.plan.emits if e.value.origin == "carried"]
        for value in begun:  # what a step begins with is handed out, too
            self.inner[value] = value.name
            self.captured[value] = self.inner_name(f"previous_{value.name}")
        super()._name_values()
        for value in begun:
            if self.outer[value] == self.captured[value]:  # in the user's function that name may be taken
                self.outer[value] = self.namer.fresh(self.captured[value])

    def _keeps_name(self, emit: Emit) -> bool:
        """Not where the loop over results would leave an earlier version, or a host copy, in a name that lasts."""
        name = emit.value.name
        lasts = name in self.plan.live or name in self.plan.handed
        on_device = not emit.pulled or self.plan.opens  # which takes nothing to the host, and binds the last afterwards
        final = self.plan.body.env.get(name) is emit.value and on_device
        return (final or not lasts) and super()._keeps_name(emit)

    def _mentioned(self) -> set[str]:
        """The names that the steps mention, and the lists that the function takes as they are."""
        return super()._mentioned() | {a.name for a in self.plan.appends if a.seeded and a.folds}

    @cached_property
    def unused(self) -> str:
        """The name of what nobody reads."""
        return self.inner_name("_")

    def _rename_uses(self, node: Node) -> None:
        carried = {c.name for c in self.plan.carry} | {v.name for v in self.plan.feeds}
        for expr, value in node.uses.items():
            if isinstance(expr, ast.Name) and value.origin == "carried" and value.name not in carried:
                self.parameters.invariant(expr, value)  # only the host changes it, between two blocks
        super()._rename_uses(node)

    def _per_item(self) -> list[str]:
        """The lines of the compiled function's body."""
        for carried in self.plan.carry:
            name = carried.name
            literal = literal_before(name, self.plan.loop, self.effects)
            if literal is not None and name not in self.plan.strict and self._is_seen_before(name):
                self.literals[name] = self.document.text(literal)
                continue
            number = begins_as_number(carried, self.plan.loop, self.effects)
            text = f"{self.imports.refer('jax.numpy.asarray')}({name})" if number else name
            self.parameters.add(text, name, own=name, holds="number" if number else "arrays")
        items = self._items()
        for node in self.plan.body.device_nodes():
            self._rename_uses(node)
        stacking = self.stacking = Stacking(self)
        sources = [self._of_block(stacking.source(stream, name), stream) for stream, name in items]
        names = [name for _, name in items]
        prelude = stacking.prelude()
        if self.plan.positions:
            arange = self.imports.refer("jax.numpy.arange")
            names += [position.name for position in self.plan.positions]
            sources += [self._counted(self._positions(arange, stacking)) for _ in self.plan.positions]
        for value in self.plan.feeds:
            fed = self.namer.fresh(plural(value.name))
            self.fed[value] = fed
            names.append(value.name)
            name = self.parameters.add(f"{self.imports.refer('jax.numpy.asarray')}({fed})", fed, own=fed)
            prelude.append(f"{name} = {self._weakly(name, '0.0')}  # {_WEAK}")
            sources.append(name)
        self.arrays = {v: self.inner_name(plural(self._inside(v))) for v in self.results}
        opening, closing = self._partitions()
        step = self.inner_name("body" if "step" in self._mentioned() else "step")
        function = self._step(step, names, [*opening, *stacking.opening], closing)
        asarray = self.imports.refer("jax.numpy.asarray") if self.plan.strict else ""
        prelude += [f"{name} = {asarray}({name}, {name}.dtype)  # {_STRONG}" for name in self.plan.strict]
        prelude += self.weak
        prelude += [""] if prelude else []
        return [*prelude, *self._before(), *function, "", *self._after(self._scan_call(step, sources))]

    def _weakly(self, array: str, zero: str) -> str:
        """An array with the type that a Python number has among arrays."""
        return f"{self.imports.refer('jax.numpy.full')}(len({array}), {zero}).at[:].set({array})"

    def _counted(self, positions: str) -> str:
        """The positions, weakly typed where they are more than an index."""
        uses = [e for n in self.plan.body.device_nodes() for e, v in n.uses.items() if v.is_position]
        inside = {n for read in self.plan.body.item_reads for n in walk(read)}
        if all(e in inside or self._is_index(e) for e in uses):
            return positions
        name = positions if positions.isidentifier() else self.inner_name("positions")
        self.weak += [f"{name} = {positions}"] if name != positions else []
        self.weak.append(f"{name} = {self._weakly(name, '0')}  # {_WEAK}")
        return name

    def _is_index(self, expr: ast.expr) -> bool:
        """Whether a number is, or is part of, the index of an array, or is folded into a key."""
        node: ast.AST = expr
        for parent in self.module.ancestors(expr):
            match parent:
                case ast.Subscript(slice=index) if index is node:
                    return True
                case ast.Call(func=func) if func is not node:
                    return self.effects.inference.dotted(func, self.module) == "jax.random.fold_in"
                case ast.BinOp() | ast.UnaryOp():
                    node = parent
                case _:
                    return False
        return False

    def _is_seen_before(self, name: str) -> bool:
        """Whether a name keeps what it had before the loop where no step is made, so that it is bound there anyway."""
        return self.plan.block.kind == "whole" and trip_of(self.plan.streams).may_be_zero and name in self.plan.handed

    def _of_block(self, source: str, stream: Stream) -> str:
        """The part of a source that belongs to the steps of one block."""
        if self.plan.block.kind == "whole":
            return source
        if not isinstance(stream.kind, Array):
            message = f"`{source}` is no array that can be cut in blocks"
            raise Unplannable("unknown-iterable", self.plan.loop.node, message)
        start = self.parameters.add(START, "start")
        cut = self.imports.refer("jax.lax.dynamic_slice_in_dim")
        return f"{cut}({source}, {start}, {self._length()})"

    def _inside(self, value: Value) -> str:
        return self.captured.get(value) or self.inner[value]

    def _step(self, step: str, items: list[str], opening: list[str], closing: list[str]) -> list[str]:
        """The function of one step."""
        carry = self._carry_names()
        first = carry[0] if len(carry) == 1 else self.inner_name("carry")
        second = items[0] if len(items) == 1 else self.inner_name("item") if items else self.unused
        lines = [f"{', '.join(carry)} = {first}"] if len(carry) > 1 else []
        lines += [f"{', '.join(items)} = {second}"] if len(items) > 1 else []
        lines += opening
        lines += [f"{self.captured[v]} = {v.name}" for v in self.results if v.origin == "carried"]
        comments: list[str] = []
        appended = {a.node.statement: a.node for a in self.plan.appends}
        for node in self.plan.body.nodes:
            if node.statement in appended:
                comments += self._comments_of(appended.pop(node.statement))
            if node.side == "scan":
                lines += [*comments, *self._mapped(node)]
                comments = []
        handed = [self._inside(v) for v in self.results]
        lines += closing
        lines += [*comments, f"return {_packed(carry)}, {_packed(handed) or 'None'}"]
        return [f"def {step}({first}, {second}):", indented("\n".join(lines), self.step)]

    def _wish(self, value: Value, emit: Emit | None, node: Node) -> str:
        filled = next((a.name for a in self.plan.appends if a.value is value), None)
        return singular(filled) if filled is not None and not value.name else super()._wish(value, emit, node)

    def _comments_of(self, node: Node) -> list[str]:
        """The comments above and beside a statement that the scan takes the place of."""
        first, last = self.lines_of(node)
        return [c for line, c in self.document.comments if first <= line <= last]

    def _carry_names(self) -> list[str]:
        """What the scan carries, as its function names it: the arrays of what is split, and the rest."""
        rest = [c.name for c in self.plan.carry if c.name not in self.split]
        return [self._split_names[0], *rest] if self.split else rest

    @cached_property
    def _split_names(self) -> tuple[str, str]:
        """The names of the arrays, and of what is no array, of the carried names that are split."""
        prefix = f"{self.split[0]}_" if len(self.split) == 1 else ""
        return self.inner_name(f"{prefix}arrays"), self.inner_name(f"{prefix}static")

    def _before(self) -> list[str]:
        """The lines before the step's function."""
        if not self.split:
            return []
        arrays, static = self._split_names
        return [f"{arrays}, {static} = {self._partition()}", ""]

    def _partition(self) -> str:
        partition, is_array = self.imports.refer("equinox.partition"), self.imports.refer("equinox.is_array")
        return f"{partition}({_packed(list(self.split))}, {is_array})"

    def _partitions(self) -> tuple[list[str], list[str]]:
        """The first and the last lines of a step whose carry is split."""
        if not self.split:
            return [], []
        arrays, static = self._split_names
        combine, equal = self.imports.refer("equinox.combine"), self.imports.refer("equinox.tree_equal")
        new, names = self.inner_name(f"new_{static}"), ", ".join(self.split)
        opening = [f"{names} = {combine}({arrays}, {static})"]
        closing = [
            f"{arrays}, {new} = {self._partition()}",
            f"if not {equal}({new}, {static}):",
            f'{self.step}raise TypeError("a step changes more than the arrays of {" and ".join(self.split)}")',
        ]
        return opening, closing

    def _scan_call(self, step: str, sources: list[str]) -> str:
        """The call of `jax.lax.scan`."""
        scan = self.imports.refer("jax.lax.scan")
        init = _packed([self.literals.get(name, name) for name in self._carry_names()])
        unroll = f", unroll={self.knob.token}" if self.unrolls else ""
        if sources:
            return f"{scan}({step}, {init}, {_packed(sources)}{unroll})"
        return f"{scan}({step}, {init}, length={self._length()}{unroll})"

    def _length(self) -> str:
        """The number of steps, as the function knows it: a constant, or a parameter."""
        if self.plan.block.kind != "whole":
            self.length = self.parameters.add(LENGTH, "length")
            return self.length
        text = steps_text(self.plan, self.document.text, self.effects.inference)
        if text.isdecimal():
            return text
        wish = text if text.isidentifier() else "length"
        self.length = self.parameters.add(text, wish)
        return self.length

    def _positions(self, arange: str, stacking: Stacking) -> str:
        if self.plan.block.kind == "whole":
            if not stacking.taken and not is_range(header(self.plan.loop)[1]):
                return f"{arange}({self._length()})"
            return super()._positions(arange, stacking)
        start = self.parameters.add(START, "start")
        return f"{start} + {arange}({self._length()})"

    def _after(self, scan: str) -> list[str]:
        """The scan, and what the function returns of it."""
        plan = self.plan
        carry = self._carry_names()
        returned = [*plan.handed, *(self._emitted(v) for v in self.outputs)]
        lasts = [v for v in plan.lasts if not self.is_iterated(v)]
        returned += [self._last(v) for v in lasts]
        strict = bool(plan.strict)
        seeded = any(a.seeded and a.folds for a in plan.appends)
        plain = not self.split and not strict and not seeded and not lasts
        if plain and len(carry) == len(plan.handed) == 1 and len(self.results) == len(self.outputs) == 1:
            return [f"return {scan}"]
        rejoined = set(self.split) & set(plan.handed)
        used = {*plan.handed, *([self._split_names[0]] if rejoined else [])}
        final = [n if n in used else self.unused for n in carry]
        outputs = [self.arrays[v] for v in self.results]
        state = _packed(final) if used & set(carry) else self.unused
        bound = f"{state}, {_packed(outputs) or self.unused} = {scan}"
        lines = [bound]
        if strict:
            context = self.imports.refer("jax.numpy_dtype_promotion")
            lines = [f'with {context}("strict"):  # {_STRICT}', f"{self.step}{bound}"]
        if rejoined:
            arrays, static = self._split_names
            names = ", ".join(n if n in plan.handed else self.unused for n in self.split)
            lines.append(f"{names} = {self.imports.refer('equinox.combine')}({arrays}, {static})")
        return [*lines, f"return {', '.join(returned)}"]

    @property
    def outputs(self) -> list[Value]:
        """The values of all steps that the function returns."""
        return [e.value for e in self.plan.emits]

    def is_iterated(self, value: Value) -> bool:
        """Whether all values of `value` are returned, so that the last need not be."""
        return value in self.outputs

    def _emitted(self, value: Value) -> str:
        """What the function returns for the values of all steps; a list's first elements come before them."""
        seeds = [a.name for a in self.plan.appends if a.value is value and a.seeded and a.folds]
        if not seeds:
            return self.arrays[value]
        stack, concatenate = self.imports.refer("jax.numpy.stack"), self.imports.refer("jax.numpy.concatenate")
        first = self.parameters.add(seeds[0], seeds[0], own=seeds[0])
        return f"{concatenate}([{stack}({first}), {self.arrays[value]}])"

    def _last(self, value: Value) -> str:
        array = self.arrays[value]
        if isinstance(value.kind, Array):
            return f"{array}[-1]"
        return f"{self.imports.refer('jax.tree.map')}(lambda leaf: leaf[-1], {array})"

    def _definition(self, body: list[str]) -> str:
        parameters = ", ".join(f"{p.name}: {p.annotation}" if p.annotation else p.name for p in self.parameters.found)
        head = [f"@{self._compiler()}", f"def {self.name}({parameters}):"]
        blank = blank_lines(self.document, self.place())
        return "\n".join([*blank, *head, indented("\n".join(body), self.step), "", "", ""])


    def _compiler(self) -> str:
        """What compiles the function: equinox's jit where the project has it or a Module is passed, else jax's."""
        found = self.parameters.found
        if self.uses_equinox or any(p.holds == "objects" for p in found):
            return self.imports.refer("equinox.filter_jit")
        asarray = f"{self.imports.refer('jax.numpy.asarray')}("
        plain = {p: p.text.removeprefix(asarray)[:-1] for p in found if p.holds == "number"}  # jax.jit traces numbers
        found[:] = [replace(p, text=plain.get(p, p.text)) for p in found]
        static = [p.name for p in found if p.holds == "python" or p.name == self.length]
        jit = self.imports.refer("jax.jit")
        if not static:
            return jit
        names = f'"{static[0]}"' if len(static) == 1 else "(" + ", ".join(f'"{n}"' for n in static) + ")"
        return f"{self.imports.refer('functools.partial')}({jit}, static_argnames={names})"


def steps_text(plan: ScanPlan, text_of: Callable[[ast.expr], str], infer: Inference) -> str:
    """The text of the number of steps, for a loop that has some: of a Python int, since others would be traced."""
    counter = plan.loop.counter
    iterable = header(plan.loop)[1]
    if counter is not None:
        zero = all(s.from_zero for s in plan.streams)
        return text_of(counter.stop) if zero else f"{text_of(counter.stop)} - {counter.name.id}"
    match iterable:
        case ast.Call(func=ast.Name(id="range"), args=[stop]) if _is_int(infer.kind(stop, plan.loop.module)):
            return text_of(stop)
        case ast.Call(func=ast.Name(id="range")):
            return f"len({text_of(iterable)})"
    counts = [f"len({text_of(s.source)})" for s in plan.streams if s.source is not None and s.limits]
    counts = list(dict.fromkeys(counts)) or [f"len({text_of(s.source)})" for s in plan.streams if s.source is not None]
    if not counts:
        raise Unplannable("unknown-iterable", plan.loop.node, f"the steps of `{text_of(iterable)}` cannot be counted")
    if plan.block.kind != "whole" and len(counts) > 1:  # a zip ends with the shortest, and what is cut does not raise
        return f"min({', '.join(counts)})"
    return counts[0]


def _is_int(kind: Kind) -> bool:
    return isinstance(kind, Number) and kind.type == "int"


def _packed(names: list[str]) -> str:
    return f"({', '.join(names)})" if len(names) > 1 else "".join(names)


def _imported(scope: Scope) -> list[str]:
    return [b.target for found in scope.bindings.values() for b in found if b.how == "import"]
