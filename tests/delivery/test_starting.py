"""`jitmod init`: which benchmarks and tests it names for what could be rewritten, and what it writes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from jitmod.delivery.repository import DeliveryError
from jitmod.delivery.starting import add_to, as_toml, workloads_for
from jitmod.source.config import Workload, load
from jitmod.source.document import Document
from jitmod.source.project import Project

FILES = {
    "src/app/__init__.py": "",
    "src/app/core.py": "def f():\n    return 1\n",
    "src/app/deep.py": "from app.core import f\n\n\ndef g():\n    return f()\n",
    "src/app/other.py": "def h():\n    return 2\n",
    "src/app/lonely.py": "def k():\n    return 3\n",
    "bench/speed.py": (
        "from app.deep import g\nfrom app.other import h\n\nDATA = [1]\n\n\ndef setup():\n    return (1,)\n\n\n"
        "def setup_wide():\n    return DATA\n\n\ndef run(x, rep=0):\n    return helper(x)\n\n\n"
        "def run_wide(x):\n    return h()\n\n\n"
        "def helper(x):\n    return g()\n\n\ndef make_data():\n    return 1\n\n\ndef _private():\n    return g()\n\n\n"
        "def also(rep):\n    return h()\n"
    ),
    "tests/test_core.py": (
        "import app.core\n\n\ndef test_one():\n    assert app.core.f() == 1\n\n\ndef helper():\n    pass\n"
    ),
    "tests/test_deep.py": (
        "from app import deep, other\n\n\n"
        "def test_a():\n    assert deep.g()\n\n\ndef test_b():\n    assert deep.g() == 1\n\n\n"
        "def test_c():\n    assert deep.g() > 0\n\n\ndef test_other():\n    assert other.h() == 2\n"
    ),
}  # fmt: skip


def project(*left_out: str) -> Project:
    texts = {path: text for path, text in FILES.items() if path not in left_out}
    return Project.of({path: Document.parse(path, text.encode()) for path, text in texts.items()})


def test_benchmarks_are_named_with_what_makes_their_arguments() -> None:
    found = workloads_for(project(), ["src/app/core.py", "src/app/other.py", "src/app/lonely.py"])
    assert found == [
        Workload("speed", "bench/speed.py:run", "bench/speed.py:setup", covers=("src/app/core.py",)),
        Workload("wide", "bench/speed.py:run_wide", "bench/speed.py:setup_wide", covers=("src/app/other.py",)),
        Workload("also", "bench/speed.py:also", covers=("src/app/other.py",)),
    ]


def test_tests_serve_where_there_is_no_benchmark() -> None:
    found = workloads_for(project("bench/speed.py"), ["src/app/core.py", "src/app/deep.py"])
    assert [(w.name, w.run, w.covers) for w in found] == [
        ("one", "tests/test_core.py::test_one", ("src/app/core.py",)),
        ("a", "tests/test_deep.py::test_a", ("src/app/core.py", "src/app/deep.py")),
        ("b", "tests/test_deep.py::test_b", ("src/app/deep.py",)),
    ]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("before", ["", "[project]\nname = 'x'\n", "[tool.jitmod]\nexclude = ['old']  # é"])
def test_tables_go_to_the_end_of_the_file(tmp_path: Path, before: str, newline: str) -> None:
    file = tmp_path / "pyproject.toml"
    if before:
        file.write_bytes(before.replace("\n", newline).encode())
    workloads = [Workload("a\\b", 'x "y".py:run', "x.py:setup", covers=("src/**",)), Workload("🚀", "é\x7f.py::t")]
    add_to(file, as_toml(workloads))
    text = file.read_bytes().decode()
    assert text.startswith(before.replace("\n", newline))
    assert text.count("\r\n") == (text.count("\n") if newline == "\r\n" and "\n" in before else 0)
    assert load(tmp_path).workloads == tuple(workloads)


@pytest.mark.parametrize(
    "before", ["tool = {jitmod = {}}\n", "[project\n", "[[tool.jitmod.workloads]]\nname = 'a'\nrun = 'a.py:f'\n"]
)
def test_a_file_that_cannot_take_them_stays(tmp_path: Path, before: str) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(before)
    with pytest.raises(DeliveryError, match=r"pyproject\.toml"):
        add_to(file, as_toml([Workload("w", "w.py:run")]))
    assert file.read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["pyproject.toml"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.toml").write_text("")
    (tmp_path / "pyproject.toml").symlink_to("real.toml")
    add_to(tmp_path / "pyproject.toml", as_toml([Workload("w", "w.py:run")]))
    assert (tmp_path / "pyproject.toml").is_symlink()
    assert "workloads" in tomllib.loads((tmp_path / "real.toml").read_text())["tool"]["jitmod"]
