"""What is known of libraries: how a callable behaves under a trace, and what it returns.

Names are canonical dotted names. What no table knows is unknown, and what is unknown is never traced.
"""

from __future__ import annotations

import builtins
from enum import StrEnum
from functools import cache

from jitmod.analysis.values import UNKNOWN, Array, Constant, Device, Instance, Kind, NdArray, Number


class Role(StrEnum):
    """How a callable behaves when it is traced, as the effect analysis needs to know it."""

    PURE = "pure"  # a function of its arguments: may be traced
    STRUCTURE = "structure"  # Python bookkeeping that a trace runs through (len, zip, isinstance)
    NUMPY = "numpy"  # pure on the host; fails on a tracer
    PULL = "pull"  # brings a value from the device to the host
    HOST = "host"  # visible effect, clock, or host randomness
    BRANCH = "branch"  # control flow whose predicate vmap would batch
    STATE = "state"  # reads or writes an eqx.nn.State
    DYNAMIC = "dynamic"  # the shape of the result depends on values
    UNKNOWN = "unknown"


JITS = frozenset({"jax.jit", "equinox.filter_jit", "jax.pmap", "equinox.filter_pmap"})
VMAPS = frozenset({"jax.vmap", "equinox.filter_vmap"})
GRADS = frozenset(
    {
        "jax.grad", "jax.value_and_grad", "jax.jacfwd", "jax.jacrev", "jax.jacobian", "jax.hessian",
        "equinox.filter_grad", "equinox.filter_value_and_grad", "equinox.filter_jacfwd", "equinox.filter_jacrev",
    }
)  # fmt: skip
VALUES_AND_GRADS = frozenset({"jax.value_and_grad", "equinox.filter_value_and_grad"})
WRAPPERS = frozenset(
    {
        "functools.partial", "jax.tree_util.Partial", "equinox.Partial", "jax.checkpoint", "jax.remat",
        "equinox.filter_checkpoint", "functools.wraps", "jax.named_call", "jaxtyping.jaxtyped", "beartype.beartype",
    }
)  # fmt: skip
PLAIN_DECORATORS = frozenset(
    {
        "property", "staticmethod", "classmethod", "functools.cached_property", "abc.abstractmethod",
        "typing.override", "typing_extensions.override", "typing.final", "typing.overload", "jax.named_call",
    }
)  # fmt: skip
TRANSFORMS = JITS | VMAPS | GRADS | WRAPPERS

_BRANCHES = frozenset(
    {
        "jax.lax.cond", "jax.lax.switch", "jax.lax.while_loop", "equinox.internal.while_loop",
        "jax.numpy.piecewise", "jax.lax.platform_dependent",
    }
)  # fmt: skip
_STATES = frozenset(
    {
        "equinox.nn.BatchNorm", "equinox.nn.SpectralNorm", "equinox.nn.StateIndex", "equinox.nn.State",
        "equinox.nn.StatefulLayer", "equinox.nn.make_with_state", "equinox.nn.delete_init_state",
    }
)  # fmt: skip
_DYNAMIC = frozenset(
    f"jax.numpy.{name}"
    for name in ("nonzero", "flatnonzero", "argwhere", "unique", "unique_all", "unique_counts", "unique_inverse",
                 "unique_values", "setdiff1d", "intersect1d", "union1d", "setxor1d", "compress", "extract", "bincount",
                 "trim_zeros", "delete")
)  # fmt: skip
_HOST = (
    "print", "input", "open", "breakpoint", "exec", "eval", "globals", "locals", "setattr", "delattr", "__import__",
    "jax.debug.", "jax.pure_callback", "jax.experimental.io_callback", "jax.experimental.pure_callback",
    "jax.experimental.host_callback.", "jax.device_put", "jax.effects_barrier", "jax.config.", "jax.clear_caches",
    "jax.numpy.save", "jax.numpy.savez", "jax.numpy.load", "jax.profiler.", "jax.monitoring.",
    "equinox.debug.", "equinox.error_if", "equinox.branched_error_if", "equinox.tree_serialise_leaves",
    "equinox.tree_deserialise_leaves", "equinox.tree_pprint", "equinox.clear_caches",
    "logging.", "warnings.", "time.", "datetime.", "random.", "secrets.", "uuid.", "os.", "sys.", "io.", "pathlib.",
    "shutil.", "subprocess.", "socket.", "threading.", "multiprocessing.", "numpy.random.", "numpy.save",
    "numpy.savez", "numpy.load", "numpy.loadtxt", "numpy.savetxt", "numpy.seterr", "numpy.errstate", "gc.",
    "pickle.", "json.dump", "matplotlib.", "wandb.", "tqdm.", "rich.", "absl.", "loguru.", "atexit.",
)  # fmt: skip
_PULLS = frozenset({"jax.device_get", "jax.block_until_ready", "float", "int", "bool", "complex", "str", "repr",
                    "format", "hash", "jax.random.key_impl"})  # fmt: skip
