"""The evidence document of one trial, and the same in words. Its schema is published in docs/schema/evidence.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jitmod.delivery.evidence import document
from jitmod.delivery.figures import comparison, describe, gpu, knobs, one_line, parity
from jitmod.model import Verdict


def render(verdict: Verdict, evidence: Mapping[str, Any], version: str) -> str:
    return json.dumps(document(verdict, evidence, version), indent=2, allow_nan=False) + "\n"


def lines(verdict: Verdict, evidence: Mapping[str, Any], unseen: Sequence[str]) -> Iterator[str]:
    """The verdict and its figures for people."""
    yield describe(verdict)
    for what, baseline, candidate, remark in comparison(verdict, evidence):
        yield f"  {what:<10} {baseline:>10} -> {candidate:<10} {remark}".rstrip()
    facts = {"parity": parity(verdict), "knobs": knobs(verdict), "device": verdict.device or "", "gpu": gpu(evidence)}
    for label, said in facts.items():
        if said:
            yield f"  {label:<10} {one_line(said)}"
    execution = evidence.get("explore", {}).get("candidate_execution", {})
    silent = sorted({*execution.get("missed", ()), *execution.get("unused", ())})
    if silent:
        named = ", ".join(one_line(mark) for mark in silent[:3]) + (" ..." if len(silent) > 3 else "")
        yield f"  note       new, and never run by this workload: {named}"
    if unseen:
        named = ", ".join(one_line(path) for path in unseen[:3]) + (" ..." if len(unseen) > 3 else "")
        yield f"  note       files that are no Python are the working tree's in both arms: {named}"
