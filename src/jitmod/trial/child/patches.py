"""What a project puts into libraries in the place of their functions: both versions of the project would have it."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

from .finder import Tree

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_COMPUTING = {"jax", "numpy", "equinox", "optax", "scipy"}  # nobody else may replace their functions either


class Patches:
    """The functions and classes of all libraries, as they are when this is made."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._before = {(owner, name): value for owner, name, value in self._names()}

    def found(self) -> list[str]:
        """The names that hold something else by now, which the project has put there."""
        changed: list[str] = []
        for owner, name, value in self._names():
            before = self._before.get((owner, name), value)
            is_new = (owner, name) not in self._before
            replaced = before is not value and owner.partition(".")[0] in _COMPUTING and not _is_ours(value)
            if replaced or ((is_new or before is not value) and self._is_projects(value)):
                changed.append(f"{owner}.{name}")
        return changed

    def _names(self) -> Iterator[tuple[str, str, Any]]:
        for place, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if not isinstance(module, types.ModuleType) or place == "__main__" or self._is_in_tree(file):
                continue
            for name, value in list(vars(module).items()):
                if callable(value):
                    yield place, name, value
                if isinstance(value, type) and value.__module__ == place:
                    members = list(vars(value).items())
                    yield from ((f"{place}.{name}", member, item) for member, item in members if callable(item))

    def _is_projects(self, value: Any) -> bool:
        """Is it written in the project's own files?"""
        inner = value.func if isinstance(value, functools.partial) else value
        code = None if isinstance(inner, type) else getattr(_innermost(inner), "__code__", None)
        if isinstance(code, types.CodeType):
            return self._is_in_tree(code.co_filename) and not _is_ours(value)
        return self._is_in_tree(getattr(sys.modules.get(getattr(inner, "__module__", "") or ""), "__file__", None))

    def _is_in_tree(self, file: Any) -> bool:
        return isinstance(file, str) and not file.startswith(_OWN) and self._tree.relative(file) is not None


def _innermost(function: Any) -> Any:
    """What a chain of wrappers is around; an object that has any attribute, as `unittest.mock.call` has, is its own."""
    try:
        return inspect.unwrap(function)
    except ValueError:
        return function


def _is_ours(value: Any) -> bool:
    """Wrappers of the trial itself: of pytree registrations, bars, warnings."""
    code = getattr(value, "__code__", None)
    return isinstance(code, types.CodeType) and code.co_filename.startswith(_OWN)
