"""Where compiled functions are made while the program runs: `jit(...)` inside functions and loops."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from jitmod.analysis import library
from jitmod.analysis.infer import Inference
from jitmod.analysis.jits import Contexts
from jitmod.analysis.values import ClassRef, Instance, Routine, Transformed
from jitmod.source.nodes import COMPREHENSIONS, walk
from jitmod.source.project import Function, SourceModule

LOOPS = (ast.For, ast.AsyncFor, ast.While)
_JITS = ("jax.jit", "equinox.filter_jit")
_EAGER = ("jax.lax.scan", "jax.lax.map")
_CACHES = ("functools.lru_cache", "functools.cache", "functools.cached_property")
_SETUP = ("__init__", "__post_init__", "setup", "__new__", "setUp", "setup_class")


@dataclass(frozen=True, eq=False)
class Creation:
    """An expression or nested `def` that makes a compiled function each time it is run.

    `wrapped` is what is compiled: an expression, or the `def` itself. `name` is the local name it gets, if it gets one.
    An eager `lax.scan` over a local body counts: it is compiled anew each time too (`jit` is its own name then).
    """

    module: SourceModule
    function: Function | None
    node: ast.expr | ast.FunctionDef
    statement: ast.stmt
    jit: str
    wrapped: ast.expr | ast.FunctionDef
    options: tuple[ast.keyword, ...]
    name: str | None

    @property
    def symbol(self) -> str:
        return self.function.name if self.function else "<module>"

    @property
    def is_eager(self) -> bool:
        return self.jit in _EAGER


def creations_in(module: SourceModule, infer: Inference) -> Iterator[Creation]:
    """Every creation of a file that may run more than once, in source order."""
    found: list[Creation] = []
    for call in module.document.of(ast.Call):
        found += _of_call(call, module, infer)
    for function in module.document.of(ast.FunctionDef):
        found += _of_def(function, module, infer)
    yield from sorted(found, key=lambda c: (c.node.lineno, c.node.col_offset))


def _of_call(call: ast.Call, module: SourceModule, infer: Inference) -> Iterator[Creation]:
    jit, options = jit_of(call.func, module, infer)
    if jit is None and infer.dotted(call.func, module) in _EAGER:
        jit, options = infer.dotted(call.func, module), ()
    parent = module.parents.get(call)
    decorates = isinstance(parent, ast.FunctionDef | ast.ClassDef) and call in parent.decorator_list
    if jit is None or len(call.args) < 1 or isinstance(call.args[0], ast.Starred) or decorates:
        return
    function = function_around(call, module)
    if function is None and loop_around(call, module) is None:
        return
    if jit in _EAGER and not _is_local(call.args[0], module):
        return
    statement = statement_of(call, module)
    name = None
    match statement:
        case (
            ast.Assign(targets=[ast.Name(id=target)], value=value)
            | ast.AnnAssign(target=ast.Name(id=target), value=value)
        ) if value is call:
            name = target
    keywords = (*options, *(call.keywords if jit not in _EAGER else ()))
    yield Creation(module, function, call, statement, jit, call.args[0], keywords, name)


def _of_def(node: ast.FunctionDef, module: SourceModule, infer: Inference) -> Iterator[Creation]:
    function = function_around(node, module)
    holder = module.parents[node]
    if isinstance(holder, ast.ClassDef) or (function is None and loop_around(node, module) is None):
        return
    for decorator in node.decorator_list:
        jit, options = jit_of(decorator, module, infer)
        if jit is None and isinstance(decorator, ast.Call):
            jit, options = jit_of(decorator.func, module, infer)
            options = (*options, *decorator.keywords)
        if jit is not None:
            yield Creation(module, function, node, node, jit, node, options, node.name)
            return


def jit_of(expr: ast.expr, module: SourceModule, infer: Inference) -> tuple[str | None, tuple[ast.keyword, ...]]:
    """`jax.jit`, `eqx.filter_jit`, or a `partial` of one with options; else None."""
    name = infer.dotted(expr, module)
    if name in _JITS:
        return name, ()
    match expr:
        case ast.Call(func=func, args=[inner], keywords=keywords) if infer.dotted(func, module) == "functools.partial":
            name = infer.dotted(inner, module)
            if name in _JITS:
                return name, tuple(keywords)
    return None, ()


def _is_local(expr: ast.expr, module: SourceModule) -> bool:
    """A lambda, or the name of a nested function."""
    if isinstance(expr, ast.Lambda):
        return True
    scope = module.scope_of(expr).find(expr.id) if isinstance(expr, ast.Name) else None
    return scope is not None and scope.is_function and any(b.how == "def" for b in scope.bindings[expr.id])  # type: ignore[attr-defined]


def function_around(node: ast.AST, module: SourceModule) -> Function | None:
    """The function whose body holds `node`; None at module and class level."""
    return module.functions.get(module.scope_of(node).node)


def statement_of(node: ast.AST, module: SourceModule) -> ast.stmt:
    """The statement that holds an expression."""
    current = node
    while not isinstance(current, ast.stmt):
        current = module.parents[current]
    return current


def loop_around(node: ast.AST, module: SourceModule) -> ast.AST | None:
    """The innermost loop or comprehension, within the same function, whose body holds `node`."""
    inner: ast.AST = node
    for parent in module.ancestors(node):
        if isinstance(parent, LOOPS) and (inner in parent.body or inner is getattr(parent, "test", None)):
            return parent
        if isinstance(parent, COMPREHENSIONS) and inner is not parent.generators[0]:
            return parent
        if parent in module.scopes:
            return None
        inner = parent
    return None


def runs_once(creation: Creation, contexts: Contexts) -> str | None:
    """Why a creation is made once, or hits a cache whenever it is made again; None where it compiles anew."""
    module, function, infer = creation.module, creation.function, contexts.inference
    if loop_around(creation.node, module) is None and function is not None:
        caching = _caching(function, infer)
        if caching is not None:
            return caching
        if _is_guarded(creation):
            return "it is made only where it is missing"
        own = function.name.rpartition(".")[2]
        if own in _SETUP:
            return f"`{own}` makes it once for an object"
        if _is_called_once(function, contexts):
            return f"`{function.name}` runs once"
    if creation.jit in _JITS and not isinstance(creation.wrapped, ast.FunctionDef):
        return _is_cached_by_identity(creation.wrapped, module, infer)
    return None


def _caching(function: Function, infer: Inference) -> str | None:
    outer: Function | None = function
    while outer is not None:
        for decorator in outer.decorators:
            expr = decorator.func if isinstance(decorator, ast.Call) else decorator
            if infer.dotted(expr, outer.module) in _CACHES:
                return f"`{outer.name}` is cached: it is made once for each key"
        scope = outer.scope.parent
        outer = outer.module.functions.get(scope.node) if scope is not None else None
    return None


def _is_guarded(creation: Creation) -> bool:
    """`if self._f is None: self._f = jit(...)`, `if key not in cache: cache[key] = jit(...)`, `try/except KeyError`."""
    inner: ast.AST = creation.node
    for parent in creation.module.ancestors(creation.node):
        if isinstance(parent, ast.If) and inner is not parent.test:
            tests = [n for n in walk(parent.test) if isinstance(n, ast.Compare | ast.UnaryOp)]
            for test in tests:
                ops = test.ops if isinstance(test, ast.Compare) else [test.op]
                if any(isinstance(op, ast.NotIn | ast.Is | ast.Not) for op in ops):
                    return True
        if isinstance(parent, ast.ExceptHandler):
            return True
        if parent in creation.module.scopes:
            return False
        inner = parent
    return False


def _is_called_once(function: Function, contexts: Contexts, depth: int = 4) -> bool:
    """Whether the one visible call of a function runs once, at import, in `main`, or in a script's last block."""
    name = function.name.rpartition(".")[2]
    sites = contexts.inference.call_sites(function)
    if depth == 0 or len(sites) != 1 or contexts.inference.project.escapes(name):
        return name in ("main", "_main", "run_main") and len(sites) <= 1
    module, call = sites[0]
    if loop_around(call, module) is not None:
        return False
    caller = function_around(call, module)
    return caller is None or (caller is not function and _is_called_once(caller, contexts, depth - 1))


