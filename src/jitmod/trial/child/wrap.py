"""Putting wrappers around the changed functions of a file, when its module is loaded."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import jax

from .pairs import Pair, binders, find

_PAIR, _GLOBALS = "__jitmod_pair__", "__jitmod_globals__"

Call = Callable[[str, dict[str, Any], Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Called in place of a function: its mark, its module's globals, the function itself, its arguments."""


def decorate(tree: ast.Module, path: str, pairs: Iterable[Pair]) -> ast.Module:
    """Wrap the pairs of the file at `path`: outside of all decorators but those that bind to the class."""
    for pair in pairs:
        function = find(tree, pair.qualname) if pair.path == path else None
        if function is not None:
            names = ast.Call(ast.Name(_GLOBALS, ast.Load()), [], [])
            call = ast.Call(ast.Name(_PAIR, ast.Load()), [ast.Constant(pair.mark), names], [])
            function.decorator_list.insert(binders(function), ast.copy_location(call, function))
    return tree


def injected(call: Call) -> dict[str, Any]:
    """The names that `decorate` puts into the text."""

    def decorator(mark: str, module: dict[str, Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                return call(mark, module, function, args, kwargs)

            return unseen(wrapper)

        return wrap

    return {_PAIR: decorator, _GLOBALS: _globals_of_caller}


def unseen(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose frame `warnings.warn(..., stacklevel=n)` does not count: it skips those of the import system."""
    function.__code__ = function.__code__.replace(co_filename="<importlib._bootstrap of a trial>")
    return function


def is_tracing() -> bool:
    """Are we inside a jit, a grad, a vmap? There every operation gives a tracer."""
    return isinstance(jax.numpy.add(0, 0), jax.core.Tracer)


def _globals_of_caller() -> dict[str, Any]:
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_globals
