"""Functions that are pure as a whole and call compiled functions one after the other: one jit can hold them all."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Several
from dataclasses import dataclass, field
from functools import cached_property

from jitmod.analysis import library
from jitmod.analysis.arguments import Arguments
from jitmod.analysis.cost import WORTH_A_JIT, Costs
from jitmod.analysis.effects import Effects
from jitmod.analysis.hazards import Hazard
from jitmod.analysis.jits import Contexts
from jitmod.analysis.leading import leads
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.reaching import reads_of_parameter
from jitmod.analysis.scalars import Scalars
from jitmod.analysis.shapes import growing
from jitmod.analysis.syntax import between, calls_outside_functions
from jitmod.analysis.tracing import EagerCode, is_fine_under_jit
from jitmod.analysis.values import (
    Array,
    Device,
    Instance,
    Kind,
    Mapping,
    NdArray,
    Number,
    Record,
    Routine,
    Sequence,
    Transformed,
    function_behind,
    is_device,
)
from jitmod.analysis.varying import Varying
from jitmod.source.nodes import walk
from jitmod.source.project import Class, Function, SourceModule
from jitmod.source.signatures import argument

_JITS = frozenset({"jax.jit", "equinox.filter_jit"})
_STATIC = frozenset({"static_argnums", "static_argnames"})
_HARMLESS = _STATIC | {"inline", "keep_unused", "fun", "f"}
_OF_COMPILED = frozenset({"host-effect", "rebound-global", "late-binding", "mutable-self"})  # a jit does not end these
_SHAPES = frozenset({"shape", "ndim", "dtype", "size"})
_MOST = 500  # calls of compiled functions in one trace, and of plain ones that lead to them
_BRANCHES = (ast.If, ast.IfExp, ast.BoolOp, ast.Match)


@dataclass(frozen=True, eq=False)
class Dispatch:
    """A call of a compiled function. `target` is what is compiled, `conditional`: it may be left out."""

    call: ast.Call
    module: SourceModule
    jit: str
    target: Function | None
    mapped: bool
    conditional: bool


@dataclass(frozen=True, eq=False)
class Composite:
    """A function that one jit can hold. `filtered`: it takes or gives Modules, so the jit is equinox's."""

    function: Function
    dispatches: tuple[Dispatch, ...]
    filtered: bool

    @cached_property
    def reached(self) -> Counter[Function]:
        """How often a trace calls each compiled function of the project."""
        return Counter(d.target for d in self.dispatches if d.target is not None)


@dataclass(eq=False)
class Dispatching(EagerCode):
    """Eager code that is worth a compiled function since it calls compiled functions."""

    def _heavy(self, kind: Kind) -> bool | Function:
        if _jit_of(kind) is not None:
            return True
        match kind:
            case Transformed(base, transform):
                return transform not in library.JITS and self._heavy(base)
            case Routine(Function() as function, None):
                return function
        return False


