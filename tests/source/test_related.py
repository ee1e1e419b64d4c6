"""Which files are read at all: decided on bytes."""

import json

import pytest

from jitmod.source.related import related

JAX = b"import jax\nstep = jax.jit(lambda x: x)\n"
PLAIN = b"def run(f, xs):\n    return [f(x) for x in xs]\n"
FILLER = {f"other/o{n}.py": b"import os\n" for n in range(9)}  # so that few files name JAX


@pytest.mark.parametrize(
    "text",
    [
        b"from model import step\n",
        b"import model\n",
        b"import os, model as m\n",
        b"import os; import model\n",
        b"if True: from model import step\n",
        b"from model \\\n  import step\n",
        b"from model import (  # a ) here\n    step,\n)\n",
        b"from . import model\n",
        b"from .model import *\n",
        b"# coding: latin-1\n# caf\xe9\nfrom model import step\n",
        b"\xef\xbb\xbffrom model import step\r\n",
        b"def f():\n\tfrom model import step\n",
        b'"""text from (somewhere"""\nfrom model import step\n',
        b'"""Drawn from (0, 1]."""\nfrom model import step\nstep(1)\n',
        b'if word == "from": import model\n',
        "from \uff4dodel import step\n".encode(),  # Python reads compatible letters as plain ones
        b"import importlib\nimportlib.import_module('model').step(1)\n",
        b"import sys\nsys.modules['model'].RATE = 2\n",
    ],
)
def test_a_file_that_imports_one_with_jax_may_have_a_site(text: bytes) -> None:
    assert {"user.py", "model.py"} <= related({"model.py": JAX, "user.py": text, **FILLER}).sites


def test_a_file_that_is_imported_beside_jax_may_have_a_site() -> None:
    main = b"from loop import run\nfrom model import step\nrun(step, [1])\n"
    found = related({"model.py": JAX, "main.py": main, "loop.py": PLAIN, **FILLER})
    assert found.sites == {"model.py", "main.py", "loop.py"} and found.read == ("loop.py", "main.py", "model.py")


def test_who_imports_a_plain_file_has_no_site_and_is_read() -> None:
    files = {"model.py": b"import jax\nfrom loop import run\n", "loop.py": PLAIN, "far.py": b"from loop import run\n"}
    found = related({**files, **FILLER})
    assert found.sites == {"model.py", "loop.py"} and found.read == ("far.py", "loop.py", "model.py")


@pytest.mark.parametrize(
    "text",
    [
        b"from pkg.sub.model import step\n",
        b"from pkg.sub import model\n",
        b"from pkg import sub\nsub.model.step(1)\n",
        b"import pkg\npkg.sub.model.step(1)\n",
        b"import pkg.sub.model as m\n",
    ],
)
def test_modules_of_packages_are_found_by_any_way_to_them(text: bytes) -> None:
    files = {"pkg/__init__.py": b"", "pkg/sub/__init__.py": b"", "pkg/sub/model.py": JAX, "app/user.py": text}
    found = related({**files, **FILLER})
    assert {"app/user.py", "pkg/sub/model.py"} <= found.sites
    assert {"pkg/__init__.py", "pkg/sub/__init__.py"} <= set(found.read)  # they make up the names of modules


def test_packages_without_init_and_below_src_are_found() -> None:
    files = {"src/app/model.py": JAX, "src/app/user.py": b"from app.model import step\n"}
    assert "src/app/user.py" in related({**files, **FILLER}).sites


def test_what_an_init_hands_on_reaches_its_users() -> None:
    files = {"pkg/__init__.py": b"from .model import step\n", "pkg/model.py": JAX, "user.py": b"import pkg\n"}
    assert "user.py" in related({**files, **FILLER}).sites


def test_an_empty_init_joins_nothing() -> None:
    files = {"pkg/__init__.py": b'"""A package."""\n', "pkg/model.py": JAX, "pkg/text.py": b"import pkg.words\n"}
    found = related({**files, "pkg/words.py": b"def f(): pass\n", **FILLER})
    assert found.sites == {"pkg/model.py"} and found.read == ("pkg/__init__.py", "pkg/model.py")


