"""Which expressions of a loop body may be traced, and why others may not: by what they do, not by what they read."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import ClassVar

from jitmod.analysis import library
from jitmod.analysis.arguments import Arguments
from jitmod.analysis.hazards import Hazard
from jitmod.analysis.jits import is_heavy
from jitmod.analysis.loops import Stream, header, rows_of
from jitmod.analysis.reaching import reaching
from jitmod.analysis.ssa import Blocker, Environment, Value
from jitmod.analysis.syntax import calls, is_simple_comparison, loads
from jitmod.analysis.unrolled import is_unrolled
from jitmod.analysis.values import (
    UNKNOWN,
    Array,
    Constant,
    Device,
    Instance,
    Mapping,
    NdArray,
    Record,
    Routine,
    Sequence,
    is_device,
    item_of,
)
from jitmod.analysis.windows import Outside, Window, window_of
from jitmod.source.nodes import walk

_NEVER_DEVICE = (ast.Constant, ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.Dict, ast.IfExp, ast.BoolOp)


@dataclass(frozen=True, eq=False)
class Traceable:
    """Judges the expressions of one iteration, in the environment where they stand."""

    env: Environment
    unrolls: ClassVar[bool] = True  # whether what an inner loop brings to the host may be computed before it

    def is_heavy_call(self, call: ast.Call) -> bool:
        return is_heavy(self.env.kind(call.func), self.env.effects)

    def is_heavy(self, expr: ast.AST) -> bool:
        return any(self.is_heavy_call(call) for call in calls(expr))

    def on_device(self, expr: ast.expr) -> bool:
        """Whether an expression computes on the device: its result lives there, or it runs a Module."""
        if isinstance(expr, ast.Name):
            return self._is_device_name(expr)
        if isinstance(expr, _NEVER_DEVICE):
            return False
        if isinstance(expr, ast.Tuple | ast.List):
            return bool(expr.elts) and isinstance(expr, ast.Tuple) and all(self.on_device(e) for e in expr.elts)
        if is_device(self.env.kind(expr)):
            return True
        if isinstance(expr, ast.BinOp) and self._has_text(expr):
            return False
        operands = [expr.left, expr.right] if isinstance(expr, ast.BinOp) else []
        if isinstance(expr, ast.Compare) and is_simple_comparison(expr):
            operands = [expr.left, *expr.comparators]
        if isinstance(expr, ast.UnaryOp) and not isinstance(expr.op, ast.Not):
            operands = [expr.operand]
        if isinstance(expr, ast.Subscript):
            operands = [expr.value]
        if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute):
            attr = expr.func.attr
            return (attr in library.ARRAY_METHODS and self.on_device(expr.func.value)) or self.is_heavy_call(expr)
        return any(self.on_device(o) for o in operands) or (isinstance(expr, ast.Call) and self.is_heavy_call(expr))

    def _is_device_name(self, name: ast.Name) -> bool:
        if self.env.is_local(name):
            return False
        return is_device(self.env.read(name.id, name).kind)

    def _has_text(self, expr: ast.BinOp) -> bool:
        """`"%d" % k` is formatting, not arithmetic."""
        return any(isinstance(self.env.kind(side), Constant) for side in (expr.left, expr.right))

    def is_index(self, call: ast.Call) -> bool:
        """Whether a call gives an integer that is a position: `jnp.argmax(y)`, `y.argmax()`."""
        name = self.env.effects.inference.dotted(call.func, self.env.module)
        method = call.func.attr if isinstance(call.func, ast.Attribute) and name is None else ""
        return name in ("jax.numpy.argmax", "jax.numpy.argmin") or method in ("argmax", "argmin")

    def blocker(self, expr: ast.expr, top: ast.expr | None = None) -> Blocker | None:
        """Why `expr` itself cannot be traced; None where it can. Parts that are nodes of their own answer for it."""
        if expr in self.env.by_expr and expr is not top:
            return None
        if isinstance(expr, ast.BinOp | ast.UnaryOp | ast.Compare | ast.Call) and isinstance(
            self.env.kind(expr), NdArray
        ):
            return Blocker("host-arithmetic", expr, f"`{ast.unparse(expr)}` is numpy arithmetic; use jax.numpy for it")
        match expr:
            case ast.Constant() | ast.Name():
                return None
            case ast.Attribute(value=value):
                return self._attribute_blocker(expr) or self.blocker(value)
            case ast.Subscript():
                return self.subscript_blocker(expr)
            case ast.BinOp(left=left, right=right) if not self._has_text(expr):
                return self.blocker(left) or self.blocker(right)
            case ast.UnaryOp(op=op, operand=operand) if not isinstance(op, ast.Not):
                return self.blocker(operand)
            case ast.Compare(left=left, comparators=[right]) if is_simple_comparison(expr):
                return self.blocker(left) or self.blocker(right)
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                return next((b for e in elts if (b := self.blocker(e))), None)
            case ast.Slice(lower=lower, upper=upper, step=step):
                return next((b for e in (lower, upper, step) if e is not None and (b := self.blocker(e))), None)
            case ast.Lambda(body=inner):
                return self.blocker(inner)
            case ast.ListComp(elt=inner, generators=[ast.comprehension(target=ast.Name(), iter=rounds, ifs=[])]) if (
                is_unrolled(rounds, self.env.module, self.env.effects.inference)
            ):
                return self.blocker(inner)
            case ast.Call():
                return self._call_blocker(expr)
        return Blocker("host-effect", expr, f"`{ast.unparse(expr)}` is Python control flow that a trace cannot follow")

    def _attribute_blocker(self, expr: ast.Attribute) -> Blocker | None:
        """Why an attribute must be read anew for every item: it runs code, or is a class's that others assign."""
        effects, module = self.env.effects, self.env.module
        if effects.inference.classes.is_property(expr, module):
            message = f"`{ast.unparse(expr)}` is a property; give its value a name before the loop"
            return Blocker("unresolved-callee", expr, message)
        if isinstance(effects.inference.kind(expr.value, module), Instance | Routine):
            for reason, what in effects.frozen.of_attribute(expr, module):
                return Blocker(reason, expr, what)
        return None

    def _call_blocker(self, call: ast.Call) -> Blocker | None:
        if isinstance(call.func, ast.Name) and call.func.id == "super":
            return Blocker("local-callable", call, "`super()` means nothing outside of its class")
        if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
            return Blocker("unresolved-callee", call, f"`{ast.unparse(call)}` unpacks its arguments")
        hazards = self.hazards(call)
        if not any(h.reason == "stateful-module" for h in hazards):  # else said first: it explains the carried state
            inner = self._operand_blocker(call)
            if inner is not None:
                return inner
        inner = self._argument_blocker(call)
        if inner is not None:
            return inner
        if hazards:
            first = hazards[0]
            here = first.path == self.env.module.document.path and first.line == call.lineno
            where = "" if here else f" ({first.path}:{first.line})"
            return Blocker(first.reason, call, f"`{ast.unparse(call.func)}` cannot be batched: {first.what}{where}")
        return None

    def _argument_blocker(self, call: ast.Call) -> Blocker | None:
        """Why an argument must not become a tracer: the callee computes with it on the host, or needs its value."""
        callee = self.env.kind(call.func)
        for value in [*call.args, *[k.value for k in call.keywords]]:
            names = [n for n in loads(value) if not self.env.is_local(n)]
            fixed = all(self.env.read(n.id, n).origin == "invariant" for n in names)
            if fixed and not isinstance(self.env.kind(value), Array | Device | NdArray):
                continue
            if self._is_numpy(value):
                where = self._arguments.host_use(callee, call, value, self.env.module)
                if where is not None:
                    message = f"`{ast.unparse(value)}` is a numpy array that the callee computes with: {where}"
                    return Blocker("host-arithmetic", call, message)
            where = self._arguments.python_use(callee, call, value, self.env.module)
            if where is not None:
                message = f"`{ast.unparse(value)}` is needed as a Python value: {where}"
                return Blocker("scalar-needed-as-python", call, message)
            if self._arguments.static_use(callee, call, value):
                message = f"`{ast.unparse(value)}` is a static argument of `{ast.unparse(call.func)}`"
                return Blocker("varying-static", call, message)
        return None

    def _is_numpy(self, value: ast.expr) -> bool:
        if isinstance(value, ast.Name) and not self.env.is_local(value):
            return isinstance(self.env.read(value.id, value).kind, NdArray)
        return isinstance(self.env.kind(value), NdArray)

    @property
    def _arguments(self) -> Arguments:
        return Arguments(self.env.effects)

    def _operand_blocker(self, call: ast.Call) -> Blocker | None:
        for value in [*call.args, *[k.value for k in call.keywords]]:
            inner = self.blocker(value)
            if inner is not None:
                return inner
        if isinstance(call.func, ast.Attribute) and self._has_receiver(call.func):
            inner = self._attribute_blocker(call.func) or self.blocker(call.func.value)
            if inner is not None:
                return inner
        elif not isinstance(call.func, ast.Attribute | ast.Name):
            inner = self.blocker(call.func)
            if inner is not None:
                return inner
        holder = call.func.value if isinstance(call.func, ast.Attribute) else call.func
        own = [n for n in loads(call.func) if not self.env.is_local(n)]
        if any(self._is_other_callee(n) for n in own) and not self.on_device(holder):
            message = f"`{ast.unparse(call.func)}` may be another Module for every item, with other static fields"
            return Blocker("static-leaves-differ", call, message)
        return None

    def _is_other_callee(self, name: ast.Name) -> bool:
        """Whether a name is an item that is called; Modules of one class out of a list can be stacked."""
        value = self.env.read(name.id, name)
        stacked = isinstance(value.kind, Instance) and self.env.effects.inference.classes.is_module(value.kind.cls)
        listed = value.stream is not None and isinstance(value.stream.kind, Sequence) and not value.stream.path
        return value.origin == "item" and not (stacked and listed)

    def hazards(self, call: ast.Call) -> tuple[Hazard, ...]:
        """Why what a call calls must not be traced."""
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.expr):
            held = self.on_device(call.func.value)
            unresolved = not isinstance(self.env.kind(call.func), Routine)
            if held and unresolved and call.func.attr in library.ARRAY_METHODS:
                return ()
        return self.env.effects.of_call(call, self.env.module)

    def _has_receiver(self, func: ast.Attribute) -> bool:
        return self.env.effects.inference.dotted(func, self.env.module) is None

    def subscript_blocker(self, expr: ast.Subscript) -> Blocker | None:
        """Why an element cannot be taken under a trace."""
        item = self.item_read(expr)
        if item is not None:
            self.env.body.item_reads[expr] = item
            return None
        base = self.blocker(expr.value)
        if base is not None:
            return base
        window = self.window(expr)
        if isinstance(window, Blocker):
            return window
        if window is not None:
            self.env.body.windows[expr] = window
            return None
        problem = self.env.effects.times.of_subscript(expr, self.env.module)
        if problem is not None and not self._is_twin(expr.slice):
            return Blocker(problem[0], expr, problem[1])
        match expr.slice:
            case ast.Name(id=name) if not self.env.is_local(expr.slice):
                index = self.env.read(name, expr.slice)
                if index.twin is not None and isinstance(self.env.kind(expr.value), Array):
                    return None
                if index.origin == "item" and index.stream is not None and index.stream.source is None:
                    return Blocker("slice-bounds", expr, f"`{ast.unparse(expr)}` may have other items than the loop")
            case ast.Slice() | ast.BinOp():
                names = {n.id for n in walk(expr.slice) if isinstance(n, ast.Name) and not self.env.is_local(n)}
                if any(self.env.read(n, expr).origin == "item" for n in names):
                    return Blocker("slice-bounds", expr, f"`{ast.unparse(expr)}` is a window whose bounds are computed")
        return self.blocker(expr.slice)

    def window(self, expr: ast.Subscript) -> Window | Blocker | None:
        """The window that an expression is, or why its bounds are not Python's any more."""
        try:
            return window_of(expr, self.env)
        except Outside:
            return Blocker("slice-bounds", expr, f"not every window `{ast.unparse(expr)}` lies inside of the array")

    def _is_twin(self, index: ast.expr) -> bool:
        named = isinstance(index, ast.Name) and not self.env.is_local(index)
        return named and isinstance(index, ast.Name) and self.env.read(index.id, index).twin is not None

    def item_read(self, expr: ast.Subscript) -> Value | None:
        """`xs[i]` with the loop's own index over `range(len(xs))` or enumerate(xs): the item of xs."""
        if isinstance(expr.slice, ast.Constant):
            return self._part_read(expr, expr.slice.value)
        if not isinstance(expr.slice, ast.Name) or not isinstance(expr.value, ast.Name | ast.Attribute):
            return None
        if self.env.is_local(expr.slice) or any(n.id in self.env.written for n in loads(expr.value)):
            return None
        index = self.env.body.env.get(expr.slice.id)
        path, counted = ast.unparse(expr.value), self.counted()
        if index is not None and index.stream is not None and self._are_keys(index.stream, path):
            held = self.env.kind(expr.value)
            values = Sequence(held.value if isinstance(held, Mapping) else UNKNOWN)
            return self._item(Stream(path, expr.value, values, of_values=True))
        if index is None or index.stream is None or not index.stream.from_zero:
            return None
        if path not in counted and not self._is_split_for(expr.value, counted):
            return None
        return self._item(Stream(path, expr.value, self.env.kind(expr.value)))

    def _item(self, stream: Stream) -> Value:
        """The item of a stream that no name of the target stands for: one value, wherever it is read."""
        known = next((v for v in self.env.body.item_reads.values() if v.stream and v.name == stream.name), None)
        return known or Value(stream.name, "item", self.env.kind_of_item(stream), stream=stream)

    def _part_read(self, expr: ast.Subscript, index: object) -> Value | None:
        """`pair[0]` of an item that is a tuple: as good as a name in the target."""
        if not isinstance(expr.value, ast.Name) or type(index) is not int or self.env.is_local(expr.value):
            return None
        pair = self.env.body.env.get(expr.value.id)
        if pair is None or pair.stream is None or pair.stream.source is None or pair.stream.path:
            return None
        match item_of(pair.stream.kind):
            case Record(items, is_tuple=True) if 0 <= index < len(items) and isinstance(items[index], Array | NdArray):
                return self._item(Stream(f"{pair.name}_{index}", pair.stream.source, pair.stream.kind, (index,)))
        return None

    def _are_keys(self, stream: Stream, path: str) -> bool:
        """Whether a stream gives the keys of the dict at `path`: `for k in d`, `for k in d.keys()`."""
        match stream.source:
            case ast.Call(func=ast.Attribute(value=holder, attr="keys"), args=[]):
                source: ast.expr | None = holder
            case _:
                source = stream.source
        is_dict = source is not None and isinstance(self.env.kind(source), Mapping)
        return is_dict and not stream.path and source is not None and ast.unparse(source) == path

    def counted(self) -> set[str]:
        """The sources whose length is the trip count by construction."""
        _, iterable = header(self.env.loop)
        found = {ast.unparse(s.source) for s in self.env.streams if s.source is not None}
        for call in walk(iterable):
            match call:
                case ast.Call(func=ast.Name(id="range"), args=[ast.Call(func=ast.Name(id="len"), args=[counted])]):
                    found.add(ast.unparse(counted))
                case ast.Call(func=ast.Name(id="range"), args=[length]) if (array := rows_of(length)) is not None:
                    found |= {ast.unparse(array)} if isinstance(self.env.kind(array), Array | NdArray) else set()
        return found

    def _is_split_for(self, expr: ast.expr, counted: set[str]) -> bool:
        """`keys = jax.random.split(key, len(xs))` before a loop over xs: there are as many as items."""
        infer, module = self.env.effects.inference, self.env.module
        scope = infer.scope_binding(expr.id, expr, module) if isinstance(expr, ast.Name) else None
        found = reaching(expr.id, expr, scope) if scope is not None and isinstance(expr, ast.Name) else []
        match [b.value for b in found if not b.path]:
            case [ast.Call(func=func, args=[_, ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name) as items])])]:
                if len(found) != 1 or infer.dotted(func, module) != "jax.random.split" or name not in counted:
                    return False
                held = infer.scope_binding(name, items, module)
                once = held is not None and held is scope and len(held.bindings[name]) == 1
                return once and isinstance(self.env.kind(items), Array)  # a list may have grown since
        return False