_PURE = (
    "jax.numpy.", "jax.nn.", "jax.lax.", "jax.random.", "jax.scipy.", "jax.image.", "jax.tree.", "jax.tree_util.",
    "jax.ops.", "jax.vmap", "jax.jit", "jax.grad", "jax.value_and_grad", "jax.jvp", "jax.vjp", "jax.jacfwd",
    "jax.jacrev", "jax.hessian", "jax.checkpoint", "jax.remat", "jax.eval_shape", "jax.ShapeDtypeStruct",
    "jax.custom_jvp", "jax.custom_vjp", "jax.named_scope", "jax.default_matmul_precision", "jax.dtypes.",
    "jax.ensure_compile_time_eval",
    "equinox.nn.", "equinox.filter", "equinox.partition", "equinox.combine", "equinox.is_", "equinox.tree_at",
    "equinox.tree_equal", "equinox.tree_inference", "equinox.apply_updates", "equinox.field", "equinox.Module",
    "equinox.internal.scan", "optax.", "einops.", "jaxtyping.",
)  # fmt: skip
_STRUCTURE = (
    "math.", "functools.", "operator.", "itertools.", "typing.", "dataclasses.", "collections.", "copy.", "enum.",
    "string.", "re.", "contextlib.nullcontext", "numbers.", "abc.", "types.",
)  # fmt: skip
_STRUCTURE_BUILTINS = frozenset(
    {
        "len", "range", "zip", "enumerate", "isinstance", "issubclass", "hasattr", "getattr", "callable", "tuple",
        "list", "dict", "set", "frozenset", "min", "max", "sum", "abs", "round", "sorted", "reversed", "map", "filter",
        "any", "all", "super", "type", "slice", "divmod", "pow", "property", "staticmethod", "classmethod", "id",
        "object", "iter", "next", "chr", "ord",
    }
)  # fmt: skip
# operations of Python and of its containers that `_STRUCTURE` prefixes must not be taken for
_STATEFUL_STRUCTURE = frozenset({"functools.lru_cache", "functools.cache", "itertools.count", "itertools.cycle"})

ARRAY_METHODS = frozenset(
    {
        "reshape", "sum", "mean", "std", "var", "max", "min", "argmax", "argmin", "prod", "any", "all", "astype",
        "transpose", "squeeze", "flatten", "ravel", "swapaxes", "dot", "cumsum", "cumprod", "clip", "round", "conj",
        "conjugate", "repeat", "take", "sort", "argsort", "trace", "diagonal", "ptp", "nonzero", "searchsorted",
        "view", "get", "set", "add", "multiply", "mul", "divide", "power", "apply", "compress", "choose",
    }
)  # fmt: skip
AT_METHODS = frozenset({"get", "set", "add", "multiply", "mul", "divide", "power", "apply", "min", "max"})
# methods that nothing but an array is likely to have: enough to take an unknown receiver for one
ARRAY_ONLY_METHODS = frozenset(
    {
        "reshape", "sum", "mean", "std", "var", "argmax", "argmin", "astype", "transpose", "squeeze", "flatten",
        "ravel", "swapaxes", "dot", "cumsum", "cumprod", "max", "min", "prod", "clip", "conj", "argsort", "repeat",
    }
)  # fmt: skip
# library functions that change an argument
IN_PLACE = frozenset(
    {
        "setattr", "delattr", "exec", "eval", "next", "numpy.copyto", "numpy.put", "numpy.place", "numpy.putmask",
        "numpy.fill_diagonal", "numpy.put_along_axis", "numpy.random.shuffle", "numpy.random.Generator.shuffle",
        "random.shuffle", "numpy.random.RandomState.shuffle", "numpy.add.at", "numpy.subtract.at",
        "numpy.multiply.at", "heapq.heappush", "heapq.heappop", "heapq.heapify",
    }
)  # fmt: skip
PULL_METHODS = frozenset(
    {"item", "tolist", "block_until_ready", "copy_to_host_async", "__array__", "tobytes", "addressable_data"}
)
MUTATING_METHODS = frozenset(
    {
        "append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "update", "setdefault",
        "add", "discard", "popitem", "__setitem__", "__delitem__", "__iadd__", "__imul__", "write",
        "writelines", "put", "fill", "resize", "appendleft", "popleft", "extendleft",
    }
)  # fmt: skip


