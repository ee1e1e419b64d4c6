"""How a compiled function takes the items of a loop: arrays as they are, lists stacked, Modules with stacked arrays."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jitmod.analysis.loops import Stream, is_view
from jitmod.analysis.values import Array, Instance, Kind, NdArray, Record, Sequence, item_of
from jitmod.rewrite.names import plural
from jitmod.rewrite.text import indented

if TYPE_CHECKING:
    from jitmod.rewrite.function import Compiled


@dataclass(eq=False)
class Stacking:
    """Collects the lines that come before the batched call, and those with which an item begins."""

    function: Compiled
    checks: list[str] = field(default_factory=list)
    stacks: list[str] = field(default_factory=list)
    taken: list[tuple[str, Stream]] = field(default_factory=list)  # the parameters that hold the items
    opening: list[str] = field(default_factory=list)  # the first lines of the function of one item

    def source(self, stream: Stream, item: str) -> str:
        """The text of what holds the items of a stream along a leading axis; `item` is an item's name inside."""
        assert stream.source is not None
        name = self._parameter(stream, stream.source)
        self.taken.append((name, stream))
        if isinstance(stream.kind, Array | NdArray):
            return name
        stack = self.function.imports.refer("jax.numpy.stack")
        if isinstance(item_of(stream.kind), Instance):
            return self._modules(name, item, stack)
        if isinstance(stream.kind, Sequence) and stream.kind.uniform:
            return f"{stack}({name})"
        stacked = self.function.inner_name(f"stacked_{name}")
        self.stacks.append(f"{stacked} = {stack}({name})")
        return stacked

    def prelude(self) -> list[str]:
        """The lines before the batched call."""
        if not self.stacks:
            return []
        strict = self.function.imports.refer("jax.numpy_dtype_promotion")
        return [
            *self.checks,
            f'with {strict}("strict"):  # items of several dtypes raise here instead of being cast',
            indented("\n".join(self.stacks), self.function.step),
        ]

    def _parameter(self, stream: Stream, source: ast.expr) -> str:
        """The parameter that takes the items: the iterable, or a list of what the loop unpacks from its items."""
        parameters = self.function.parameters
        text = self.function.hoisted.get(source) or self.function.document.text(source)
        if stream.path:
            target = _pattern(stream, stream.path, item_of(stream.kind))
            return parameters.add(f"[{stream.name} for {target} in {text}]", plural(stream.name))
        wish = text.rpartition(".")[2].lstrip("_") if text.replace(".", "_").isidentifier() else plural(stream.name)
        wish = wish.lower() if wish.isupper() else wish
        if stream.of_values:
            return parameters.add(f"list({text}.values())", wish)
        if is_view(source):
            return parameters.add(f"list({text})", wish)
        return parameters.add(text, wish, parameters.annotation(source))

    def _modules(self, name: str, item: str, stack: str) -> str:
        """Modules that differ in their arrays alone become one whose arrays have a leading axis."""
        function = self.function
        partition, is_array = function.imports.refer("equinox.partition"), function.imports.refer("equinox.is_array")
        equal, combine = function.imports.refer("equinox.tree_equal"), function.imports.refer("equinox.combine")
        arrays, statics = function.inner_name(f"{item}_arrays"), function.inner_name(f"{item}_statics")
        stacked = function.inner_name(f"stacked_{name}")
        self.checks += [
            f"{arrays}, {statics} = zip(*[{partition}({item}, {is_array}) for {item} in {name}])",
            f"if not all({equal}(static, {statics}[0]) for static in {statics}):",
            f'{function.step}raise ValueError("{name} differ in more than their arrays")',
        ]
        tree_map = function.imports.refer("jax.tree.map")
        self.stacks.append(f"{stacked} = {tree_map}(lambda *leaves: {stack}(leaves), *{arrays})")
        self.opening.append(f"{item} = {combine}({item}, {statics}[0])")
        return stacked


def _pattern(stream: Stream, path: tuple[int, ...], kind: Kind) -> str:
    """The target that unpacks an item to the name of a stream: `(_, x)`, without its outermost brackets."""
    if not path:
        return stream.name
    assert isinstance(kind, Record)
    first, *rest = path
    inner = _pattern(stream, tuple(rest), kind.items[first])
    parts = [(f"({inner})" if rest else inner) if k == first else "_" for k in range(len(kind.items))]
    return ", ".join(parts) + ("," if len(parts) == 1 else "")
