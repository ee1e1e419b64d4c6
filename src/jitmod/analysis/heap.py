"""Alias and escape: what a host statement may change, and whether the map piece reads it.

Names say little about identity: two parameters may be one list, and a view shares its array. So a change of anything
but a container made in this very function counts against everything mutable that is read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from jitmod.analysis import library
from jitmod.analysis.contents import holds_immutables, is_immutable, own_container
from jitmod.analysis.effects import Effects
from jitmod.analysis.library import Role
from jitmod.analysis.reaching import reaching
from jitmod.analysis.syntax import below
from jitmod.analysis.values import (
    Array,
    ClassRef,
    Device,
    Instance,
    Kind,
    Mapping,
    NdArray,
    Record,
    Routine,
    Sequence,
    Transformed,
    item_of,
)
from jitmod.analysis.values import Iterator as LazyIterator
from jitmod.source.nodes import walk
from jitmod.source.project import Class, Function, SourceModule
from jitmod.source.signatures import is_static

Path = tuple[str, ...]


@dataclass(frozen=True)
class Read:
    """The map piece reads the object at `path`: a name, then attributes.

    `mutable`: the object can be changed in place; `alias`: it may have another name in the function too. A path with
    attributes can also be bound anew.
    """

    path: Path
    mutable: bool
    alias: bool = False


@dataclass(frozen=True)
class Touch:
    """A host statement may change something.

    `how`: attribute (binds `name` anew on some object), content, append (content, in every iteration), or anything.

    `owner` is the local container that is changed, where it is known to be nobody else's.
    """

    how: str
    node: ast.AST
    what: str
    name: str = ""
    owner: str = ""

    def hits(self, read: Read) -> bool:
        """Whether what is read may be changed."""
        match self.how:
            case "attribute":
                return self.name in read.path[1:]
            case "content" | "append":
                return read.mutable and (not self.owner or self.owner == read.path[0] or read.alias)
        return read.mutable or len(read.path) > 1


def path_of(expr: ast.expr) -> Path:
    """The name and attributes that lead to an object; subscripts and calls end at their base."""
    match expr:
        case ast.Name(id=name):
            return (name,)
        case ast.Attribute(value=value, attr=attr):
            base = path_of(value)
            plain = isinstance(value, ast.Name | ast.Attribute)
            return (*base, attr) if base and plain else base
        case ast.Subscript(value=value) | ast.Starred(value=value):
            return path_of(value)
        case ast.Call(func=ast.Attribute(value=value)):
            return path_of(value)
    return ()


def touches(
    root: ast.AST, module: SourceModule, effects: Effects, apart: AbstractSet[ast.AST] = frozenset()
) -> Iterator[Touch]:
    """What evaluating `root` may change; what is below the nodes in `apart` is evaluated elsewhere."""
    for node in below(root, apart):
        match node:
            case ast.Attribute(attr=attr, ctx=ast.Store() | ast.Del()):
                yield Touch("attribute", node, f"`{ast.unparse(node)}` is assigned", attr)
                if isinstance(effects.inference.kind(node.value, module), NdArray):  # `x.flat = 0`
                    yield Touch("content", node, f"assigning `{ast.unparse(node)}` changes the array")
                if effects.inference.classes.is_property(node, module):
                    yield Touch("anything", node, f"assigning `{ast.unparse(node)}` runs a setter")
            case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
                what = f"`{ast.unparse(node)}` is assigned"
                yield Touch("content", node, what, owner=own_container(value, module, effects))
            case ast.AugAssign(target=ast.Subscript() as target):
                kind = effects.inference.kind(target, module)
                if not (is_immutable(kind, effects) or holds_immutables(target.value, module, effects)):
                    yield Touch("content", node, f"`{ast.unparse(target)}` may be changed in place")
            case ast.AugAssign(target=ast.Name() | ast.Attribute() as target):
                if not _holds_immutable(target, module, effects):
                    what = f"`{ast.unparse(target)}` may be changed in place"
                    yield Touch("content", node, what, owner=own_container(target, module, effects))
            case ast.Call():
                yield from _call_touches(node, root, module, effects)
        if isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
            yield from _by_use(node, module, effects)


def _by_use(node: ast.expr, module: SourceModule, effects: Effects) -> Iterator[Touch]:
    """What merely using a value may change: properties and operators of the project's classes run code."""
    infer = effects.inference
    what = f"using `{ast.unparse(node)}` may change it"
    if isinstance(node, ast.Attribute) and infer.classes.is_property(node, module):
        yield Touch("anything", node, what)
        return
    kind = infer.kind(node, module)
    if isinstance(kind, LazyIterator) and not isinstance(node, ast.Call):
        yield Touch("anything", node, what)  # its next item may be made by code that changes anything
    if not isinstance(kind, Instance) or isinstance(kind.cls, str) or infer.classes.is_module(kind.cls):
        return
    hidden = [m for c in infer.classes.lineage(kind.cls) for n, m in c.methods.items() if n.startswith("__")]
    setup = ("__init__", "__post_init__", "__new__", "__init_subclass__", "__call__", "__enter__", "__exit__")
    for method in hidden:
        if getattr(method.node, "name", "") not in setup:
            yield from _of_method(method, node, what, effects)


