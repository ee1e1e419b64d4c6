"""The other form of a compiled function: it always takes a chunk of one size, and the host drives it.

Another number of items compiles nothing anew: the last chunk is filled up with its last item, and what that gives in
excess is dropped.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from jitmod.analysis.heap import path_of
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.values import Array, NdArray, Record
from jitmod.rewrite.function import Compiled
from jitmod.rewrite.text import indented
from jitmod.source.nodes import walk


class Chunked(Compiled):
    """A function of one chunk, and the function that runs it for all of them and gives a list of results."""

    returns_list: ClassVar[bool] = True

    @cached_property
    def constant(self) -> str:
        """The name of the constant that holds the size of a chunk."""
        return self.namer.fresh(f"{self.name.strip('_').removesuffix('_chunk').upper()}_CHUNK_SIZE")

    def build(self) -> None:
        """Fill in the names and `definition`. Raises `Unplannable` where items cannot be taken in chunks."""
        if self.plan.piece("scan") or self.plan.positions:
            what = "keys and positions go from chunk to chunk"
            raise Unplannable("prng-order", self.plan.loop.node, what)
        if any(isinstance(s.kind, Array) and s.kind.is_key for s in self.plan.items):
            raise Unplannable("prng-order", self.plan.loop.node, "keys are no arrays that numpy can cut")
        if len(self.plan.emits) > 1 and any(isinstance(e.value.kind, Record) for e in self.plan.emits):
            raise Unplannable("unknown-result", self.plan.loop.node, "several results of an item, one of them a tuple")
        if self._reads_whole():
            raise Unplannable("carried-state", self.plan.loop.node, "an item's result depends on all items")
        super().build()

    def _reads_whole(self) -> bool:
        """Whether the computation reads what is iterated over as a whole, too."""
        roots = {path_of(s.source)[:1] for s in self.plan.items if s.source is not None}
        inner = {n for read in self.plan.body.item_reads for n in walk(read)}
        uses = [e for n in self.plan.body.device_nodes() for e, v in n.uses.items() if v.origin == "invariant"]
        return any(path_of(e)[:1] in roots for e in uses if e not in inner)

    def _mapping(self, function: str, sources: list[str]) -> str:
        xs = sources[0] if len(sources) == 1 else f"({', '.join(sources)})"
        call = f"{self.imports.refer('jax.vmap')}({function})({xs})"
        several = len(self.plan.emits) > 1 or isinstance(self.plan.emits[0].value.kind, Record)
        return f"list(zip(*{call}))" if several else f"list({call})"

    def _definition(self, body: list[str]) -> str:
        whole, self.name = self.name, self.namer.fresh(f"{self.name.removesuffix('_batched')}_chunk")
        chunk = super()._definition(body)
        compiled, self.name = self.name, whole
        return chunk + "\n".join([*self._driver(compiled), "", "", ""])

    def _driver(self, compiled: str) -> list[str]:
        """The function that cuts the items into chunks."""
        assert self.stacking is not None
        step, size = self.step, self.constant
        found = self.parameters.found
        arrays = {name for name, stream in self.stacking.taken if isinstance(stream.kind, Array | NdArray)}
        cut = [name for name, _ in self.stacking.taken]
        asarray, concatenate, repeat = ((self.imports.refer(f"numpy.{name}") if arrays else "")
                                        for name in ("asarray", "concatenate", "repeat"))  # fmt: skip
        parts = {name: self.inner_name(f"{name}_chunk" if len(cut) > 1 else "chunk") for name in cut}
        first = cut[0]
        lines = ["# chunks of one size, so that another number of items compiles nothing anew"]
        lines += [f"{name} = {asarray}({name})" for name in cut if name in arrays]
        results, start, real = (self.inner_name(wish) for wish in ("results", "start", "real"))
        lines += [f"{results} = []", f"for {start} in range(0, len({first}), {size}):"]
        inner = [f"{parts[name]} = {name}[{start} : {start} + {size}]" for name in cut]
        inner += [f"{real} = len({parts[first]})"]
        for name in cut:
            part = parts[name]
            last = f"{part}[-1:]"
            if name in arrays:
                filled = f"{concatenate}([{part}, {repeat}({last}, {size} - {real}, axis=0)])"
            else:
                filled = f"{part} + {last} * ({size} - {real})"
            inner.append(f"{part} = {filled}")
        passed = ", ".join(parts.get(p.name, p.name) for p in found)
        inner.append(f"{results} += {compiled}({passed})[:{real}]")
        lines += [indented("\n".join(inner), step), f"return {results}"]
        parameters = ", ".join(f"{p.name}: {p.annotation}" if p.annotation else p.name for p in found)
        return [f"def {self.name}({parameters}):", indented("\n".join(lines), step)]
