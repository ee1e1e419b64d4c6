"""What was rejected before: the same patch of the same code, tried by the same workload with the same jax on the same
device, is not tried again."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jitmod import __version__
from jitmod.model import Patch, Status, Verdict
from jitmod.source.config import GateSettings, Workload
from jitmod.source.project import Project

_FORMAT = 1  # of what is kept; older ones are not found any more
_VERSIONS = """
import importlib.metadata as m, sys
for name in ("jax", "jaxlib", "equinox", "numpy", "jax-cuda12-plugin", "jax-cuda13-plugin", "jax-rocm7-plugin"):
    try: print(name, m.version(name))
    except m.PackageNotFoundError: pass
print(sys.version)
"""
_DEVICES = ("JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "XLA_FLAGS", "JAX_ENABLE_X64")
_NODES = ("/dev/nvidia0", "/dev/kfd", "/dev/accel0")


def environment(python: Path) -> str:
    """The versions that a trial with this interpreter would run, and what says on which device."""
    asked = _asked(python)
    devices = [f"{name}={os.environ.get(name, '')}" for name in _DEVICES]
    return "\n".join([asked, *devices, *(node for node in _NODES if os.path.exists(node))])


def versions(python: Path) -> dict[str, str]:
    """The versions of jax and of what belongs to it that an interpreter has."""
    pairs = (line.split() for line in _asked(python).splitlines())
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _asked(python: Path) -> str:
    return subprocess.run([python, "-c", _VERSIONS], capture_output=True, text=True, check=False).stdout


@dataclass(frozen=True)
class Memory:
    """Verdicts in the files of `folder`. `is_fresh`: what is there is not looked at, only replaced."""

    folder: Path
    environment: str
    is_fresh: bool = False

    def key(self, patch: Patch, code: str, workloads: Sequence[Workload], settings: GateSettings, *more: object) -> str:
        """The name of a trial: `code` is the digest of the project's sources."""
        said = [_FORMAT, __version__, self.environment, code, patch.codemod, patch.site.path,
                [dataclasses.asdict(variant) for variant in patch.variants],
                [dataclasses.asdict(workload) for workload in workloads], dataclasses.asdict(settings), *map(str, more)]
        return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()

    def recall(self, key: str) -> Verdict | None:
        """The rejection that was kept under this name. What cannot be read is not there."""
        if self.is_fresh:
            return None
        try:
            kept = json.loads((self.folder / f"{key}.json").read_text(encoding="utf-8"))
            verdict = _verdict(kept)
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return verdict if verdict.status is Status.REJECTED else None

    def keep(self, key: str, verdict: Verdict) -> None:
        """Keep a rejection. That it cannot be written costs a trial next time, and nothing now."""
        if verdict.status is not Status.REJECTED:
            return
        text = json.dumps({**dataclasses.asdict(verdict), "status": str(verdict.status)}, default=str)
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self.folder, delete=False, encoding="utf-8") as file:
                file.write(text)
            os.replace(file.name, self.folder / f"{key}.json")


def _verdict(kept: Mapping[str, Any]) -> Verdict:
    interval = kept["speedup_ci"]
    fields = {**kept, "status": Status(kept["status"]), "speedup_ci": tuple(interval) if interval else None}
    return Verdict(**fields)


def digest(project: Project) -> str:
    """Of all sources of a project."""
    whole = hashlib.sha256()
    for path, document in sorted(project.documents.items()):
        whole.update(f"{path}\0{hashlib.sha256(document.source).hexdigest()}\0".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def programs(workloads: Sequence[Workload], *roots: Path) -> str:
    """The digest of the files that workloads name, each from the first of the roots that has it.

    A project may exclude its benchmarks from what is read, or not commit them.
    """
    whole = hashlib.sha256()
    named = (spec for w in workloads for spec in (w.run, w.setup, w.metric) if spec is not None)
    for path in sorted({spec.partition(":")[0] for spec in named}):
        for root in roots:
            with contextlib.suppress(OSError):
                digest = hashlib.sha256((root / path).read_bytes()).hexdigest()
                whole.update(f"{path}\0{digest}\0".encode("utf-8", "replace"))
                break
    return whole.hexdigest()
