"""A toy codemod and a toy trial: `slow(x)` becomes `fast(x)`; the function around it decides the verdict by its name.

Both run without jax. The codemod's patches insert one import, so that two of them in one file conflict.

Why it is slow
--------------
slow() thinks too much.

Safety
------
None needed.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from documents import documents

from jitmod.model import Assumption, Edit, Finding, Knob, Patch, Refusal, Status, Variant, Verdict
from jitmod.rewrite.codemod import Codemod
from jitmod.source.document import Document
from jitmod.source.project import Project
from jitmod.trial.job import digest


class Toy(Codemod):
    id = "toy"
    summary = "slow(x) becomes fast(x)"
    examples = ()

    def find(self, document: Document, project: Project) -> Iterator[Finding]:
        imported = b"import fast" in document.source
        for function in ast.walk(document.tree):
            if not isinstance(function, ast.FunctionDef):
                continue
            for call in ast.walk(function):
                if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "slow"):
                    continue
                site = document.site(call, function.name)
                if not call.args:
                    yield Refusal(self.id, site, "may-be-empty", "slow() without an argument: give it one")
                    continue
                knob = Knob("size", 4, (4, 8))
                start, end = document.span(call.func)
                stop = document.span(call)[1] - 1
                edits = [Edit(start, end, "fast"), Edit(stop, stop, f", {knob.token}")]
                if not imported:
                    top = document.line_starts[1] if document.source.startswith(b"# coding") else 0
                    edits.insert(0, Edit(top, top, "from speed import fast\n"))
                assumptions = (Assumption("guess", "x is an array"),) if function.name.startswith("risky") else ()
                message = f"hurry the call in {function.name}"
                yield Patch(self.id, site, message, (Variant("plain", tuple(edits), (knob,)),), assumptions)


@dataclass(frozen=True)
class ToyTrial:
    verdict: Verdict
    job: dict[str, Any]
    evidence: dict[str, Any]
    variant: Variant | None
    knobs: dict[str, int]


@dataclass
class TrialLog:
    """A trial function that writes down how it was called. `proven`: its documents are such that the gate accepts."""

    proven: bool = False
    calls: list[dict[str, Any]] = field(default_factory=list)
    statuses: ClassVar[dict[str, Status]] = {"bad": Status.REJECTED, "lost": Status.UNPROVEN, "boom": Status.CRASHED}

    def __call__(self, patch: Patch, document: Document, **keywords: Any) -> ToyTrial:
        text = (keywords["code_root"] / patch.site.path).read_bytes()
        self.calls.append(
            {"symbol": patch.site.symbol, "text": text, "same": text == document.encode(document.source), **keywords}
        )
        symbol, workload = patch.site.symbol, keywords["workload"]
        if symbol == "hang" and not Path("hanging").exists():  # once
            Path("hanging").touch()
            time.sleep(600)
        if symbol == "interrupt":
            raise KeyboardInterrupt
        status = self.statuses.get(symbol.split("_")[0], Status.ACCEPTED)
        if workload.name == "elsewhere":
            status = Status.UNPROVEN
        accepted = status is Status.ACCEPTED
        verdict = Verdict(
            status,
            "twice as fast" if accepted else "\x1b[31mno good\x1b[0m\nreally",
            test="slower" if status is Status.REJECTED else None,
            device="cpu",
            speedup=2.04 if accepted else None,
            speedup_ci=(1.9, 2.2) if accepted else None,
            cold={"baseline": 0.5, "candidate": 0.75, "pairs": 3, "breakeven_calls": 12.4},
            compiles={"retraces": "compared", "baseline": {"warm": 20, "cold": 3}, "candidate": {"warm": 0, "cold": 1}},
            parity={"failure": None, "calls": 2, "error_in_bounds": 0.012, "sabotage": {"scaled": "seen"}},
        )
        judges = [{"warm": {"seconds": {"baseline": [0.04, 0.05, 0.9], "candidate": [0.025, 0.02, 0.024]}}}]
        job, evidence = {"symbol": symbol}, {"workload": workload.name, "judges": judges}
        if accepted and self.proven:
            job, evidence = documents(symbol)
            verdict = replace(verdict, evidence_digest=digest(evidence))
        return ToyTrial(verdict, job, evidence, patch.variants[0], {"size": 8} if accepted else {})


@dataclass
class WholeTrial:
    """Rejects a branch with `most` patches or more."""

    most: int = 99
    calls: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, candidate: Mapping[str, str | None], **options: Any) -> ToyTrial:
        count = sum((text or "").count("fast(x, 8)") for text in candidate.values())
        base = "".join((options["code_root"] / path).read_text("utf-8", "replace") for path in sorted(candidate))
        self.calls.append({"count": count, "base": base, "workload": options["workload"].name})
        accepted = count < self.most
        verdict = Verdict(Status.ACCEPTED, "faster", speedup=3.0, speedup_ci=(2.0, 4.0)) if accepted else Verdict(
            Status.REJECTED, "another value", test="parity")  # fmt: skip
        return ToyTrial(verdict, {}, {}, None, {})
