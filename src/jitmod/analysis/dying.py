"""Buffers that die in a call: the arguments of a compiled function that nothing can read once it was called."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from jitmod.analysis.boundaries import LOOPS, function_around, loop_around, statement_of
from jitmod.analysis.compiled import reads_of
from jitmod.analysis.dtypes import is_integer
from jitmod.analysis.effects import Effects
from jitmod.analysis.fresh import COMPUTING, COPYING, is_compiled_call, is_fresh, is_plain_start
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.reaching import reaching
from jitmod.analysis.sizes import LARGE, Sizes
from jitmod.analysis.syntax import names_of_target
from jitmod.analysis.values import Array, Device, Kind, Number
from jitmod.source.nodes import walk
from jitmod.source.project import SourceModule
from jitmod.source.scopes import Binding, Scope

_READING = frozenset({"print", "float", "int", "bool", "complex", "str", "repr", "len", "format"})
_REDUCTIONS = frozenset({"sum", "mean", "max", "min", "std", "var", "prod", "any", "all", "argmax", "argmin", "item",
                         "tolist"})  # fmt: skip
_STATIC = frozenset({"shape", "ndim", "size", "dtype", "nbytes"})
_NAMED = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")
_OPERATORS = frozenset(f"__{way}{name}__" for way in ("", "r", "i") for name in _NAMED)
_DYNAMIC = frozenset({"locals", "vars", "eval", "exec", "globals"})
# contexts that let an exception through
_TRANSPARENT = ("tqdm.", "open", "jax.profiler.", "jax.named_scope", "jax.default_matmul_precision", "jax.log_compiles")


@dataclass(frozen=True, eq=False)
class Rebinding:
    """`state, y = step(state, x)`: a call whose result takes the place of some of its arguments.

    `arguments`: the names that are passed and bound again, each with the argument.
    """

    module: SourceModule
    call: ast.Call
    statement: ast.Assign
    arguments: dict[str, ast.Name]


def rebinding(call: ast.Call, module: SourceModule) -> Rebinding | None:
    """The call as such; None where it is no statement of its own, or binds nothing that it takes."""
    match module.parents[call]:
        case ast.Assign(targets=[target], value=value) as statement if value is call:
            names = names_of_target(target) or ()
            values = [*call.args, *[k.value for k in call.keywords]]
            found = {v.id: v for v in values if isinstance(v, ast.Name) and names.count(v.id) == 1}
            return Rebinding(module, call, statement, found) if found else None
    return None


@dataclass(frozen=True, eq=False)
class Dying:
    """Judges whether the buffers of a name are dead after a call that rebinds it."""

    effects: Effects

    def check(self, at: Rebinding, name: str) -> None:
        """Raises `Unplannable` where somebody may hold the old value, or may read it."""
        module, argument = at.module, at.arguments[name]
        scope = module.scope_of(argument)
        if scope.find(name) is not scope or any(name in s.rebinds for s in module.scopes.values()):
            raise Unplannable("donated-later-read", argument, f"`{name}` belongs to another scope, which may read it")
        self._check_place(at, name, scope)
        for binding in reaching(name, argument, scope):
            self._check_new(binding, name, module)
        for read in scope.mentions.get(name, ()):
            if read is not argument and isinstance(read.ctx, ast.Load):
                self._check_read(read, name, scope, at)

    # -- where the call stands ---------------------------------------------------------------------------------------

    def _check_place(self, at: Rebinding, name: str, scope: Scope) -> None:
        module, call = at.module, at.call
        function = function_around(call, module)
        for parent in module.ancestors(call):
            if parent is scope.node:
                break
            if isinstance(parent, ast.Try | ast.TryStar):
                raise Unplannable("exception-order", call, f"a handler may go on with `{name}` after a failure")
            if isinstance(parent, ast.With | ast.AsyncWith):
                dotted = [self._manager(item.context_expr, module) for item in parent.items]
                if not all(d.startswith(_TRANSPARENT) for d in dotted):
                    raise Unplannable("exception-order", call, f"line {parent.lineno} may go on after a failure")
        if any(isinstance(n, ast.Name) and n.id in _DYNAMIC for n in walk(scope.node)):
            raise Unplannable("dynamic-scope", call, "names are looked up by text here")
        if function is None:
            if module.document.notebook is not None:
                raise Unplannable("donated-later-read", call, f"any cell may read the old `{name}`")
            outside = [m for m, _ in reads_of(name, scope, self.effects.inference) if m is not module]
            imported = any(
                b.how == "import" and b.target.rpartition(".")[2] == name
                for m in self.effects.inference.project.by_path.values()
                for s in m.scopes.values()
                for bs in s.bindings.values()
                for b in bs
            )
            if outside or imported:
                raise Unplannable("donated-later-read", call, f"another file reads `{name}`")
        elif isinstance(function.node, ast.AsyncFunctionDef) or any(
            isinstance(n, ast.Yield | ast.YieldFrom | ast.Await) for n in function.own_nodes
        ):
            raise Unplannable("donated-later-read", call, f"`{function.name}` hands values out while it runs")

    def _manager(self, expr: ast.expr, module: SourceModule) -> str:
        called = expr.func if isinstance(expr, ast.Call) else expr
        return self.effects.inference.dotted(called, module) or ""

    # -- what the name holds -----------------------------------------------------------------------------------------

    def _check_new(self, binding: Binding, name: str, module: SourceModule) -> None:
        infer = self.effects.inference
        line = getattr(binding.node, "lineno", 0)
        if binding.how == "param":
            raise Unplannable("donated-later-read", binding.node, f"`{name}` is an argument: the caller may hold it")
        value = binding.value
        if binding.how == "augment":
            node, kind = binding.node, infer.bound(binding, module)
            if not (isinstance(node, ast.AugAssign) and self._computes(node.op, kind, node.value, module)):
                raise Unplannable("may-alias", binding.node, f"it cannot be told what `{name}` is in line {line}")
            return
        several = isinstance(binding.node, ast.Assign) and len(binding.node.targets) > 1
        if binding.how != "assign" or value is None or several or not isinstance(binding.node, ast.Assign):
            raise Unplannable("may-alias", binding.node, f"`{name}` of line {line} may have another name")
        if is_compiled_call(value, module, infer):
            return
        for index in binding.path:
            if not isinstance(value, ast.Tuple) or index >= len(value.elts):
                break
            value = value.elts[index]
        if not is_fresh(value, module, infer):
            what = f"`{ast.unparse(value)[:60]}` may be, or hold, an array that has another name"
            raise Unplannable("may-alias", value, f"`{name}`: {what}")
        self._check_type(value, name, module)

    def _check_type(self, value: ast.expr, name: str, module: SourceModule) -> None:
        """What starts the loop must have the type that its rounds hand on, or its buffer is of no use."""
        infer = self.effects.inference
        size, kind = Sizes(infer).of(value, module), infer.kind(value, module)
        if (size is not None and size < LARGE) or (isinstance(kind, Array) and kind.is_key):
            raise Unplannable("too-small", value, f"`{name}` has few elements")
        dtypes = [k.value for k in value.keywords if k.arg == "dtype"] if isinstance(value, ast.Call) else []
        dtypes += value.args[1:2] if isinstance(value, ast.Call) and _makes_by_shape(value) else []
        narrow = any("float32" not in ast.unparse(d) for d in dtypes)
        if narrow or is_integer(value, module, infer):
            what = f"`{ast.unparse(value)[:60]}` may not have the dtype of what the call returns"
            raise Unplannable("carry-type", value, what)

    # -- who reads it ------------------------------------------------------------------------------------------------

    def _check_read(self, read: ast.Name, name: str, scope: Scope, at: Rebinding) -> None:
        """What reads the name before the call may keep the value; what reads it after sees the new one."""
        module = at.module
        if module.scope_of(read) is not scope:
            if module.scope_of(read).find(name) is scope:
                what = f"a nested function reads `{name}`, nobody knows when"
                raise Unplannable("donated-later-read", read, what)
            return
        statement = statement_of(read, module)
        if isinstance(statement, ast.Return) and _leaves(statement, module):
            return
        if not self._is_behind(statement, at.statement, scope, module) and not self._is_harmless(read, at):
            what = f"`{ast.unparse(module.parents[read]).splitlines()[0][:60]}` may keep the old `{name}`"
            raise Unplannable("donated-later-read", read, what)

    def _is_behind(self, statement: ast.stmt, donation: ast.stmt, scope: Scope, module: SourceModule) -> bool:
        """Whether the donating statement cannot run any more once `statement` does."""
        last: ast.AST = donation
        for parent in module.ancestors(donation):
            if parent is scope.node:
                break
            if isinstance(parent, LOOPS):
                last = parent
        end = getattr(last, "end_lineno", 0) or 0
        inside = any(p is last for p in module.ancestors(statement)) or statement is last
        return not inside and statement.lineno > end

    def _is_harmless(self, read: ast.expr, at: Rebinding) -> bool:
        """Whether what reads a value makes something new of it at once."""
        infer, module = self.effects.inference, at.module
        parent = module.parents[read]
        match parent:
            case ast.Attribute(attr=attr, ctx=ast.Load()):
                if attr in _STATIC:
                    return True
                outer = module.parents[parent]
                if isinstance(outer, ast.Call) and outer.func is parent:
                    is_array = isinstance(infer.kind(read, module), Array | Device)
                    waits = attr == "block_until_ready" and isinstance(module.parents[outer], ast.Expr)
                    return is_array and (attr in _REDUCTIONS or waits)
                return self._is_harmless(parent, at)
            case ast.Subscript(value=value, ctx=ast.Load()) if value is read:
                return self._is_harmless(parent, at)
            case ast.Compare() | ast.UnaryOp(op=ast.USub() | ast.Not()):
                return isinstance(infer.kind(read, module), Array | Device)
            case ast.BinOp(left=left, op=op, right=right):
                return self._computes(op, infer.kind(read, module), right if left is read else left, module)
            case ast.FormattedValue() | ast.Expr():
                return True
            case ast.If(test=test) | ast.While(test=test):
                return test is read
            case ast.Call(func=func) if func is not read:
                return self._is_harmless_call(parent, read, at)
        return False

    def _computes(self, op: ast.operator, own: Kind, other: ast.expr, module: SourceModule) -> bool:
        """Whether an operation is one of arrays: tuples, lists and dicts, which keep what they hold, know some too."""
        if isinstance(own, Array):
            return True
        if any(_OPERATORS & set(cls.methods) for cls in self.effects.inference.project.classes):
            return False  # it may be an object that shares its arrays with the result
        kind = self.effects.inference.kind(other, module)
        if isinstance(op, ast.Add | ast.BitOr):
            return isinstance(kind, Array | Number)
        return not isinstance(op, ast.Mult) or isinstance(kind, Array) or kind == Number("float")

    def _is_harmless_call(self, call: ast.Call, read: ast.expr, at: Rebinding) -> bool:
        infer, module = self.effects.inference, at.module
        name = infer.dotted(call.func, module) or ""
        package, _, last = name.rpartition(".")
        if name in _READING:
            return True
        if is_plain_start(call, module, infer):
            return True
        if name == "jax.block_until_ready":
            return isinstance(module.parents[call], ast.Expr)
        if package in ("jax.numpy", "jax.numpy.linalg", "numpy"):
            return last in COPYING | COMPUTING and isinstance(infer.kind(read, module), Array | Device)
        return is_compiled_call(call, module, infer) and call is not at.call  # one buffer must not be passed twice


def _leaves(statement: ast.Return, module: SourceModule) -> bool:
    """Whether nothing of the function runs after a `return`."""
    return not any(isinstance(p, ast.Try | ast.TryStar) for p in module.ancestors(statement))


def _makes_by_shape(call: ast.Call) -> bool:
    return getattr(call.func, "attr", "") in ("zeros", "ones", "empty", "array", "zeros_like", "ones_like")


def is_in_loop(at: Rebinding) -> bool:
    """Whether the call is made again and again, so that what it returns is what it takes."""
    return isinstance(loop_around(at.call, at.module), LOOPS)
