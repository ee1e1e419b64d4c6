"""What a change touches: the functions that have to run, or their new text was never tried."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .changes import is_docstring

_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Touched:
    """Functions of one file by qualified name: those that both versions have with another text, and the new ones."""

    path: str
    changed: tuple[str, ...]
    added: tuple[str, ...]


def touched(path: str, before: ast.Module, after: ast.Module) -> Touched:
    """What the new version of a file does otherwise, function by function; an inner function counts by itself."""
    old, new = (dict(functions(tree)) for tree in (before, after))
    changed = [name for name, node in new.items() if name in old and _own(node) != _own(old[name])]
    return Touched(path, tuple(changed), tuple(name for name in new if name not in old))


def functions(tree: ast.AST, above: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function, inner ones included, by its qualified name."""
    for node in ast.iter_child_nodes(tree):
        name = f"{above}.{node.name}".lstrip(".") if isinstance(node, (*_FUNCTION, ast.ClassDef)) else above
        if isinstance(node, _FUNCTION):
            yield name, node
        yield from functions(node, name)


def names(tree: ast.Module, touched: Touched) -> Iterator[str]:
    """The names and attributes in the functions that changed."""
    for qualname, function in functions(tree):
        if qualname in touched.changed or qualname in touched.added:
            for node in ast.walk(function):
                if isinstance(node, ast.Name | ast.Attribute):
                    yield node.id if isinstance(node, ast.Name) else node.attr


def is_test(path: str) -> bool:
    """Files that are run by a test runner and by nobody else."""
    *folders, name = path.split("/")
    named = name.startswith("test_") or name.removesuffix(".py").endswith("_test") or name == "conftest.py"
    return named or bool({"test", "tests"} & set(map(os.path.normcase, folders)))


def _own(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Any:
    """The text of a function without its docstring and without the insides of other functions."""
    body = function.body[1:] if is_docstring(function.body[0]) else function.body
    return _text(function.args), [_text(d) for d in function.decorator_list], [_text(s) for s in body]


def _text(node: Any) -> Any:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return "def", node.name, [_text(d) for d in node.decorator_list]
        case ast.AST():
            return type(node).__name__, [_text(value) for _, value in ast.iter_fields(node)]
        case list():
            return [_text(item) for item in node]
    return type(node).__name__, repr(node)
