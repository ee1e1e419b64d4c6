"""Programs on which batching goes wrong easily, with everything hidden that says kinds but what a recording saw.

Annotations are taken out, and every function is also held in a table, so that its visible calls say nothing. What is
patched then rests on the recording: it must do the same, or raise.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib.util
import io
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from jitmod.codemods.vmapify import Vmapify

from jitmod.model import Patch
from jitmod.rewrite.codemod import scan
from jitmod.rewrite.edits import compose
from jitmod.source.document import Document
from jitmod.source.project import Project
from jitmod.source.recording import Recorded, current
from jitmod.trial.child.record_finder import Plan
from jitmod.trial.child.record_log import Log
from jitmod.trial.child.record_probes import Limits, Recorder
from jitmod.trial.recording import store
from jitmod.trial.recording.targets import targets

_SPEC = importlib.util.spec_from_file_location(
    "hard_programs", Path(__file__).parents[1] / "codemods" / "test_vmapify_hard.py"
)
assert _SPEC is not None and _SPEC.loader is not None
hard: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(hard)

_EVERY = 9  # of 440 programs; all of them take minutes
_LIMITS = Limits(3, 2**24, 2**28)


def _hidden(text: str) -> bytes:
    tree = ast.parse(text)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for node in (inner for function in functions for inner in ast.walk(function)):
        match node:
            case ast.arg():
                node.annotation = None
            case ast.FunctionDef():
                node.returns = None
    names = ", ".join(function.name for function in functions if function.name != "workload")
    return f"{ast.unparse(tree)}\n\n_TABLE = [{names}]\n".encode()


def _record(folder: Path, name: str, data: bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[Project, Recorded]:
    """Run the program's workload twice under a recorder in this process."""
    project = Project.of({name: Document.parse(name, data), **hard.HELPERS})
    watched = targets(project, folder, ())
    tree = Plan(watched.files).tree(str(folder / name), data)
    assert tree is not None
    functions = [{**f, "file": entry["file"]} for entry in watched.files for f in entry["functions"]]
    recorder = Recorder(functions, list(watched.loops.values()), 0, str(folder), Log(folder), _LIMITS,
                        lambda frame: None, dict, (), None)  # fmt: skip
    for probe, function in recorder.probes().items():
        monkeypatch.setattr(builtins, probe, function, raising=False)
    main = ModuleType("__main__")
    main.__file__ = str(folder / name)
    monkeypatch.setitem(sys.modules, "__main__", main)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
        exec(compile(tree, str(folder / name), "exec"), vars(main))
        main.workload(), main.workload()
    recorder.finish()
    recording = store.finish(folder, watched, folder, store.Ended("x.py", sys.executable, True))
    monkeypatch.undo()
    return project, current([recording] if recording is not None else [], project.documents)


def _patched(project: Project, known: Recorded, name: str) -> tuple[bytes, bool]:
    """The program after every patch, and whether one of them rests on the recording."""
    rests = False
    for _ in range(6):
        seen = project.with_recorded(known)
        patch = next((f for f in scan([Vmapify()], seen, [name]).findings if isinstance(f, Patch)), None)
        if patch is None:
            break
        rests = rests or any(assumption.code == "recorded-kind" for assumption in patch.assumptions)
        text = compose(project.documents[name], patch.variants[0].realise({}))
        project = Project.of({**project.documents, name: Document.parse(name, text)})
    return project.documents[name].source, rests


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", hard.PROGRAMS[::_EVERY], ids=lambda path: path.stem)
def test_the_same_or_an_error(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(hard.FOLDER))
    data = _hidden(path.read_text(encoding="utf-8"))
    project, known = _record(tmp_path, path.name, data, monkeypatch)
    after, rests = _patched(project, known, path.name)
    if not rests:
        return
    sys.path.insert(0, str(hard.FOLDER))
    try:
        expected, printed = hard.run(data, path.name)
        got, said = hard.run(after, path.name)
    finally:
        sys.path.remove(str(hard.FOLDER))
        for name in hard.HELPERS:
            sys.modules.pop(name.removesuffix(".py"), None)
    if any(isinstance(result, tuple) and result and result[0] == "raised" for result in got):
        return
    assert hard.same(expected, got), after.decode()
    assert printed == said
