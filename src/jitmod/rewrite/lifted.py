"""A compiled function at the module level, made from code inside a function: its text, its parameters, its calls."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Sequence
from dataclasses import dataclass, field

from jitmod.analysis.captures import Capture, Captures, How
from jitmod.analysis.constructions import LocalImport
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.stable import block_of
from jitmod.analysis.syntax import first_line
from jitmod.model import Edit
from jitmod.rewrite.imports import Imports
from jitmod.rewrite.names import Namer, singular
from jitmod.rewrite.place import blank_lines
from jitmod.rewrite.spliced import replacing, text_with
from jitmod.rewrite.text import indented, reindent
from jitmod.rewrite.wrapping import limit_of, wrapped
from jitmod.source.document import Document
from jitmod.source.nodes import walk
from jitmod.source.project import Function, SourceModule


@dataclass(eq=False)
class Lifting:
    """Names and texts that a lifted function and its calls share. `filtered`: it is compiled by `eqx.filter_jit`.

    `mentioned`: every name in the moved code; `bound`: those that the lifted function itself binds.
    """

    module: SourceModule
    captures: Captures
    imports: Imports
    namer: Namer
    filtered: bool
    mentioned: frozenset[str]
    bound: frozenset[str] = frozenset()
    names: dict[str, str] = field(default_factory=dict)  # by path: what the moved code calls it
    constants: dict[str, str] = field(default_factory=dict)  # by local name: the module-level constant

    def __post_init__(self) -> None:
        for capture in self.captures.values:
            self.names[capture.path] = self._parameter_name(capture)
        for constant in self.captures.constants:
            self.constants[constant.name] = self.namer.fresh(f"_{constant.name.strip('_').upper()}")

    @property
    def document(self) -> Document:
        return self.module.document

    def _parameter_name(self, capture: Capture) -> str:
        if capture.path.isidentifier() and capture.path not in self.bound and not capture.path.isupper():
            return capture.path
        wish = capture.path.rpartition(".")[2].strip("_") or "value"
        if not capture.path.replace(".", "_").isidentifier():  # an item: `frames[t]`, `params["w"]`
            base = ast.unparse(capture.reads[0]).partition("[")[0].rpartition(".")[2]
            wish = _key(capture.reads[0]) or singular(base)
        wish = wish.lower() if wish.isupper() else wish
        taken = self.mentioned | self.bound | set(self.names.values()) | {c.path for c in self.captures.values}
        name, number = wish, 1
        while name in taken or name in self.imports.module.scope.bindings:
            number += 1
            name = f"{wish}_{number}"
        return name

    def parameters(self) -> list[str]:
        return [self.names[c.path] for c in self.captures.values]

    def arguments(self, keyword_only: bool = False) -> list[str]:
        """What a call passes for the captures."""
        texts = []
        for capture in self.captures.values:
            written = self.document.text(capture.at)  # with the user's quotes and spaces
            text = written if ast.unparse(capture.at) == capture.path and "\n" not in written else capture.path
            if capture.how is How.NUMBER and self.filtered:
                text = f"{self.imports.refer('jax.numpy.asarray')}({text})"
            texts.append(f"{self.names[capture.path]}={text}" if keyword_only else text)
        return texts

    def static_names(self) -> list[str]:
        """The parameters that plain `jax.jit` must hold static."""
        return [] if self.filtered else [self.names[c.path] for c in self.captures.values if c.how is How.STATIC]

    def edits(self) -> list[Edit]:
        """The edits inside moved code: paths become parameters, optimisers become constants."""
        found = []
        for capture in self.captures.values:
            if self.names[capture.path] != capture.path:
                found += [replacing(self.document, read, self.names[capture.path]) for read in capture.reads]
        return found

    def constant_edits(self, function: Function | None) -> list[Edit]:
        """The edits by which `function`, or the module level, reads the constants that have moved."""
        root: ast.AST = function.node if function is not None else self.document.tree
        scope = function.scope if function is not None else self.module.scope
        return [
            replacing(self.document, node, self.constants[node.id])
            for node in walk(root)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in self.constants
            and self.module.scope_of(node).find(node.id) is scope
        ]  # fmt: skip

    def prelude(self, edits: Sequence[Edit]) -> list[str]:
        """The lines at the beginning of the lifted body: optimisers that are built anew, nested functions."""
        lines = [ast.unparse(_importing(one)) for one in self.captures.imports]
        for built in self.captures.rebuilt:
            text = text_with(self.document, *self.document.span(built.statement), edits)
            lines += reindent(text, margin(self.document, built.statement), "").split("\n")
        for helper in reversed(self.captures.helpers):
            lines += [*self.definition(helper, edits), ""]
        return lines

    def definition(
        self, node: ast.FunctionDef, edits: Sequence[Edit], skip: ast.expr | None = None, is_top: bool = False
    ) -> list[str]:
        """The lines of a `def` with its decorators and the comments above, without indentation; `skip` is left out.

        `is_top`: the lines are those of a function of the module level, whose docstring moves along.
        """
        document = self.document
        old = margin(document, node)
        lines = [text.strip() for text in self.comments_above(node)]
        for decorator in node.decorator_list:
            if decorator is not skip:
                text = text_with(document, *document.span(decorator), edits)
                lines.append(f"@{text}{self.comment_beside(decorator)}")
        start, end = document.span(node)
        loose = _docstring_lines(node) if is_top else frozenset[int]()
        text = reindent(text_with(document, start, end, edits), old, "", loose)
        return [*lines, *f"{text}{self.comment_beside(node)}".split("\n")]

    def comment_beside(self, node: ast.stmt | ast.expr) -> str:
        """The comment behind a node on its last line, with two spaces before it."""
        found = [c for line, c in self.document.comments if line == node.end_lineno]
        return f"  {found[0]}" if found else ""

    def without(self, node: ast.stmt) -> Edit:
        """The edit that takes out a statement that has moved, with the comments above it."""
        return removed(self.document, node, len(self.comments_above(node)))

    def without_imports(self) -> list[Edit]:
        """The edits that take out imports which only the moved code needed."""
        left = [one for one in self.captures.imports if one.is_left and len(one.statement.names) == 1]
        return [self.without(one.statement) for one in left if len(block_of(one.statement, self.module)) > 1]

    def comments_above(self, node: ast.stmt) -> list[str]:
        first = first_line(node)
        lines: list[str] = []
        number = first - 1
        while number >= 1 and self.document.line(number).strip().startswith("#"):
            lines.insert(0, self.document.line(number))
            number -= 1
        return lines

    def constant_lines(self) -> list[str]:
        """Module-level lines that build the optimisers, with their comments."""
        lines = []
        for constant in self.captures.constants:
            value = reindent(self.document.text(constant.value), margin(self.document, constant.statement), "")
            lines += [text.strip() for text in self.comments_above(constant.statement)]
            lines.append(f"{self.constants[constant.name]} = {value}{self.comment_beside(constant.statement)}")
        return lines


def _key(expr: ast.expr) -> str:
    """The text by which an item is taken out of a dict, where it is a name."""
    match expr:
        case ast.Subscript(slice=ast.Constant(value=str() as key)) if key.isidentifier() and not keyword.iskeyword(key):
            return key
    return ""


def _importing(one: LocalImport) -> ast.stmt:
    if isinstance(one.statement, ast.Import):
        return ast.Import(names=[one.alias])
    return ast.ImportFrom(module=one.statement.module, names=[one.alias], level=one.statement.level)


def margin(document: Document, node: ast.stmt) -> str:
    """The white space before a statement. Raises `Unplannable` where it does not begin its line."""
    indent = document.indent(node)
    if indent is None or "\f" in indent:
        raise Unplannable("unparsable", node, f"line {node.lineno} holds several statements")
    return indent


def removed(document: Document, node: ast.stmt, comments: int = 0) -> Edit:
    """The edit that takes out a statement with its lines, decorators, `comments` lines above, and a blank line below.

    Raises `Unplannable` where something else stands on its lines.
    """
    margin(document, node)
    assert node.end_lineno is not None
    end_line = document.line(node.end_lineno)
    rest = end_line.encode()[node.end_col_offset or 0 :].strip()
    if rest and not rest.startswith(b"#"):
        raise Unplannable("unparsable", node, f"line {node.end_lineno} holds several statements")
    start = document.line_starts[first_line(node) - 1 - comments]
    last = node.end_lineno
    blank = last < len(document.line_starts) and not document.line(last + 1).strip()
    above = first_line(node) - 1 - comments
    opens = above >= 1 and (not document.line(above).strip() or document.line(above).rstrip().endswith(":"))
    last += int(blank and opens and isinstance(node, ast.FunctionDef))
    end = document.line_starts[last] if last < len(document.line_starts) else len(document.source)
    return Edit(start, end, "")


def _docstring_lines(node: ast.FunctionDef) -> frozenset[int]:
    """The lines of a function's docstring behind its first, counted from the `def`."""
    first = node.body[0]
    if ast.get_docstring(node, clean=False) is None or first.end_lineno is None:
        return frozenset()
    return frozenset(range(first.lineno + 1 - node.lineno + 1, first.end_lineno - node.lineno + 2))


