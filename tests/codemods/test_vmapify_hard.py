"""Programs on which batching goes wrong easily: left alone, the same, or failing as declared."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jitmod.codemods.vmapify import Vmapify

from jitmod.model import Patch
from jitmod.rewrite.codemod import scan
from jitmod.rewrite.edits import compose
from jitmod.source.document import Document
from jitmod.source.project import Project

FOLDER = Path(__file__).parent.parent / "fixtures" / "vmapify" / "hard"
PROGRAMS = sorted(path for path in FOLDER.glob("*.py") if not path.name.startswith("_"))
HELPERS = {path.name: Document.parse(path.name, path.read_bytes()) for path in FOLDER.glob("_*.py")}
NUMBER = re.compile(r"\d+\.\d+(e-?\d+)?")


def rewritten(name: str, data: bytes) -> tuple[bytes, bool]:
    """The program after every patch, and whether one of them declared an assumption."""
    assumed = False
    for _ in range(6):
        document = Document.parse(name, data)
        found = scan([Vmapify()], Project.of({name: document, **HELPERS}), [name]).findings
        patches = [f for f in found if isinstance(f, Patch)]
        if not patches:
            break
        assumed = assumed or bool(patches[0].assumptions)
        data = compose(document, patches[0].variants[0].realise({}))
    return data, assumed


def run(data: bytes, name: str) -> tuple[list[Any], str]:
    """The results of two calls, or the error, and the printed text without its decimals."""
    space: dict[str, Any] = {"__name__": "program"}
    sink = io.StringIO()
    results: list[Any] = []
    with contextlib.redirect_stdout(sink):
        try:
            exec(compile(data, name, "exec"), space)
            results += [space["workload"](), space["workload"]()]
        except Exception as error:
            results.append(("raised", type(error).__name__))
    return results, NUMBER.sub("#", sink.getvalue())


def same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, jax.Array) and jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key):
        a, b = jax.random.key_data(a), jax.random.key_data(b)
    if isinstance(a, jax.Array | np.ndarray | np.generic | float | complex):
        x, y = np.asarray(a), np.asarray(b)
        if x.dtype != y.dtype or x.shape != y.shape:
            return False
        return str(x) == str(y) if x.dtype == object else bool(np.allclose(x, y, 2e-5, 2e-6, equal_nan=True))
    return bool(a == b) or str(a) == str(b)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_hard(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    data = path.read_bytes()
    after, assumed = rewritten(path.name, data)
    if after == data:
        return
    expected, printed = run(data, path.name)
    got, said = run(after, path.name)
    for name in HELPERS:
        sys.modules.pop(name.removesuffix(".py"), None)
    raised = [r for r in got if isinstance(r, tuple) and r and r[0] == "raised"]
    if raised and assumed:
        return
    assert same(expected, got), after.decode()
    assert printed == said
