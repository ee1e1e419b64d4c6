"""A notebook is recorded as a program is: its cells run in order, without a kernel."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from jitmod.model import Patch, Site
from jitmod.source.document import Document
from jitmod.source.recording import current
from jitmod.trial.recording import workload

from .conftest import Run

sys.path.insert(0, str(Path(__file__).parents[1] / "source"))

from notebooks import cell, text

CELLS = [
    "%matplotlib inline\nfrom helper import total",
    "def double(xs):\n    out = []\n    for x in xs:\n        out.append(2 * x)\n    return out",
    "%%time\n%time values = double([1, 2, 3])\ndisplay(values)\nprint(open('data.txt').read(), total([4, 5]))",
]
HELPER = "def total(xs):\n    s = 0\n    for x in xs:\n        s += x\n    return s\n"


def test_cells_run_in_the_notebooks_folder_and_calls_are_kept(
    tmp_path: Path, write: Callable[..., None], recorded: Callable[..., Run]
) -> None:
    write({"notes/book.ipynb": text([cell(source) for source in CELLS]), "notes/helper.py": HELPER,
           "notes/data.txt": "read"})  # fmt: skip
    run = recorded("notes/book.ipynb")
    assert (run.out, run.status) == ("[2, 4, 6]\nread 9\n", 0), run.err
    assert run.recording is not None and run.recording.label == "book.ipynb"
    kept = {(path, name): len(function.calls) for (path, name), function in run.recording.functions.items()}
    assert kept == {("notes/book.ipynb", "double"): 1, ("notes/helper.py", "total"): 1}
    assert run.recording.functions["notes/book.ipynb", "double"].kinds["xs"]
    helper = Document.read(tmp_path, "notes/helper.py")
    known = current([run.recording], {p: Document.read(tmp_path, p) for p in ("notes/helper.py", "notes/book.ipynb")})
    inside = Patch("toy", Site("notes/helper.py", 3, 5, 4, "total"), "", ())
    assert [w.run for w in workload.recorded(inside, helper, known)] == ["notes/helper.py:total"]


def test_a_function_whose_calls_cannot_be_kept_is_run_with_its_notebook(
    tmp_path: Path, write: Callable[..., None], recorded: Callable[..., Run]
) -> None:
    calls = "from helper import total\nprint(total(x for x in (4, 5)))"
    write({"book.ipynb": text([cell(calls)]), "helper.py": HELPER})
    run = recorded("book.ipynb")
    assert run.out == "9\n" and run.recording is not None
    helper = Document.read(tmp_path, "helper.py")
    known = current([run.recording], {p: Document.read(tmp_path, p) for p in ("helper.py", "book.ipynb")})
    (found,) = workload.recorded(Patch("toy", Site("helper.py", 3, 5, 4, "total"), "", ()), helper, known)
    assert isinstance(found, workload.NotebookWorkload) and found.run == "book.ipynb"