def leading_blanks(document: Document, edits: Sequence[Edit]) -> list[Edit]:
    """The edits that take out blank lines which would open a block, once `edits` have taken out whole lines."""
    starts = {start: number for number, start in enumerate(document.line_starts, 1)}
    spans = [(starts[e.start], e.end) for e in edits if not e.text and e.end > e.start and e.start in starts]
    gone = {n for first, end in spans for n in range(first, len(starts) + 1) if document.line_starts[n - 1] < end}
    found: list[int] = []
    for first in sorted(n for n in gone if n - 1 not in gone):
        blanks, number = [], first - 1
        while number >= 1 and not document.line(number).strip() and number not in gone:
            blanks.append(number)
            number -= 1
        if not document.line(max(number, 1)).rstrip().endswith(":"):
            continue
        number = first
        while number <= len(starts) and (number in gone or not document.line(number).strip()):
            blanks += [number] if number not in gone else []
            number += 1
        found += blanks
    ends = [*document.line_starts[1:], len(document.source)]
    return [Edit(document.line_starts[n - 1], ends[n - 1], "") for n in dict.fromkeys(found)]


def at_module_level(document: Document, place: int, *groups: Sequence[str]) -> Edit:
    """The insertion of groups of lines at the module level, two blank lines apart."""
    lines = list(blank_lines(document, place))
    for group in groups:
        if group:
            lines += [*wrapped("\n".join(group), document, limit=limit_of(document)).split("\n"), "", ""]
    return Edit(place, place, "\n".join([*lines, ""]) if groups else "")


def decorator(jit: str, options: Sequence[str], imports: Imports) -> str:
    """`@jax.jit`, or the same with options."""
    name = imports.refer(jit)
    if not options:
        return f"@{name}"
    return f"@{imports.refer('functools.partial')}({name}, {', '.join(options)})"


def body_lines(prelude: Sequence[str], lines: Sequence[str], step: str) -> list[str]:
    return indented("\n".join([*prelude, *lines]), step).split("\n")


def static_argnames(names: Sequence[str]) -> str:
    """`static_argnames=("a", "b")`."""
    inner = ", ".join(f'"{name}"' for name in names)
    return f"static_argnames=({inner}{',' if len(names) == 1 else ''})"
