"""Values whose buffers are new: nothing else in the program can hold them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from jitmod.analysis import library
from jitmod.analysis.infer import Inference
from jitmod.analysis.reaching import reaching
from jitmod.analysis.values import Array, ClassRef, Constant, Instance, NdArray, Number, Routine, Transformed
from jitmod.source.project import Class, Function, SourceModule

# functions of jax.numpy that always make a new array: views, reshapes and copies on demand are not among them
COMPUTING = frozenset(
    {
        "sum", "mean", "max", "min", "std", "var", "prod", "any", "all", "argmax", "argmin", "abs", "sqrt", "square",
        "exp", "log", "sin", "cos", "tan", "tanh", "isnan", "isfinite", "allclose", "array_equal", "dot", "matmul",
        "median", "quantile", "percentile", "norm", "maximum", "minimum", "where", "sign", "floor", "sort", "argsort",
        "cumsum", "log1p", "expm1", "count_nonzero",
    }
)  # fmt: skip
COPYING = frozenset({"copy", "zeros_like", "ones_like"})  # new arrays by the type of others
_MAKING = COPYING | {"zeros", "ones", "empty", "arange", "linspace", "eye", "identity"}
_RANDOM = frozenset({"PRNGKey", "key", "split", "fold_in", "normal", "uniform", "randint", "truncated_normal",
                     "exponential", "gumbel", "laplace", "bits", "orthogonal", "rademacher"})  # fmt: skip
_LAYERS = frozenset({"Linear", "MLP", "Conv1d", "Conv2d", "Conv3d", "GRUCell", "LSTMCell", "Embedding", "LayerNorm",
                     "RMSNorm", "MultiheadAttention"})  # fmt: skip
# optimisers whose state holds zeros and counts, and nothing of the parameters that it is made for
_PLAIN_STATES = frozenset({"adam", "adamw", "adamax", "nadam", "radam", "amsgrad", "sgd", "rmsprop", "lion", "lamb",
                           "adagrad", "adabelief", "clip_by_global_norm", "clip", "scale", "scale_by_adam",
                           "add_decayed_weights", "scale_by_learning_rate"})  # fmt: skip
_DEPTH = 4


def is_compiled_call(expr: ast.expr | None, module: SourceModule, infer: Inference) -> bool:
    """A call of a compiled function: what it returns has buffers of its own, whatever it was given."""
    if not isinstance(expr, ast.Call):
        return False
    kind = infer.kind(expr.func, module)
    return isinstance(kind, Transformed) and kind.transform in ("jax.jit", "equinox.filter_jit")


def is_fresh(expr: ast.expr, module: SourceModule, infer: Inference, depth: int = _DEPTH) -> bool:
    """Whether evaluating `expr` makes every array of its value anew."""
    if depth == 0:
        return False
    match expr:
        case ast.Constant():
            return True
        case ast.BinOp():
            return isinstance(infer.kind(expr, module), Array)
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            return all(is_fresh(e, module, infer, depth) for e in elts)
        case ast.Dict(keys=keys, values=values):
            return None not in keys and all(is_fresh(v, module, infer, depth) for v in values)
        case ast.Call():
            return is_compiled_call(expr, module, infer) or _is_fresh_call(expr, module, infer, depth)
    return False


def _is_fresh_call(call: ast.Call, module: SourceModule, infer: Inference, depth: int) -> bool:
    name = infer.dotted(call.func, module) or ""
    package, _, last = name.rpartition(".")
    if package == "jax.numpy":
        if last == "array":
            return not any(k.arg == "copy" for k in call.keywords)
        if last == "full":
            return len(call.args) > 1 and isinstance(infer.kind(call.args[1], module), Number)
        return last in _MAKING | COMPUTING
    if package == "jax.random":
        return last in _RANDOM
    if package == "equinox.nn":
        return last in _LAYERS and _makes_its_weights(call, module, infer)
    if name in ("jax.tree.map", "jax.tree_util.tree_map") and len(call.args) == 2:
        return infer.dotted(call.args[0], module) in ("jax.numpy.zeros_like", "jax.numpy.ones_like")
    kind = infer.kind(call.func, module)
    values = [*call.args, *[k.value for k in call.keywords]]
    match kind:
        case ClassRef(Class() as cls) if infer.classes.is_tree(cls) and not _runs_code(cls, infer):
            return all(is_fresh(v, module, infer, depth - 1) for v in values)
        case Routine(Function() as function, None) if not function.decorators:
            return _returns_fresh(function, infer, depth)
    return is_plain_start(call, module, infer, depth)


def is_plain_start(call: ast.Call, module: SourceModule, infer: Inference, depth: int = _DEPTH) -> bool:
    """`optim.init(params)` of an optimiser whose state is made of zeros and counts, by the shapes of `params` alone."""
    match call.func:
        case ast.Attribute(value=optimiser, attr="init"):
            is_one = infer.kind(optimiser, module) == Instance(library.OPTIMISER)
            return is_one and _is_plain_optimiser(optimiser, module, infer, depth)
    return False


def _makes_its_weights(layer: ast.Call, module: SourceModule, infer: Inference) -> bool:
    """Whether a layer of equinox is given numbers and a key alone: no weights, no activation that has some."""
    if any(isinstance(a, ast.Starred) for a in layer.args) or any(k.arg in (None, "weight") for k in layer.keywords):
        return False
    given = [*layer.args, *[k.value for k in layer.keywords if k.arg != "key"]]
    return not any(isinstance(infer.kind(v, module), Array | Instance) for v in given)


def _runs_code(cls: Class, infer: Inference) -> bool:
    """Whether constructing an instance runs code of the project, or takes defaults that are shared."""
    named = ("__init__", "__post_init__", "__new__")
    if any(infer.classes.method(cls, name) is not None for name in named):
        return True
    own = [s for c in infer.classes.lineage(cls) for s in c.node.body]
    return any(isinstance(s, ast.AnnAssign) and s.value is not None for s in own)


def _returns_fresh(function: Function, infer: Inference, depth: int) -> bool:
    """A function that does nothing but to return something new."""
    node = function.node
    if isinstance(node, ast.Lambda) or function.is_generator:
        return False
    values = [r.value for r in function.returns if r.value is not None]
    return bool(values) and all(is_fresh(v, function.module, infer, depth - 1) for v in values)


def _is_plain_optimiser(expr: ast.expr, module: SourceModule, infer: Inference, depth: int) -> bool:
    match expr:
        case ast.Call(func=func, args=args):
            name = infer.dotted(func, module) or ""
            if name == "optax.chain":
                return depth > 0 and all(_is_plain_optimiser(a, module, infer, depth - 1) for a in args)
            return name.startswith("optax.") and name.removeprefix("optax.") in _PLAIN_STATES
        case ast.Name(id=name):
            scope = infer.scope_binding(name, expr, module)
            bindings = scope.bindings[name] if scope is not None else []
            if scope is None or len(bindings) != 1 or bindings[0].value is None or bindings[0].path:
                return False
            made = bindings[0].how == "assign" and depth > 0
            return made and _is_plain_optimiser(bindings[0].value, scope.module, infer, depth - 1)
    return False


def handed_through(expr: ast.expr, module: SourceModule, infer: Inference) -> Iterator[ast.expr]:
    """What the value of `expr` holds, or is, that is no result of a computation and that others may change in place."""
    match expr:
        case ast.Tuple(elts=elts) | ast.List(elts=elts) | ast.Set(elts=elts):
            parts = elts
        case ast.Dict(values=values):
            parts = values
        case ast.IfExp(body=body, orelse=orelse):
            parts = [body, orelse]
        case ast.Name() | ast.Attribute() | ast.Subscript():
            kind = infer.kind(expr, module)
            fixed = isinstance(kind, Array | NdArray | Number | Constant | Routine | Transformed)
            held = isinstance(kind, Instance) and infer.classes.is_tree(kind.cls)
            if not fixed and not held and not _is_result(expr, module):
                yield expr
            return
        case _:
            return
    for part in parts:
        yield from handed_through(part, module, infer)


def _is_result(expr: ast.expr, module: SourceModule) -> bool:
    """Whether a name, or what an item or attribute is taken of, was computed by a call in the same function."""
    while isinstance(expr, ast.Attribute | ast.Subscript):
        expr = expr.value
    scope = module.scope_of(expr).find(expr.id) if isinstance(expr, ast.Name) else None
    if scope is None or not isinstance(expr, ast.Name):
        return False
    return all(b.how == "assign" and isinstance(b.value, ast.Call | ast.BinOp) for b in reaching(expr.id, expr, scope))


def origins(expr: ast.expr, module: SourceModule, infer: Inference, depth: int = 2 * _DEPTH) -> frozenset[str]:
    """What else in a function may have the buffers of a value: parameters, attributes, names of outer scopes.

    Nothing for a value whose buffers are new. Two parameters are taken for two values.
    """
    if depth == 0 or is_fresh(expr, module, infer) or isinstance(infer.kind(expr, module), Number):
        return frozenset()
    match expr:
        case ast.Name(id=name):
            scope = module.scope_of(expr).find(name)
            found = {name} if scope is None or not scope.is_function else set[str]()
            for binding in scope.bindings[name] if scope is not None and scope.is_function else ():
                if binding.how == "param" or binding.value is None:
                    found.add(name)
                else:
                    found |= origins(binding.value, module, infer, depth - 1)
            return frozenset(found)
        case ast.Attribute():
            return frozenset({ast.unparse(expr)})
        case ast.Subscript(value=value):
            return origins(value, module, infer, depth - 1)
    parts = [n for n in ast.iter_child_nodes(expr) if isinstance(n, ast.expr)]
    parts += [k.value for k in getattr(expr, "keywords", [])]
    return frozenset(o for part in parts for o in origins(part, module, infer, depth - 1))
