"""Numbers inside of arguments (items of tuples, entries of dicts, fields of Modules), and where they are read."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from jitmod.analysis.infer import Inference
from jitmod.analysis.reaching import reaching, reads_of_binding, reads_of_parameter
from jitmod.analysis.values import UNKNOWN, Array, ClassRef, Device, Instance, Routine
from jitmod.source.project import Class, Function, SourceModule
from jitmod.source.signatures import argument, is_property, is_static

_OWN_WAYS = ("__init__", "__post_init__", "__check_init__", "__getattr__", "__getattribute__")
_PLAIN_BASES = frozenset({"equinox.Module", "typing.Generic", "abc.ABC"})
Read = tuple[ast.expr, SourceModule]


@dataclass(frozen=True)
class Step:
    """One step into a value: `how` is item (of a tuple or list), key (of a dict) or field (of a Module)."""

    how: str
    name: int | str


@dataclass(frozen=True, eq=False)
class Inner:
    """An expression that is part of what is passed; `path` leads to it."""

    value: ast.expr
    path: tuple[Step, ...]


def inner_values(given: ast.expr, module: SourceModule, infer: Inference) -> Iterator[Inner]:
    """The parts of an argument that are written where it is passed, or where its only name is bound."""
    match given:
        case ast.Tuple(elts=elts) | ast.List(elts=elts) if not any(isinstance(e, ast.Starred) for e in elts):
            yield from _parts(((Step("item", i), e) for i, e in enumerate(elts)), module, infer)
        case ast.Dict(keys=keys, values=values):
            named = [(k.value, v) for k, v in zip(keys, values, strict=True) if isinstance(k, ast.Constant)]
            if len(named) == len(keys):
                yield from _parts(((Step("key", k), v) for k, v in named if isinstance(k, str | int)), module, infer)
        case ast.Call(func=func, args=args, keywords=keywords):
            if infer.dotted(func, module) == "equinox.tree_at":
                yield from _replaced(given, module, infer)
                return
            kind = infer.kind(func, module)
            if isinstance(kind, ClassRef) and isinstance(kind.cls, Class) and _is_plain(kind.cls, infer):
                order = [n for c in reversed(infer.classes.lineage(kind.cls)) for n in infer.classes.declared(c)]
                named_fields = [*zip(order, args, strict=False), *[(k.arg or "", k.value) for k in keywords]]
                yield from _parts(((Step("field", n), v) for n, v in named_fields), module, infer)
        case ast.Name(id=name):
            scope = infer.scope_binding(name, given, module)
            bindings = reaching(name, given, scope) if scope is not None else []
            function = module.functions.get(scope.node) if scope is not None else None
            if len(bindings) != 1 or function is None or bindings[0].how != "assign" or bindings[0].path:
                return
            (binding,) = bindings
            alone = list(reads_of_binding(name, binding.node, function)) == [given]
            if alone and isinstance(binding.value, ast.Call | ast.Tuple | ast.Dict):
                yield from inner_values(binding.value, module, infer)


def _parts(parts: Iterable[tuple[Step, ast.expr]], module: SourceModule, infer: Inference) -> Iterator[Inner]:
    for step, value in parts:
        yield Inner(value, (step,))
        if not isinstance(value, ast.Name):
            yield from (Inner(i.value, (step, *i.path)) for i in inner_values(value, module, infer))


def _replaced(call: ast.Call, module: SourceModule, infer: Inference) -> Iterator[Inner]:
    """`eqx.tree_at(lambda m: m.field, model, value)`."""
    match call:
        case ast.Call(args=[ast.Lambda(body=body) as where, model, value], keywords=[]):
            path: list[Step] = []
            while isinstance(body, ast.Attribute):
                path.insert(0, Step("field", body.attr))
                body = body.value
            own = [p.arg for p in where.args.args]
            kind = infer.kind(model, module)
            known = isinstance(kind, Instance) and isinstance(kind.cls, Class)
            if path and isinstance(body, ast.Name) and own == [body.id] and known:
                yield Inner(value, tuple(path))


def _is_plain(cls: Class, infer: Inference) -> bool:
    """Whether a Module's fields hold what its call is given, unchanged."""
    if not infer.classes.is_module(cls) or cls.node.decorator_list or infer.classes.subclasses(cls):
        return False
    if any(infer.classes.method(cls, name) is not None for name in _OWN_WAYS):
        return False
    above = {base for c in infer.classes.lineage(cls) for base in infer.classes.bases(c) if isinstance(base, str)}
    if not above <= _PLAIN_BASES:
        return False
    bodies = [s for c in infer.classes.lineage(cls) for s in c.node.body]
    return not any(isinstance(s, ast.AnnAssign) and isinstance(s.value, ast.Call) for s in bodies)  # `eqx.field(...)`


