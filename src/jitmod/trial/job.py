"""A job: one JSON document that says all of a trial but where it runs."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from jitmod.model import Patch, Site, Variant
from jitmod.rewrite.edits import code_after
from jitmod.source.config import GateSettings, Workload
from jitmod.source.document import Document

SCHEMA_VERSION = 1

Overlay = Mapping[str, str | None]
"""New text by relative path; None where the file goes."""


def make_job(
    candidates: Sequence[Mapping[str, Any]],
    *,
    baseline: Overlay,
    base_commit: str,
    workload: Workload,
    settings: GateSettings,
    seed: int,
    budget: float,
    require_gpu: bool,
    site: Site | None,
    new_functions: Sequence[str],
    fingerprint: str,
    reference: str = "baseline",
    needs_fresh_values: bool = False,
    partial: bool = False,
    neutral: bool = False,
    guard: bool = False,
) -> dict[str, Any]:
    """The document. `candidates` come from `candidates_of` or `candidate_of`; the first is the default.

    `partial`: of what is changed, some may be for other workloads to run; `neutral`: no gain is asked for; `guard`:
    results may differ, and only what gets slower, compiles more often, or fails is rejected.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "fingerprint": fingerprint,
        "base_commit": base_commit,
        "site": None if site is None else dataclasses.asdict(site),
        "new_functions": list(new_functions),
        "baseline": dict(baseline),
        "candidates": [dict(candidate) for candidate in candidates],
        "workload": {**dataclasses.asdict(workload), "covers": list(workload.covers)},
        "gate": dataclasses.asdict(settings),
        "seed": seed,
        "budget": budget,
        "require_gpu": require_gpu,
        "reference": reference,
        "needs_fresh_values": needs_fresh_values,
        "partial": partial,
        "neutral": neutral or guard,
        "guard": guard,
    }


def candidates_of(patch: Patch, document: Document) -> list[dict[str, Any]]:
    """Every text of a patch: all forms, all knobs. Raises `EditConflict`."""
    made: list[dict[str, Any]] = []
    for number, variant in enumerate(patch.variants):
        for knobs in _settings(variant):
            text = code_after(document, variant.realise(knobs))
            default = knobs == variant.defaults()
            made.append({"variant": number, "form": variant.form, "knobs": knobs, "default": default,
                         "files": {document.path: text}})  # fmt: skip
    return made


def candidate_of(files: Overlay) -> dict[str, Any]:
    """A candidate that is given as text."""
    return {"variant": 0, "form": "text", "knobs": {}, "default": True, "files": dict(files)}


def for_workload(job: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The job of one workload of a planned job: its own for 0, and `otherwise` from there on."""
    rest = dict(job)
    workloads = [rest["workload"], *rest.pop("otherwise", ())]
    return {**rest, "workload": workloads[number]}


def plain(value: Any) -> Any:
    """Measurements as JSON has them: no tuples, and no NaN or infinity, which are null."""
    match value:
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case float() if not math.isfinite(value):
            return None
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def digest(document: Mapping[str, Any]) -> str:
    """The name of a job or of evidence: a hash of its canonical JSON."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _settings(variant: Variant) -> list[dict[str, int]]:
    """Every combination of knob values, the default first."""
    names = [knob.name for knob in variant.knobs]
    values = [sorted({*knob.candidates, knob.default}) for knob in variant.knobs]
    every = [dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*values)]
    return [variant.defaults(), *(settings for settings in every if settings != variant.defaults())]
