"""Notebooks: read as one module, written back byte by byte, with the smallest change."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jitmod.codemods.scanify import Scanify
from notebooks import END, HEAD, LOOP, QUIET, STEP, cell, ten, text

from jitmod.delivery.preview import document_diff, realised
from jitmod.model import Edit, Patch, Refusal
from jitmod.rewrite.codemod import scan
from jitmod.rewrite.edits import EditConflict, compose
from jitmod.source.document import Document, UnreadableSource
from jitmod.source.notebook import Notebook
from jitmod.source.project import Project

NAMES = list(ten(QUIET))


def parse(data: bytes) -> Document:
    return Document.parse("book.ipynb", data)


def found(document: Document) -> list[Patch | Refusal]:
    return list(scan([Scanify()], Project.of({"book.ipynb": document}), ["book.ipynb"]).findings)


def patched(document: Document) -> Document:
    (patch,) = (one for one in found(document) if isinstance(one, Patch))
    return realised(document, patch.variants[0].realise({}))


def sources(data: bytes) -> list[str]:
    cells = json.loads(data.decode("utf-8-sig"))["cells"]
    return ["".join(one["source"]) for one in cells]


@contextlib.contextmanager
def shell() -> Iterator[dict[str, Any]]:
    class Shell:
        def __getattr__(self, name: str) -> Any:
            return lambda *_: None

    yield {"__name__": "__main__", "get_ipython": Shell}


def output(document: Document) -> str:
    said = io.StringIO()
    with shell() as names, contextlib.redirect_stdout(said):
        exec(compile(document.source, "book.ipynb", "exec"), names)
    return said.getvalue()


@pytest.mark.parametrize("name", NAMES)
def test_nothing_changes_where_nothing_is_found(name: str) -> None:
    data = ten(QUIET)[name]
    document = parse(data)
    assert document.encode(document.source) == data
    assert [one for one in found(document) if isinstance(one, Patch)] == []
    assert document_diff(document, document) == ""


@pytest.mark.parametrize("name", NAMES)
def test_the_change_is_that_of_one_cell(name: str, tmp_path: Path) -> None:
    data = ten(LOOP)[name]
    document = parse(data)
    after = patched(document)
    written = after.encode(after.source)
    nbformat.validate(nbformat.reads(written.decode("utf-8-sig"), as_version=4))
    before, now = json.loads(data.decode("utf-8-sig")), json.loads(written.decode("utf-8-sig"))
    (changed,) = (i for i, (a, b) in enumerate(zip(before["cells"], now["cells"], strict=True)) if a != b)
    assert list(now["cells"][changed]) == list(before["cells"][changed])
    new = sources(written)[changed]
    assert "jax.lax.scan" in new and "the café's rollout" in new
    assert new.replace("\r\n", "\n").count("\n") == (new.count("\r\n") if "Windows in the sources" in name else
                                                     new.count("\n"))  # fmt: skip
    before["cells"][changed] = now["cells"][changed] = None
    assert json.dumps(now) == json.dumps(before)  # the order of keys counts
    removed, added = edges(data, written)
    source = before_source(data, changed)
    assert removed in source and len(removed) < len(source) and len(added) < len(written) - len(data) + len(source)
    (tmp_path / "book.ipynb").write_bytes(data)
    diff = document_diff(document, after)
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=diff.encode(), check=True)
    assert (tmp_path / "book.ipynb").read_bytes() == written
    assert [one for one in found(parse(written)) if isinstance(one, Patch)] == []


def edges(data: bytes, written: bytes) -> tuple[bytes, bytes]:
    """What differs between two files, without the beginning and the end that they share."""
    first = next(i for i, (a, b) in enumerate(zip(data, written, strict=False)) if a != b)
    last = next(i for i, (a, b) in enumerate(zip(reversed(data), reversed(written), strict=False)) if a != b)
    last = min(last, min(len(data), len(written)) - first)
    return data[first : len(data) - last], written[first : len(written) - last]


def before_source(data: bytes, changed: int) -> bytes:
    text = data.removeprefix(b"\xef\xbb\xbf").decode()
    source = next(c.source for c in Notebook.read(text).cells if c.number == changed + 1)
    return text[source.start : source.end].encode()


@pytest.mark.parametrize("name", ["a timed cell", "magics, shell lines and cells of other languages"])
def test_both_versions_do_the_same(name: str) -> None:
    document = parse(ten(LOOP)[name])
    assert output(document) == output(patched(document)) != ""


def test_cells_are_one_module_and_findings_say_where_in_them() -> None:
    document = parse(text([cell("# title", kind="markdown"), cell(HEAD), cell(STEP), cell(LOOP), cell(END)]).encode())
    (patch,) = found(document)
    seen = patch.site.seen
    assert seen is not None and (seen.cell, seen.line, seen.end_line) == (4, 3, 5)
    assert document.encode(document.source).decode().split("\n")[seen.file_line - 1].strip() == (
        json.dumps(LOOP.split("\n")[2] + "\n") + ","
    )


def test_lines_in_messages_are_those_of_a_cell() -> None:
    loop = "for i in range(20):\n    u = step(u)\n    print(u)\n    if u.sum() > 3:\n        break"
    (refusal,) = found(parse(text([cell(HEAD), cell(STEP), cell(loop)]).encode()))
    assert isinstance(refusal, Refusal)
    assert "(cell 3, line " in refusal.message


def test_the_diff_begins_with_what_a_reader_wants_to_see() -> None:
    document = parse(ten(LOOP)["one line, no end"])
    diff = document_diff(document, patched(document))
    reader = diff.split("--- a/book.ipynb\n")[0].splitlines()
    assert all(line.startswith("# ") for line in reader)
    assert "# cell 4:" in reader and "# -for i in range(20):" in reader


def edit(document: Document, old: str, new: str) -> Edit:
    start = document.source.index(old.encode())
    return Edit(start, start + len(old.encode()), new)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        pytest.param("    run = 1  # cell 1:1\n", "", "`%time run = 1`", id="a magic removed"),
        pytest.param("    run = 1  # cell 1:1", "    run = 2  # cell 1:1", "`%time run = 1`", id="a magic changed"),
        pytest.param("    a = 2", "    run = 1  # cell 1:1", "`%time run = 1`", id="a magic doubled"),
        pytest.param('"%% cell 2"\n', "", "border above cell 2", id="a border removed"),
        pytest.param("x = 5", "y = 5", "cell 3 is not run as it stands", id="a cell that is timed again and again"),
        pytest.param("out = get", "import os\nout = get", "%%capture", id="above a head"),
    ],
)
def test_edits_that_do_not_fit_into_the_cells(old: str, new: str, why: str) -> None:
    cells = ["if True:\n    %time run = 1\n    a = 2", "%%capture out\nb = 2", "%%timeit\nx = 5"]
    document = parse(text([cell(source) for source in cells]).encode())
    with pytest.raises(EditConflict) as raised:
        compose(document, [edit(document, old, new)])
    assert why in str(raised.value)


def test_a_magic_in_the_loop_is_a_refusal() -> None:
    loop = LOOP.replace("    traj", "    %time v = step(u)\n    traj")
    (refusal,) = found(parse(text([cell(HEAD), cell(STEP), cell(loop), cell(END)]).encode()))
    assert isinstance(refusal, Refusal) and refusal.reason in ("unparsable", "host-effect", "unresolved-callee")


def test_a_cell_that_is_timed_is_left_alone() -> None:
    loop = "%%timeit\ndef run(u):\n    for i in range(20):\n        u = step(u)\n    return u\n\n\nrun(u)"
    (refusal,) = found(parse(text([cell(HEAD), cell(STEP), cell(loop)]).encode()))
    assert isinstance(refusal, Refusal) and (refusal.reason, refusal.site.seen.line) == ("timing-loop", 3)


def test_what_is_put_between_cells_ends_the_upper_one() -> None:
    document = parse(text([cell("a = 1"), cell("b = 2")]).encode())
    at = document.source.index(b'"%% cell 2"')
    assert sources(compose(document, [Edit(at, at, "c = 3\n")])) == ["a = 1\nc = 3", "b = 2"]
    at = document.source.index(b"b = 2")
    assert sources(compose(document, [Edit(at, at, "c = 3\n")])) == ["a = 1", "c = 3\nb = 2"]


@pytest.mark.parametrize(
    ("data", "where", "said"),
    [
        pytest.param(b"", (0, 1), "is not JSON", id="empty"),
        pytest.param(b'{"cells": [\n}', (0, 2), "is not JSON", id="broken JSON"),
        pytest.param(b"\xff\xfe{}", (0, 1), "cannot be read", id="another encoding"),
        pytest.param(b"[1]", (0, 1), "no notebook", id="no object"),
        pytest.param(b'{"nbformat": 4}', (0, 1), "no list of cells", id="no cells"),
        pytest.param(b'{"nbformat": 4, "cells": [3]}', (1, 1), "no cell", id="a number as cell"),
        pytest.param(b'{"nbformat": 4, "cells": [{"cell_type": "code"}]}', (1, 1), "no source", id="no source"),
        pytest.param(text([cell("x = 1"), cell("a = 1\nfor:")]).encode(), (2, 2), "cannot be parsed", id="syntax"),
        pytest.param(text([cell("x = (1,"), cell("2)")]).encode(), (1, 1), "never closed", id="across cells"),
        pytest.param(text([cell('"\ud800"')], ensure_ascii=True).encode(), (1, 1), "surrogates", id="half a character"),
        pytest.param(b'{"nbformat": 4, "cells": ' + b"[" * 99999 + b"]" * 99999 + b"}", (0, 1), "deep", id="deep"),
    ],
)
def test_broken_notebooks_are_errors(data: bytes, where: tuple[int, int], said: str) -> None:
    with pytest.raises(UnreadableSource) as raised:
        parse(data)
    error = raised.value.error
    assert (error.cell, error.line) == where and said in error.message and not error.is_foreign


@pytest.mark.parametrize(
    ("data", "said"),
    [
        pytest.param(b'{"worksheets": [], "nbformat": 3}', "format 3", id="format 3"),
        pytest.param(text([cell("x <- 1")], metadata={"language_info": {"name": "R"}}).encode(), "of R", id="R"),
        pytest.param(text([cell("x")], metadata={"kernelspec": {"language": "julia"}}).encode(), "julia", id="Julia"),
    ],
)
def test_foreign_notebooks_are_left_alone(data: bytes, said: str) -> None:
    with pytest.raises(UnreadableSource) as raised:
        parse(data)
    assert raised.value.error.is_foreign and said in raised.value.error.message


def test_a_notebook_without_code() -> None:
    document = parse(text([cell("# only words", kind="markdown")]).encode())
    assert document.source == b"" and found(document) == []


def test_future_imports_of_later_cells() -> None:
    long = "from __future__ import (\n    division,\n)\nx = 1"
    cells = ["%matplotlib inline", "from __future__ import division, print_function", long]
    data = text([cell(source) for source in cells]).encode()
    document = parse(data)
    with shell() as names:
        exec(compile(document.source, "book.ipynb", "exec"), names)
    assert names["x"] == 1
    assert sources(compose(document, [edit(document, "x = 1", "x = 2")]))[2] == cells[2].replace("1", "2")


def test_percent_scripts_are_python_with_comments() -> None:
    script = f"# %% [markdown]\n# # Title\n\n# %%\n{HEAD}\n\n# %%\n{STEP}\n\n# %%\n{LOOP}\n\n# %%\n{END}\n"
    document = Document.parse("book.py", script.encode())
    (patch,) = scan([Scanify()], Project.of({"book.py": document}), ["book.py"]).findings
    assert isinstance(patch, Patch)
    after = realised(document, patch.variants[0].realise({}))
    assert output(after) == output(document) != ""
    cells = after.source.decode().split("# %%\n")
    assert [("jax.lax.scan" in one) for one in cells] == [False, False, False, True, False]
