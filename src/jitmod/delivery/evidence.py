"""Evidence as a file: written where a trial ran, and believed elsewhere only as far as it can be checked.

The gate is a pure function of job and evidence, so a verdict is not read but computed anew. What a job is about is
planned anew as well, from the code that is here, and compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jitmod.delivery.jobfile import fault_of
from jitmod.delivery.judged import judged
from jitmod.model import Verdict
from jitmod.trial import gate
from jitmod.trial.job import SCHEMA_VERSION, digest, for_workload, plain


class Refused(Exception):
    """The evidence proves nothing here; the message says why."""


def document(
    verdict: Verdict, evidence: Mapping[str, Any], version: str, job: Mapping[str, Any] | None = None, workload: int = 0
) -> dict[str, Any]:
    """What a trial hands over: the verdict first, then what it rests on.

    With the `job` that was planned, and the number of its workload that was run, where it may go to another machine.
    """
    planned = {} if job is None else {"planned": plain(job), "workload": workload}
    return {
        "schema_version": evidence.get("schema_version", SCHEMA_VERSION),
        "jitmod": version,
        **judged(verdict),
        "digest": verdict.evidence_digest,
        **planned,
        "evidence": plain(evidence),
    }


@dataclass(frozen=True)
class Stored:
    """A file of evidence that is whole: nothing in it was changed after it was written. `single` is the job of the
    workload that was run, `job` the planned one."""

    name: str
    job: Mapping[str, Any]
    single: Mapping[str, Any]
    workload: int
    evidence: Mapping[str, Any]
    verdict: Verdict
    versions: Mapping[str, str]


def read_evidence(file: Path) -> Stored:
    """The evidence in a file, with the verdict that the gate of this jitmod gives. Raises `Refused`."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"cannot be read: {error}") from None
    return parse_evidence(file.name, text)


def parse_evidence(name: str, text: str) -> Stored:
    """As `read_evidence`, of the text of a file."""
    try:
        found = json.loads(text)
        version, job, number, evidence = (found[key] for key in ("schema_version", "planned", "workload", "evidence"))
        if version != SCHEMA_VERSION:
            raise Refused(f"is of format {version}, and this jitmod knows {SCHEMA_VERSION}")
        if found["digest"] != digest(evidence):
            raise Refused("tampered with: what it holds is not what its digest was taken of")
        fault = fault_of(job)
        if fault is not None:
            raise Refused(f"is of no job that jitmod plan has made: {fault}")
        single = for_workload(job, number)
        if evidence["job"] != digest(single):
            raise Refused("tampered with: its job is not the one that was tried")
        verdict = gate.judge(single, evidence)
        said = found["verdict"]
        if not isinstance(verdict.device, str | None):
            raise TypeError(f"a device {verdict.device!r}")
        versions = {name: str(version) for name, version in evidence["explore"].get("versions", {}).items()}
    except Refused:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise Refused(f"is no evidence of jitmod trial --job ({type(error).__name__}: {error})") from None
    if said != verdict.status:
        raise Refused(f"tampered with: it says {said}, and the gate says {verdict.status} of what it holds")
    return Stored(name, job, single, number, evidence, verdict, versions)
