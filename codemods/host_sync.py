"""host-sync: results that a loop reads back in every round are read back once, behind the loop.

What it does
    Finds `losses.append(float(loss))` and `total += loss.item()` in loops that run compiled code, where nobody looks at
    the list or the sum before the loop ends. The loop keeps the arrays; what they hold is read back in one go.

Why it is slow
    jax hands work to the device and goes on. Reading a result waits until the device is done: in every round the device
    idles while the host prepares the next step, and the host while the device computes.

When it refuses
    Where the loop reads another result in every round and so waits anyway, where the list or the sum is read meanwhile
    or known elsewhere, where an exception handler could see it, where a clock measures the rounds, where the compiled
    code prints or calls back, and where the buffer of a result might be donated. Where a buffer of the host is filled
    anew in every round, or may be, as by an unknown loader: the device might still read the last round's.

Safety
    The same numbers, converted in the same way and added up in the same order. Of every round one scalar stays on the
    device until the loop ends.

References
    https://docs.jax.dev/en/latest/async_dispatch.html
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import ClassVar

from jitmod.analysis.jits import Contexts, analyses
from jitmod.analysis.syncs import LoopStatement, Sync, syncs_of, waiting_loops
from jitmod.model import Edit, Finding, Patch, Variant
from jitmod.rewrite.codemod import Codemod, Example, Leaves, Refuses, Rewrites
from jitmod.rewrite.edits import EditConflict, compose
from jitmod.rewrite.imports import Imports, NameTaken
from jitmod.rewrite.lifted import margin
from jitmod.rewrite.names import Namer, plural
from jitmod.rewrite.refused import REFUSING, refused
from jitmod.source.document import Document
from jitmod.source.project import Project, SourceModule

_HEAD = """\
import jax
import jax.numpy as jnp


@jax.jit
def step(w, x):
    loss = jnp.mean((w * x) ** 2)
    return w - 0.1 * loss * x, loss


"""


class HostSync(Codemod):
    """The codemod; see the module's docstring."""

    id = "host-sync"
    summary = "results that a loop reads back in every round are read back once, behind the loop"
    rounds = False
    examples: ClassVar[Sequence[Example]] = (
        Rewrites(
            _HEAD
            + """\
def train(w: jax.Array, batches: list[jax.Array]):
    losses = []
    for x in batches:
        w, loss = step(w, x)
        losses.append(float(loss))
    return w, losses
""",
            _HEAD
            + """\
def train(w: jax.Array, batches: list[jax.Array]):
    losses = []
    for x in batches:
        w, loss = step(w, x)
        losses.append(loss)
    losses = [float(loss) for loss in jax.device_get(losses)]
    return w, losses
""",
        ),
        Rewrites(
            _HEAD
            + """\
def epoch(w: jax.Array, batches: list[jax.Array]):
    total = 0.0
    for x in batches:
        w, loss = step(w, x)
        total += loss.item()
    print(total / len(batches))
    return w
""",
            _HEAD
            + """\
def epoch(w: jax.Array, batches: list[jax.Array]):
    total = 0.0
    losses = []
    for x in batches:
        w, loss = step(w, x)
        losses.append(loss)
    for value in jax.device_get(losses):
        total += value.item()
    print(total / len(batches))
    return w
""",
        ),
        Leaves(_HEAD + "def once(w: jax.Array, x: jax.Array):\n    return float(step(w, x)[1])\n"),
        Refuses(
            _HEAD
            + """\
def train(w: jax.Array, batches: list[jax.Array]):
    losses = []
    for x in batches:
        w, loss = step(w, x)
        losses.append(float(loss))
        print(losses[-1])
    return w, losses
""",
            "results-escape",
        ),
    )

    def find(self, document: Document, project: Project) -> Iterator[Finding]:
        effects, contexts = analyses(project)
        module = project.module(document)
        namer = Namer.of(module)
        for loop, statements in sorted(waiting_loops(module, effects), key=lambda found: found[0].lineno):
            if _is_traced(loop, module, contexts):
                continue
            site = document.site(loop, module.scope_of(loop).qualname)
            try:
                syncs = syncs_of(loop, statements, module, effects)
                edits = _edits(syncs, module, namer)
                compose(document, edits)
            except REFUSING as why:
                yield refused(self.id, site, why)
            else:
                pulls = " and ".join(f"`{ast.unparse(sync.pull)}`" for sync in syncs)
                message = f"{pulls} {'wait' if len(syncs) > 1 else 'waits'} for the device in every round"
                yield Patch(self.id, site, message, (Variant("behind the loop", edits),))