def _of_method(method: Function, node: ast.expr, what: str, effects: Effects) -> Iterator[Touch]:
    """What a method changes, as far as its object's own attributes are all of it."""
    changed = own_changes(method, effects)
    if changed is None:
        yield Touch("anything", node, what)
    else:
        yield from (Touch("attribute", node, what, name) for name in sorted(changed))


def changes_nothing(function: Function, effects: Effects) -> bool:
    """Whether calling a function changes no object that existed before, text and files aside."""
    return own_changes(function, effects) == frozenset()


def own_changes(function: Function, effects: Effects) -> frozenset[str] | None:
    """The attributes of its object that a method binds anew; None where it may change anything else, text aside."""
    known, provisional, active = effects.changed, effects.changed_so_far, effects.changing
    if function in known:
        return known[function]
    if function in active or function in provisional:
        effects.changes_cut += 1
        return provisional.get(function, frozenset())  # a recursive call adds nothing
    before = effects.changes_cut
    active.add(function)
    found = _own_changes(function, effects) if effects.of_function(function) else frozenset()
    active.discard(function)
    if found is None or effects.changes_cut == before or not active:
        known[function] = found
    else:
        provisional[function] = found  # complete only together with what is being answered further out
    if not active:
        provisional.clear()
    return found


def _own_changes(function: Function, effects: Effects) -> frozenset[str] | None:
    method = function.owner is not None and function.parameters and not is_static(function)
    receiver = function.parameters[0].arg if method else ""
    mine = receiver and len(function.scope.bindings[receiver]) == 1
    body = [function.node.body] if isinstance(function.node, ast.Lambda) else function.node.body
    forbidden = ast.Global | ast.Nonlocal
    if getattr(function.node, "name", "") != "__iter__":  # runs whenever its object is used, as far as anybody knows
        forbidden |= ast.Yield | ast.YieldFrom
    if any(isinstance(n, forbidden) for part in body for n in walk(part)):
        return None
    names: set[str] = set()
    for touch in (t for part in body for t in touches(part, function.module, effects)):
        if touch.owner:
            continue
        if touch.how != "attribute" or not mine or _holder(touch.node) != receiver:
            return None
        names.add(touch.name)
    return frozenset(names)


def _holder(node: ast.AST) -> str:
    """The name whose attribute is bound, or whose method is called."""
    match node:
        case ast.Attribute(value=ast.Name(id=name)) | ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
            return name
        case ast.Name(id=name):
            return name
    return ""


def _call_touches(call: ast.Call, statement: ast.AST, module: SourceModule, effects: Effects) -> Iterator[Touch]:
    infer = effects.inference
    callee = infer.kind(call.func, module)
    written = ast.unparse(call.func)
    if isinstance(call.func, ast.Attribute) and call.func.attr in library.MUTATING_METHODS:
        receiver = infer.kind(call.func.value, module)
        own = isinstance(callee, Routine) and isinstance(callee.target, Function)
        kept = isinstance(receiver, Array | Device) or receiver == library.TEXT_STREAM
        if not (kept or own) and not _is_update_of_array(call.func):
            owner = own_container(call.func.value, module, effects)
            always = isinstance(statement, ast.Expr) and statement.value is call and call.func.attr == "append"
            how = "append" if always else "content"
            yield Touch(how, call, f"`{written}(...)` changes it", owner=owner)
        if not own:
            return
    if isinstance(call.func, ast.Attribute) and _is_update_of_array(call.func) and call.func.attr != "apply":
        return
    given = [infer.kind(v, module) for v in [*call.args, *[k.value for k in call.keywords]]]
    runs = any(isinstance(k, Routine | Transformed) and not _is_benign(k, effects) for k in given)
    what = f"`{written}(...)` may change it"
    if runs or _writes_argument(call, callee):
        yield Touch("anything", call, what)
        return
    match callee:
        case Routine(Function() as method, Instance(Class() as cls)) if not infer.classes.is_module(cls):
            name = getattr(method.node, "name", "")
            others = [c.methods[name] for c in infer.classes.subclasses(cls) if name in c.methods]
            for one in (method, *others):
                yield from _of_method(one, call, what, effects)
        case _ if not _is_benign(callee, effects):
            yield Touch("anything", call, what)


