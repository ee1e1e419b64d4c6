"""What a project takes from the whole process: then a second version of it cannot live there as well."""

from __future__ import annotations

import functools
import inspect
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import jax

from .finder import Tree
from .patches import Patches

_REGISTER = (
    "register_pytree_node", "register_pytree_node_class", "register_pytree_with_keys",
    "register_pytree_with_keys_class", "register_static", "register_dataclass",
)  # fmt: skip


class Claims:
    """Watches a project from now until `stop`.

    A class of a library that becomes a pytree is one for both versions, though the functions that take it apart are
    those of one. Threads and worker processes run project code while the other version's modules are in place. A
    function that is put into a library serves both versions; `patches` looks for that, and is asked of the second one
    alone, which puts it there anew.
    """

    def __init__(self, tree: Tree, patches: Patches | None = None) -> None:
        self._tree = tree
        self._patches = patches
        self._threads = set(threading.enumerate())
        self._parent = _has_children()
        self._registered: list[str] = []
        self._replaced: dict[str, Callable[..., Any]] = {}
        for name in _REGISTER:
            if hasattr(jax.tree_util, name):
                self._replaced[name] = getattr(jax.tree_util, name)
                setattr(jax.tree_util, name, self._noting(self._replaced[name]))

    def stop(self) -> None:
        for name, function in self._replaced.items():
            setattr(jax.tree_util, name, function)
        self._replaced = {}

    def reasons(self) -> list[str]:
        """In words that follow "the project"."""
        found = [f"registers {name} as a pytree" for name in dict.fromkeys(self._registered)]
        started = [thread.name for thread in threading.enumerate() if self._is_new(thread)]
        found += [f"starts threads ({', '.join(sorted(started)[:3])})"] if started else []
        found += ["starts worker processes"] if _has_children() and not self._parent else []
        found += [f"replaces {name}" for name in self._patches.found()[:3]] if self._patches is not None else []
        return found

    def _noting(self, register: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(register)
        def registered(*args: Any, **kwargs: Any) -> Any:
            kind = args[0] if args else kwargs.get("nodetype", kwargs.get("cls"))
            frame = inspect.currentframe()
            caller = frame.f_back.f_code.co_filename if frame is not None and frame.f_back is not None else ""
            if isinstance(kind, type) and self._is_ours(caller) and not self._is_ours(_file(kind)):
                self._registered.append(f"{kind.__module__}.{kind.__qualname__}")
            return register(*args, **kwargs)

        return registered

    def _is_new(self, thread: threading.Thread) -> bool:
        """Libraries have classes of their own for their helpers (a bar's monitor); such a thread runs no project code.

        A thread that another language started is known to Python only as a dummy.
        """
        kind = type(thread)
        plain = kind.__module__ == "threading" and kind.__name__ != "_DummyThread"
        return thread not in self._threads and thread.is_alive() and (plain or self._is_ours(_file(kind)))

    def _is_ours(self, file: str) -> bool:
        return bool(file) and self._tree.relative(file) is not None


def _file(kind: type) -> str:
    return str(getattr(sys.modules.get(kind.__module__), "__file__", None) or "")


def _has_children() -> bool:
    """Does this process have children, running or not waited for?"""
    if multiprocessing.active_children():
        return True
    if not hasattr(os, "waitid"):
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
