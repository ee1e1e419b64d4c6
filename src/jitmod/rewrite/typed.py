"""Numbers that start a loop, of the type that its rounds hand on."""

from __future__ import annotations

from collections.abc import Iterator

from jitmod.analysis.first_round import FirstRound
from jitmod.analysis.loops import Unplannable
from jitmod.model import Edit
from jitmod.source.document import Document


def typed(found: FirstRound, type: str, document: Document) -> Iterator[Edit]:
    """The edits. Raises `Unplannable` where the loop does not begin its line."""
    if found.guard is None:
        for number in found.names.values():
            yield Edit(*document.span(number), f"{type}({document.text(number)})")
        return
    indent = document.indent(found.loop)
    if indent is None:
        raise Unplannable("unparsable", found.loop, f"line {found.loop.lineno} holds several statements")
    made = ", ".join(f"{type}({name})" for name in found.names)
    lines = [f"{', '.join(found.names)} = {made}  # the type that the rounds hand on"]
    if found.guard != "True":
        step = "\t" if indent.startswith("\t") else "    "
        lines = [f"if {found.guard}:", f"{step}{lines[0]}"]
    start = document.span(found.loop)[0]
    yield Edit(start, start, f"\n{indent}".join([*lines, ""]))
