"""Pieces of source text with byte-range edits inside, and arguments added to calls and signatures."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Sequence

from jitmod.analysis.loops import Unplannable
from jitmod.model import Edit
from jitmod.rewrite.text import is_exact
from jitmod.source.document import Document


def text_with(document: Document, start: int, end: int, edits: Iterable[Edit]) -> str:
    """The text of bytes `[start, end)` with those of `edits` made that lie inside."""
    pieces: list[bytes] = []
    done = start
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        if edit.start >= done and edit.end <= end:
            pieces += [document.source[done : edit.start], edit.text.encode()]
            done = edit.end
    pieces.append(document.source[done:end])
    return b"".join(pieces).decode()


def replacing(document: Document, node: ast.expr, text: str) -> Edit:
    """The edit that writes an expression differently. Raises `Unplannable` where its place cannot be told."""
    if not is_exact(document, node):
        raise Unplannable("unparsable", node, f"`{ast.unparse(node)}` cannot be replaced where it stands")
    return Edit(*document.span(node), text)


def naming(document: Document, node: ast.expr, name: str) -> Edit:
    """The edit that writes a name for an expression, and drops brackets that stand around it alone."""
    edit, source = replacing(document, node, name), document.source
    start, end = edit.start, edit.end
    while source[start - 1 : start] == b"(" and source[end : end + 1] == b")":
        before = source[: start - 1].rstrip(b" ")[-1:]
        if before.isalnum() or before in (b"_", b")", b"]", b"'", b'"', b"}") or not before.isascii():
            break  # the brackets of a call, or of something that a keyword begins
        start, end = start - 1, end + 1
    return Edit(start, end, name)


def adding_arguments(document: Document, call: ast.Call, texts: Sequence[str]) -> Edit | None:
    """The edit that appends arguments to a call. Raises `Unplannable`."""
    if not texts:
        return None
    if any(isinstance(a, ast.GeneratorExp) for a in call.args) or not is_exact(document, call):
        raise Unplannable("unparsable", call, f"no argument can be added to `{ast.unparse(call)[:60]}`")
    start = document.span(call.func)[1]
    while document.source[start : start + 1] == b")":  # a callee in parentheses
        start += 1
    return _appended(document, start, call, texts)


def adding_parameters(
    document: Document, node: ast.FunctionDef, names: Sequence[str], keyword_only: bool
) -> Edit | None:
    """The edit that appends parameters to a `def`. Raises `Unplannable`."""
    if not names:
        return None
    a = node.args
    if a.kwarg is not None:
        raise Unplannable("local-callable", node, f"`{node.name}` takes any keyword, so nothing can be added to it")
    starred = ["*"] if keyword_only and a.vararg is None and not a.kwonlyargs else []
    start = document.span(node)[0]
    return _appended(document, start + document.source[start:].index(b"("), node, [*starred, *names])


def _appended(document: Document, start: int, node: ast.AST, extra: Sequence[str]) -> Edit:
    """Append to the bracketed list that opens at byte `start`."""
    depth, last, at, row = 0, "", start, 1
    text = document.source[start:].decode()
    rows = [0]
    for line in text.split("\n"):
        rows.append(rows[-1] + len(line.encode()) + 1)
    lines = text.split("\n")
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
                continue
            depth += (token.string in ("(", "[", "{")) - (token.string in (")", "]", "}"))
            if depth == 0:
                line = lines[row - 1]
                rest = line.encode()[at - start - rows[row - 1] :].decode()
                if 1 < row < token.start[0] and (last == "," or rest.strip()):  # one line each, the bracket on its own
                    margin = line[: len(line) - len(line.lstrip(" \t"))]
                    ends = last if last == "," else ""
                    text = f"{'' if ends else ','}{rest}\n{margin}" + f",\n{margin}".join(extra) + ends
                    return Edit(at, start + rows[row] - 1, text)
                separator = "" if last in ("(", "") else " " if last == "," else ", "
                return Edit(at, at, separator + ", ".join(extra))
            last = token.string
            row, column = token.end
            at = start + rows[row - 1] + len(lines[row - 1][:column].encode())
    except (tokenize.TokenError, SyntaxError):
        pass
    raise Unplannable("unparsable", node, "its list of arguments cannot be read")
