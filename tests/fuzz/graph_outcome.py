"""What the codemods of boundaries make of a generated call graph, and whether it is still the same program."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from call_graphs import program
from jitmod.codemods.fuse_jits import FuseJits
from jitmod.codemods.hoist_jit import HoistJit
from jitmod.codemods.jitify import Jitify
from jitmod.codemods.trace_scalars import TraceScalars

from jitmod.model import Patch
from jitmod.rewrite.codemod import Codemod

sys.path.append(str(Path(__file__).parent.parent / "codemods"))
from harness import difference, findings, reasons, rewritten, run

CODEMODS: tuple[Codemod, ...] = (HoistJit(), TraceScalars(), Jitify(), FuseJits())


@dataclass(frozen=True)
class Outcome:
    """Of one program: what was found, by codemod and reason; `wrong` says what is no longer as it was, with both texts.

    `before` and `after` count the compilations of the calls after the first one, `raised` the calls that raise.
    """

    found: Counter[tuple[str, str]]
    wrong: str | None
    before: int = 0
    after: int = 0
    raised: int = 0


def outcome(seed: int) -> Outcome:
    """The outcome of the program with number `seed`."""
    before = program(seed)
    found = Counter((codemod.id, reason) for codemod in CODEMODS for reason in reasons(codemod, before))
    after = before
    for codemod in CODEMODS:
        after = rewritten(codemod, after)
        if any(isinstance(f, Patch) for f in findings(codemod, after)):
            return Outcome(found, f"seed {seed}: {codemod.id} is not idempotent\n{after}")
    if after == before:
        return Outcome(found, None)
    expected, got = run(before), run(after)
    raised = sum(isinstance(r, tuple) and r[:1] == ("raised",) for r in expected.results)
    what = difference(expected.results, got.results, rtol=1e-4, atol=1e-5)
    if what is None and expected.printed != got.printed:
        what = f"text: {expected.printed!r} and {got.printed!r}"
    counts = expected.compilations[1:], got.compilations[1:]
    if what is None and any(new > old for old, new in zip(*counts, strict=True)):
        what = f"compilations: {expected.compilations} and {got.compilations}"
    wrong = f"seed {seed}: {what}\n{before}\n---\n{after}" if what is not None else None
    return Outcome(found, wrong, sum(counts[0]), sum(counts[1]), raised)
