"""From a pure block of eager code to a compiled function at the module level, and its call in the block's place."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from jitmod.analysis.blocks import Block
from jitmod.analysis.captures import Captures, Capturing, How, bound_inside
from jitmod.analysis.effects import Effects
from jitmod.analysis.flow import Flow, flow_of, needs_filter, own_scope_only
from jitmod.analysis.handlers import check_unseen
from jitmod.analysis.keys import check_order
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.methods import MethodPlan, method_uses, plan_methods, traced_parameters
from jitmod.analysis.shapes import given_growing, growing
from jitmod.analysis.stable import block_of
from jitmod.analysis.static_numbers import check_types
from jitmod.analysis.values import Instance
from jitmod.analysis.values import Sequence as ListOf
from jitmod.analysis.varying import Varying
from jitmod.model import Edit
from jitmod.rewrite.imports import Imports
from jitmod.rewrite.lifted import (
    Lifting,
    at_module_level,
    body_lines,
    decorator,
    leading_blanks,
    margin,
    static_argnames,
)
from jitmod.rewrite.methods import MovedMethods
from jitmod.rewrite.names import Namer, for_expression, snake
from jitmod.rewrite.place import before_top_level
from jitmod.rewrite.spliced import adding_arguments, replacing, text_with
from jitmod.rewrite.text import reindent, step_of
from jitmod.rewrite.wrapping import limit_of
from jitmod.source.document import Document
from jitmod.source.nodes import walk
from jitmod.source.project import Function, SourceModule


@dataclass(eq=False)
class Extraction:
    """One block on its way to a function of its own."""

    block: Block
    effects: Effects
    namer: Namer
    name: str = ""
    ending: str = ""  # of the name; by what the block does where there is none
    _local: dict[str, str] = field(default_factory=dict)  # attributes that the block binds: their names inside

    @property
    def module(self) -> SourceModule:
        return self.block.module

    @property
    def document(self) -> Document:
        return self.block.module.document

    def edits(self) -> tuple[Edit, ...]:
        """Raises `Unplannable` and `NameTaken`."""
        block = self.block
        own_scope_only(block, self.module)
        flow = flow_of(block, self.effects.inference)
        check_unseen(block, flow, self.effects.inference)
        uses = [u for part in block.parts for u in method_uses(part, self.module, self.effects)]
        plans = plan_methods([function for _, _, function in uses], self.effects)
        receivers = {n for node, _, _ in uses for n in walk(node) if isinstance(n, ast.Name)}
        capturing = Capturing(
            self.module, block.function, self.effects, None, internal=flow.internal | receivers, whole=flow.whole,
            traced=traced_parameters(uses, plans, self.effects), passes_globals=True,
        )  # fmt: skip
        capturing.gather(list(block.parts))
        for node, _, function in uses:
            self._read_by(node, plans[function], plans, capturing)
        captures = capturing.judged()
        self._check(captures)
        check_order([c.kind for c in captures.values], block.parts, self.module, self.effects)
        imports = Imports(self.module)
        moved = (*block.parts, *[c.statement for c in captures.rebuilt])
        mentioned = frozenset(n.id for p in moved for n in walk(p) if isinstance(n, ast.Name))
        mentioned |= bound_inside(moved, self.module)
        filtered = needs_filter(block, flow, captures, self.effects.inference)
        if filtered:
            check_types(captures, self.module, self.effects.inference)
        lifting = Lifting(self.module, captures, imports, self.namer, filtered, mentioned | set(flow.bound))
        self._name_attributes(flow, lifting)
        self.name = self.namer.fresh(self._wish())
        inside = [*lifting.edits(), *self._attribute_edits(flow, captures), *lifting.constant_edits(block.function)]
        methods, called = self._methods(uses, plans, lifting)
        inside += called
        definition, user = self._texts(flow, lifting, inside)
        gone = [*lifting.without_imports(), *[lifting.without(constant.statement) for constant in captures.constants]]
        for constant in captures.constants:
            if block_of(constant.statement, self.module) == [constant.statement]:
                raise Unplannable("unparsable", constant.statement, "nothing would be left in the block")
        reads = [e for e in lifting.constant_edits(block.function) if not any(_covers(u, e) for u in (*user, *gone))]
        place = before_top_level(block.anchor, self.module)
        groups = [lifting.constant_lines(), *methods.definitions(), definition]
        inserted = at_module_level(self.document, place, *groups)
        blanks = leading_blanks(self.document, gone)
        return (*imports.edits(), inserted, *user, *gone, *blanks, *reads, *methods.edits())

    def _read_by(
        self, node: ast.Attribute, plan: MethodPlan, plans: dict[Function, MethodPlan], capturing: Capturing
    ) -> None:
        """Let the block read what a method of its reads of the object. Raises `Unplannable`."""
        if not isinstance(node.value, ast.Name) or plan.function.module is not self.module:
            raise Unplannable("mutable-self", node, f"`{ast.unparse(node)}` is a method of another file or object")
        for attribute in plan.attributes:
            reads = [r for p in plans.values() for r in p.reads if r.attr == attribute]
            capturing.read_elsewhere(f"{node.value.id}.{attribute}", reads)

    def _methods(
        self, uses: Sequence[tuple[ast.Attribute, ast.Call, Function]], plans: dict[Function, MethodPlan],
        lifting: Lifting,
    ) -> tuple[MovedMethods, list[Edit]]:  # fmt: skip
        """The methods that become functions, and the edits of their calls in the block."""
        parameters = {a: lifting.names[f"{node.value.id}.{a}"] for node, _, f in uses  # type: ignore[attr-defined]
                      for a in plans[f].attributes}  # fmt: skip
        moved = MovedMethods.of(plans, parameters, self.namer, self.effects)
        edits = []
        for node, call, function in uses:
            edits.append(replacing(self.document, node, moved.names[function]))
            added = adding_arguments(self.document, call, [parameters[a] for a in plans[function].attributes])
            edits += [added] if added is not None else []
        return moved, edits

    # -- whether it may ----------------------------------------------------------------------------------------------

    def _check(self, captures: Captures) -> None:
        varying = Varying(self.effects.inference)
        for helper in captures.helpers:
            raise Unplannable("local-callable", helper, f"the nested function `{helper.name}` is called")
        for capture in captures.values:
            read = capture.at
            why = growing(read, self.module, self.effects.inference)
            bindings = self.block.function.scope.bindings.get(capture.path, [])
            if why is None and isinstance(capture.kind, ListOf) and [b.how for b in bindings] == ["param"]:
                why = given_growing(capture.path, self.block.function, self.effects.inference)
            if why is not None:
                message = f"{why}, so a compiled function would compile at every call; pad to a few sizes, with a mask"
                raise Unplannable("growing-shape", read, message)
            new = varying.of_fields(capture.kind.cls) if isinstance(capture.kind, Instance) else None
            if new is not None:
                raise Unplannable("varying-static", read, f"{new}: it would compile every time")
            if capture.how is How.STATIC:
                new = varying.why(read, self.module)
                if new is not None:
                    message = f"`{capture.path}` is needed as a Python value, and {new}: it would compile every time"
                    raise Unplannable("varying-static", read, message)

    # -- names -------------------------------------------------------------------------------------------------------

    def _wish(self) -> str:
        symbol = self.block.function.name.rpartition(".")[2].strip("_")
        if self.ending:
            return f"_{snake(symbol)}_{self.ending}"
        text = ast.unparse(self.block.heavy)
        learns = any(word in text for word in ("grad", "update")) or len(self.block.statements) > 2
        ending = "step" if learns else "forward"
        own = snake(symbol)
        return f"_{own}" if own == ending or own.endswith(f"_{ending}") else f"_{own}_{ending}"

    def _name_attributes(self, flow: Flow, lifting: Lifting) -> None:
        taken = lifting.mentioned | set(lifting.names.values()) | set(self.module.scope.bindings)
        for path in flow.bound:
            if "." not in path:
                continue
            if path in lifting.names:
                self._local[path] = lifting.names[path]
                continue
            wish = path.rpartition(".")[2].strip("_")
            name, number = wish, 1
            while name in taken or name in self._local.values():
                number += 1
                name = f"{wish}_{number}"
            self._local[path] = name

    def _attribute_edits(self, flow: Flow, captures: Captures) -> list[Edit]:
        """The block's own attributes are local names inside of the function."""
        done = {read for capture in captures.values for read in capture.reads}
        return [
            replacing(self.document, node, self._local[path]) if isinstance(node.ctx, ast.Load)
            else Edit(*self.document.span(node), self._local[path])
            for path, nodes in flow.accesses.items() if path in self._local for node in nodes if node not in done
        ]  # fmt: skip

    # -- texts -------------------------------------------------------------------------------------------------------

    def _texts(self, flow: Flow, lifting: Lifting, inside: Sequence[Edit]) -> tuple[list[str], list[Edit]]:
        document, step = self.document, self._step()
        single = self._single()
        if single is not None:
            text = self._expression(text_with(document, *document.span(single), inside), single)
            lines = [f"return {text}"]
            call = self._call(lifting)
            user = [replacing(document, single, call)]
        else:
            lines, user = self._statements(flow, lifting, inside)
        static = lifting.static_names()
        options = [static_argnames(static)] if static else []
        head = [decorator("equinox.filter_jit" if lifting.filtered else "jax.jit", options, lifting.imports)]
        head.append(f"def {self.name}({', '.join(lifting.parameters())}):")
        return [*head, *body_lines(lifting.prelude(inside), lines, step)], user

    def _single(self) -> ast.expr | None:
        """The one expression that moves, where the statement around it stays."""
        block = self.block
        if not block.statements:
            return block.tails[0]
        plain = isinstance(block.statements[0], ast.Assign | ast.AnnAssign)
        if len(block.statements) == 1 and not block.tails and plain:
            value = getattr(block.statements[0], "value", None)
            return value if isinstance(value, ast.expr) else None
        return None

    def _statements(self, flow: Flow, lifting: Lifting, inside: Sequence[Edit]) -> tuple[list[str], list[Edit]]:
        block, document = self.block, self.document
        first, last = block.statements[0], block.statements[-1]
        old = margin(document, first)
        self._check_lines()
        start = document.span(first)[0]
        assert last.end_lineno is not None
        end = document.line_starts[last.end_lineno] if last.end_lineno < len(document.line_starts) else None
        stop = end if end is not None else len(document.source)
        text = reindent(text_with(document, start, stop, inside).rstrip("\n"), old, "")
        lines = text.split("\n")
        whole = self._returned(flow)
        if whole is not None:
            value = self._expression(text_with(document, *document.span(whole), inside), whole)
            user = [Edit(document.line_starts[first.lineno - 1], stop, "")]
            user.append(replacing(document, whole, self._call(lifting, "return ")))
            return _merged_return([*lines, *f"return {value}".split("\n")], [value]), user
        tails: list[tuple[ast.expr, str]] = []
        for tail in block.tails:
            name = self.namer.fresh(for_expression(tail))
            tails.append((tail, name))
            value = self._expression(text_with(document, *document.span(tail), inside), tail)
            lines += f"{name} = {value}".split("\n")
        outs = [self._local.get(p, p) for p in flow.live] + [name for _, name in tails]
        targets = [*flow.live, *[name for _, name in tails]]
        if not outs:
            raise Unplannable("too-small", first, "nothing reads what it computes")
        lines.append(f"return {', '.join(outs)}")
        bound = f"{', '.join(targets)} = "
        call = f"{bound}{self._call(lifting, bound)}"
        user = [Edit(start, stop, f"{call}\n" if end is not None else call)]
        user += [replacing(document, tail, name) for tail, name in tails]
        return _merged_return(lines, outs), user

    def _returned(self, flow: Flow) -> ast.expr | None:
        """What the statement behind the block returns, where that is all that the block is for."""
        last = self.block.statements[-1]
        behind = block_of(last, self.module)
        after = behind[behind.index(last) + 1 :][:1]
        value = after[0].value if after and isinstance(after[0], ast.Return) else None
        parts = value.elts if isinstance(value, ast.Tuple) else [value]
        own = {p.id for p in parts if isinstance(p, ast.Name) and p.id in flow.live}
        alone = all(p in self.block.tails or (isinstance(p, ast.Name) and p.id in own) for p in parts)
        kept = any(isinstance(p, ast.Try | ast.TryStar | ast.With) for p in self.module.ancestors(last))
        if value is None or not alone or set(flow.live) != own or kept:
            return None
        return None if isinstance(value, ast.Tuple) and "\n" in self.document.text(value) else value

    def _check_lines(self) -> None:
        """Every statement of the block must have its lines for itself. Raises `Unplannable`."""
        for statement in self.block.statements:
            margin(self.document, statement)
            assert statement.end_lineno is not None
            rest = self.document.line(statement.end_lineno).encode()[statement.end_col_offset or 0 :].strip()
            if rest and not rest.startswith(b"#"):
                raise Unplannable("unparsable", statement, f"line {statement.end_lineno} holds several statements")

    def _call(self, lifting: Lifting, before: str = "") -> str:
        """The call; over several lines where it would not fit behind `before`."""
        arguments = ", ".join(lifting.arguments())
        line = self.document.line(self.block.anchor.lineno)
        indent = line[: len(line) - len(line.lstrip(" \t"))]
        if len(f"{indent}{before}{self.name}({arguments})") <= limit_of(self.document):
            return f"{self.name}({arguments})"
        return f"{self.name}(\n{indent}{self._step()}{arguments}\n{indent})"

    def _expression(self, text: str, node: ast.expr) -> str:
        if "\n" not in text:
            return text
        line = self.document.line(node.lineno)
        old = line[: len(line) - len(line.lstrip(" \t"))]
        if _stands_alone(text):
            return reindent(text, old, "")
        return f"(\n{self._step()}{reindent(text, old, self._step())}\n)"

    def _step(self) -> str:
        return "\t" if self.document.line(self.block.anchor.lineno).startswith("\t") else step_of(self.document)


def _stands_alone(text: str) -> bool:
    """Whether an expression of several lines needs no more brackets than it has."""
    try:
        ast.parse(text.strip(), mode="eval")
    except SyntaxError:
        return False
    return True


def _covers(outer: Edit, inner: Edit) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _merged_return(lines: list[str], outs: Sequence[str]) -> list[str]:
    """`y = f(x)` and `return y` are `return f(x)`."""
    prefix = f"{', '.join(outs)} = "
    if len(lines) >= 2 and lines[-2].startswith(prefix) and "  #" not in lines[-2]:
        return [*lines[:-2], "return " + lines[-2].removeprefix(prefix)]
    return lines
