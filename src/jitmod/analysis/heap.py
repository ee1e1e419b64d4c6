"""Alias and escape: which objects a statement may change, and which lists a loop fills are known to nobody else."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from jitmod.analysis import library
from jitmod.analysis.effects import Effects
from jitmod.analysis.library import Role
from jitmod.analysis.values import Array, Constant, Device, Instance, Kind, Number, Routine, Transformed
from jitmod.source.project import Function, SourceModule

Path = tuple[str, ...]


@dataclass(frozen=True)
class Touch:
    """A statement may change the object at `path` (a name, then attributes), or anything at all (empty path)."""

    path: Path
    node: ast.AST
    what: str

    def hits(self, read: Path) -> bool:
        """Whether what is read at `read` may be changed."""
        n = min(len(self.path), len(read))
        return self.path[:n] == read[:n]


def path_of(expr: ast.expr) -> Path:
    """The name and attributes that lead to an object; subscripts and calls end at their base."""
    match expr:
        case ast.Name(id=name):
            return (name,)
        case ast.Attribute(value=value, attr=attr):
            base = path_of(value)
            return (*base, attr) if base and _is_plain(value) else base
        case ast.Subscript(value=value) | ast.Starred(value=value):
            return path_of(value)
        case ast.Call(func=ast.Attribute(value=value)):
            return path_of(value)
    return ()


def _is_plain(expr: ast.expr) -> bool:
    while isinstance(expr, ast.Attribute):
        expr = expr.value
    return isinstance(expr, ast.Name)


def touches(statements: Iterable[ast.AST], module: SourceModule, effects: Effects) -> Iterator[Touch]:
    """What the given host statements may change."""
    for statement in statements:
        for node in ast.walk(statement):
            match node:
                case ast.Attribute(ctx=ast.Store() | ast.Del()):
                    yield Touch(path_of(node), node, f"`{ast.unparse(node)}` is assigned")
                case ast.Subscript(ctx=ast.Store() | ast.Del()):
                    yield Touch(path_of(node), node, f"`{ast.unparse(node)}` is assigned")
                case ast.AugAssign(target=ast.Name(id=name)):
                    yield Touch((name,), node, f"`{name}` may be changed in place")
                case ast.Call():
                    yield from _call_touches(node, module, effects)


def _call_touches(call: ast.Call, module: SourceModule, effects: Effects) -> Iterator[Touch]:
    infer = effects.inference
    callee = infer.kind(call.func, module)
    written = ast.unparse(call.func)
    if isinstance(call.func, ast.Attribute) and call.func.attr in library.MUTATING_METHODS:
        receiver = infer.kind(call.func.value, module)
        if not isinstance(receiver, Array | Device) and not _is_update_of_array(call.func):
            yield Touch(path_of(call.func.value), call, f"`{written}(...)` changes it")
        return
    if _is_benign(callee, effects):
        return
    for value in [*call.args, *[k.value for k in call.keywords]]:
        for node in ast.walk(value):
            if isinstance(node, ast.Name) and not is_immutable(infer.kind(node, module), effects):
                yield Touch((node.id,), call, f"`{written}(...)` may change it")
    if isinstance(call.func, ast.Attribute):
        yield Touch(path_of(call.func.value), call, f"`{written}(...)` may change it")


def _is_update_of_array(func: ast.Attribute) -> bool:
    """`x.at[i].add(v)` makes a new array."""
    return isinstance(func.value, ast.Subscript) and getattr(func.value.value, "attr", "") == "at"


def _is_benign(callee: Kind, effects: Effects) -> bool:
    """Whether a call changes none of the objects that it is given."""
    match callee:
        case Routine(Function() as function):
            return not any("is changed" in h.what or h.reason == "unresolved-callee" or "changes an object" in h.what
                           for h in effects.of_function(function))
        case Routine(str() as name, None):
            return library.role(name) is not Role.UNKNOWN and not name.startswith("numpy.random.Generator")
        case Routine(str()):
            return True  # a method of an array or container that is not a mutating one
        case Transformed(base, _):
            return _is_benign(base, effects)
        case Instance(cls):
            return effects.inference.classes.is_module(cls)
    return False


def is_immutable(kind: Kind, effects: Effects) -> bool:
    """Whether nothing can change a value of this kind in place."""
    match kind:
        case Array() | Device() | Number() | Constant() | Routine() | Transformed():
            return True
        case Instance(cls):
            return effects.inference.classes.is_module(cls)
    return False