def test_fixtures_reach_the_tests_below_them() -> None:
    files = {"tests/conftest.py": JAX, "tests/unit/test_a.py": b"def test_a(step): step(1)\n"}
    assert "tests/unit/test_a.py" in related({**files, **FILLER}).sites


def test_a_notebook_imports_as_a_file_does() -> None:
    cell = b'{"cells": [{"source": ["from model import (\\n", "    step,\\n", ")\\n"]}]}'
    assert "a.ipynb" in related({"model.py": JAX, "a.ipynb": cell, **FILLER}).sites


@pytest.mark.parametrize(
    "cell",
    [
        "def f():\n\tfrom model import step\n",
        "from model \\\n    import step\n",
        "import mod\u00e8le\n",
        "import model",
    ],
)
def test_a_notebook_imports_what_its_cells_do(cell: str) -> None:
    cells = [{"cell_type": "code", "source": source} for source in (["x = 1"], cell.splitlines(keepends=True))]
    notebook = json.dumps({"cells": cells}).encode()
    files = {"model.py": JAX, "mod\u00e8le.py": JAX, "a.ipynb": notebook}
    assert "a.ipynb" in related({**files, **FILLER}).sites


@pytest.mark.parametrize(
    "text",
    [
        b"from unittest.mock import patch\n@patch('pkg.model.RATE', 3.0)\ndef test_a(): pass\n",
        b"def test_a(monkeypatch):\n    monkeypatch.setattr('pkg.model.RATE', 3.0)\n",
        b"import importlib\nimportlib.import_module('pkg.model').RATE = 3.0\n",
        b"import sys\nsys.modules['pkg.model'].RATE = 3.0\n",
    ],
)
def test_who_changes_a_module_by_its_name_is_read_with_it(text: bytes) -> None:
    found = related({"pkg/__init__.py": b"", "pkg/model.py": JAX, "tests/test_a.py": text, **FILLER})
    assert "tests/test_a.py" in found.read and "pkg/model.py" in found.read


def test_constants_without_an_assignment_are_read() -> None:
    files = {"model.py": b"import jax, rates\n", "rates.py": b"for RATE in [1, 2]: pass\n"}
    assert related({**files, **FILLER}).sites == {"model.py", "rates.py"}


def test_a_file_with_comments_for_us_is_looked_at() -> None:
    assert related({"a.py": b"def f(): pass  # jitmod: ignore\n", **FILLER}).sites == {"a.py"}


def test_letters_that_python_reads_as_others_are_read_so() -> None:
    assert related({"a.py": "import \uff4aax\n".encode(), **FILLER}).sites == {"a.py"}


def test_names_that_are_not_ascii_are_found() -> None:
    files = {"modèle.py": JAX, "user.py": "from modèle import step\n".encode()}
    assert "user.py" in related({**files, **FILLER}).sites


def test_an_encoding_that_hides_names_is_read() -> None:
    assert "a.py" in related({"a.py": b"# coding: utf-7\nimport +AGoAYQB4-\n", **FILLER}).sites


def test_where_code_is_loaded_by_name_everything_hangs_together() -> None:
    loads = b"import jax, importlib\nimportlib.import_module('plugins.a').hook(jax.jit)\n"
    found = related({"model.py": loads, **FILLER})
    assert found.read == tuple(sorted(["model.py", *FILLER])) and found.sites == {"model.py"}


def test_recorded_files_count() -> None:
    assert "loop.py" in related({"loop.py": PLAIN, **FILLER}, ["loop.py"]).sites


def test_text_that_never_closes_costs_no_time() -> None:
    hard = b"# from (" + b"#" * 3000 + b"\n" * 3000 + b"import os\n"
    assert related({"hard.py": hard * 20, "model.py": JAX, **FILLER}).sites == {"model.py"}


def test_all_files_with_jax_are_read_together() -> None:
    apart = {"a.py": JAX, "b.py": b"import jax\njax.config.update('jax_enable_x64', True)\n"}
    assert related({**apart, **FILLER}).read == ("a.py", "b.py")
    assert related(apart).read == ("a.py", "b.py")