def _writes_argument(call: ast.Call, callee: Kind) -> bool:
    """`np.add(a, b, out=c)`, also with `c` in third place."""
    if any(k.arg == "out" for k in call.keywords):
        return True
    name = callee.target if isinstance(callee, Routine) and isinstance(callee.target, str) else ""
    function = getattr(np, name.removeprefix("numpy."), None) if name.startswith("numpy.") else None
    return isinstance(function, np.ufunc) and len(call.args) > function.nin


def _is_update_of_array(func: ast.Attribute) -> bool:
    """`x.at[i].add(v)` makes a new array."""
    return isinstance(func.value, ast.Subscript) and getattr(func.value.value, "attr", "") == "at"


def _is_benign(callee: Kind, effects: Effects) -> bool:
    """Whether a call changes nothing that existed before it, but for text, files and the like."""
    match callee:
        case Routine(Function() as function):
            return changes_nothing(function, effects)
        case Routine(str() as name, None):
            in_place = name in library.IN_PLACE or name.startswith(("operator.i", "operator.set", "operator.del"))
            return library.role(name) is not Role.UNKNOWN and not in_place
        case Routine(str() as name):
            return not name.startswith("array.") or name.partition(".")[2] in (
                library.ARRAY_ONLY_METHODS | library.PULL_METHODS
            )
        case Transformed(base, _):
            return _is_benign(base, effects)
        case Instance(cls):
            target = effects.inference.target(callee)
            clean = not isinstance(target, Function) or changes_nothing(target, effects)
            return effects.inference.classes.is_module(cls) and clean
        case ClassRef(str() as name):
            return library.is_module_class(name)
        case ClassRef(Class() as cls) if not (cls.node.bases or cls.node.keywords or cls.node.decorator_list):
            init = cls.methods.get("__init__")
            return "__new__" not in cls.methods and (init is None or own_changes(init, effects) is not None)
    return False


def _holds_immutable(target: ast.Name | ast.Attribute, module: SourceModule, effects: Effects) -> bool:
    """Whether nothing can change what a name or attribute holds in place, whichever of its values that is here."""
    if is_immutable(effects.inference.kind(target, module), effects):
        return True
    scope = effects.inference.scope_binding(target.id, target, module) if isinstance(target, ast.Name) else None
    found = reaching(target.id, target, scope) if scope is not None and isinstance(target, ast.Name) else []
    return bool(found) and all(is_immutable(effects.inference.bound(b, module), effects) for b in found)


def holds_mutable(kind: Kind, effects: Effects, depth: int = 4) -> bool:
    """Whether a Module has a field that can be changed in place: a numpy array, a list or dict of no Modules."""
    if isinstance(kind, Instance) and effects.held.may_hold_ndarrays and effects.inference.classes.is_module(kind.cls):
        return True
    if not isinstance(kind, Instance) or isinstance(kind.cls, str) or depth == 0:
        return False
    classes = effects.inference.classes
    for cls in classes.lineage(kind.cls):
        for name in classes.declared(cls):
            held = classes.field(kind.cls, name)
            inner = item_of(held) if isinstance(held, Sequence | Record) else held
            inner = held.value if isinstance(held, Mapping) else inner
            container = isinstance(held, NdArray | Sequence | Record | Mapping)
            if container and not isinstance(inner, Instance | Routine | Transformed):
                return True
            if holds_mutable(inner, effects, depth - 1):
                return True
    return False


def holds_objects(kind: Kind, effects: Effects) -> bool:
    """Whether a container may hold objects that can be changed under another name."""
    match kind:
        case Sequence(item) | Mapping(item):
            return not is_immutable(item, effects)
        case Record(items):
            return not all(is_immutable(item, effects) for item in items)
    return False