def _is_cached_by_identity(wrapped: ast.expr, module: SourceModule, infer: Inference) -> str | None:
    """`jit(f)` of a function of the module level, `filter_jit(module)`: the same object is wrapped every time."""
    if isinstance(wrapped, ast.Lambda):
        return None
    kind = infer.kind(wrapped, module)
    match kind:
        case Routine(Function() as function, None) if not isinstance(function.node, ast.Lambda):
            outer = function.scope.parent
            if outer is not None and not outer.is_function and isinstance(wrapped, ast.Name | ast.Attribute):
                return f"`{ast.unparse(wrapped)}` is the same function every time, so the jit finds its cache"
        case Routine(str(), None) | ClassRef():
            return f"`{ast.unparse(wrapped)}` is the same function every time, so the jit finds its cache"
        case Instance(cls) | Routine(_, Instance(cls)) if infer.classes.is_module(cls):
            return f"`{ast.unparse(wrapped)}` is compared by value, so the jit finds its cache"
        case Transformed(_, transform) if transform in library.JITS:
            return f"`{ast.unparse(wrapped)}` is compiled already"
    return None


def makes_boundary(function: Function, infer: Inference) -> Creation | None:
    """The creation that a factory returns: a function that defines one compiled function and returns it."""
    if isinstance(function.node, ast.Lambda) or not isinstance(function.node.body[-1], ast.Return):
        return None
    module, value = function.module, function.node.body[-1].value
    calls = (c for n in function.own_nodes if isinstance(n, ast.Call) for c in _of_call(n, module, infer))
    nested = (c for n in function.own_nodes if isinstance(n, ast.FunctionDef) for c in _of_def(n, module, infer))
    own = [*calls, *nested]
    if len(own) != 1:
        return None
    (creation,) = own
    named = isinstance(value, ast.Name) and value.id == creation.name
    return creation if named or value is creation.node else None
