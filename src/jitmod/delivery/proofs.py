"""Whether evidence from elsewhere is about this patch of this code: what it is compared with, and why it is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jitmod.delivery.evidence import Refused, Stored, read_evidence
from jitmod.delivery.plan import Plan, Planned, workloads_of
from jitmod.delivery.queue import FoundPatch
from jitmod.delivery.repository import DeliveryError
from jitmod.model import Edit, Status, Variant, Verdict
from jitmod.source.config import Workload
from jitmod.source.document import Document
from jitmod.trial import notebooks

_GPUS = frozenset(["gpu", "cuda", "rocm"])
_VERSIONS = ("jax", "jaxlib", "equinox")  # that decide what is computed, and how fast
_ELSEWHERE = ("budget", "seed", "base_commit", "contents", "jitmod", "require_gpu", "gate", "workload", "otherwise")


@dataclass(frozen=True)
class Proof:
    """What evidence says of a patch: a trial's result, as `TrialResult` has it, and the workload that it ran."""

    verdict: Verdict
    job: Mapping[str, Any]
    evidence: Mapping[str, Any]
    variant: Variant
    knobs: Mapping[str, int]
    workload: Workload


class Proofs:
    """The evidence of a folder. `plans` are those of the code as it is here: of the branch's tip, and of its base.

    `refused` are the files that prove nothing here, with the reason.
    """

    def __init__(
        self, folder: Path, plans: Sequence[Plan], code_root: Path, versions: Mapping[str, str],
        knows: Callable[[str], bool],
    ) -> None:  # fmt: skip
        self._plans, self._code_root, self._versions, self._knows = plans, code_root, versions, knows
        self._found: dict[str, tuple[Stored, Planned]] = {}
        self._why: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        for file in _files(folder):
            try:
                stored = read_evidence(file)
                planned = self._checked(stored)
            except Refused as refused:
                self.refused[file.name] = str(refused)
                self._why.setdefault(file.name, str(refused))
            else:
                known = self._found.get(planned.one.id)
                if known is None or _weight(stored) > _weight(known[0]):
                    self._found[planned.one.id] = (stored, planned)

    def of(self, one: FoundPatch, document: Document) -> Proof:
        """The proof of a patch as it is in `document`. Raises `Refused` where there is none."""
        found = self._found.get(one.id)
        if found is None:
            name = f"{one.finding.codemod}-{one.id}.json"
            why = self._why.get(name)
            raise Refused(f"no evidence of this patch ({name})" if why is None else f"the evidence in {name}: {why}")
        stored, planned = found
        chosen = stored.single["candidates"][stored.evidence["explore"].get("chosen", 0)]
        variants = one.finding.variants
        if len(variants) <= chosen["variant"]:
            raise Refused("an earlier patch changed this place after it was planned: plan again")
        variant = variants[chosen["variant"]]
        tried = planned.one.finding.variants[chosen["variant"]]
        if _work(variant.realise(chosen["knobs"])) != _work(tried.realise(chosen["knobs"])):
            raise Refused("an earlier patch changed this place after it was planned: plan again")
        why = notebooks.in_cells(stored.verdict.why, stored.single, self._code_root)
        number = self._same_workload(stored, planned.job or {})
        verdict, workload = replace(stored.verdict, why=why), planned.workloads[number]
        return Proof(verdict, stored.single, stored.evidence, variant, chosen["knobs"], workload)

    def _checked(self, stored: Stored) -> Planned:
        """The patch of this code that the evidence is about. Raises `Refused`."""
        job = stored.job
        contents = job["contents"]
        plan = next((p for p in self._plans if _contents(p) == contents["sources"]), None)
        planned = None if plan is None else _named(plan, job["id"])
        if plan is None or planned is None or planned.job is None:
            raise Refused(self._unknown(job))
        ours = planned.job
        if plan is not self._plans[0] and Counter(p.one.mark for p in plan.planned)[planned.one.mark] > 1:
            raise Refused("stale: the branch has moved on, and there were equal places: plan again")
        if job["jitmod"] != ours["jitmod"]:
            raise Refused(f"stale: of jitmod {job['jitmod']}, and this is {ours['jitmod']}")
        other = [f"{n} {stored.versions[n]} (here {self._versions.get(n, 'none')})" for n in _VERSIONS
                 if n in stored.versions and stored.versions[n] != self._versions.get(n, "none")]  # fmt: skip
        if other:
            raise Refused(f"stale: measured with {', '.join(other)}")
        if job["gate"] != ours["gate"]:
            said = (f"{k} {job['gate'].get(k)} (here {v})" for k, v in ours["gate"].items() if job["gate"].get(k) != v)
            raise Refused(f"stale: judged by other settings: {', '.join(said)}")
        number = self._same_workload(stored, ours)
        if contents["workloads"][stored.workload] != ours["contents"]["workloads"][number]:
            raise Refused(f"stale: {stored.single['workload']['run']} has changed")
        differing = sorted(k for k in ours.keys() | job.keys() if k not in _ELSEWHERE and ours.get(k) != job.get(k))
        if differing:
            raise Refused(f"foreign: of another patch of the same place ({', '.join(differing)})")
        device = stored.verdict.device
        if ours["require_gpu"] and device not in _GPUS:
            raise Refused(f"a GPU is required, and it was measured on {device or 'nothing'}")
        return planned

    def _same_workload(self, stored: Stored, ours: Mapping[str, Any]) -> int:
        """The number that the workload has here which was run. Raises `Refused`."""
        workloads = [single["workload"] for single in workloads_of(ours)]
        if stored.single["workload"] not in workloads:
            run = stored.single["workload"]["run"]
            raise Refused(f"foreign: it ran {run}, and here other workloads are given: pass the same --workload")
        return workloads.index(stored.single["workload"])

    def _unknown(self, job: Mapping[str, Any]) -> str:
        commit = str(job["base_commit"])
        if not self._knows(commit):
            return f"foreign: of another repository, whose commit {commit[:10]} is not here"
        path = job["contents"]["path"]
        ours = {str(p.job["contents"]["file"]) for plan in self._plans for p in plan.planned
                if p.job is not None and p.one.finding.site.path == path}  # fmt: skip
        if job["contents"]["file"] not in ours:
            return f"stale: {path} is not what it was in {commit[:10]}"
        if any(_contents(p) == job["contents"]["sources"] for p in self._plans):
            return "foreign: of a patch that is not among those asked for"
        return f"stale: sources have changed since {commit[:10]}"


def _weight(stored: Stored) -> int:
    """Of several files about one patch the heaviest counts: a machine on which it is wrong, or slower, says no."""
    order = (Status.UNPROVEN, Status.INCONCLUSIVE, Status.ACCEPTED, Status.CRASHED, Status.REJECTED)
    return order.index(stored.verdict.status)


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise DeliveryError(f"--evidence {folder}: no such folder")
    return sorted(folder.glob("*.json"))


def _contents(plan: Plan) -> str | None:
    """The digest of all sources that the jobs of a plan are about."""
    return next((str(p.job["contents"]["sources"]) for p in plan.planned if p.job is not None), None)


def _named(plan: Plan, identity: str) -> Planned | None:
    return next((p for p in plan.planned if p.one.id == identity), None)


def _work(edits: Iterable[Edit]) -> list[tuple[int, str]]:
    """What edits do, wherever they are: imports may be there already by the work of another patch."""
    return [(e.end - e.start, e.text) for e in edits if not _imports_only(e)]


def _imports_only(edit: Edit) -> bool:
    lines = [line for line in edit.text.splitlines() if line.strip()]
    return edit.start == edit.end and all(line.startswith(("import ", "from ")) for line in lines)
