"""The workloads of a patch that nobody configured: calls that were recorded, else calls made from annotations."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jitmod.model import Patch
from jitmod.source.config import Workload
from jitmod.source.document import Document
from jitmod.source.notebook import SUFFIX
from jitmod.source.project import SourceModule
from jitmod.source.recording import Call, Recorded, RecordedFunction, RecordedScript
from jitmod.trial.child.record_transform import functions
from jitmod.trial.recording.targets import holder

_CALLERS = 3  # functions that stand for one that cannot be called by itself
_SHORT = 60.0  # seconds of a script that can be run again and again


@dataclass(frozen=True)
class RecordedWorkload(Workload):
    """Calls of one function as a recording has them; `note` says so in a verdict."""

    recording: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class ScriptWorkload(Workload):
    """A recorded program from its start to its end; `note` says so in a verdict."""

    script: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class NotebookWorkload(Workload):
    """A notebook from its first cell to its last; `note` says so in a verdict."""

    note: str = ""


@dataclass(frozen=True)
class SynthesisedWorkload(Workload):
    """Calls of one function with arguments made from its annotations; `note` says so in a verdict."""

    synthesis: bool = True
    note: str = ""


def recorded(patch: Patch, document: Document, known: Recorded) -> list[Workload]:
    """The recorded calls that run the place of `patch`.

    Where the function cannot be called by itself, its callers that were seen stand for it; where nothing of it can be
    called, a whole script that ran it does, and so it does for what is in no function.
    """
    if document.notebook is not None:
        return []
    name = holder(document.tree, patch.site)
    if name is None:
        return [_script(s, document) for s in known.scripts if s.path == patch.site.path and s.seconds < _SHORT][:1]
    function = known.function(patch.site.path, name)
    if function is None:
        return []
    callers = [known.function(*name) for name in function.callers]
    standing = [function] if function.calls else [one for one in callers if one is not None]
    found = [_workload(one) for one in standing[:_CALLERS] if one.calls]
    scripts = [s for s in known.scripts if s.folder == function.folder and s.seconds < _SHORT]
    return found or [_script(script, document) for script in scripts]


def synthesised(patch: Patch, document: Document) -> list[Workload]:
    """Calls with made-up arguments, where every parameter has a default or an annotation, and jaxtyping is among them.

    Whether values can be made is found out when the trial makes them. What is in a notebook is run with all of it.
    """
    if document.notebook is not None:
        return [NotebookWorkload(f"all of {document.path}", document.path, note=f"on the whole of {document.path}")]
    name = holder(document.tree, patch.site)
    node = next((n for n, qualname in functions(document.tree) if qualname == name), None)
    if node is None or name is None or "<locals>" in name or not _is_annotated(node, name, document.tree):
        return []
    note = f"on arguments made from the annotations of {name}, for want of a workload"
    run = f"{document.path}:{name}"
    return [SynthesisedWorkload(f"synthesis of {name}", run, covers=(), note=note)]


def _workload(function: RecordedFunction) -> Workload:
    calls = _alike(function.calls)
    first = calls[0]
    main = function.path if first.module == "__main__" else (first.mark or {}).get("path")
    details = {
        "folder": str(function.folder), "module": first.module, "target": function.target, "main": main,
        "mark": dict(first.mark) if first.mark is not None else None,
        "roots": list(first.roots), "config": dict(first.config),
        "files": [call.file for call in calls], "structures": [call.structure for call in calls],
        "digest": _digest(function.folder, calls),
    }  # fmt: skip
    number = f"{len(calls)} recorded calls" if len(calls) > 1 else "one recorded call"
    note = f"on {number} of {function.qualname} ({function.label})"
    run = f"{function.path}:{function.target}"
    return RecordedWorkload(f"recorded {function.qualname}", run, recording=details, note=note)


def _script(script: RecordedScript, document: Document) -> Workload:
    """What a script leaves: the names that its own statements bind."""
    note = f"on the whole of {script.path}"
    if script.path.endswith(SUFFIX):
        return NotebookWorkload(f"all of {script.path}", script.path, note=note)
    names: list[str] = []
    if document.path == script.path:
        bindings = SourceModule("__main__", document, False).scope.bindings
        made = ("import", "def", "class")
        names = sorted(name for name, found in bindings.items() if any(b.how not in made for b in found))
    details = {"path": script.path, "module": script.module, "arguments": list(script.arguments), "names": names}
    return ScriptWorkload(f"all of {script.path}", f"{script.path}:main", script=details, note=note)


def _alike(calls: Sequence[Call]) -> list[Call]:
    """The calls that can be made in one process: made in the same state of the script, under one configuration."""
    first = calls[0]
    return [c for c in calls if (c.mark, c.config, c.module) == (first.mark, first.config, first.module)]


def _digest(folder: Path, calls: Sequence[Call]) -> str:
    """The contents of the stored calls, so that evidence cannot be taken for that of others."""
    digest = hashlib.sha256()
    for call in calls:
        digest.update((folder / "calls" / call.file).read_bytes())
    return digest.hexdigest()


def _is_annotated(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str, tree: ast.Module) -> bool:
    imported = {
        alias.asname or alias.name
        for n in ast.walk(tree)
        if isinstance(n, ast.Import | ast.ImportFrom)
        and (getattr(n, "module", None) or "").partition(".")[0] in ("", "jaxtyping")
        for alias in n.names
        if isinstance(n, ast.ImportFrom) or alias.name == "jaxtyping"
    }
    a = node.args
    positional = [*a.posonlyargs, *a.args]
    open_ones = [*positional[: len(positional) - len(a.defaults)],
                 *(x for x, default in zip(a.kwonlyargs, a.kw_defaults, strict=True) if default is None)]  # fmt: skip
    if "." in name and open_ones and open_ones[0].annotation is None:
        open_ones = open_ones[1:]  # self
    mentioned = {n.id for x in open_ones if x.annotation for n in ast.walk(x.annotation) if isinstance(n, ast.Name)}
    texts = [x.annotation.value for x in open_ones if isinstance(x.annotation, ast.Constant)]
    mentioned |= {word for text in texts if isinstance(text, str) for word in imported if word in text}
    return bool(mentioned & imported) and all(x.annotation is not None for x in open_ones)
