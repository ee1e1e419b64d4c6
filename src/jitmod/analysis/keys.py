"""The order of dicts: jax sorts their keys where they enter a compiled function, and where they come out of one."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from jitmod.analysis import library
from jitmod.analysis.effects import Effects
from jitmod.analysis.hazards import Hazard, hazard
from jitmod.analysis.infer import Inference
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.ssa import Node
from jitmod.analysis.values import (
    Array,
    ClassRef,
    Constant,
    Instance,
    Kind,
    Mapping,
    Namespace,
    NdArray,
    Number,
    Range,
    Record,
    Routine,
    Transformed,
    item_of,
)
from jitmod.analysis.values import Sequence as ListOf
from jitmod.source.nodes import walk
from jitmod.source.project import Class, Function, SourceModule

_VIEWS = ("items", "keys", "values")
_WRAPPING = frozenset({"enumerate", "zip", "reversed", "list", "tuple", "iter", "map", "filter", "tqdm.tqdm",
                       "tqdm.auto.tqdm"})  # fmt: skip
_IN_ORDER = frozenset({"list", "tuple", "iter", "enumerate", "zip", "reversed", "map", "functools.reduce"})
_ANY_ORDER = frozenset({"sum", "max", "min", "any", "all", "set", "frozenset", "sorted", "dict", "len"})
_DICTS = frozenset({"dict", "Dict", "Mapping", "MutableMapping", "OrderedDict", "defaultdict", "PyTree", "Any"})
_SORTING = library.JITS | library.VMAPS | library.GRADS
_DEPTH = 4  # functions whose results are followed


def in_order(
    parts: Sequence[ast.AST], module: SourceModule, effects: Effects, sorted_already: AbstractSet[str] = frozenset()
) -> Iterator[Hazard]:
    """Where code, or a function of the project that it calls, goes through a dict that it did not make, in its order.

    The names `sorted_already` of the code itself hold dicts that came through a compiled function before. What that
    is compiled on its own goes through sees sorted keys with or without another boundary around it.
    """
    infer = effects.inference
    entered: set[Function] = set()
    todo: list[tuple[ast.AST, SourceModule, AbstractSet[str]]] = [(p, module, sorted_already) for p in parts]
    while todo:
        part, where, known = todo.pop(0)
        for node in walk(part):
            for found in _dicts_in_order(node, where, infer):
                root = next((n.id for n in walk(found) if isinstance(n, ast.Name)), "")
                if root not in known and not _is_own(found, where, infer):
                    what = f"`{ast.unparse(found)}` is gone through in its order, and jax sorts the keys of dicts"
                    yield hazard("key-order", node if hasattr(node, "lineno") else found, where, what)
            if isinstance(node, ast.Call):
                for function in _called(node, where, effects):
                    if function not in entered:
                        entered.add(function)
                        body = function.node.body
                        inner = [body] if isinstance(body, ast.expr) else body
                        todo += [(statement, function.module, frozenset()) for statement in inner]


def _called(call: ast.Call, module: SourceModule, effects: Effects) -> Iterator[Function]:
    """The functions of the project that a call runs itself, or hands on, and that are not compiled on their own."""
    for value in (call.func, *call.args, *[k.value for k in call.keywords]):
        kind = effects.inference.kind(value, module)
        callable_ = value is call.func or isinstance(kind, Routine | Transformed)
        if callable_ and not (isinstance(kind, Transformed) and kind.transform in library.JITS):
            yield from (one for one in effects.calling(kind, call, module) if isinstance(one, Function))


def _dicts_in_order(node: ast.AST, module: SourceModule, infer: Inference) -> Iterator[ast.expr]:
    """The dicts whose order the result of `node` itself depends on."""
    match node:
        case ast.For(iter=iterable) if not _fills_by_key(node):
            yield from _dicts(iterable, module, infer)
        case ast.ListComp(generators=generators) | ast.GeneratorExp(generators=generators):
            parent = module.parents[node]
            name = infer.dotted(parent.func, module) if isinstance(parent, ast.Call) else None
            if name not in _ANY_ORDER:
                for generator in generators:
                    yield from _dicts(generator.iter, module, infer)
        case ast.Call(func=func, args=args) if infer.dotted(func, module) in _IN_ORDER:
            for arg in args:
                yield from _dicts(arg, module, infer)
        case ast.Starred(value=value, ctx=ast.Load()):
            yield from _dicts(value, module, infer)
        case ast.Call(func=ast.Attribute(value=base, attr=attr), args=[], keywords=[]) if attr in _VIEWS:
            if not _is_read_elsewhere(node, module, infer):
                yield base  # `first, second = layers.values()`, `run(layers.values())`
        case ast.Assign(targets=[ast.Tuple() | ast.List()], value=value) if not isinstance(value, ast.Call):
            yield from _dicts(value, module, infer)


def _is_read_elsewhere(view: ast.Call, module: SourceModule, infer: Inference) -> bool:
    """Whether the order of a view does not matter, or what reads the view is looked at itself."""
    parent = module.parents[view]
    if isinstance(parent, ast.For | ast.comprehension | ast.Starred | ast.Compare):
        return True
    name = infer.dotted(parent.func, module) if isinstance(parent, ast.Call) else None
    return name in _ANY_ORDER | _IN_ORDER | _WRAPPING


def _fills_by_key(loop: ast.For) -> bool:
    """`for k, v in d.items(): new[k] = f(v)`: what a dict gets does not depend on the order in which it gets it."""
    targets = {n.id for n in walk(loop.target) if isinstance(n, ast.Name)}
    for statement in loop.body:
        match statement:
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=filled), slice=ast.Name(id=key))], value=value):
                if key not in targets or any(isinstance(n, ast.Name) and n.id == filled for n in walk(value)):
                    return False
            case _:
                return False
    return True


def _dicts(iterable: ast.expr, module: SourceModule, infer: Inference) -> Iterator[ast.expr]:
    match iterable:
        case ast.Call(func=ast.Attribute(value=base, attr=attr), args=[], keywords=[]) if attr in _VIEWS:
            yield base
        case ast.Call(func=func, args=args) if infer.dotted(func, module) in _WRAPPING:
            for arg in args:
                yield from _dicts(arg, module, infer)
        case _ if isinstance(infer.kind(iterable, module), Mapping):
            yield iterable


def _is_own(base: ast.expr, module: SourceModule, infer: Inference) -> bool:
    """Whether a dict is never passed: made where it is read, one of the module or of a class, or of named arguments."""
    match base:
        case ast.Name(id=name):
            if infer.comprehension_binding(name, base, module) is not None:
                return False
            scope = module.scope_of(base).find(name)
            if scope is None or scope.parent is None:
                return True
            function = module.functions.get(scope.node)
            named = function.node.args.kwarg if function is not None else None
            return all(
                b.node is named
                or (b.how == "assign" and isinstance(b.value, ast.Dict))
                or (isinstance(b.value, ast.Call) and infer.dotted(b.value.func, module) == "dict" and not b.value.args)
                for b in scope.bindings[name]
            )
        case ast.Attribute(value=value):
            return isinstance(infer.kind(value, module), ClassRef | Namespace)
        case ast.Dict():
            return True
    return False


def check_order(
    kinds: Sequence[Kind], parts: Sequence[ast.AST], module: SourceModule, effects: Effects,
    sorted_already: AbstractSet[str] = frozenset(),
) -> None:  # fmt: skip
    """Raises `Unplannable` where code that gets values of these kinds as arguments from now on would see other keys."""
    if any(may_hold_dicts(kind, effects.inference) for kind in kinds):
        for found in in_order(parts, module, effects, sorted_already):
            raise Unplannable(found.reason, parts[0], f"{found.what} ({found.path}:{found.line})")


def check_nodes(nodes: Sequence[Node], module: SourceModule, effects: Effects) -> None:
    """As `check_order`, of the computations of a loop that move into a compiled function."""
    kinds = [value.kind for node in nodes for value in node.uses.values()]
    parts = [node.statement if node.whole else node.expr for node in nodes]
    check_order(kinds, [part for part in parts if part is not None], module, effects)


def may_hold_dicts(kind: Kind, infer: Inference, seen: frozenset[Class] = frozenset()) -> bool:
    """Whether a value may be, or hold, a dict whose keys jax would sort."""
    match kind:
        case Array() | NdArray() | Number() | Constant() | Routine() | Transformed() | Range() | Instance(str()):
            return False
        case ListOf(item):
            return may_hold_dicts(item, infer, seen)
        case Record(items):
            return any(may_hold_dicts(item, infer, seen) for item in items)
        case Instance(Class() as cls) if infer.classes.is_tree(cls):
            return cls not in seen and any(
                _names_dict(annotation) or may_hold_dicts(infer.classes.field(c, name), infer, seen | {cls})
                for c in infer.classes.lineage(cls)
                for name, annotation in _fields(c)
            )
    return True


def _fields(cls: Class) -> Iterator[tuple[str, ast.expr]]:
    for statement in cls.node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, statement.annotation


def _names_dict(annotation: ast.expr) -> bool:
    words = {getattr(n, "id", getattr(n, "attr", "")) for n in walk(annotation)}
    texts = [n.value for n in walk(annotation) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return bool(words & _DICTS) or any(word in text for text in texts for word in _DICTS)


def keeps_order(expr: ast.expr, module: SourceModule, infer: Inference, depth: int = _DEPTH) -> bool:
    """Whether a value has its keys in the order in which it would come out of a compiled function: sorted ones."""
    match expr:
        case ast.Dict(keys=keys, values=values):
            names = [k.value for k in keys if isinstance(k, ast.Constant) and isinstance(k.value, str)]
            plain = len(names) == len(keys) and names == sorted(names)
            return plain and all(keeps_order(v, module, infer, depth) for v in values)
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            return all(keeps_order(element, module, infer, depth) for element in elts)
        case ast.IfExp(body=body, orelse=orelse):
            return all(keeps_order(e, module, infer, depth) for e in (body, orelse))
        case ast.Call(func=func):
            kind = infer.kind(func, module)
            target = infer.target(kind)
            if not isinstance(target, Function) or (isinstance(kind, Transformed) and kind.transform in _SORTING):
                return True  # jax, equinox and optax hand back what they have sorted
            found = _results(target)
            return depth > 0 and all(keeps_order(result, target.module, infer, depth - 1) for result in found)
        case ast.Name(id=name):
            scope = module.scope_of(expr).find(name)
            bindings = scope.bindings[name] if scope is not None else []
            made = [b.value for b in bindings if isinstance(b.value, ast.Dict | ast.Tuple | ast.Call)]
            if made and len(made) == len(bindings) and depth > 0:
                return all(keeps_order(v, module, infer, depth - 1) for v in made)
    kind = infer.kind(expr, module)
    held = item_of(kind) if isinstance(kind, ListOf | Record) else kind
    return not isinstance(held, Mapping)


def _results(function: Function) -> list[ast.expr]:
    if isinstance(function.node, ast.Lambda):
        return [function.node.body]
    return [n.value for n in function.returns if n.value is not None]
