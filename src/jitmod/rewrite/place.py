"""Where code for the module level goes: before the top-level statement that needs it."""

from __future__ import annotations

import ast

from jitmod.source.document import Document
from jitmod.source.project import SourceModule


def top_level(node: ast.AST, module: SourceModule) -> ast.stmt:
    """The statement of the file's top level that holds `node`."""
    top = node
    for parent in module.ancestors(node):
        if parent is module.document.tree:
            break
        top = parent
    assert isinstance(top, ast.stmt)
    return top


def before_top_level(node: ast.AST, module: SourceModule) -> int:
    """The byte before the top-level statement that holds `node`, with its decorators and comments."""
    document = module.document
    top = top_level(node, module)
    line = top.lineno
    if isinstance(top, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        line = min([line, *[d.lineno for d in top.decorator_list]])
    while line > 1 and document.line(line - 1).startswith("#") and not _opens(document.line(line - 1)):
        line -= 1
    return document.line_starts[line - 1]


def _opens(comment: str) -> bool:
    """Whether a comment belongs to all that is below it: the first line of a script, or of a cell of one."""
    return comment.startswith(("#!", "# %%", "#%%", "# In["))


def blank_lines(document: Document, place: int) -> list[str]:
    """What is missing to two blank lines above the place."""
    before = document.source[:place].decode().replace("\r\n", "\n").rstrip(" \t")
    missing = 2 - (len(before) - len(before.rstrip("\n")) - 1)
    return [""] * min(missing, 2) if before.strip() and missing > 0 else []
