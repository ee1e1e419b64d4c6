"""The index: modules, re-exports, relative and star imports, scopes."""

from __future__ import annotations

from pathlib import Path

import pytest

from jitmod.source.document import Document, UnreadableSource
from jitmod.source.project import Project, SourceModule
from jitmod.source.scopes import Scope


def project(**files: str) -> Project:
    paths = {name.replace("__", "/") + ".py": text for name, text in files.items()}
    return Project.of({path: Document.parse(path, text.encode()) for path, text in paths.items()})


def defined(index: Project, dotted: str) -> str:
    """`module:name` of the definition that a dotted name leads to; the name itself where it is a library's."""
    match index.lookup(dotted):
        case (Scope() as scope, str() as rest):
            return f"{scope.module.name}:{rest}"
        case SourceModule() as module:
            return module.name
        case str() as name:
            return name


PACKAGE = {
    "src/app/__init__.py": "from .nets import Net as Model\nfrom .util import *\n",
    "src/app/nets.py": "import equinox as eqx\n\nclass Net(eqx.Module):\n    pass\n",
    "src/app/util.py": "def helper():\n    pass\n",
    "bench/run.py": "from app import Model, helper\nimport app.nets as n\n",
}


@pytest.mark.parametrize(
    ("dotted", "expected"),
    [
        ("app.Model", "app.nets:Net"),
        ("app.helper", "app.util:helper"),
        ("app.nets.Net", "app.nets:Net"),
        ("app.nets", "app.nets"),
        ("run.Model", "app.nets:Net"),
        ("bench.run.n", "app.nets"),
        ("jax.numpy.stack", "jax.numpy.stack"),
        ("app.missing", "app.missing"),
    ],
)
def test_lookup_follows_imports(dotted: str, expected: str) -> None:
    index = Project.of({path: Document.parse(path, text.encode()) for path, text in PACKAGE.items()})
    assert defined(index, dotted) == expected


def test_star_imports_bind_names() -> None:
    index = project(
        a="import jax.numpy as jnp\nX = 1\n_Y = 2\n\n\ndef sum(x):\n    return x\n",
        b="__all__ = ['_Z']\nfrom a import *\n_Z = X\n",
        c="from a import *\nfrom b import *\nfrom numpy import *\nX = 3\nprint(sum(X), jnp, _Z, zeros)\n",
    )
    bindings = index.modules["c"].scope.bindings
    assert {name: [(b.how, b.target) for b in found] for name, found in bindings.items()} == {
        "X": [("assign", "")],
        "sum": [("import", "a.sum")],
        "jnp": [("import", "jax.numpy")],
        "_Z": [("import", "b._Z")],
    }
    assert defined(index, "c.sum") == "a:sum"


def test_circular_imports_end() -> None:
    assert defined(project(a="from b import *\nx = y\n", b="from a import *\ny = x\n"), "a.y") == "b:y"
    assert defined(project(a="from b import x\n", b="from a import x\n"), "a.x") in ("a.x", "b.x")


def test_a_root_that_is_a_package(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text("from .m import f\n")
    (tmp_path / "m.py").write_text("def f():\n    pass\n")
    index = Project.build(tmp_path, ["__init__.py", "m.py"])
    assert defined(index, f"{tmp_path.name}.f") == f"{tmp_path.name}.m:f"


def test_unreadable_files_are_errors_and_the_rest_goes_on(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def f(:\n")
    (tmp_path / "good.py").write_text("x = 1\n")
    index = Project.build(tmp_path, ["bad.py", "good.py", "missing.py"])
    assert list(index.documents) == ["good.py"]
    assert (index.errors["bad.py"].line, index.errors["bad.py"].path) == (1, "bad.py")
    assert "cannot be opened" in index.errors["missing.py"].message


@pytest.mark.parametrize(
    "data",
    [
        b"x = 1\r\ny = 2\r\n",
        b"\xef\xbb\xbfx = 'a'\n",
        "# -*- coding: latin-1 -*-\nx = 'é'\n".encode("latin-1"),
        b"x = 1",
        "x = 'naïve 🙂'\n".encode(),
        b"",
    ],
    ids=["crlf", "bom", "latin-1", "no final newline", "wide characters", "empty"],
)
def test_bytes_survive(data: bytes) -> None:
    document = Document.parse("a.py", data)
    assert document.encode(document.source) == data
    for statement in document.tree.body:
        assert document.text(statement) in document.source.decode()


@pytest.mark.parametrize("data", [b"\xff\xfe", b"# coding: no-such\n", b"x = '\x00'\n", b"def f(:\n"])
def test_what_is_not_python_is_an_error(data: bytes) -> None:
    with pytest.raises(UnreadableSource) as caught:
        Document.parse("a.py", data)
    assert caught.value.error.path == "a.py"