@dataclass(eq=False)
class Composites:
    """Finds them in one project."""

    effects: Effects
    contexts: Contexts
    _called: dict[ast.AST, list[Dispatch | Function]] = field(default_factory=dict)

    def dispatches(
        self, parts: Several[ast.AST], module: SourceModule, inside: frozenset[Function] = frozenset()
    ) -> list[Dispatch]:
        """The calls of compiled functions in `parts`, those of plain functions that they call included.

        None of them where there are more than one trace should hold: it would be as long as that of a loop, unrolled.
        """
        found: list[Dispatch] = []
        todo = [(one, inside) for part in parts for one in self._calls(part, module)][::-1]
        entered = 0
        while todo:
            one, around = todo.pop()
            if isinstance(one, Dispatch):
                found.append(one)
            elif one not in around and self._reaches(one):
                entered += 1
                called = [c for part in _body(one) for c in self._calls(part, one.module)]
                todo += [(c, around | {one}) for c in reversed(called)]
            if len(found) > _MOST or entered > _MOST:
                return []
        return found

    def _calls(self, root: ast.AST, module: SourceModule) -> list[Dispatch | Function]:
        """What runs with `root`, in its order: calls of compiled functions, and the plain functions that are called."""
        if root not in self._called:
            found: list[Dispatch | Function] = []
            self._called[root] = found
            for call in calls_outside_functions(root):
                kind = self.effects.inference.kind(call.func, module)
                target = function_behind(kind)
                jit = _jit_of(kind)
                if jit is not None:
                    mapped = isinstance(kind, Transformed) and kind.transform not in library.JITS
                    apart = any(isinstance(p, _BRANCHES) for p in between(call, root, module))
                    found.append(Dispatch(call, module, jit, target, mapped, apart))
                elif target is not None and not isinstance(kind, Transformed):
                    found.append(target)
        return self._called[root]

    def _reaches(self, function: Function) -> bool:
        """Whether a plain function calls a compiled one, itself or through others."""
        return leads(function, self.effects.dispatching, self._step)

    def _step(self, function: Function) -> tuple[bool, list[Function]]:
        called = [one for part in _body(function) for one in self._calls(part, function.module)]
        functions = [one for one in called if isinstance(one, Function)]
        return len(functions) < len(called), functions

    def worth(self, found: list[Dispatch], parts: Iterable[ast.AST], module: SourceModule, costs: Costs) -> bool:
        """Whether one compiled call would take the place of several, or of one with much eager work around it.

        `vmap` of a compiled function is traced at every call, so that it counts as several.
        """
        operations = sum(costs.of_nodes(part, module) for part in parts)
        several = len(found) > 1 or any(d.mapped for d in found)
        return several or (len(found) == 1 and operations - len(found) >= WORTH_A_JIT)

    def of(self, function: Function, code: Dispatching, costs: Costs) -> Composite | None:
        """The composite that a function is; None where it is no candidate. Raises `Unplannable` with the reason."""
        node, module = function.node, function.module
        if not isinstance(node, ast.FunctionDef) or function.scope.parent is not module.scope or function.decorators:
            return None
        found = self.dispatches(node.body, module, frozenset({function}))
        if not found or "traced" in self.contexts.of(function) or code.iterates(function) or _is_generator(node):
            return None
        if not self.worth(found, list(node.body), module, costs):
            return None
        for hazard in self._hazards(function, found):
            raise Unplannable(hazard.reason, node, f"{hazard.what} ({hazard.path}:{hazard.line})")
        for dispatch in found:
            self.check_options(dispatch)
        filtered = [self._parameter(p, function) for p in function.parameters]
        filtered += [self._result(r, function) for r in walk(node) if isinstance(r, ast.Return)]
        numbers = [p.arg for p in function.parameters if isinstance(self._kind(p, function), Number)]
        if any(filtered) and numbers:
            message = f"`{numbers[0]}` is a Python number beside Modules: a filter_jit would compile for every value"
            raise Unplannable("varying-static", node, message)
        self._check_globals(function)
        self._check_calls(function)
        return Composite(function, tuple(found), any(filtered))

    def check_options(self, dispatch: Dispatch) -> None:
        """Raises `Unplannable` where a compiled function is more than its computation: it donates, or is placed."""
        arguments, call = Arguments(self.effects), dispatch.call
        options = list(arguments.jit_options(dispatch.target)) if dispatch.target is not None else []
        for keyword in (k for o in options for k in o.keywords):
            if keyword.arg not in _HARMLESS:
                message = f"`{ast.unparse(call.func)}` is compiled with `{keyword.arg}`, which one jit would change"
                raise Unplannable("mixed-context", call, message)
        kind = self.effects.inference.kind(call.func, dispatch.module)
        for value in (*call.args, *[k.value for k in call.keywords]):
            if arguments.static_use(kind, call, value) and not isinstance(value, ast.Constant):
                message = f"`{ast.unparse(value)}` is a static argument of `{ast.unparse(call.func)}`"
                raise Unplannable("varying-static", call, message)

    def _hazards(self, function: Function, found: list[Dispatch]) -> Iterator[Hazard]:
        """What keeps the function from being traced; inside of what is compiled already nearly nothing does."""
        compiled = [(d.target.module.document.path, d.target.node.lineno, d.target.node.end_lineno or 0)
                    for d in found if d.target is not None]  # fmt: skip
        for hazard in self.effects.of_function(function):
            inside = any(p == hazard.path and first <= hazard.line <= last for p, first, last in compiled)
            counts = hazard.when == "traced" and not is_fine_under_jit(hazard)
            if counts and (not inside or hazard.reason in _OF_COMPILED):
                yield hazard

    def _kind(self, parameter: ast.arg, function: Function) -> Kind:
        return self.effects.inference.bound(function.scope.bindings[parameter.arg][0], function.module)

    def _check_globals(self, function: Function) -> None:
        """Raises `Unplannable` where arrays of the module would become constants of the compiled program."""
        infer, module = self.effects.inference, function.module
        for name in walk(function.node):
            if isinstance(name, ast.Name) and module.scope_of(name).find(name.id) is module.scope:
                kind = infer.kind(name, module)
                is_model = isinstance(kind, Instance) and infer.classes.is_module(kind.cls)
                if is_model or isinstance(kind, Array | NdArray | Device):
                    message = f"`{name.id}` would be a constant of the compiled program; pass it to `{function.name}`"
                    raise Unplannable("local-callable", name, message)

    def _parameter(self, parameter: ast.arg, function: Function) -> bool:
        """Whether a parameter needs a filter. Raises `Unplannable` where it cannot be traced."""
        infer, module, name = self.effects.inference, function.module, parameter.arg
        kind = self._kind(parameter, function)
        args = function.node.args
        several = parameter in (args.vararg, args.kwarg)
        rebound = len(function.scope.bindings.get(name, ())) != 1
        if several or (rebound and not isinstance(kind, Array)):
            raise Unplannable("unresolved-callee", function.node, f"it cannot be told what `{name}` is")
        match kind:
            case Array() | Device():
                return False
            case Record() | Sequence() if _holds_only_arrays(kind):
                return False
            case Instance(cls) if infer.classes.is_module(cls):
                why = Varying(infer).of_fields(cls)
                if why is not None:
                    raise Unplannable("varying-static", function.node, f"{why}: it would compile again")
                return True
            case Instance(Class() as cls) if infer.classes.is_tree(cls):
                self._check_tree(cls, function.node)
                return False
            case Number():
                kinds = [kind] if parameter.annotation is not None else [Number("int"), Number("float")]
                for need in (n for k in kinds for n in Scalars(self.effects).needs_of_parameter(function, name, k)):
                    message = f"`{name}` is needed as a Python value ({need.where})"
                    raise Unplannable("scalar-needed-as-python", function.node, message)
                return False
        reads = list(reads_of_parameter(function, name))
        if reads and all(self._is_handed_over(read, module) for read in reads):
            return False
        if isinstance(kind, NdArray):
            message = f"`{name}` is a numpy array that the host computes with; use jax.numpy for it"
            raise Unplannable("host-arithmetic", function.node, message)
        message = f"it cannot be told whether `{name}` holds arrays: annotate it"
        raise Unplannable("unresolved-callee", function.node, message)

    def _check_tree(self, cls: Class, at: ast.AST) -> None:
        """Raises `Unplannable` where a tree may hold more than arrays: a jit takes no text, and returns no number."""
        classes = self.effects.inference.classes
        for name in (n for c in classes.lineage(cls) for n in classes.declared(c)):
            kind = classes.field(cls, name)
            if isinstance(kind, Instance) and isinstance(kind.cls, Class) and classes.is_tree(kind.cls):
                if kind.cls is not cls:
                    self._check_tree(kind.cls, at)
            elif not _holds_only_arrays(kind):
                message = f"it cannot be told that `{name}` of `{cls.node.name}` holds nothing but arrays"
                raise Unplannable("unresolved-callee", at, message)

    def _is_handed_over(self, read: ast.expr, module: SourceModule) -> bool:
        """Whether a compiled function traces the value already, or nothing but its shape is read."""
        parent = module.parents[read]
        if isinstance(parent, ast.Attribute):
            return parent.attr in _SHAPES
        call = module.parents[parent] if isinstance(parent, ast.keyword) and parent.arg is not None else parent
        if not isinstance(call, ast.Call) or read is call.func:
            return False
        kind = self.effects.inference.kind(call.func, module)
        direct = isinstance(kind, Transformed) and kind.transform == "jax.jit"
        return direct and not Arguments(self.effects).static_use(kind, call, read)

    def _result(self, returned: ast.Return, function: Function) -> bool:
        """Whether a result needs a filter. Raises `Unplannable` where it might not come back as it was."""
        infer, value = self.effects.inference, returned.value
        if function.module.scope_of(returned) is not function.scope:
            return False
        given = {p.arg for p in function.parameters}
        kind = infer.kind(value, function.module) if value is not None else None
        parts = value.elts if isinstance(value, ast.Tuple) else [value]
        handed = [p.id for p in parts if isinstance(p, ast.Name) and p.id in given
                  and len(function.scope.bindings[p.id]) == 1]  # fmt: skip
        if handed:
            message = f"`{handed[0]}` is returned as it was given; a compiled function would return another array"
            raise Unplannable("unknown-result", returned, message)
        if isinstance(kind, Instance):
            if infer.classes.is_module(kind.cls):
                return True
            if isinstance(kind.cls, Class) and infer.classes.is_tree(kind.cls):
                self._check_tree(kind.cls, returned)
                return False
        if kind is None or not _holds_only_arrays(kind):
            text = ast.unparse(value)[:60] if value is not None else "None"
            raise Unplannable("unknown-result", returned, f"it cannot be told that `{text}` holds nothing but arrays")
        return False

    def _check_calls(self, function: Function) -> None:
        """Raises `Unplannable` where calls have a new shape every time: each would compile the whole."""
        infer = self.effects.inference
        for module, call in infer.call_sites(function):
            for parameter in function.parameters:
                value = argument(function, call, parameter.arg)
                why = growing(value, module, infer) if value is not None else None
                if why is not None:
                    message = f"{why}, so one compiled function would compile at every call; pad to a few sizes"
                    raise Unplannable("growing-shape", call, message)


def _jit_of(kind: Kind) -> str | None:
    """The jit through which a value is called, other transforms around it or not; none of those for several devices."""
    found = None
    while isinstance(kind, Transformed):
        if kind.transform in library.JITS:
            found = found or kind.transform
        kind = kind.base
    return found if found in _JITS else None


def _body(function: Function) -> Several[ast.AST]:
    return [function.node.body] if isinstance(function.node, ast.Lambda) else function.node.body


def _holds_only_arrays(kind: Kind) -> bool:
    """Arrays, and tuples and lists of them; a jit gives the keys of a dict another order."""
    match kind:
        case Record(items):
            return bool(items) and all(_holds_only_arrays(item) for item in items)
        case Sequence(item):
            return _holds_only_arrays(item)
        case Mapping():
            return False
    return is_device(kind)


def _is_generator(node: ast.FunctionDef) -> bool:
    return any(isinstance(n, ast.Yield | ast.YieldFrom) for n in walk(node))
