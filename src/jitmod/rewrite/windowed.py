"""Windows in generated code: `dynamic_slice` inside of the compiled function, and the guard before its call."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from jitmod.analysis.batching import BatchPlan
from jitmod.analysis.loops import Unplannable, header
from jitmod.analysis.polynomials import Polynomial
from jitmod.analysis.windows import Cut, Window, axes_of, range_of
from jitmod.rewrite.imports import Imports
from jitmod.rewrite.text import splice
from jitmod.source.document import Document
from jitmod.source.project import SourceModule


def window_text(window: Window, document: Document, renamed: Mapping[ast.expr, str], imports: Imports) -> str:
    """The window as a part of an array whose place is traced."""

    def text_of(number: Polynomial) -> str:
        return number.text({name: splice(document, node, renamed) for name, node in number.written.items()})

    text = splice(document, window.expr.value, renamed)
    function = imports.refer("jax.lax.dynamic_slice_in_dim")
    for cut in window.cuts:
        axis = f", axis={cut.axis}" if cut.axis else ""
        text = f"{function}({text}, {text_of(cut.start)}, {text_of(cut.width)}{axis})"
    moved = {cut.axis for cut in window.cuts}
    rest = [":" if k in moved else splice(document, p, renamed) for k, p in enumerate(axes_of(window.expr))]
    return text if set(rest) == {":"} else f"{text}[{', '.join(rest)}]"


def moved_numbers(plan: BatchPlan) -> set[ast.expr]:
    """The names of numbers that only say where windows begin: traced, so that another number compiles nothing anew."""
    names = [n for w in plan.windows for cut in w.cuts for n in cut.start.written.values() if isinstance(n, ast.Name)]
    unread = {n for w in plan.windows for n in w.bounds}
    static = {n.id for node in plan.body.device_nodes() for n in node.uses
              if isinstance(n, ast.Name) and n not in names and n not in unread}  # fmt: skip
    static |= {name for w in plan.windows for cut in w.cuts for name in cut.width.written}
    return {n for n in names if n.id not in static}


def guards(plan: BatchPlan, positions: str) -> tuple[str, ...]:
    """Conditions under which every window lies inside of its array; `positions` is the loop's range, as it is written.

    Raises `Unplannable` where the loop is what is left for windows that do not.
    """
    found = tuple(dict.fromkeys(g for w in plan.windows for cut in w.cuts for g in _guards(plan, w, cut, positions)))
    wanted = {ast.unparse(ast.parse(guard, mode="eval").body) for guard in found}
    if found and any(wanted <= refuted for refuted in _refuted(plan.loop.node, plan.loop.module)):
        message = f"this loop is left for windows that `{' and '.join(found)}` does not hold for"
        raise Unplannable("slice-bounds", plan.loop.node, message)
    return found


def moves_range(plan: BatchPlan) -> bool:
    """Whether the guard looks at the ends of the loop's range."""
    cuts = [(w, cut) for w in plan.windows for cut in w.cuts]
    return any([*_guards(plan, *found, "a")] != [*_guards(plan, *found, "b")] for found in cuts)


def _guards(plan: BatchPlan, window: Window, cut: Cut, positions: str) -> Iterator[str]:
    document = plan.loop.module.document

    def text_of(number: Polynomial, place: str = "") -> str:
        atoms = {name: document.text(node) for name, node in number.written.items()}
        return number.text(atoms | ({cut.position: f"{positions}[{place}]"} if cut.position else {}))

    array, width = document.text(window.expr.value), text_of(cut.width)
    length = f"{array}.shape[{cut.axis}]" if cut.axis else f"len({array})"
    step = range_of(header(plan.loop)[1])[2]
    number = step.number if step is not None else None
    first, last = text_of(cut.start, "0"), text_of(cut.start, "-1")
    if cut.position is None:
        yield from (f"{first} >= 0", f"{first} + {width} <= {length}")
    elif cut.first is not None and cut.ends and step is not None and number is None:
        yield f"{text_of(step)} > 0"
    elif cut.rises and number is not None and number > 0:
        yield from () if cut.first is not None else (f"{first} >= 0",)
        yield from () if cut.ends else (f"{last} + {width} <= {length}",)
    elif cut.first is not None:
        yield from (f"{last} >= {cut.first}", f"{last} + {width} <= {length}")
    else:
        yield from (f"min({first}, {last}) >= 0", f"max({first}, {last}) + {width} <= {length}")


def _refuted(node: ast.AST, module: SourceModule) -> Iterator[set[str]]:
    """The conditions of which at least one does not hold where a node runs: it stands in their else branches."""
    inner = node
    for parent in module.ancestors(node):
        if isinstance(parent, ast.If | ast.IfExp):
            other = parent.orelse if isinstance(parent.orelse, list) else [parent.orelse]
            if any(inner is part for part in other):
                both = isinstance(parent.test, ast.BoolOp) and isinstance(parent.test.op, ast.And)
                parts = parent.test.values if isinstance(parent.test, ast.BoolOp) and both else [parent.test]
                yield {ast.unparse(part) for part in parts}
        inner = parent