@dataclass(eq=False)
class InnerReads:
    """Finds where a compiled function reads a part of a parameter, as long as nothing else is done with the whole."""

    inference: Inference
    given: frozenset[ast.arg] = frozenset()  # the parameters of the compiled function itself that get arrays
    _traced: set[ast.arg] = field(default_factory=set)
    _others: set[ast.arg] = field(default_factory=set)
    _entered: set[tuple[Function, str, tuple[Step, ...]]] = field(default_factory=set)

    @property
    def traced(self) -> frozenset[ast.arg]:
        """The parameters on the way that all calls give arrays."""
        return frozenset(self._traced - self._others)

    def of_parameter(self, function: Function, name: str, path: tuple[Step, ...]) -> list[Read] | None:
        """The reads; None where the whole goes where they cannot be followed, such as back to the caller."""
        key = (function, name, path)
        if key in self._entered:
            return []
        self._entered.add(key)
        if len(function.scope.bindings.get(name, ())) != 1:
            return None
        return self._all((r, path, function) for r in reads_of_parameter(function, name))

    def _all(self, uses: Iterable[tuple[ast.expr, tuple[Step, ...], Function]]) -> list[Read] | None:
        found: list[Read] = []
        for expr, path, function in uses:
            reads = self._of_use(expr, path, function)
            if reads is None:
                return None
            found += reads
        return found

    def _of_use(self, expr: ast.expr, path: tuple[Step, ...], function: Function) -> list[Read] | None:
        module = function.module
        if not path:
            return [(expr, module)]
        step, rest = path[0], path[1:]
        parent = module.parents[expr]
        match parent:
            case ast.Attribute(attr=attr) if step.how == "field":
                return self._of_attribute(parent, attr, path, function)
            case ast.Subscript(slice=ast.Constant(value=index)) if step.how in ("item", "key"):
                if isinstance(index, int) and index < 0:
                    return None
                return self._of_use(parent, rest, function) if index == step.name else []
            case ast.Assign(targets=[ast.Tuple(elts=elts)]) if step.how == "item":
                names = [e.id for e in elts if isinstance(e, ast.Name)]
                if len(names) != len(elts) or not isinstance(step.name, int) or step.name >= len(names):
                    return None
                reads = reads_of_binding(names[step.name], parent, function)
                return self._all((r, rest, function) for r in reads)
            case ast.Assign(targets=[ast.Name(id=name)]):
                return self._all((r, path, function) for r in reads_of_binding(name, parent, function))
            case ast.Call(func=func) if func is expr and step.how == "field":
                return self._of_method(expr, "__call__", path, module, parent)
            case ast.Call(args=[first]) if first is expr and self.inference.dotted(parent.func, module) == "jax.vmap":
                return self._of_method(expr, "__call__", path, module, _call_of(parent, module))
            case ast.Call() | ast.keyword():
                return self._of_argument(expr, parent, path, module)
        return None

    def _of_attribute(
        self, node: ast.Attribute, attr: str, path: tuple[Step, ...], function: Function
    ) -> list[Read] | None:
        module = function.module
        kind = self.inference.kind(node.value, module)
        if not isinstance(kind, Instance) or not isinstance(kind.cls, Class) or not isinstance(node.ctx, ast.Load):
            return None
        method = self.inference.classes.method(kind.cls, attr)
        if method is None:
            return self._of_use(node, path[1:], function) if attr == path[0].name else []
        called = module.parents[node]
        call = called if isinstance(called, ast.Call) and called.func is node else None
        runs = call is not None or any(is_property(d) for d in method.decorators)
        return self._of_method(node.value, attr, path, module, call) if runs else None

    def _of_method(
        self, holder: ast.expr, name: str, path: tuple[Step, ...], module: SourceModule, call: ast.Call | None
    ) -> list[Read] | None:
        """What a method reads through `self`."""
        kind = self.inference.kind(holder, module)
        if not isinstance(kind, Instance) or not isinstance(kind.cls, Class):
            return None
        method = self.inference.classes.method(kind.cls, name)
        overridden = any(name in c.methods for c in self.inference.classes.subclasses(kind.cls))
        if method is None or overridden or is_static(method) or not method.parameters:
            return None
        if call is not None:
            self._note(method, call, module)
        return self.of_parameter(method, method.parameters[0].arg, path)

    def _of_argument(
        self, expr: ast.expr, parent: ast.Call | ast.keyword, path: tuple[Step, ...], module: SourceModule
    ) -> list[Read] | None:
        call = parent if isinstance(parent, ast.Call) else module.parents[parent]
        kind = self.inference.kind(call.func, module) if isinstance(call, ast.Call) else None
        if not isinstance(kind, Routine) or not isinstance(kind.target, Function) or not isinstance(call, ast.Call):
            return None
        function = kind.target
        name = next((p.arg for p in function.parameters if argument(function, call, p.arg) is expr), None)
        several = [p.arg for p in (function.node.args.vararg, function.node.args.kwarg) if p is not None]
        if name is None or name in several:
            return None
        self._note(function, call, module)
        return self.of_parameter(function, name, path)

    def _note(self, function: Function, call: ast.Call, module: SourceModule) -> None:
        """Which parameters a call on the way gives arrays."""
        for parameter in function.parameters:
            value = argument(function, call, parameter.arg)
            if value is not None:
                kind = self.inference.kind(value, module)
                passed = kind == UNKNOWN and isinstance(value, ast.Name) and self._is_traced(value, module)
                arrays = isinstance(kind, Array | Device) or passed
                (self._traced if arrays else self._others).add(parameter)

    def _is_traced(self, name: ast.Name, module: SourceModule) -> bool:
        scope = module.scope_of(name).find(name.id)
        bindings = scope.bindings[name.id] if scope is not None else []
        return len(bindings) == 1 and bindings[0].node in self.given | self.traced


def _call_of(transformed: ast.Call, module: SourceModule) -> ast.Call | None:
    """The call of what a transform makes: `jax.vmap(net)(xs)`."""
    outer = module.parents[transformed]
    return outer if isinstance(outer, ast.Call) and outer.func is transformed else None
