"""From a creation of a compiled function to edits: one definition at the module level, and calls that pass captures."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from jitmod.analysis.boundaries import Creation, jit_of
from jitmod.analysis.captures import Captures, How, bound_inside
from jitmod.analysis.compiled import reads_of
from jitmod.analysis.effects import Effects
from jitmod.analysis.hoistable import Hoistable, Uses
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.stable import block_of
from jitmod.analysis.syntax import first_line
from jitmod.model import Edit
from jitmod.rewrite.imports import Imports
from jitmod.rewrite.lifted import (
    Lifting,
    at_module_level,
    body_lines,
    decorator,
    leading_blanks,
    removed,
    static_argnames,
)
from jitmod.rewrite.names import Namer, for_expression, snake
from jitmod.rewrite.place import before_top_level
from jitmod.rewrite.spliced import adding_arguments, adding_parameters, replacing, text_with
from jitmod.rewrite.text import reindent, step_of
from jitmod.rewrite.wrapping import limit_of
from jitmod.source.document import Document
from jitmod.source.nodes import walk
from jitmod.source.project import SourceModule


@dataclass(eq=False)
class Hoisting:
    """One creation on its way to the module level."""

    creation: Creation
    effects: Effects
    namer: Namer
    name: str = ""

    @property
    def hoistable(self) -> Hoistable:
        return Hoistable(self.creation, self.effects)

    @property
    def module(self) -> SourceModule:
        return self.creation.module

    @property
    def document(self) -> Document:
        return self.creation.module.document

    def edits(self) -> tuple[Edit, ...]:
        """Raises `Unplannable` and `NameTaken`."""
        judged = self.hoistable.judged()
        creation, uses, inner, parts = self.creation, judged.uses, judged.inner, judged.parts
        captures, filtered = judged.captures, judged.filtered
        imports = Imports(self.module)
        moved = (*parts, *captures.helpers, *[c.statement for c in captures.rebuilt])
        mentioned = frozenset(n.id for p in moved for n in walk(p) if isinstance(n, ast.Name))
        mentioned |= bound_inside(moved, self.module)
        bound = frozenset(self.module.scopes[inner].bindings) if inner is not None else frozenset()
        lifting = Lifting(self.module, captures, imports, self.namer, filtered, mentioned, bound)
        jit = "equinox.filter_jit" if filtered else "jax.jit"
        self.name = self._fresh_name(inner, self._keeps_name(captures))
        inside = [*lifting.edits(), *lifting.constant_edits(creation.function)]
        if isinstance(inner, ast.FunctionDef):
            lines, user = self._moved_def(inner, lifting, uses, jit, inside)
        elif isinstance(inner, ast.Lambda):
            lines, user = self._moved_lambda(inner, lifting, uses, jit, inside)
        else:
            lines, user = self._wrapped(lifting, uses, jit, inside)
        user += [*lifting.without_imports(), *[lifting.without(helper) for helper in captures.helpers]]
        user += [lifting.without(constant.statement) for constant in captures.constants]
        self._check_left([*captures.helpers, *[c.statement for c in captures.constants]])
        gone = [e for e in user if not e.text and e.end > e.start]
        kept = [e for e in inside if not any(g.start <= e.start and e.end <= g.end for g in gone)]
        outer = [e for e in kept if not self._is_moved(e, parts)] + [e for e in user if e not in kept]
        outer += leading_blanks(self.document, gone)
        place = before_top_level(creation.statement, self.module)
        return (*imports.edits(), at_module_level(self.document, place, lifting.constant_lines(), lines), *outer)

    def _is_moved(self, edit: Edit, parts: Sequence[ast.AST]) -> bool:
        spans = [self.document.span(p) for p in parts if isinstance(p, ast.expr | ast.stmt)]
        return any(start <= edit.start and edit.end <= end for start, end in spans)

    # -- the new text ------------------------------------------------------------------------------------------------

    def _fresh_name(self, inner: ast.FunctionDef | ast.Lambda | None, keeps_name: bool) -> str:
        if keeps_name:
            return self.creation.name or ""
        symbol = self.creation.symbol.rpartition(".")[2]
        symbol = "" if symbol == "<module>" else symbol.strip("_")
        own = inner.name if isinstance(inner, ast.FunctionDef) else self.creation.name or "compiled"
        own = self.creation.jit.rpartition(".")[2] if self.creation.is_eager else own
        bare = own.strip("_")
        if isinstance(inner, ast.FunctionDef) and own.startswith("_") and self._is_free(own):
            return own
        wish = snake(f"{symbol}_{bare}") if symbol and not bare.startswith(symbol) else snake(bare)
        return self.namer.fresh(f"_{wish}")

    def _keeps_name(self, captures: Captures) -> bool:
        """Whether a name of the module level stays what it was: others may import it. Raises `Unplannable`."""
        name, scope = self.creation.name, self.module.scope_of(self.creation.statement)
        if name is None or scope.parent is not None:
            return False
        if captures.is_empty and len(scope.bindings[name]) == 1:
            return True
        readers = {m for m, _ in reads_of(name, scope, self.effects.inference)} - {self.module}
        if readers or self.effects.inference.project.escapes(name):
            raise Unplannable("rebound-global", self.creation.node, f"another file reads `{name}`")
        return False

    def _is_free(self, name: str) -> bool:
        """Whether a nested function's name may become one of the module level: nothing else has it."""
        bound = [s for s in self.module.scopes.values() if name in s.bindings]
        return len(bound) == 1

    def _options(self, lifting: Lifting) -> list[str]:
        texts = []
        static = lifting.static_names()
        for option in self.creation.options:
            text = f"{option.arg}={self.document.text(option.value)}"
            if option.arg == "static_argnames" and static:
                value = ast.literal_eval(option.value)
                names = [value] if isinstance(value, str) else list(value)
                text, static = static_argnames([*names, *static]), []
            texts.append(text)
        return [*texts, static_argnames(static)] if static else texts

    def _moved_def(
        self, inner: ast.FunctionDef, lifting: Lifting, uses: Uses, jit: str, inside: Sequence[Edit]
    ) -> tuple[list[str], list[Edit]]:
        creation, document = self.creation, self.document
        keyword_only = _needs_keywords(inner.args, uses)
        extra = adding_parameters(document, inner, lifting.parameters(), keyword_only)
        start = document.span(inner)[0]
        keyword = len("def")
        at = start + keyword + document.source[start + keyword :].index(inner.name.encode())
        renamed = Edit(at, at + len(inner.name.encode()), self.name)
        own = [e for e in (extra, renamed if self.name != inner.name else None) if e is not None]
        skip = self._own_decorator(inner)
        definition = lifting.definition(inner, [*inside, *own], skip, is_top=True)
        head = _index_of_def(definition)
        prelude = lifting.prelude(inside)
        changed = creation.node is not inner or lifting.static_names() or jit != creation.jit
        text = decorator(jit, self._options(lifting), lifting.imports)
        if not changed and skip is not None:
            text = f"@{document.text(skip)}"
        text += lifting.comment_beside(skip) if skip is not None else ""
        definition.insert(head if skip is None else _decorator_place(definition, inner, skip), text)
        if prelude:
            definition = _with_prelude(definition, prelude, inner)
        user = [lifting.without(inner)]
        if creation.node is not inner and creation.name is not None:
            user.append(removed(document, creation.statement))
        self._check_left([inner, *([creation.statement] if creation.node is not inner and creation.name else [])])
        return definition, [*user, *self._calls(uses, lifting, keyword_only)]

    def _own_decorator(self, inner: ast.FunctionDef) -> ast.expr | None:
        infer = self.effects.inference
        for found in inner.decorator_list:
            call = found.func if isinstance(found, ast.Call) else found
            if jit_of(found, self.module, infer)[0] or jit_of(call, self.module, infer)[0]:
                return found
        return None

    def _moved_lambda(
        self, inner: ast.Lambda, lifting: Lifting, uses: Uses, jit: str, inside: Sequence[Edit]
    ) -> tuple[list[str], list[Edit]]:
        document = self.document
        a = inner.args
        if a.kwarg is not None and lifting.parameters():
            raise Unplannable("local-callable", inner, "the lambda takes any keyword, so nothing can be added to it")
        keyword_only = _needs_keywords(a, uses)
        start = document.span(inner)[0]
        head = text_with(document, start, document.span(inner.body)[0], inside)
        given = head.removeprefix("lambda").rstrip().rstrip("(").rstrip().removesuffix(":").strip()
        extra = lifting.parameters()
        if extra and keyword_only and not (a.vararg or a.kwonlyargs):
            extra = ["*", *extra]
        signature = ", ".join([*([given] if given else []), *extra])
        body = self._expression(text_with(document, *document.span(inner.body), inside))
        lines = [decorator(jit, self._options(lifting), lifting.imports), f"def {self.name}({signature}):"]
        lines += body_lines(lifting.prelude(inside), [f"return {body}"], self._step())
        lines = [*self._comments(lifting, lines), *lines]
        return lines, [*self._without_statement(lifting), *self._calls(uses, lifting, keyword_only)]

    def _wrapped(self, lifting: Lifting, uses: Uses, jit: str, inside: Sequence[Edit]) -> tuple[list[str], list[Edit]]:
        creation, document = self.creation, self.document
        if creation.is_eager:
            return self._eager(lifting, inside)
        assert isinstance(creation.wrapped, ast.expr)
        text = self._expression(text_with(document, *document.span(creation.wrapped), inside))
        if lifting.captures.is_empty and self._is_known_above(creation.wrapped):
            options = "".join(f", {o}" for o in self._options(lifting))
            lines = [f"{self.name} = {lifting.imports.refer(jit)}({text}{options})"]
            lines = [*self._comments(lifting, lines), *lines]
            return lines, [*self._without_statement(lifting), *self._calls(uses, lifting, False)]
        if uses.escapes or not uses.calls:
            raise Unplannable("local-callable", creation.node, "it is handed on, and its arguments cannot be seen")
        counts = {len(c.args) for c in uses.calls}
        if len(counts) != 1 or any(c.keywords or any(isinstance(a, ast.Starred) for a in c.args) for c in uses.calls):
            raise Unplannable("local-callable", uses.calls[0], "its calls pass different arguments")
        parameters = self._names_of(uses.calls[0].args, lifting)
        signature = ", ".join([*parameters, *lifting.parameters()])
        lines = [decorator(jit, self._options(lifting), lifting.imports), f"def {self.name}({signature}):"]
        call = self._applied(creation.wrapped, text, parameters, inside)
        lines += body_lines(lifting.prelude(inside), [f"return {call}"], self._step())
        lines = [*self._comments(lifting, lines), *lines]
        return lines, [*self._without_statement(lifting), *self._calls(uses, lifting, False)]

    def _applied(self, wrapped: ast.expr, text: str, parameters: Sequence[str], inside: Sequence[Edit]) -> str:
        """`wrapped(x)`; a partial's arguments go into the call."""
        infer = self.effects.inference
        if isinstance(wrapped, ast.Call) and infer.dotted(wrapped.func, self.module) == "functools.partial":
            function, *given = [text_with(self.document, *self.document.span(a), inside) for a in wrapped.args]
            values = [text_with(self.document, *self.document.span(k.value), inside) for k in wrapped.keywords]
            named = [f"{k.arg}={v}" if k.arg else f"**{v}" for k, v in zip(wrapped.keywords, values, strict=True)]
            return f"{function}({', '.join([*given, *parameters, *named])})"
        return f"{text}({', '.join(parameters)})"

    def _eager(self, lifting: Lifting, inside: Sequence[Edit]) -> tuple[list[str], list[Edit]]:
        creation, document = self.creation, self.document
        assert isinstance(creation.node, ast.Call)
        call = creation.node
        if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
            raise Unplannable("local-callable", call, "its arguments cannot be seen")
        usual = ("f", "init", "xs", "length") if creation.jit.endswith("scan") else ("f", "xs")
        given: list[tuple[str, ast.expr]] = [*zip(usual[1:], call.args[1:], strict=False)]
        keywords = [(k.arg or "", k.value) for k in call.keywords]
        named = [(where, v) for where, v in (*given, *keywords) if not isinstance(v, ast.Constant)]
        names = self._names_of([v for _, v in named], lifting, [where for where, _ in named])
        queue = list(names)
        inner: list[str] = [text_with(document, *document.span(call.args[0]), inside)]
        passed: list[str] = []
        static: list[str] = []
        for where, value in (*given, *keywords):
            prefix = "" if (where, value) in given else f"{where}="
            if isinstance(value, ast.Constant):
                inner.append(f"{prefix}{document.text(value)}")
                continue
            name = queue.pop(0)
            static += [name] if where in ("length", "unroll", "reverse", "batch_size", "_split_transpose") else []
            inner.append(f"{prefix}{name}")
            passed.append(self._expression(document.text(value)))
        filtered = lifting.filtered or any(c.how is How.MODULE for c in lifting.captures.values)
        lifting.filtered = filtered
        held = [*static, *lifting.static_names()]
        options = [static_argnames(held)] if held and not filtered else []
        lines = [decorator("equinox.filter_jit" if filtered else "jax.jit", options, lifting.imports)]
        lines.append(f"def {self.name}({', '.join([*names, *lifting.parameters()])}):")
        function = self._expression(document.text(call.func))
        lines += body_lines(lifting.prelude(inside), [f"return {function}({', '.join(inner)})"], self._step())
        text = f"{self.name}({', '.join([*passed, *lifting.arguments()])})"
        return lines, [replacing(document, call, text)]

    def _names_of(self, args: Sequence[ast.expr], lifting: Lifting, roles: Sequence[str] = ()) -> list[str]:
        """Parameter names for arguments that are passed on; `roles`: what the library calls them."""
        inner = bound_inside(self._parts_of(lifting), self.module)
        free = {n.id for p in self._parts_of(lifting) for n in walk(p) if isinstance(n, ast.Name)} - inner
        taken = set(lifting.parameters()) | free | set(self.module.scope.bindings)
        names: list[str] = []
        for number_of, arg in enumerate(args):
            other = roles[number_of] if roles else for_expression(arg).strip("_") or "x"
            wish = arg.id if isinstance(arg, ast.Name) else other
            wish = wish.lower() if wish.isupper() else wish
            name, number = wish, 1
            while name in taken or name in names:
                number += 1
                name = f"{wish}_{number}"
            names.append(name)
        return names

    def _parts_of(self, lifting: Lifting) -> list[ast.AST]:
        """What moves into the new function."""
        return [self.creation.wrapped, *lifting.captures.helpers, *[c.value for c in lifting.captures.rebuilt]]

    def _expression(self, text: str) -> str:
        """The text of an expression that had a place within brackets, at a place that may have none."""
        if "\n" not in text:
            return text
        others = [line for line in text.split("\n")[1:] if line.strip()]
        old = min((line[: len(line) - len(line.lstrip())] for line in others), key=len, default="")
        return f"(\n{self._step()}{reindent(text, old, self._step())}\n)"

    def _step(self) -> str:
        line = self.document.line(self.creation.statement.lineno)
        return "\t" if line.startswith("\t") else step_of(self.document)

    def _is_known_above(self, expr: ast.expr) -> bool:
        line = first_line(self.hoistable.top())
        for node in walk(expr):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                scope = self.module.scope_of(node).find(node.id)
                if scope is not None and scope.parent is None:
                    places = [b.node for b in scope.bindings[node.id]]
                    body = self.document.tree.body
                    if not all(p in body and getattr(p, "lineno", line) < line for p in places):
                        return False
        return True

    # -- what is left ------------------------------------------------------------------------------------------------

    def _calls(self, uses: Uses, lifting: Lifting, keyword_only: bool) -> list[Edit]:
        edits = []
        for read in uses.reads:
            if self.document.text(read) != self.name:
                edits.append(replacing(self.document, read, self.name))
        for call in uses.calls:
            added = adding_arguments(self.document, call, lifting.arguments(keyword_only))
            edits += self._fitting(call, added) if added is not None else []
        return edits

    def _fitting(self, call: ast.Call, added: Edit) -> list[Edit]:
        """What is added to a call, on a line of its own together with the other arguments where it would not fit."""
        document = self.document
        line = document.line(call.lineno)
        more = len(added.text) + len(self.name) - len(document.text(call.func))
        if call.lineno != call.end_lineno or len(line) + more <= limit_of(document):
            return [added]
        indent = line[: len(line) - len(line.lstrip(" \t"))]
        start = document.span(call.func)[1]
        opened = start + document.source[start:].index(b"(") + 1
        if added.start == opened:
            return [Edit(opened, opened, f"\n{indent}{self._step()}{added.text}\n{indent}")]
        broken = Edit(opened, opened, f"\n{indent}{self._step()}")
        return [broken, Edit(added.start, added.end, f"{added.text}\n{indent}")]

    def _without_statement(self, lifting: Lifting) -> list[Edit]:
        if self.creation.name is None:
            return []
        self._check_left([self.creation.statement])
        return [lifting.without(self.creation.statement)]

    def _comments(self, lifting: Lifting, lines: Sequence[str]) -> list[str]:
        """The comments above a statement that goes, and in it, as far as `lines` do not have them."""
        statement = self.creation.statement
        if self.creation.name is None:
            return []
        last = statement.end_lineno or statement.lineno
        inside = [c for line, c in self.document.comments if statement.lineno <= line <= last]
        known = "\n".join(lines)
        return [*[c.strip() for c in lifting.comments_above(statement)], *[c for c in inside if c not in known]]

    def _check_left(self, gone: Sequence[ast.stmt]) -> None:
        """A block must not become empty."""
        for statement in gone:
            if all(other in gone for other in block_of(statement, self.module)):
                raise Unplannable("unparsable", statement, "nothing would be left in the block")


