"""Moving source text: parts replaced, indentation changed, comments kept."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from jitmod.analysis.loops import Unplannable
from jitmod.source.document import Document


def splice(document: Document, node: ast.expr | ast.stmt, replaced: Mapping[ast.expr, str]) -> str:
    """The text of `node` with the parts in `replaced` written differently."""
    start, end = document.span(node)
    inside = {part: text for part, text in replaced.items() if _within(document, part, start, end)}
    wrong = next((part for part in inside if _is_read(part) and not is_exact(document, part)), None)
    if wrong is not None:
        raise Unplannable("unparsable", wrong, f"`{ast.unparse(wrong)}` cannot be replaced where it stands")
    spans = sorted(((*document.span(part), text) for part, text in inside.items()), key=lambda s: (s[0], -s[1]))
    pieces: list[bytes] = []
    done = start
    for first, last, text in spans:
        if first >= done:  # a part of a part that was replaced already is gone with it
            pieces += [document.source[done:first], text.encode()]
            done = last
    pieces.append(document.source[done:end])
    return b"".join(pieces).decode()


def is_exact(document: Document, node: ast.expr) -> bool:
    """Whether the span of `node` holds just its text: inside f-strings older Pythons give wrong positions."""
    try:
        return ast.dump(ast.parse(f"({document.text(node)})", mode="eval").body) == ast.dump(node)
    except (SyntaxError, UnicodeDecodeError):
        return False


def _is_read(node: ast.expr) -> bool:
    return isinstance(getattr(node, "ctx", ast.Load()), ast.Load)


def _within(document: Document, part: ast.expr, start: int, end: int) -> bool:
    first, last = document.span(part)
    return start <= first and last <= end


def step_of(document: Document) -> str:
    """What a file puts before the lines of a block, one level deep; four spaces where it has none."""
    for node in document.tree.body:
        body = getattr(node, "body", None)
        if isinstance(body, list) and isinstance(body[0], ast.stmt) and (indent := document.indent(body[0])):
            return indent
    return "    "


def reindent(text: str, old: str, new: str, loose: AbstractSet[int] = frozenset()) -> str:
    """Lines after the first moved from indentation `old` to `new`; lines inside strings stay as they are.

    The 1-based lines `loose` move even so: those of a docstring.
    """
    lines = text.split("\n")
    fixed = lines_in_strings(text) - loose
    moved = [lines[0]]
    for number, line in enumerate(lines[1:], 2):
        if number in fixed or not line.strip():
            moved.append(line)
        elif line.startswith(old):
            moved.append(new + line[len(old) :])
        else:
            moved.append(new + line.lstrip())
    return "\n".join(moved)


def indented(text: str, step: str) -> str:
    """Every line moved to the right by `step`, but for empty ones and those that begin inside a string."""
    fixed = lines_in_strings(text)
    lines = enumerate(text.split("\n"), 1)
    return "\n".join(step + line if line and number not in fixed else line for number, line in lines)


def lines_in_strings(text: str) -> set[int]:
    """The 1-based lines that begin inside a string."""
    inside: set[int] = set()
    starts: list[int] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            name = tokenize.tok_name[token.type]
            if name == "STRING":
                inside |= set(range(token.start[0] + 1, token.end[0] + 1))
            elif name == "FSTRING_START":
                starts.append(token.start[0])
            elif name == "FSTRING_END":
                inside |= set(range(starts.pop() + 1, token.end[0] + 1))
    except (tokenize.TokenError, IndentationError):
        pass
    return inside
