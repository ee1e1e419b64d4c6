"""Parameters and arguments: what a call passes for a parameter, and what decorators say of a method."""

from __future__ import annotations

import ast

from jitmod.source.project import Function


def _decorator_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def is_property(node: ast.expr) -> bool:
    return _decorator_name(node) in ("property", "cached_property")


def is_static(function: Function) -> bool:
    return any(_decorator_name(d) == "staticmethod" for d in function.decorators)


def is_classmethod(function: Function) -> bool:
    return any(_decorator_name(d) == "classmethod" for d in function.decorators)


def default_of(function: Function, arg: ast.arg) -> ast.expr | None:
    a = function.node.args
    positional = [*a.posonlyargs, *a.args]
    if arg in positional:
        offset = positional.index(arg) - (len(positional) - len(a.defaults))
        return a.defaults[offset] if offset >= 0 else None
    if arg in a.kwonlyargs:
        return a.kw_defaults[a.kwonlyargs.index(arg)]
    return None


def argument(function: Function, call: ast.Call, name: str) -> ast.expr | None:
    """What `call` passes for the parameter `name`: an argument, or the default; None where that cannot be told."""
    a = function.node.args
    if any(isinstance(x, ast.Starred) for x in call.args) or any(k.arg is None for k in call.keywords):
        return None
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    positional = [*a.posonlyargs, *a.args]
    if function.owner is not None and not is_static(function):
        positional = positional[1:]
    names = [p.arg for p in positional]
    if name in names and names.index(name) < len(call.args):
        return call.args[names.index(name)]
    parameter = next((p for p in function.parameters if p.arg == name), None)
    return default_of(function, parameter) if parameter is not None else None
