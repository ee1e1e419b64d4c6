"""Arguments made from annotations: the last resort, where nobody has said how a function is called.

An array is made for every jaxtyping annotation, with the same size for the same name of an axis over the whole call.
Numbers are never guessed: a parameter without a default that is no array, key or Module of such is not made up.
"""

from __future__ import annotations

import builtins
import dataclasses
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_CALLS = 3
_SIZES = (6, 5, 8, 4, 7, 3, 9, 10, 11, 12)  # all different, so that no axis is mistaken for another
_ITEMS = 6
_DTYPES = ("float32", "int32", "bool", "complex64", "bfloat16", "float16", "uint32", "uint8", "int8")
_DEPTH = 4


class CannotMake(Exception):
    """A parameter whose values cannot be made; the message names it."""


@dataclasses.dataclass
class _Making:
    """One call's arguments: sizes of named axes, and the source of numbers."""

    rng: np.random.Generator
    names: dict[str, Any]
    sizes: dict[str, int] = dataclasses.field(default_factory=dict)

    def size(self, name: str) -> int:
        if name not in self.sizes:
            if len(self.sizes) >= len(_SIZES):
                raise CannotMake("too many different axes")
            self.sizes[name] = _SIZES[len(self.sizes)]
        return self.sizes[name]


def calls(function: Callable[..., Any], receiver: type | None) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """A few calls with different numbers. `receiver` is the class of `self`. Raises `CannotMake`."""
    return [_call(function, receiver, seed) for seed in range(_CALLS)]


def _call(function: Callable[..., Any], receiver: type | None, seed: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    inner = inspect.unwrap(function)
    making = _Making(np.random.default_rng(seed), getattr(inner, "__globals__", {}))
    parameters = list(inspect.signature(inner).parameters.values())
    first: list[Any] = []
    if receiver is not None:
        first.append(_module(receiver, making, 0))
        parameters = parameters[1:]
    positional, named = _arguments(parameters, making, 0)
    return (*first, *positional), named


def _arguments(
    parameters: list[inspect.Parameter], making: _Making, depth: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.default is not parameter.empty:
            continue  # the author's own value is the best there is
        is_key = depth > 0 and parameter.name == "key"  # the name that every Module of equinox has for it
        value = _key(making) if is_key else _value(parameter.annotation, parameter.name, making, depth)
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(value)
        else:
            named[parameter.name] = value
    return tuple(positional), named


def _value(annotation: Any, name: str, making: _Making, depth: int) -> Any:
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, making.names, vars(builtins))
        except Exception as error:
            raise CannotMake(f"`{name}`: its annotation cannot be read ({type(error).__name__}: {error})") from None
    if depth > _DEPTH:
        raise CannotMake(f"`{name}`: nested too deep")
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if hasattr(annotation, "dim_str") and hasattr(annotation, "dtypes"):
        return _array(annotation, name, making)
    if origin is list and len(inner) == 1:
        return [_value(inner[0], name, making, depth + 1) for _ in range(_ITEMS)]
    if origin is tuple and len(inner) == 2 and inner[1] is Ellipsis:
        return tuple(_value(inner[0], name, making, depth + 1) for _ in range(_ITEMS))
    if origin is tuple and inner:
        return tuple(_value(one, name, making, depth + 1) for one in inner)
    if origin in (typing.Union, types.UnionType) and type(None) in inner and len(inner) == 2:
        return _value(next(one for one in inner if one is not type(None)), name, making, depth + 1)
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return _module(annotation, making, depth + 1)
    said = "no annotation" if annotation is inspect.Parameter.empty else f"annotated {annotation}"
    raise CannotMake(f"`{name}`: {said}, which does not say what values it takes")


def _module(kind: type, making: _Making, depth: int) -> Any:
    """An object of a class whose constructor takes nothing but arrays, keys and Modules."""
    names = dict(vars(inspect.getmodule(kind) or types.ModuleType("none")))
    own = dataclasses.replace(making, names=names)
    positional, named = _arguments(list(inspect.signature(kind).parameters.values()), own, max(depth, 1))
    return kind(*positional, **named)


def _key(making: _Making) -> jax.Array:
    return jax.random.key(int(making.rng.integers(2**31)))


def _array(annotation: Any, name: str, making: _Making) -> Any:
    shape = tuple(_dimensions(annotation.dim_str, name, making))
    allowed = annotation.dtypes
    if allowed is not object and not isinstance(allowed, list | tuple):
        allowed = None
    texts = [str(one) for one in allowed] if isinstance(allowed, list | tuple) else []
    if any("key" in one for one in texts):
        if shape == ():
            return _key(making)
        return jax.random.split(_key(making), shape)
    dtype = next((one for one in _DTYPES if not texts or one in texts), None)
    if dtype is None:
        raise CannotMake(f"`{name}`: no dtype of {', '.join(texts)} is one that is made")
    made = _numbers(dtype, shape, making.rng)
    on_host = getattr(annotation, "array_type", None) is np.ndarray
    return made if on_host else jnp.asarray(made, dtype)


def _numbers(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    if dtype == "bool":
        return rng.integers(2, size=shape).astype(bool)
    if "int" in dtype:
        return rng.integers(0, 3, size=shape).astype(dtype)  # small enough to index with
    numbers = rng.normal(size=shape)
    return numbers.astype(dtype if dtype in ("complex64", "float16") else "float32")


def _dimensions(text: str, name: str, making: _Making) -> list[int]:
    """The sizes of `"n 3"`, `"*batch n"`, `"#n"`, `"n+1"`: a variadic axis is no axis."""
    sizes: list[int] = []
    for token in text.split():
        token = token.rpartition("=")[2] if "=" in token else token
        bare = token.lstrip("#?")
        if bare == "..." or bare.startswith("*"):
            continue
        if bare.lstrip("-").isdigit():
            sizes.append(int(bare))
        elif bare.startswith("_"):
            sizes.append(_SIZES[0])
        elif bare.isidentifier():
            sizes.append(making.size(bare))
        else:
            sizes.append(_computed(bare, name, making))
    return sizes


def _computed(text: str, name: str, making: _Making) -> int:
    unbound = {x for x in compile(text, "<axis>", "eval").co_names if x.isidentifier()}
    try:
        return int(eval(text, {"__builtins__": {}}, {x: making.size(x) for x in unbound}))
    except Exception:
        raise CannotMake(f"`{name}`: the axis {text!r} cannot be computed") from None
