"""A compiled function gets the arrays that it captured as arguments; what is prepared of them is computed before."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jitmod.analysis.baked import Baked
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.prepared import Time
from jitmod.analysis.syntax import first_line, names_of_target
from jitmod.model import Edit
from jitmod.rewrite.lifted import margin, removed
from jitmod.rewrite.names import Namer, is_reserved
from jitmod.rewrite.spliced import adding_parameters, naming, replacing, text_with
from jitmod.rewrite.text import reindent
from jitmod.source.document import Document
from jitmod.source.nodes import walk

_WIDTH = 110


@dataclass(eq=False)
class Unbaking:
    """One compiled function on its way. `name`: the compiled function's new name; its old one calls it."""

    baked: Baked
    namer: Namer
    name: str = ""
    _passed: dict[str, str] = field(default_factory=dict)  # parameter: what the call passes for it
    _outer: dict[str, str] = field(default_factory=dict)  # local name of what is prepared: its name outside

    @property
    def _document(self) -> Document:
        return self.baked.compiled.module.document

    @property
    def _node(self) -> ast.FunctionDef:
        return self.baked.compiled.node

    @property
    def _is_nested(self) -> bool:
        return self.baked.compiled.holder is not None

    def edits(self) -> tuple[Edit, ...]:
        """Raises `Unplannable`."""
        document, node = self._document, self._node
        bare = node.name.strip("_")
        self.name = self.namer.fresh(f"_{bare}" if not node.name.startswith("_") else f"_{bare}_compiled")
        indent = margin(document, node)
        self._check_one_line()
        inside: list[Edit] = []
        lines: list[str] = []
        for statement in self.baked.prepared.statements:
            self._name_outside(statement)
        for statement in self.baked.prepared.statements:
            lines += self._moved(statement)
            inside.append(removed(document, statement, self._comments_above(statement)))
        for text, expressions in self._by_text().items():
            lines += self._kept(text, expressions, inside)
        self._pass_arrays(inside)
        for local, time in self.baked.prepared.names.items():
            if time is Time.PREPARED and self._is_read(local):
                self._passed[local] = self._outer[local]
            elif time is Time.FIXED:
                inside += self._renamed(local, self._outer[local])
        keyword_only = bool(node.args.kwonlyargs)
        if ast.get_docstring(node, clean=False) is not None:
            inside.append(removed(document, node.body[0]))
        extra = adding_parameters(document, node, list(self._passed), keyword_only)
        at = document.source.index(node.name.encode(), document.span(node)[0] + len("def"))
        inside.append(Edit(at, at + len(node.name.encode()), self.name))
        inside += [extra] if extra is not None else []
        above = self._above(lines, indent)
        return (*([above] if above is not None else []), *inside, self._around(indent))

    # -- what is prepared --------------------------------------------------------------------------------------------

    def _name_outside(self, statement: ast.Assign) -> None:
        for local in names_of_target(statement.targets[0]) or ():
            if self._is_nested:
                holder = self.baked.compiled.around.node
                inner = set(walk(self._node))
                mentioned = {n.id for n in walk(holder) if isinstance(n, ast.Name) and n not in inner}
                mentioned |= {n.arg for n in walk(holder) if isinstance(n, ast.arg) and n not in inner}
                free = local not in mentioned
                self._outer[local] = local if free else self.namer.fresh(f"{self._node.name.strip('_')}_{local}")
            else:
                self._outer[local] = self.namer.fresh(f"_{local.strip('_').upper()}")

    def _moved(self, statement: ast.Assign) -> list[str]:
        """A statement as it stands before the function."""
        document = self._document
        value = text_with(document, *document.span(statement.value), self._outside(statement.value))
        value = reindent(value, margin(document, statement), "")
        targets = ", ".join(self._outer[n] for n in names_of_target(statement.targets[0]) or ())
        first = first_line(statement)
        comments = [document.line(first - i).strip() for i in range(self._comments_above(statement), 0, -1)]
        last = document.line(statement.end_lineno or first).encode()[statement.end_col_offset or 0 :].decode().strip()
        return [*comments, *f"{targets} = {value}{f'  {last}' if last else ''}".split("\n")]

    def _outside(self, expr: ast.expr) -> list[Edit]:
        """The edits by which an expression reads what is prepared by its names outside."""
        return [
            replacing(self._document, node, self._outer[node.id])
            for node in walk(expr)
            if isinstance(node, ast.Name) and self._outer.get(node.id, node.id) != node.id and self._is_own(node)
        ]

    def _by_text(self) -> Mapping[str, list[ast.expr]]:
        found: dict[str, list[ast.expr]] = {}
        for expr in self.baked.prepared.expressions:
            found.setdefault(ast.unparse(expr), []).append(expr)
        return found

    def _kept(self, text: str, expressions: Sequence[ast.expr], inside: list[Edit]) -> list[str]:
        """One expression that gets a name outside, and is a parameter within."""
        document, first = self._document, expressions[0]
        array = next(n.id for n in walk(first) if isinstance(n, ast.Name) and n.id in self._arrays | set(self._outer))
        wish = f"prepared_{array.strip('_').lower()}"
        local = self.namer.fresh(wish)
        outer = local if self._is_nested else self.namer.fresh(f"_{wish.upper()}")
        inside += [naming(document, expr, local) for expr in expressions]
        self._passed[local] = outer
        value = text_with(document, *document.span(first), self._outside(first))
        if "\n" in value:
            line = document.line(first.lineno)
            old = line[: len(line) - len(line.lstrip(" \t"))]
            value = f"(\n{self._step()}{reindent(value, old, self._step())}\n)"
        return f"{outer} = {value}".split("\n")

    @property
    def _arrays(self) -> set[str]:
        return {a.name for a in self.baked.arrays}

    # -- what is passed ----------------------------------------------------------------------------------------------

    def _pass_arrays(self, inside: list[Edit]) -> None:
        """The arrays that are still read, by their own names or, those of the module level, in small letters."""
        gone = {n for s in (*self.baked.prepared.statements, *self.baked.prepared.expressions) for n in walk(s)}
        passed: dict[str, str] = {}
        for array in self.baked.arrays:
            left = [read for read in array.reads if read not in gone]
            if not left:
                continue
            wish = array.name.strip("_").lower() if array.scope.parent is None else array.name
            local = self._free(wish, array.name, passed)
            passed[local] = array.name
            inside += [replacing(self._document, read, local) for read in left if local != array.name]
        self._passed = {**passed, **self._passed}

    def _free(self, wish: str, own: str, passed: Mapping[str, str]) -> str:
        taken = {n.id for n in walk(self._node) if isinstance(n, ast.Name) and n.id != own} | set(passed)
        taken |= {n.arg for n in walk(self._node) if isinstance(n, ast.arg)}
        taken |= {n.name for n in walk(self._node) if isinstance(n, ast.FunctionDef)}
        wish = f"{wish}_array" if is_reserved(wish) else wish
        name, number = wish, 1
        while name in taken or not name.isidentifier():
            number += 1
            name = f"{wish}_{number}"
        return name

    def _is_own(self, node: ast.Name) -> bool:
        return self.baked.compiled.module.scope_of(node).find(node.id) is self.baked.compiled.function.scope

    def _left(self, local: str) -> list[ast.Name]:
        """The reads of a local name that stay in the compiled function."""
        gone = {n for s in (*self.baked.prepared.statements, *self.baked.prepared.expressions) for n in walk(s)}
        return [
            n for n in walk(self._node)
            if isinstance(n, ast.Name) and n.id == local and n not in gone and self._is_own(n)
        ]  # fmt: skip

    def _is_read(self, local: str) -> bool:
        return bool(self._left(local))

    def _renamed(self, local: str, outer: str) -> list[Edit]:
        return [replacing(self._document, n, outer) for n in self._left(local)] if local != outer else []

    # -- the text around ---------------------------------------------------------------------------------------------

    def _check_one_line(self) -> None:
        node = self._node
        if node.body[0].lineno == node.lineno:
            raise Unplannable("unparsable", node, f"`{node.name}` has its body on the line of its `def`")

    def _comments_above(self, statement: ast.stmt) -> int:
        count, line = 0, first_line(statement) - 1
        while line > self._node.lineno and self._document.line(line).strip().startswith("#"):
            count, line = count + 1, line - 1
        return count

    def _step(self) -> str:
        return "\t" if self._document.line(self._node.body[0].lineno).startswith("\t") else "    "

    def _above(self, lines: Sequence[str], indent: str) -> Edit | None:
        """What is prepared, before the function with its decorators and comments."""
        if not lines:
            return None
        document, line = self._document, first_line(self._node)
        while line > 1 and document.line(line - 1).startswith(f"{indent}#"):
            line -= 1
        at = document.line_starts[line - 1]
        blank = "\n" * (1 if self._is_nested else 2)
        return Edit(at, at, "".join(f"{indent}{one}\n" if one else "\n" for one in lines) + blank)

    def _around(self, indent: str) -> Edit:
        """The function under its old name: it calls the compiled one."""
        document, node = self._document, self._node
        first, last = self._signature()
        header = reindent(document.source[first:last].decode(), indent, "")
        returns = f" -> {document.text(node.returns)}" if node.returns is not None else ""
        a = node.args
        given = [p.arg for p in (*a.posonlyargs, *a.args)]
        named = [f"{p.arg}={p.arg}" for p in a.kwonlyargs]
        passed = [f"{n}={v}" if named else v for n, v in self._passed.items()]
        call = f"return {self.name}({', '.join([*given, *named, *passed])})"
        if len(f"{indent}{self._step()}{call}") > _WIDTH:
            inner = f"{indent}{2 * self._step()}{', '.join([*given, *named, *passed])}"
            call = f"return {self.name}(\n{inner}\n{indent}{self._step()})"
        header = f"def {node.name}{header}{returns}:"
        lines = [f"{indent}{line}" if line else "" for line in header.split("\n")]
        text = "\n".join([*lines, *self._docstring(indent), f"{indent}{self._step()}{call}"])
        assert node.end_lineno is not None
        blank = "\n" * (1 if self._is_nested else 2)
        ends = node.end_lineno < len(document.line_starts)
        at = document.line_starts[node.end_lineno] if ends else len(document.source)
        lead = "" if document.source[:at].endswith((b"\n", b"\r")) else "\n"
        return Edit(at, at, f"{lead}{blank}{text}\n")

    def _docstring(self, indent: str) -> list[str]:
        """The docstring, which goes with the name that is called, as it is written."""
        node = self._node
        if ast.get_docstring(node, clean=False) is None:
            return []
        return [f"{indent}{self._step()}{self._document.text(node.body[0])}"]

    def _signature(self) -> tuple[int, int]:
        """The bytes of the parameters, with their brackets."""
        document, node = self._document, self._node
        start = document.source.index(b"(", document.span(node)[0])
        text = document.source[start:].decode()
        lines, depth = text.split("\n"), 0
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            depth += (token.string in ("(", "[", "{")) - (token.string in (")", "]", "}"))
            if depth == 0:
                row, column = token.end
                before = "\n".join([*lines[: row - 1], lines[row - 1][:column]])
                return start, start + len(before.encode())
        raise Unplannable("unparsable", node, f"the parameters of `{node.name}` cannot be read")
