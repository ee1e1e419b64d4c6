"""Arguments that make a compiled function compile again, where the call alone cannot help it: which ones, and why."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from jitmod.analysis.carried import carried_number
from jitmod.analysis.infer import Inference
from jitmod.analysis.shapes import growing, ragged, recorded_lengths
from jitmod.source.project import Function, SourceModule


def recompiling(
    call: ast.Call, function: Function, jit: str, module: SourceModule, infer: Inference
) -> Iterator[tuple[str, str]]:
    """Each as a reason code and a sentence to act on."""
    values = [a for a in (*call.args, *[k.value for k in call.keywords]) if not isinstance(a, ast.Starred)]
    callee, line = ast.unparse(call.func), f"(line {call.lineno})"
    grown = next((w for v in values if (w := growing(v, module, infer)) is not None), None)
    if grown is not None:
        todo = "pad to a few sizes, with a mask, or pass one array of a fixed size"
        yield "growing-shape", f"`{callee}` is compiled anew at every call, because {grown}; {todo} {line}"
        return
    lengths = next((w for v in values if (w := ragged(v, module, infer)) is not None), None)
    if lengths is None and infer.call_sites(function)[:1] == [(module, call)]:
        lengths = recorded_lengths(function, infer)
    if lengths is not None:
        todo = "only a length that came before finds its compilation: pad to a few lengths, with a mask"
        yield "ragged-items", f"`{callee}` compiles again for every new length, because {lengths}; {todo} {line}"
    carried = carried_number(call, function, module, infer) if jit == "equinox.filter_jit" else None
    if carried is not None:
        what = f"`{callee}` compiles again for every new {carried}, a Python number that comes back as one"
        todo = "start from `jnp.asarray(...)` of it if an array may come back"
        yield "scalar-needed-as-python", f"{what}; {todo} {line}"
