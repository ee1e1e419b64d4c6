"""The untried diff: cumulative, with default knobs, in memory."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from toy import Toy

from jitmod.delivery.preview import Wanted, preview
from jitmod.delivery.untried import Asked, diff
from jitmod.model import Edit, Finding, Patch, Variant
from jitmod.rewrite.codemod import Codemod
from jitmod.source.document import Document
from jitmod.source.project import Project

TWO = b"def one(x):\n    return slow(x)\n\n\ndef two(x):\n    return slow(x)\n"


def project(**files: bytes) -> Project:
    return Project.of({f"{name}.py": Document.parse(f"{name}.py", data) for name, data in files.items()})


def applied(folder: Path, before: bytes, diff: str) -> bytes:
    (folder / "app.py").write_bytes(before)
    command = ["git", "apply", "-"]
    subprocess.run(command, cwd=folder, check=True, input=diff.encode(), env={"PATH": "/usr/bin:/bin"})
    return (folder / "app.py").read_bytes()


def test_patches_that_insert_one_import_insert_it_once(tmp_path: Path) -> None:
    found = preview(Wanted((Toy(),), ("app.py",)), project(app=TWO))
    after = applied(tmp_path, TWO, found.diff)
    assert after == b"from speed import fast\n" + TWO.replace(b"slow(x)", b"fast(x, 4)")


def test_each_patch_has_its_own_diff_as_well() -> None:
    found = preview(Wanted((Toy(),), ("app.py",)), project(app=TWO))
    assert [entry.outcome.diff.count("+    return fast(x, 4)") for entry in found.entries] == [1, 1]
    assert all(entry.outcome.verdict is None for entry in found.entries)


def test_equal_sites_have_stable_names_of_their_own() -> None:
    source = b"def one(x):\n    slow(x)\n    slow(x)\n"
    first = preview(Wanted((Toy(),), ("app.py",)), project(app=source))
    moved = preview(Wanted((Toy(),), ("app.py",)), project(app=b"# moved\n\n" + source))
    ids = [entry.id for entry in first.entries]
    assert len(set(ids)) == 2
    assert [entry.id for entry in moved.entries] == ids


def test_files_are_in_order_and_each_has_one_diff() -> None:
    found = preview(Wanted((Toy(),), ("b.py", "a.py")), project(a=TWO, b=TWO))
    assert [path for path, _ in found.diffs] == ["a.py", "b.py"]
    assert found.diff.count("--- a/") == 2


def test_only_safe_patches_count() -> None:
    source = TWO.replace(b"def two", b"def risky")
    found = preview(Wanted((Toy(),), ("app.py",), only_safe=True), project(app=source))
    assert [entry.outcome.finding.site.symbol for entry in found.entries] == ["one"]
    assert "risky" not in found.diff.replace(" def risky", "")
    assert found.diff.count("+    return") == 1


class Helper(Codemod):
    """A codemod that puts a new function, always of the first free name, before each `f` and `g`."""

    id = "helper"
    summary = "needs names"
    examples = ()

    def find(self, document: Document, project: Project) -> Iterator[Finding]:
        defined = [node.name for node in document.tree.body if isinstance(node, ast.FunctionDef)]
        free = next(f"new{number}" for number in range(9) if f"new{number}" not in defined)
        for node in document.tree.body:
            if isinstance(node, ast.FunctionDef) and node.name in "fg" and document.text(node).endswith("pass"):
                start, end = document.span(node)
                edits = (Edit(start, start, f"def {free}(): ...\n"), Edit(end - 4, end, f"{free}()"))
                site = document.site(node, node.name)
                yield Patch(self.id, site, "help", (Variant("plain", edits),), new_functions=(free,))


def test_patches_that_chose_one_name_for_a_new_function_get_two(tmp_path: Path) -> None:
    source = b"def f(): pass\n\n\ndef g(): pass\n"
    found = preview(Wanted((Helper(),), ("app.py",)), project(app=source))
    assert applied(tmp_path, source, found.diff) == (
        b"def new0(): ...\ndef f(): new0()\n\n\ndef new1(): ...\ndef g(): new1()\n"
    )


class Endless(Codemod):
    """A codemod whose text is found again: `f()` becomes `f(f())`."""

    id = "endless"
    summary = "never done"
    examples = ()

    def find(self, document: Document, project: Project) -> Iterator[Finding]:
        for node in document.tree.body:
            if isinstance(node, ast.Expr):
                start, end = document.span(node)
                edits = (Edit(0, 0, "# again\n"), Edit(start, end, f"f({document.text(node)})"))
                yield Patch(self.id, document.site(node, "<module>"), "again", (Variant("plain", edits),))


def test_a_codemod_that_is_never_done_ends_after_as_many_patches_as_it_had_found() -> None:
    found = preview(Wanted((Endless(),), ("app.py",)), project(app=b"f()\ng()\nh()\n"))
    assert found.diff.count("+# again") == 3


class Broken(Codemod):
    """A codemod whose text is not Python."""

    text = "def ("

    id = "broken"
    summary = "bad"
    examples = ()

    def find(self, document: Document, project: Project) -> Iterator[Finding]:
        node = document.tree.body[0]
        edit = Edit(*document.span(node), self.text)
        yield Patch(self.id, document.site(node, "<module>"), "oops", (Variant("plain", (edit,)),))


class Unwritable(Broken):
    """A codemod whose text the file's encoding does not have."""

    text = "x = '\N{GREEK SMALL LETTER ALPHA}'"


@pytest.mark.parametrize("codemods", [(Broken(), Toy()), (Toy(), Broken()), (Unwritable(), Toy())])
def test_a_patch_that_does_not_compose_does_not_stop_the_others(codemods: tuple[Codemod, ...]) -> None:
    found = preview(Wanted(codemods, ("app.py",)), project(app=b"# coding: latin-1\n" + TWO))
    assert found.diff.count("+    return fast(x, 4)") == 2
    assert {e.outcome.finding.codemod: bool(e.outcome.diff) for e in found.entries} == {"broken": False, "toy": True}


def test_errors_are_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_bytes(TWO)
    (tmp_path / "bad.py").write_bytes(b"x = = 1\n")
    (tmp_path / "binary.py").write_bytes(b"\x00\xff")
    found = diff(Asked(tmp_path, (".",), (), ("toy",), lambda: (Toy(),)))
    assert [error.path for error in found.errors] == ["bad.py", "binary.py"]
    assert len(found.entries) == 2


def test_refused_sites_are_entries_without_a_diff() -> None:
    found = preview(Wanted((Toy(),), ("app.py",)), project(app=b"def f():\n    slow()\n"))
    assert [entry.outcome.diff for entry in found.entries] == [""] and found.diff == ""
