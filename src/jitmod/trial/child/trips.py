"""Arguments that say how long a loop is, found by trying: shorter ones make a loop shorter."""

from __future__ import annotations

import ast
import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from .pairs import constants

_FIRST = 8  # iterations of a long loop that are compared closely
_BLOCKS = 2
_LOOPS = 2


@dataclass(frozen=True)
class Shorter:
    """A call whose arguments `names` hold the trip count `count` of `loop`, as a number or as their length."""

    bound: inspect.BoundArguments
    names: tuple[str, ...]
    loop: str
    count: int

    def arguments(self, length: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call's arguments, for a loop of `length` iterations. `length` is below `count`."""
        values = dict(self.bound.arguments)
        for name in self.names:
            values[name] = length if isinstance(values[name], int) else values[name][:length]
        changed = inspect.BoundArguments(self.bound.signature, OrderedDict(values))
        return changed.args, changed.kwargs

    def lengths(self, blocks: Iterable[int]) -> list[int]:
        """The trip counts to try: the first iterations of a long loop, none, one, and around each block."""
        around = [n for k in blocks for n in (k - 1, k, k + 1)]
        wanted = [min(_FIRST, self.count - 1), 0, 1, *around]
        return list(dict.fromkeys(n for n in wanted if 0 <= n < self.count))


def bind(function: Callable[..., Any], given: Any) -> inspect.BoundArguments | None:
    """The arguments by name, with defaults; None where the function does not say what it takes."""
    try:
        bound = inspect.signature(function).bind(*given[0], **given[1])
    except (TypeError, ValueError):
        return None
    bound.apply_defaults()
    return bound


def shorten(bound: inspect.BoundArguments, counted: Mapping[str, int]) -> list[Shorter]:
    """Ways to make a call's loops shorter, the likely ones first. `counted` are their trip counts."""
    ways: list[Shorter] = []
    for loop, count in sorted(counted.items(), key=lambda item: -item[1])[:_LOOPS]:
        if count < 2:
            continue
        numbers = tuple(n for n, v in bound.arguments.items() if type(v) is int and v == count)
        lists = tuple(n for n, v in bound.arguments.items() if isinstance(v, list | tuple) and len(v) == count)
        arrays = tuple(n for n, v in bound.arguments.items()
                       if isinstance(v, jax.Array | np.ndarray) and v.ndim and v.shape[0] == count)  # fmt: skip
        groups = [numbers, lists, arrays, lists + arrays, numbers + lists + arrays]
        ways += [Shorter(bound, names, loop, count) for names in dict.fromkeys(groups) if names]
    return ways


def blocks(tree: ast.AST, below: int) -> list[int]:
    """Lengths that blocks of a loop of `below` iterations may have, by the numbers in its text."""
    return constants(tree, below)[:_BLOCKS]
