"""Progress bars: objects that hand out the items of what they wrap, one by one and as they are.

Those of libraries are known by name. A class of the project is one where its `__iter__` shows it: what else the class
does is a question of effects, not of items.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jitmod.analysis import library
from jitmod.analysis.reaching import reaching
from jitmod.analysis.values import ClassRef, Kind, Routine
from jitmod.source.nodes import walk
from jitmod.source.project import Class, Function, SourceModule
from jitmod.source.scopes import Scope
from jitmod.source.signatures import argument, is_static

if TYPE_CHECKING:
    from jitmod.analysis.infer import Inference


def wrapped(iterable: ast.expr, module: SourceModule, infer: Inference) -> ast.expr | None:
    """The expression whose items `iterable` hands out, where it is a progress bar, or the name of one."""
    match iterable:
        case ast.Call():
            return _given(iterable, module, infer)
        case ast.Name(id=name):
            scope = infer.scope_binding(name, iterable, module)
            bindings = reaching(name, iterable, scope) if scope is not None else []
            match bindings:
                case [only] if only.how == "assign" and isinstance(only.value, ast.Call) and not only.path:
                    inner = _given(only.value, module, infer)
                    return inner if inner is not None and _lasts(inner, scope, module, infer) else None
    return None


def _given(call: ast.Call, module: SourceModule, infer: Inference) -> ast.expr | None:
    """What a call that makes a progress bar is given to wrap."""
    if infer.dotted(call.func, module) in library.TRACKERS:
        plain = call.args and not isinstance(call.args[0], ast.Starred)
        return call.args[0] if plain else None
    match infer.kind(call.func, module):
        case Routine(str() as name) if name in library.TRACKERS and call.args:
            return call.args[0]
        case ClassRef(Class() as cls) if (parameter := handed_out(cls, infer)) is not None:
            found = argument(cls.methods["__init__"], call, parameter)
            return found if found in [*call.args, *[k.value for k in call.keywords]] else None
        case Routine(Function() as function, None):
            return argument(function, call, passed) if (passed := _passed_through(function)) is not None else None
    return None


def _passed_through(function: Function) -> str | None:
    """The parameter that a function returns as it is, where that is all it does: a stand-in for a bar."""
    node = function.node
    body = [ast.Return(node.body)] if isinstance(node, ast.Lambda) else node.body
    if function.decorators or isinstance(node, ast.AsyncFunctionDef):
        return None
    match [s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]:
        case [ast.Return(value=ast.Name(id=name))] if name in [p.arg for p in function.parameters]:
            starred = [p.arg for p in (node.args.vararg, node.args.kwarg) if p is not None]
            return name if name not in starred else None
    return None


def _lasts(expr: ast.expr, scope: Scope | None, module: SourceModule, infer: Inference) -> bool:
    """Whether an expression means the same object at the loop as where the bar was made: a name that is bound once."""
    if not isinstance(expr, ast.Name):
        return False
    held = infer.scope_binding(expr.id, expr, module)
    rebound = any(expr.id in other.rebinds for other in module.scopes.values())
    return held is not None and held is scope and len(held.bindings[expr.id]) == 1 and not rebound


def stand_in(kinds: Sequence[Kind]) -> Kind | None:
    """The project's own class or function, where a name means it or, if it can be imported, a library's bar."""
    bars = [k for k in kinds if isinstance(k, Routine) and k.target in library.TRACKERS]
    own = [k for k in kinds if isinstance(getattr(k, "cls", getattr(k, "target", None)), Class | Function)]
    return own[0] if bars and len(own) == 1 and len(own) + len(bars) == len(kinds) else None


def handed_out(cls: Class, infer: Inference) -> str | None:
    """The parameter of `__init__` whose items iterating over an object of the class gives; None if that is unsure."""
    odd = {"__next__", "__new__", "__getattr__", "__getattribute__", "__setattr__", "__init_subclass__"}
    init, gives = cls.methods.get("__init__"), cls.methods.get("__iter__")
    if init is None or gives is None or cls.node.bases or cls.node.keywords or cls.node.decorator_list:
        return None
    if odd & set(cls.methods) or init.decorators or gives.decorators or len(cls.scope.bindings["__iter__"]) != 1:
        return None
    field = _iterated_field(gives)
    if field is None or field in cls.scope.bindings or _is_assigned_elsewhere(cls, field, infer):
        return None
    return _stored_parameter(init, field)


def _iterated_field(gives: Function) -> str | None:
    """The field that an `__iter__` gives the items of: `for item in self.field: yield item`, whatever else it does."""
    assert not isinstance(gives.node, ast.Lambda)
    this = gives.parameters[0].arg if len(gives.parameters) == 1 else ""
    leaves = ast.Return | ast.Break | ast.Continue | ast.Try | ast.YieldFrom | ast.Raise
    nodes = list(walk(gives.node))
    yields = [n for n in nodes if isinstance(n, ast.Yield)]
    loops = [s for s in gives.node.body if isinstance(s, ast.For)]
    if len(yields) != 1 or len(loops) != 1 or any(isinstance(n, leaves) for n in nodes):
        return None
    match loops[0]:
        case ast.For(target=ast.Name(id=item), iter=ast.Attribute(value=ast.Name(id=holder), attr=field), orelse=[]):
            direct = any(isinstance(s, ast.Expr) and s.value is yields[0] for s in loops[0].body)
            value = yields[0].value
            same = isinstance(value, ast.Name) and value.id == item and len(gives.scope.bindings[item]) == 1
            return field if direct and same and holder == this else None
    return None


def _is_assigned_elsewhere(cls: Class, field: str, infer: Inference) -> bool:
    """Whether anything but the class's `__init__` assigns an attribute of this name, or may.

    What a method of another class assigns to its own object is none of this one's.
    """
    init = set(walk(cls.methods["__init__"].node))
    for module in infer.project.by_path.values():
        for node in walk(module.document.tree):
            match node:
                case ast.Attribute(attr=attr, ctx=ast.Store() | ast.Del()) if attr == field and node not in init:
                    function = module.functions.get(module.scope_of(node).node)
                    other = function is not None and function.owner not in (None, cls) and not is_static(function)
                    own = function.parameters[0].arg if other and function is not None and function.parameters else ""
                    if not (isinstance(node.value, ast.Name) and node.value.id == own):
                        return True
                case ast.Call(func=ast.Name(id="setattr" | "delattr")):
                    return True
    return False


def _stored_parameter(init: Function, field: str) -> str | None:
    """The parameter that an `__init__` stores in a field, once, always, and as it is."""
    assert not isinstance(init.node, ast.Lambda)
    stores = [n for n in walk(init.node) if isinstance(n, ast.Attribute) and n.attr == field
              and isinstance(n.ctx, ast.Store)]  # fmt: skip
    this = init.parameters[0].arg
    for statement in init.node.body:
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                pairs = list(zip(targets, values, strict=False))
            case ast.Assign(targets=[target], value=value):
                pairs = [(target, value)]
            case _:
                continue
        for target, value in pairs:
            match target, value:
                case ast.Attribute(value=ast.Name(id=holder)), ast.Name(id=name) if target in stores:
                    known = name in [p.arg for p in init.parameters[1:]] and len(init.scope.bindings[name]) == 1
                    return name if holder == this and len(stores) == 1 and known else None
    return None
