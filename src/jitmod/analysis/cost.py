"""How many operations eager code dispatches, roughly: whether one compiled call is worth its own overhead."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from jitmod.analysis import library
from jitmod.analysis.infer import Inference
from jitmod.analysis.values import ClassRef, Instance, Kind, Routine, Transformed, is_device
from jitmod.source.nodes import walk
from jitmod.source.project import Class, Function, SourceModule

# Measured on CPU: a call of a filter_jit costs as much as some seven eager operations (70 us against 10 us).
WORTH_A_JIT = 8
WORTH_A_PATCH = 0.01  # of the time of a recorded run
_DEPTH = 12
_LAYERS = {
    "Linear": 3, "LayerNorm": 8, "RMSNorm": 6, "GroupNorm": 10, "BatchNorm": 15, "Embedding": 2, "Dropout": 5,
    "MLP": 12, "MultiheadAttention": 30, "GRUCell": 20, "LSTMCell": 20,
    "Identity": 0, "Sequential": 12, "Lambda": 1, "PReLU": 3,
}  # fmt: skip
_FUNCTIONS = {"softmax": 5, "log_softmax": 5, "gelu": 6, "silu": 3, "logsumexp": 6, "split": 4, "normal": 4,
              "uniform": 4, "categorical": 6, "std": 6, "var": 5, "mean": 2, "norm": 3, "one_hot": 4}  # fmt: skip
_OPTIMISER = 15


@dataclass(eq=False)
class Costs:
    """Counts operations of expressions and functions of one project."""

    inference: Inference
    _known: dict[Function, int] = field(default_factory=dict)
    _active: set[Function] = field(default_factory=set)

    def of_nodes(self, root: ast.AST, module: SourceModule) -> int:
        """The operations that evaluating `root` dispatches, once."""
        total = 0
        for node in walk(root):
            match node:
                case ast.Call():
                    total += self._of_call(node, module)
                case ast.BinOp() | ast.Compare():
                    total += int(self._may_be_device(node, module))
                case ast.Subscript(ctx=ast.Load()):
                    total += int(is_device(self.inference.kind(node.value, module)))
                case ast.For(body=body):
                    total += 3 * sum(self.of_nodes(s, module) for s in body)  # a few rounds at least
        return total

    def _may_be_device(self, node: ast.expr, module: SourceModule) -> bool:
        parts = [node.left, node.right] if isinstance(node, ast.BinOp) else [node]
        kinds = [self.inference.kind(p, module) for p in parts]
        return any(is_device(k) for k in kinds) or all(k.__class__.__name__ == "Unknown" for k in kinds)

    def _of_call(self, call: ast.Call, module: SourceModule) -> int:
        return self.of_kind(self.inference.kind(call.func, module), call, module)

    def of_kind(self, kind: Kind, call: ast.Call, module: SourceModule) -> int:
        """The operations of calling a value of this kind."""
        match kind:
            case Transformed(base, transform):
                if transform in library.JITS:
                    return 1
                inner = self.of_kind(base, call, module)
                return 3 * inner + 5 if transform in library.GRADS else inner + 2
            case Routine(Function() as function, _):
                return self.of_function(function)
            case Instance(Class() as cls) if self.inference.classes.is_module(cls):
                called = self.inference.classes.method(cls, "__call__")
                return self.of_function(called) if called is not None else 0
            case Instance(str() as name):
                last = name.rpartition(".")[2]
                return _LAYERS.get(last, 8 if library.is_module_class(name) else 0)
            case Routine(str() as name, _):
                if name.startswith("optax."):
                    return _OPTIMISER
                last = name.rpartition(".")[2]
                pure = library.role(name) is library.Role.PURE or name.startswith("array.")
                made = name in library.TRANSFORMS
                return _FUNCTIONS.get(last, 1) if pure and not made else 0
            case ClassRef():
                return 0
        return 1

    def of_function(self, function: Function) -> int:
        """The operations of one call of a function, with what it calls."""
        if function in self._known:
            return self._known[function]
        if function in self._active or len(self._active) > _DEPTH:
            return 0
        self._active.add(function)
        body = [function.node.body] if isinstance(function.node, ast.Lambda) else function.node.body
        total = sum(self.of_nodes(part, function.module) for part in body)
        self._active.discard(function)
        self._known[function] = total
        return total