# wrappers that show progress and hand the items on as they are
TRACKERS = frozenset({"tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.autonotebook.tqdm", "tqdm.notebook.tqdm", "tqdm.std.tqdm",
                      "rich.progress.track"})  # fmt: skip
# an object whose methods write text and change nothing else
TEXT_STREAM = Instance("io.TextIOWrapper")
TEXT_STREAMS = frozenset({"sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"})


def _below(dotted: str, names: tuple[str, ...]) -> bool:
    return any(dotted == name or (dotted.startswith(name) and not name[-1].isalpha()) for name in names)


@cache
def role(dotted: str) -> Role:
    """How calling `dotted` behaves under a trace."""
    if dotted in _PULLS:
        return Role.PULL
    if dotted in _BRANCHES:
        return Role.BRANCH
    if dotted in _STATES:
        return Role.STATE
    if dotted in _DYNAMIC:
        return Role.DYNAMIC
    if _below(dotted, _HOST) or dotted in _STATEFUL_STRUCTURE:
        return Role.HOST
    if dotted in TRANSFORMS or _below(dotted, _PURE) or dotted.startswith(("equinox.filter", "equinox.is_")):
        return Role.PURE
    if dotted.startswith("numpy."):
        return Role.NUMPY
    if _below(dotted, _STRUCTURE) or dotted in _STRUCTURE_BUILTINS or _is_exception(dotted):
        return Role.STRUCTURE
    return Role.UNKNOWN


def computes(dotted: str) -> bool:
    """Whether calling `dotted` computes arrays from arrays; making one from Python values does not."""
    return dotted.startswith(_COMPUTING) and dotted not in _MAKING and role(dotted) is Role.PURE


def _is_exception(dotted: str) -> bool:
    value = getattr(builtins, dotted, None)
    return isinstance(value, type) and issubclass(value, BaseException)


_COMPUTING = ("jax.numpy.", "jax.nn.", "jax.lax.", "jax.scipy.", "jax.random.")
_MAKING = frozenset({"jax.numpy.array", "jax.numpy.asarray", "jax.random.key", "jax.random.PRNGKey"})
_NUMBERS = {"len": "int", "int": "int", "float": "float", "bool": "bool", "complex": "complex", "round": "float",
            "isinstance": "bool", "ord": "int", "hash": "int"}  # fmt: skip
_DEVICE_PREFIXES = ("jax.lax.", "jax.tree.", "jax.tree_util.", "optax.", "equinox.filter_", "equinox.tree_at",
                    "equinox.apply_updates", "jax.numpy.linalg.", "jax.scipy.", "jax.jvp", "jax.vjp")  # fmt: skip
_KEYS = frozenset({"jax.random.PRNGKey", "jax.random.key", "jax.random.split", "jax.random.fold_in",
                   "jax.random.wrap_key_data", "jax.random.clone"})  # fmt: skip
_SEVERAL = frozenset(  # functions that return tuples or lists of arrays
    f"jax.numpy.{name}"
    for name in (
        "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "diag_indices",
        "diag_indices_from", "divmod", "dsplit", "frexp", "gradient", "histogram", "histogram2d", "histogramdd",
        "hsplit", "indices", "ix_", "mask_indices", "meshgrid", "modf", "nonzero", "polydiv", "split",
        "tril_indices", "tril_indices_from", "triu_indices", "triu_indices_from", "unique", "unravel_index",
        "unstack", "vsplit", "where",
    )
)  # fmt: skip
_NORMS = frozenset(
    f"jax.numpy.linalg.{name}"
    for name in ("norm", "det", "inv", "pinv", "solve", "matrix_power", "matrix_rank", "cond", "multi_dot", "cholesky",
                 "trace", "cross", "outer", "matmul", "vector_norm", "matrix_norm", "tensorsolve")
)  # fmt: skip
STATIC_RESULTS = frozenset({"jax.numpy.shape", "jax.numpy.ndim", "jax.numpy.size", "jax.numpy.dtype",
                             "jax.numpy.result_type", "jax.numpy.issubdtype", "jax.numpy.finfo",
                             "jax.numpy.iinfo", "jax.numpy.promote_types"})  # fmt: skip


