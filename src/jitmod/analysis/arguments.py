"""What an eager callee does with a parameter before jax sees it: host arithmetic, and Python's need of the value."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from jitmod.analysis import library
from jitmod.analysis.effects import Effects
from jitmod.analysis.library import Role
from jitmod.analysis.reaching import reads_of_binding, reads_of_parameter
from jitmod.analysis.values import Array, Device, Instance, Kind, Routine, Transformed, is_device
from jitmod.source.project import Function, SourceModule
from jitmod.source.signatures import argument

_SHAPES = frozenset({"shape", "ndim", "size", "nbytes"})
_PYTHON = frozenset({"range", "int", "float", "bool", "complex", "str", "min", "max", "sum", "any", "all", "sorted",
                     "round", "abs", "divmod", "pow", "format", "repr", "hash", "isinstance", "slice"})  # fmt: skip


@dataclass(frozen=True, eq=False)
class Arguments:
    """Follows arguments into the project's functions. Answers are the lines that decide, or None."""

    effects: Effects

    def host_use(self, callee: Kind, call: ast.Call, value: ast.expr, module: SourceModule) -> str | None:
        """Where the callee would compute with a numpy argument on the host; None where jax always sees it first."""
        return self._follow(callee, call, value, self._host_use_of, 4)

    def python_use(self, callee: Kind, call: ast.Call, value: ast.expr, module: SourceModule) -> str | None:
        """Where the callee needs an argument as a Python value; None where a tracer does as well."""
        return self._follow(callee, call, value, self._python_use_of, 4)

    def _follow(self, callee: Kind, call: ast.Call, value: ast.expr, judge, depth: int) -> str | None:  # type: ignore[no-untyped-def]
        while isinstance(callee, Transformed):
            if callee.transform in library.JITS and judge == self._host_use_of:
                return None  # converted at the boundary, then as now
            callee = callee.base
        function = self.effects.inference.target(callee)
        if not isinstance(function, Function) or depth == 0:
            return None
        for parameter in function.parameters:
            if argument(function, call, parameter.arg) is value:
                for name in reads_of_parameter(function, parameter.arg):
                    found = judge(name, function, depth)
                    if found is not None:
                        return str(found)
        return None

    def _host_use_of(self, name: ast.expr, function: Function, depth: int) -> str | None:
        module, infer = function.module, self.effects.inference
        parent = module.parents[name]
        match parent:
            case ast.Attribute(attr=attr) if attr in _SHAPES:
                return None
            case ast.Attribute(attr="reshape" | "ravel" | "transpose" | "T" | "flatten" | "swapaxes"):
                outer = module.parents[parent]
                view = outer if isinstance(outer, ast.Call) else parent
                return self._host_use_of(view, function, depth)
            case ast.Subscript(value=value) if value is name:
                return self._host_use_of(parent, function, depth)
            case ast.BinOp(left=left, right=right):
                other = infer.kind(right if left is name else left, module)
                if isinstance(other, Array | Device):
                    return None  # jax's operator takes over
            case ast.keyword() | ast.Call() if name is not getattr(parent, "func", None):
                call = parent if isinstance(parent, ast.Call) else module.parents[parent]
                assert isinstance(call, ast.Call)
                callee = infer.kind(call.func, module)
                if isinstance(callee, Routine) and isinstance(callee.target, str):
                    if library.role(callee.target) is Role.PURE and not callee.target.startswith("einops."):
                        return None
                elif isinstance(callee, Instance) and isinstance(callee.cls, str):
                    return None
                else:
                    return self._follow(callee, call, name, self._host_use_of, depth - 1)
            case ast.Assign(targets=[ast.Name(id=alias)]):
                for read in reads_of_binding(alias, parent, function):
                    found = self._host_use_of(read, function, depth)
                    if found is not None:
                        return found
                return None
            case ast.Return() | ast.Tuple():
                return None  # a numpy result is found out by the kind of the result
        line = getattr(name, "lineno", 0)
        return f"`{ast.unparse(parent)}` ({module.document.path}:{line})"

    def _python_use_of(self, name: ast.expr, function: Function, depth: int) -> str | None:
        module, infer = function.module, self.effects.inference
        parent = module.parents[name]
        where = f"`{ast.unparse(parent)}` ({module.document.path}:{getattr(name, 'lineno', 0)})"
        match parent:
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
                return where if test is name else None
            case ast.Compare(ops=ops):
                if any(isinstance(op, ast.Is | ast.IsNot) for op in ops):
                    return None
                if any(isinstance(op, ast.In | ast.NotIn) for op in ops):
                    return where
                return self._python_use_of(parent, function, depth)
            case ast.BoolOp() | ast.UnaryOp(op=ast.Not()) | ast.FormattedValue():
                return where
            case ast.BinOp() | ast.UnaryOp():
                return self._python_use_of(parent, function, depth)
            case ast.Subscript(value=value) if value is name:
                return self._python_use_of(parent, function, depth)
            case ast.Subscript(value=value):
                return None if is_device(infer.kind(value, module)) else where
            case ast.Dict(keys=keys):
                return where if any(k is name for k in keys) else None
            case ast.Slice():
                return where
            case ast.keyword() | ast.Call() if name is not getattr(parent, "func", None):
                call = parent if isinstance(parent, ast.Call) else module.parents[parent]
                assert isinstance(call, ast.Call)
                callee = infer.kind(call.func, module)
                if isinstance(callee, Routine) and isinstance(callee.target, str):
                    shaping = self.effects.times.shaping(callee.target, call)
                    return where if callee.target in _PYTHON or name in shaping else None
                return self._follow(callee, call, name, self._python_use_of, depth - 1)
        return None

    def static_use(self, callee: Kind, call: ast.Call, value: ast.expr) -> bool:
        """Whether a compiled callee holds an argument static (`static_argnums`, `static_argnames`)."""
        infer = self.effects.inference
        function = infer.target(callee)
        if not isinstance(function, Function):
            return False
        names = [p.arg for p in function.parameters]
        for options in self.jit_options(function):
            for keyword in options.keywords:
                try:
                    chosen = ast.literal_eval(keyword.value)
                except ValueError:
                    chosen = None
                several = chosen if isinstance(chosen, tuple | list) else (chosen,)
                if keyword.arg == "static_argnums":
                    picked = [names[i] for i in several if isinstance(i, int) and -len(names) <= i < len(names)]
                elif keyword.arg == "static_argnames":
                    picked = [n for n in several if isinstance(n, str)]
                else:
                    continue
                if chosen is None or any(argument(function, call, n) is value for n in picked):
                    return True
        return False

    def jit_options(self, function: Function) -> Iterator[ast.Call]:
        """The calls of `jit` that made a function compiled."""
        infer = self.effects.inference
        yield from (d for d in function.decorators if isinstance(d, ast.Call))
        for name in ("jit", "partial"):
            for module, call in infer.project.calls.get(name, ()):
                if call.args and infer.target(infer.kind(call.args[0], module)) is function:
                    yield call