def _needs_keywords(a: ast.arguments, uses: Uses) -> bool:
    """Whether added parameters must be passed by name: not every call gives all the others by position."""
    count = len(a.posonlyargs) + len(a.args)
    open_calls = [c for c in uses.calls if any(isinstance(x, ast.Starred) for x in c.args)]
    partial_calls = [c for c in uses.calls if c.keywords or len(c.args) != count]
    return bool(a.defaults or a.vararg or a.kwonlyargs or open_calls or partial_calls)


def _index_of_def(lines: Sequence[str]) -> int:
    return next(i for i, line in enumerate(lines) if line.startswith("def "))


def _decorator_place(lines: Sequence[str], node: ast.FunctionDef, own: ast.expr) -> int:
    """Where the jit's decorator stood among the others."""
    after = len(node.decorator_list) - 1 - node.decorator_list.index(own)
    return _index_of_def(lines) - after


def _with_prelude(lines: list[str], prelude: Sequence[str], node: ast.FunctionDef) -> list[str]:
    """Lines put at the beginning of a function's body, behind its docstring."""
    parsed = ast.parse("\n".join(lines)).body[0]
    assert isinstance(parsed, ast.FunctionDef)
    first = parsed.body[0]
    has_doc = ast.get_docstring(parsed, clean=False) is not None
    if has_doc and len(parsed.body) > 1:
        first = parsed.body[1]
    step = lines[first.lineno - 1][: first.col_offset]
    at = first.lineno - 1
    return [*lines[:at], *[f"{step}{line}" if line else line for line in prelude], *lines[at:]]