# what makes an optimiser: an immutable pair of pure functions, `init` and `update`
OPTIMISERS = frozenset(
    f"optax.{name}"
    for name in (
        "adabelief", "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamaxw", "adamw", "adan",
        "adaptive_grad_clip", "add_decayed_weights", "add_noise", "amsgrad", "apply_every", "apply_if_finite",
        "centralize", "chain", "clip", "clip_by_block_rms", "clip_by_global_norm", "ema", "fromage", "identity",
        "inject_hyperparams", "keep_params_nonnegative", "lamb", "lars", "lbfgs", "lion", "lookahead", "masked",
        "multi_transform", "named_chain", "nadam", "nadamw", "noisy_sgd", "normalize_by_update_norm", "novograd",
        "optimistic_adam", "optimistic_gradient_descent", "partition", "polyak_sgd", "radam", "rmsprop", "rprop",
        "scale", "scale_by_adam", "scale_by_belief", "scale_by_learning_rate", "scale_by_lion", "scale_by_rms",
        "scale_by_schedule", "scale_by_sign", "scale_by_trust_ratio", "scale_by_yogi", "set_to_zero", "sgd",
        "sign_sgd", "sm3", "trace", "yogi", "zero_nans",
    )
)  # fmt: skip
OPTIMISER = "optax.GradientTransformation"


def result(dotted: str) -> Kind:
    """The kind of what calling `dotted` returns, lengths aside."""
    if dotted in OPTIMISERS:
        return Instance(OPTIMISER)
    if dotted in _NUMBERS:
        return Number(_NUMBERS[dotted])
    if dotted in ("str", "repr", "format"):
        return Constant()
    if dotted in _KEYS:
        return Array(is_key=True)
    if dotted in STATIC_RESULTS:
        return UNKNOWN
    if dotted in _NORMS:
        return Array()
    if dotted in _SEVERAL or dotted.startswith(_DEVICE_PREFIXES):
        return Device()
    if dotted.startswith(("jax.numpy.", "jax.nn.", "jax.random.", "jax.image.", "jax.ops.")):
        return Array()
    if dotted in TRACKERS - {"rich.progress.track"}:
        return Instance(dotted)
    if dotted == "logging.getLogger":
        return Instance("logging.Logger")
    if dotted == "jax.device_get":
        return UNKNOWN
    if dotted.startswith("math."):
        return Number("float")
    if dotted in ("numpy.random.default_rng", "numpy.random.RandomState"):
        return Instance("numpy.random.Generator")
    if dotted.startswith("numpy."):
        return NdArray()
    if is_module_class(dotted):
        return Instance(dotted)
    return UNKNOWN


def is_module_class(dotted: str) -> bool:
    """Whether a library's class is an `eqx.Module`: those of `equinox.nn`, by their capital letter."""
    package, _, name = dotted.rpartition(".")
    return dotted == "equinox.Module" or (package == "equinox.nn" and name[:1].isupper() and name != "State")


_ACTIVATED = ("equinox.nn.MLP", "equinox.nn.Lambda")
# library Modules that call functions given to them, and the classes whose construction gives them
HOLDERS: dict[str, tuple[str, ...]] = {
    "equinox.nn.Lambda": ("equinox.nn.Lambda",),
    "equinox.nn.MLP": ("equinox.nn.MLP",),
    "equinox.nn.Sequential": _ACTIVATED,
    "equinox.nn.StatefulLayer": _ACTIVATED,
}


def is_convolution(dotted: str) -> bool:
    """Whether a class or function is a convolution: on CPU they are slow inside a loop of XLA's."""
    return dotted.startswith(("equinox.nn.Conv", "jax.lax.conv", "jax.numpy.convolve", "jax.scipy.signal.convolve"))


_ANNOTATIONS: dict[str, Kind] = {"jax.Array": Array(), "jax.numpy.ndarray": Array(), "jax.typing.ArrayLike": UNKNOWN,
                "numpy.ndarray": NdArray(), "int": Number("int"), "float": Number("float"), "bool": Number("bool"),
                "complex": Number("complex"), "str": Constant(), "bytes": Constant(), "None": Constant(),
                "jaxtyping.PRNGKeyArray": Array(is_key=True), "chex.Array": Array(), "chex.PRNGKey": Array(is_key=True),
                "jaxtyping.Array": Array(), "jax.random.PRNGKeyArray": Array(is_key=True),
                "optax.GradientTransformation": Instance("optax.GradientTransformation"),
                "optax.GradientTransformationExtraArgs": Instance("optax.GradientTransformation")}  # fmt: skip


def annotated(dotted: str) -> Kind | None:
    """The kind that an annotation with a library's name promises; None where it promises nothing."""
    if dotted in _ANNOTATIONS:
        return _ANNOTATIONS[dotted]
    return Instance(dotted) if is_module_class(dotted) and dotted != "equinox.Module" else None
