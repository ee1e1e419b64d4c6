"""Which statements a patch changed, found from the two texts of a file."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable

_SILENT = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Global, ast.Nonlocal)
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def changed_lines(before: str, after: str) -> frozenset[int]:
    """The 1-based lines of `after` that are new or altered; where lines only went, the line that follows them."""
    old, new = before.splitlines(), after.splitlines()
    lines: set[int] = set()
    for tag, _, _, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            lines.update(range(start + 1, end + 1) if end > start else (min(start + 1, len(new)),))
    return frozenset(lines)


def changed_statements(tree: ast.Module, lines: Iterable[int]) -> list[ast.stmt]:
    """The executable statements on `lines`, in order of position.

    A compound statement counts by its header. A changed `def` line or decorator stands for the body's first statement,
    because defining a function does not run it.
    """
    wanted = frozenset(lines)
    found: list[ast.stmt] = []
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTION):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if wanted & set(range(first, node.body[0].lineno)):
                found.append(first_statement(node))
        elif isinstance(node, ast.stmt) and not isinstance(node, _SILENT) and not is_docstring(node):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno or node.lineno
            if wanted & set(range(node.lineno, max(end, node.lineno) + 1)):
                found.append(node)
    return sorted(dict.fromkeys(found), key=lambda s: (s.lineno, s.col_offset))


def functions(tree: ast.Module, names: Iterable[str]) -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """The definitions with these names; a name is plain (`_score`) or qualified (`Net._score`)."""
    wanted = frozenset(names)
    found: list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]] = []

    def visit(node: ast.AST, above: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            inside = above
            if isinstance(child, (*_FUNCTION, ast.ClassDef)):
                inside = (*above, child.name)
                if not isinstance(child, ast.ClassDef):
                    match = wanted & {child.name, ".".join(inside)}
                    found.extend((name, child) for name in sorted(match))
            visit(child, inside)

    visit(tree, ())
    return found


def first_statement(function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
    body = function.body
    return body[1] if is_docstring(body[0]) and len(body) > 1 else body[0]


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
