"""What a function comes to through the functions that it calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from jitmod.source.project import Function


def leads(
    function: Function, known: dict[Function, bool], step: Callable[[Function], tuple[bool, Iterable[Function]]]
) -> bool:
    """Whether `function` has a property, or calls one that does, itself or through others.

    `step` says of one function alone whether it has it, and which it calls. What is found is remembered in `known`:
    functions that call each other get the answer that they would get alone, whichever of them is asked about first.
    """
    seen, todo = {function}, [function]
    while todo:
        current = todo.pop()
        has, called = (known[current], ()) if current in known else step(current)
        if has:
            known[function] = True
            return True
        fresh = dict.fromkeys(one for one in called if one not in seen)
        seen.update(fresh)
        todo += fresh
    known.update(dict.fromkeys(seen, False))
    return False
