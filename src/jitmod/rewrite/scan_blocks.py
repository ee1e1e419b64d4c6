"""A scan in blocks: the host has work every so many steps, and the steps between are one call each time."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from jitmod.analysis.loops import Stream, Unplannable
from jitmod.analysis.ssa import Value
from jitmod.analysis.values import Array
from jitmod.rewrite.scan_edits import ScanEdits
from jitmod.rewrite.scanned import steps_text
from jitmod.rewrite.text import indented
from jitmod.source.nodes import walk


@dataclass(frozen=True, eq=False)
class BlockEdits(ScanEdits):
    """The edits for a plan whose block is a period."""

    def lines(self) -> list[str]:
        """A call for every block of steps, and the work of the host."""
        plan = self.plan
        if not all(s.from_zero for s in plan.streams if s.source is None):
            raise Unplannable("unknown-iterable", plan.loop.node, "blocks are made of positions that count from zero")
        count = steps_text(plan, self.document.text, self.function.effects.inference)
        if self._is_kept(count):
            return self._opened(count) if plan.opens else self._ended(count)
        total = self._local("n_steps")
        return [f"{total} = {count}", *(self._opened(total) if plan.opens else self._ended(total))]

    def _is_kept(self, count: str) -> bool:
        """Whether the number of steps is written in a way that means the same in every block."""
        return count.isdecimal() or (count.isidentifier() and self.is_fixed(count) and count not in self.stored)

    @property
    def _counter(self) -> str | None:
        """The name that a `while` counts up and that is read later: it ends as the number of steps."""
        counter = self.plan.loop.counter
        return counter.name.id if counter is not None and counter.name.id in self.plan.live else None

    # -- blocks that begin with the step whose work is due -----------------------------------------------------------

    def _opened(self, count: str) -> list[str]:
        """A loop over the first steps of the blocks. Host work reads what the first step of each has made."""
        plan = self.plan
        step, size = self._first_step(), plan.block.size
        asarray = self.function.imports.refer("jax.numpy.asarray")
        fits = count.isdecimal() and int(count) % int(str(size)) == 0
        body = self._call(f"{asarray}({step})", str(size) if fits else f"min({size}, {count} - {step})")
        body += self._extensions()
        read = [e.value for e in plan.emits if self._is_read(e.value)]
        body += [f"{self.function.outer[value]} = {self._first_of(value)}" for value in read]
        body += self._opening_work()
        counted = [f"{self._counter} = {count}"] if self._counter else self._last_position(count)
        after = [*self._rebound(), *counted]
        if after and self._condition() is not None:
            after = [f"if {count} > 0:", *indented("\n".join(after), self.function.step).split("\n")]
        head = f"for {step} in range(0, {count}, {size}):"
        return [head, *indented("\n".join(body), self.function.step).split("\n"), *after]

    def _first_step(self) -> str:
        """The name of the position, which is that of the first step of a block."""
        names = [s.name for s in self.plan.streams if s.source is None]
        return names[0] if len(names) == 1 and names[0] else self._local("start")

    def _first_of(self, value: Value) -> str:
        if isinstance(value.kind, Array):
            return f"{self.names[value]}[0]"
        return f"{self.function.imports.refer('jax.tree.map')}(lambda leaf: leaf[0], {self.names[value]})"

    def _opening_work(self) -> list[str]:
        """The host work, without the condition that holds at the first step of every block."""
        statements = {n.statement for n in self.plan.due}
        test = self.plan.block.test
        lines = []
        for statement in self.plan.loop.body:
            inside = self._kept(statements & set(walk(statement)))
            is_always = isinstance(statement, ast.If) and test is not None and statement.test is test.expr
            if isinstance(statement, ast.If) and is_always and not statement.orelse:
                above = [line for line in inside if line.startswith("#")]
                comments = [c for line, c in self.document.comments if line == statement.lineno]
                lines += [*above, *comments, *self._texts(statement.body, statements, statement.lineno)]
            else:
                lines += inside
        return lines

    # -- blocks that end with it -------------------------------------------------------------------------------------

    def _ended(self, count: str) -> list[str]:
        """A loop over blocks that end with a step after which, or before which, the host has work to do."""
        plan = self.plan
        start, stop = self._local("start"), self._local("stop")
        asarray = self.function.imports.refer("jax.numpy.asarray")
        inner = [f"{stop} = min({self._end(start)}, {count})  # as far as the next work of the host"]
        inner += self._call(f"{asarray}({start})", f"{stop} - {start}")
        if plan.leads:
            inner = [*self._due(start), *inner, *self._extensions(), *self._rebound(), *self._last_position(stop)]
        elif plan.steady:  # the loop over the steps binds names, too
            inner += [*self._extensions(), *self._host_loop(start), *self._rebound()]
        else:
            inner += [*self._extensions(), *self._rebound(), *self._due(f"{stop} - 1")]
        inner.append(f"{start} = {stop}")
        body = indented("\n".join(inner), self.function.step).split("\n")
        counted = [f"{self._counter} = {start}"] if self._counter else []
        return [f"{start} = 0", f"while {start} < {count}:", *body, *counted]

    def _end(self, start: str) -> str:
        """The step behind the next one after which, or before which, host work is due."""
        block = self.plan.block
        if isinstance(block.size, int):
            phase = block.phase % block.size
            if phase == (0 if self.plan.leads else block.size - 1):  # blocks begin at multiples of their size
                return f"{start} + {block.size}"
            size = str(block.size)
        else:
            phase, size = block.phase, f"abs({self.document.text(block.size)})"
        phase -= self.plan.leads
        ahead = f"({phase} - {start}) % {size}" if phase else f"-{start} % {size}"
        return f"{start} + {ahead} + 1"

    def _due(self, position: str) -> list[str]:
        """The host work of a block, at its last step, or before the first."""
        lines = []
        for stream in self.plan.streams:
            if stream.name in self._needed():
                lines.append(f"{stream.name} = {self._item(stream, position)}")
        return [*lines, *self._kept({n.statement for n in self.plan.due})]

    def _last_position(self, stop: str) -> list[str]:
        wanted = [s for s in self.plan.streams if s.name in self.plan.live_outs.targets]
        last = str(int(stop) - 1) if stop.isdecimal() else f"{stop} - 1"
        return [f"{s.name} = {self._item(s, last)}" for s in wanted]

    def _item(self, stream: Stream, position: str) -> str:
        """What a step gets of a stream."""
        if stream.source is None:
            return position
        if not isinstance(stream.kind, Array) or stream.path:
            message = f"host work reads `{stream.name}`, which is no row of an array"
            raise Unplannable("unknown-iterable", self.plan.loop.node, message)
        return f"{self.document.text(stream.source)}[{position}]"