def _is_traced(loop: LoopStatement, module: SourceModule, contexts: Contexts) -> bool:
    function = module.functions.get(module.scope_of(loop).node)
    return function is not None and "traced" in contexts.of(function)


def _edits(syncs: Sequence[Sync], module: SourceModule, namer: Namer) -> tuple[Edit, ...]:
    """Keep what is on the device; read it behind the loop."""
    document, imports = module.document, Imports(module)
    get = imports.refer("jax.device_get")
    here = module.scope_of(syncs[0].statement)
    if here.find(get.partition(".")[0]) not in (None, module.scope):
        raise NameTaken(get.partition(".")[0])
    edits: list[Edit] = []
    above: dict[ast.stmt, list[str]] = {}
    below: dict[ast.stmt, list[str]] = {}
    for sync in syncs:
        device, named = document.text(sync.device), isinstance(sync.device, ast.Name)
        if sync.is_sum:
            values, value = namer.fresh(plural(device if named else sync.name)), namer.fresh("value")
            _check_comments(sync, document)
            edits.append(Edit(*document.span(sync.statement), f"{values}.append({device})"))
            above.setdefault(sync.outer, []).append(f"{values} = []")
            step = "\t" if document.line(sync.statement.lineno).startswith("\t") else "    "
            lines = [f"for {value} in {get}({values}):", f"{step}{sync.name} += {_converted(sync, value)}"]
        else:
            value = device if named else namer.fresh("value")
            edits.append(Edit(*document.span(sync.pull), device))
            lines = [f"{sync.name} = [{_converted(sync, value)} for {value} in {get}({sync.name})]"]
        below.setdefault(sync.outer, []).extend(lines)
    edits += [_before(outer, document, lines) for outer, lines in above.items()]
    edits += [_behind(outer, document, lines) for outer, lines in below.items()]
    return (*imports.edits(), *edits)


def _converted(sync: Sync, name: str) -> str:
    """The user's conversion of what `name` holds."""
    return f"{sync.pull.func.id}({name})" if isinstance(sync.pull.func, ast.Name) else f"{name}.item()"


def _check_comments(sync: Sync, document: Document) -> None:
    """Raises `EditConflict` where a comment stands beside what is kept of a statement."""
    lines = range(sync.statement.lineno, (sync.statement.end_lineno or 0))
    kept = range(sync.device.lineno, (sync.device.end_lineno or 0))
    if any(line in lines and line not in kept for line, _ in document.comments):
        raise EditConflict(f"the comments in line {sync.statement.lineno} have no place to go to")


def _before(statement: ast.stmt, document: Document, lines: Sequence[str]) -> Edit:
    """Lines above a statement and its comments."""
    line, indent = statement.lineno, margin(document, statement)
    while line > 1 and document.line(line - 1).startswith(f"{indent}#"):
        line -= 1
    at = document.line_starts[line - 1]
    return Edit(at, at, "".join(f"{indent}{text}\n" for text in lines))


def _behind(statement: ast.stmt, document: Document, lines: Sequence[str]) -> Edit:
    """Lines below a statement."""
    assert statement.end_lineno is not None
    text = "".join(f"{margin(document, statement)}{line}\n" for line in lines)
    if statement.end_lineno < len(document.line_starts):
        at = document.line_starts[statement.end_lineno]
        return Edit(at, at, text)
    at = len(document.source)
    return Edit(at, at, text if document.source.endswith(b"\n") else f"\n{text}".removesuffix("\n"))
