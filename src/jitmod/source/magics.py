"""What a notebook's cells hold beside Python: magics, shell lines, questions. Each becomes a line that Python can read.

Such a line is fixed: it stands for the user's own one, and no edit may touch it. What may do anything at all, as most
magics may, becomes a call of `get_ipython()`, as IPython itself has it, of which no analysis knows anything.
"""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, replace

_CELL_MAGIC = re.compile(r"%%(\w[\w.]*)[ \t]*(.*)")
_LINE_MAGIC = re.compile(r"%(\w[\w.]*)[ \t]*(.*)")
_ASSIGNED = re.compile(r"([\w.,:()\[\]'\"* \t]+?)[ \t]*=[ \t]*([%!])(?=[^=\s])(.*)")
_QUESTION = re.compile(r"\?{1,2}.*|%{0,2}[A-Za-z_*][\w*]*(\.[\w*]+|\[[\w'\"]+\])*[ \t]*\?{1,2}")
_TIMEIT_OPTIONS = re.compile(r"(-[nrp][ \t]*\d+|-[tcqov]+)[ \t]+")
_RUN_IN_PLACE = frozenset({"time", "capture", "prun"})  # cell magics that run their cell as if they were not there
_RUN_ASIDE = frozenset({"timeit", "memit"})  # those that run it, again and again, as the body of a function


@dataclass(frozen=True)
class Translation:
    """A cell as Python, as many lines as it has. `fixed` are the lines that stand for others, by their numbers from 0.

    `whole`: no edit may touch any line, because the cell is no Python, or Python of another place.
    """

    lines: tuple[str, ...]
    fixed: tuple[int, ...] = ()
    whole: bool = False
    has_head: bool = False  # the first line that is not blank has to stay the first
    is_timed: bool = False  # it is run again and again by a magic that times it


def translate(source: str, name: str) -> Translation:
    """The cell `source` as Python. `name` is that of the cell; with it no two fixed lines are alike."""
    lines = source.split("\n")
    first = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    magic = _CELL_MAGIC.fullmatch(lines[first].rstrip()) if first < len(lines) else None
    if magic is not None:
        return _cell_magic(lines, first, magic[1], magic[2], name)
    if _parses(source):
        return Translation(tuple(lines))
    if first < len(lines) and lines[first][:1] in (" ", "\t"):  # a cell may be indented as a whole
        dedented = textwrap.dedent(source)
        return replace(translate(dedented, name), whole=True) if dedented != source else Translation(tuple(lines))
    return _with_lines(lines, name)


def _cell_magic(lines: list[str], first: int, magic: str, rest: str, name: str) -> Translation:
    body = lines[first + 1 :]
    blank = [""] * first
    if magic in _RUN_IN_PLACE:
        inner = translate("\n".join(body), name) if body else Translation(())
        target = rest.split()[-1:] if magic == "capture" else []
        call = _call("run_cell_magic", magic, rest)
        text = f"{target[0]} = {call}" if target and target[0].isidentifier() else call
        fixed = (first, *(first + 1 + number for number in inner.fixed))
        return Translation((*blank, f"{text}  # {name}", *inner.lines), fixed, inner.whole, has_head=True)
    if magic in _RUN_ASIDE:
        inside = textwrap.indent("\n".join(_with_lines(body, name).lines), "    ").split("\n")
        function = [f"def _{magic}_{re.sub(r'[^0-9A-Za-z]+', '_', name)}():", *(inside if body else [])]
        if _parses("\n".join(function)):
            return Translation((*blank, *function), whole=True, is_timed=True)
    text = _call("run_cell_magic", magic, rest)
    return Translation((*blank, f"{text}  # {name}", *[""] * len(body)), whole=True)


def _with_lines(lines: list[str], name: str) -> Translation:
    """With every magic and shell line translated that begins a statement."""
    made: list[str] = []
    fixed: list[int] = []
    for start, end in _statements(lines):
        text = " ".join(line.rstrip().removesuffix("\\").rstrip() for line in lines[start:end]).strip()
        indent = lines[start][: len(lines[start]) - len(lines[start].lstrip())]
        is_python = end > start + 1 and not _is_special(lines[start].strip())
        python = None if is_python else _translated(text)
        if python is None:
            made += lines[start:end]
            continue
        mark = f"  # {name}:{len(fixed) + 1}"
        made += [f"{indent}{python}{mark}", *(f"{indent}#{mark}.{n}" for n in range(1, end - start))]
        fixed += range(start, end)
    return Translation(tuple(made), tuple(fixed))


def _translated(text: str) -> str | None:
    """One line in Python; None where it is meant to be Python already."""
    if text.startswith("!!"):
        return _call("getoutput", text[2:].strip())
    if text.startswith("!"):
        return _call("system", text[1:].strip())
    if text and not text.startswith("#") and _QUESTION.fullmatch(text):
        return _call("run_line_magic", "pinfo", text.strip("? "))
    magic = _LINE_MAGIC.fullmatch(text)
    if magic is not None:
        return _line_magic(magic[1], magic[2])
    assigned = _ASSIGNED.fullmatch(text)
    if assigned is None:
        return None
    target, sign, rest = assigned[1].strip(), assigned[2], assigned[3]
    if not _parses(f"{target} = 0"):
        return None
    magic = _LINE_MAGIC.fullmatch(f"%{rest}") if sign == "%" else None
    return f"{target} = {_call('getoutput', rest) if magic is None else _line_magic(magic[1], magic[2])}"


def _line_magic(magic: str, rest: str) -> str:
    if magic == "time" and rest and _is_simple(rest):
        return rest
    if magic == "timeit":
        while option := _TIMEIT_OPTIONS.match(rest):
            rest = rest[option.end() :]
        if rest and _parses(f"(lambda: {rest})"):
            return f"(lambda: {rest})"
    return _call("run_line_magic", magic, rest)


def _call(method: str, *arguments: str) -> str:
    return f"get_ipython().{method}({', '.join(repr(a) for a in arguments)})"


def _is_simple(text: str) -> bool:
    return _parses(text) and all(not hasattr(statement, "body") for statement in ast.parse(text).body)


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _statements(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Lines of one statement each, or of the header of one: the first, and the one after the last."""
    start = 0
    while start < len(lines):
        end = start + 1
        text = lines[start].strip()
        if _is_special(text):
            while end < len(lines) and lines[end - 1].rstrip().endswith("\\"):
                end += 1
        else:
            while end < len(lines) and _goes_on("\n".join(lines[start:end])):
                end += 1
        yield start, end
        start = end


def _is_special(text: str) -> bool:
    """Whether a line begins what only IPython understands, and what may go on where it ends with a backslash."""
    return text.startswith(("%", "!", "?")) or _ASSIGNED.fullmatch(text) is not None


def _goes_on(text: str) -> bool:
    """Whether a bracket, a string or a line is not closed yet."""
    try:
        last = None
        for token in tokenize.generate_tokens(io.StringIO(text.lstrip() + "\n").readline):
            last = token if token.type == tokenize.COMMENT else None if token.type != tokenize.NL else last
    except tokenize.TokenError as error:
        return "EOF" in str(error) or "unterminated triple-quoted" in str(error)
    except SyntaxError:
        return False
    return text.endswith("\\") and last is None
