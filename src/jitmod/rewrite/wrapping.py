"""Generated lines that would be too long, broken at their brackets as formatters do."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator

from jitmod.rewrite.text import lines_in_strings
from jitmod.source.document import Document

LIMIT = 120
_USUAL = (88, 100)  # black's, and what many projects take instead
_STEP = "    "


def limit_of(document: Document) -> int:
    """The length that a file keeps its own lines to: the first of the usual limits that holds them."""
    longest = max((len(line) for line in document.source.decode().splitlines()), default=0)
    return next((usual for usual in _USUAL if longest <= usual), LIMIT)


def wrapped(text: str, document: Document, indent: str = "", limit: int = LIMIT) -> str:
    """Whole lines of code without those that are longer than `limit`, as far as they can be broken.

    `indent` is what stands before the first line. Lines of the user's own stay as they are.
    """
    own = {line.strip() for line in document.source.decode().splitlines()}
    fixed = lines_in_strings(text)
    lines: list[str] = []
    for number, line in enumerate(f"{indent}{text}".split("\n"), 1):
        stays = len(line) <= limit or number in fixed or "#" in line or line.strip() in own
        lines += [line] if stays else _broken(line, limit)
    return "\n".join(lines)[len(indent) :]


def _broken(line: str, limit: int) -> list[str]:
    """The lines of one that is too long; the line itself where it cannot be broken."""
    indent = line[: len(line) - len(line.lstrip())]
    statement = _statement(line.strip())
    if statement is None:
        return [line]
    lines = _pieces(line.strip(), statement, indent, limit)
    again = _statement("\n".join(one.removeprefix(indent) for one in lines))
    return lines if again is not None and ast.dump(again) == ast.dump(statement) else [line]


def _pieces(code: str, statement: ast.stmt, indent: str, limit: int) -> list[str]:
    match statement:
        case ast.Return(value=ast.IfExp() as chosen) | ast.Assign(value=ast.IfExp() as chosen):
            return _chosen(code, chosen, indent, limit)
        case ast.If(test=ast.BoolOp(op=ast.And(), values=values)):
            first, *others = [ast.get_source_segment(code, v) or "" for v in values]
            inner = [first, *[f"and {other}" for other in others]]
            return [f"{indent}if (", *[one for i in inner for one in _fitted(indent + _STEP, i, limit)], f"{indent}):"]
    return _fitted(indent, code, limit)


def _statement(code: str) -> ast.stmt | None:
    """The statement of a line; the header of a compound one, too."""
    for text in (code, f"{code} pass"):
        try:
            (found,) = ast.parse(text).body
        except (SyntaxError, ValueError):
            continue
        return found
    return None


def _chosen(code: str, chosen: ast.IfExp, indent: str, limit: int) -> list[str]:
    """`return (a if c else b)` on a line for each part."""
    head = code.encode()[: chosen.col_offset].decode()
    tail = code.encode()[chosen.end_col_offset :].decode()
    parts = [ast.get_source_segment(code, part) or "" for part in (chosen.body, chosen.test, chosen.orelse)]
    inner = [f"{word}{part}" for word, part in zip(("", "if ", "else "), parts, strict=True)]
    opening, closing = ("", "") if head.endswith("(") else ("(", ")")
    lines = [one for part in inner for one in _fitted(indent + _STEP, part, limit)]
    return [f"{indent}{head}{opening}", *lines, f"{indent}{closing}{tail}"]


def _fitted(indent: str, code: str, limit: int) -> list[str]:
    """Code whose last bracket that holds something is opened, and if need be has a line for each of its parts."""
    if len(indent) + len(code) <= limit:
        return [f"{indent}{code}"]
    groups = [(a, b) for a, b in _groups(code) if code[a + 1 : b].strip()]
    if not groups:
        return [f"{indent}{code}"]
    start, end = max(groups, key=lambda g: g[1] - g[0])
    inside, inner = code[start + 1 : end], indent + _STEP
    if len(inner) + len(inside) <= limit:
        parts = [f"{inner}{inside}"]
    else:
        commas = list(_commas(inside))
        starts, stops = [0, *[k + 1 for k in commas]], [*commas, len(inside)]
        pieces = [inside[a:b].strip() for a, b in zip(starts, stops, strict=True)]
        ends = "," if len(pieces) > 1 else ""
        parts = [line for piece in pieces if piece for line in _with_end(_fitted(inner, piece, limit), ends)]
    return [f"{indent}{code[: start + 1]}", *parts, f"{indent}{code[end:]}"]


def _with_end(lines: list[str], end: str) -> list[str]:
    return [*lines[:-1], lines[-1] + end]


def _groups(code: str) -> Iterator[tuple[int, int]]:
    """Where the outermost brackets open and close."""
    depth, start = 0, 0
    for at, sign in _signs(code):
        if sign in "([{":
            start = at if depth == 0 else start
            depth += 1
        elif sign in ")]}":
            depth -= 1
            if depth == 0:
                yield start, at


def _commas(code: str) -> Iterator[int]:
    depth = 0
    for at, sign in _signs(code):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0:
            yield at


def _signs(code: str) -> Iterator[tuple[int, str]]:
    """The brackets and commas of a line, but for those in strings."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.OP and token.string in "()[]{},":
                yield token.start[1], token.string
    except (tokenize.TokenError, IndentationError):
        return
