"""Codemods of others: LibCST commands and Bowler scripts, from a file to a patch."""

from __future__ import annotations

import random
import sys
import textwrap
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from bowler import Query

from jitmod.model import Finding, Patch, Refusal
from jitmod.rewrite.codemod import Codemod, UnknownCodemod, scan, select
from jitmod.rewrite.edits import compose
from jitmod.rewrite.foreign import Foreign
from jitmod.rewrite.scripts import ScriptError, load
from jitmod.source.document import Document
from jitmod.source.project import Project

CODE = "def old(x):\n    return x  # é\n\n\ndef other(y):\n    return old(y) + old(1)\n"
NEW = CODE.replace("old(", "new(")
RENAME = "Query('src').select_function('old').rename('new')"
SCRIPTS = {
    "run by main": f"from bowler import Query\n\n\ndef main():\n    {RENAME}.idiff()\n",
    "run at once": f"from bowler import Query\n\n{RENAME}.execute(interactive=False, write=True)\n",
    "bound": f"import bowler\n\nquery = bowler.{RENAME}\n",
    "a command": """\
        import libcst as cst
        from libcst.codemod import VisitorBasedCodemodCommand


        class RenameOldCommand(VisitorBasedCodemodCommand):
            DESCRIPTION: str = "Rename  old."

            def leave_Name(self, old: cst.Name, new: cst.Name) -> cst.Name:
                return new.with_changes(value="new") if new.value == "old" else new
        """,
    "a codemod of jitmod's kind": """\
        import ast

        from jitmod.model import Edit, Patch, Variant
        from jitmod.rewrite.codemod import Codemod


        class Rename(Codemod):
            id = "rename"
            summary = "rename"
            examples = ()

            def find(self, document, project):
                if edits := [Edit(*document.span(n), "new") for n in document.of(ast.Name) if n.id == "old"]:
                    name = Edit(4, 7, "new")
                    site = document.site(document.tree.body[0], "old")
                    yield Patch(self.id, site, "rename", (Variant("text", (name, *edits)),))
        """,
}


def written(tmp_path: Path, script: str) -> Path:
    path = tmp_path / "my_script.py"
    path.write_text(textwrap.dedent(script), encoding="utf-8")
    return path


def found(codemod: Codemod, data: bytes) -> tuple[Document, tuple[Finding, ...]]:
    document = Document.parse("app.py", data)
    return document, scan([codemod], Project.of({"app.py": document}), ["app.py"]).findings


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_a_file_gives_a_patch(script: str, tmp_path: Path) -> None:
    (codemod,) = select(str(written(tmp_path, script)))
    document, (patch,) = found(codemod, CODE.encode())
    assert isinstance(patch, Patch)
    text = compose(document, patch.variants[0].realise({}))
    assert text.decode() == NEW
    assert found(codemod, text)[1] == ()
    assert Query.execute.__name__ == "execute"  # what recorded the queries is gone


@pytest.mark.parametrize("script", [SCRIPTS["run by main"], SCRIPTS["a command"]], ids=["Bowler", "LibCST"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(("mark", "ended"), [(b"\xef\xbb\xbf", True), (b"", False)])
def test_line_ends_and_marks_survive(script: str, newline: str, mark: bytes, ended: bool, tmp_path: Path) -> None:
    (codemod,) = load(written(tmp_path, script))

    def stored(text: str) -> bytes:
        return mark + (text if ended else text.removesuffix("\n")).replace("\n", newline).encode()

    document, (patch,) = found(codemod, stored(CODE))
    assert isinstance(patch, Patch) and patch.neutral
    assert compose(document, patch.variants[0].realise({})) == stored(NEW)


def test_what_a_file_prints_and_imports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "beside_it.py").write_text("WORD = 'loaded'\n")
    script = textwrap.dedent(SCRIPTS["a command"]) + "\n\nfrom beside_it import WORD\n\nprint(WORD)\n"
    before = list(sys.path)
    (codemod,) = load(written(tmp_path, script))
    assert capsys.readouterr() == ("", "loaded\n")
    assert sys.path == before

    class Loud(type(codemod)):  # type: ignore[misc]
        def transform(self, text: str, path: str) -> str:
            print(path)
            return str(super().transform(text, path))

    assert found(Loud(), CODE.encode())[1]
    assert capsys.readouterr() == ("", "app.py\n")


@pytest.mark.parametrize("body", ["raise RuntimeError('no')", "edit = Edit(0, 3, '(((')", "raise SystemExit(0)"])
def test_a_codemod_of_ones_own_that_fails_is_told(body: str, tmp_path: Path) -> None:
    script = f"""
        from jitmod.model import Edit, Patch, Variant
        from jitmod.rewrite.codemod import Codemod


        class Wrong(Codemod):
            id, summary, examples = "wrong", "goes wrong", ()

            def find(self, document, project):
                {body}
                site = document.site(document.tree.body[0], "<module>")
                yield Patch(self.id, site, "wrong", (Variant("text", (edit,)),))
        """
    (refusal,) = found(load(written(tmp_path, script))[0], CODE.encode())[1]
    assert isinstance(refusal, Refusal) and refusal.reason == "unparsable"
    assert refusal.message.startswith("wrong raised ")


def test_a_command_that_leaves_does_not_end_the_run(tmp_path: Path) -> None:
    script = """
        from libcst.codemod import VisitorBasedCodemodCommand


        class Leaving(VisitorBasedCodemodCommand):
            def leave_Name(self, original_node, updated_node):
                raise SystemExit(0)
        """
    (refusal,) = found(load(written(tmp_path, script))[0], CODE.encode())[1]
    assert isinstance(refusal, Refusal) and "raised SystemExit" in refusal.message


@pytest.mark.parametrize("name", ["'../x\\n'", "''", "7", None])
def test_a_name_that_is_none(name: str | None, tmp_path: Path) -> None:
    script = f"""
        from jitmod.rewrite.codemod import Codemod


        class Wrong(Codemod):
            {f"id = {name}" if name else "summary = ''"}

            def find(self, document, project):
                return iter(())
        """
    with pytest.raises(UnknownCodemod, match="is no name for a codemod"):
        select(str(written(tmp_path, script)))


@pytest.mark.parametrize("value", ["no_such_module:X", "json:loads"])
def test_an_installed_codemod_that_cannot_be_loaded(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("theirs", value, "jitmod.codemods")
    monkeypatch.setattr("jitmod.rewrite.codemod.entry_points", lambda group: [point])
    with pytest.raises(UnknownCodemod, match="theirs"):
        select("all")


def test_names_and_places(tmp_path: Path) -> None:
    (codemod,) = load(written(tmp_path, f'"""Rename old.\n\nMore."""\n{SCRIPTS["run by main"]}'))
    assert (codemod.id, codemod.summary) == ("my-script", "Rename old.")
    (command,) = load(written(tmp_path, SCRIPTS["a command"]))
    assert (command.id, command.summary) == ("rename-old", "Rename old.")
    (patch,) = found(command, CODE.encode().replace(b"def old", b"def older"))[1]
    assert (patch.site.line, patch.site.end_line, patch.site.symbol) == (6, 6, "other")
    (patch,) = found(command, CODE.encode())[1]
    assert (patch.site.line, patch.site.end_line, patch.site.symbol) == (1, 6, "<module>")


REFUSED = {
    "nothing": ("x = 1\n", "holds no codemod"),
    "an error": ("raise ValueError('no')\n", "raised ValueError: no"),
    "an exit": ("import sys\nsys.exit(3)\n", "raised SystemExit: 3"),
    "a missing library": ("import nothing_of_that_name\n", "nothing_of_that_name"),
    "decisions by hunk": (
        f"from bowler import Query\n{RENAME}.process(lambda file, hunk: False).silent()\n", "hunk by hunk"),
    "arguments": (
        "from libcst.codemod import VisitorBasedCodemodCommand\n\n\nclass C(VisitorBasedCodemodCommand):\n"
        "    def __init__(self, context, name):\n        super().__init__(context)\n", "C needs arguments"),
}  # fmt: skip


@pytest.mark.parametrize(("script", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_used_is_told(script: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match=said):
        load(written(tmp_path, script))
    assert Query.execute.__name__ == "execute"


UNREAD = {
    "newer syntax": (SCRIPTS["run by main"], "def old(x, /):\n    return x\n", "bowler-cannot-parse", "Can't parse"),
    "no Python": (
        SCRIPTS["a command"].replace("old: cst.Name, new", "was: cst.Name, new").replace('"new"', '"not"'),
        CODE, "unparsable", "does not parse"),
    "an error": (SCRIPTS["a command"].replace("return new", "return 1 / 0 or new"), CODE, "unparsable", "ZeroDivision"),
}  # fmt: skip


@pytest.mark.parametrize(("script", "code", "reason", "said"), UNREAD.values(), ids=UNREAD)
def test_a_file_that_is_not_understood_is_refused(
    script: str, code: str, reason: str, said: str, tmp_path: Path
) -> None:
    (codemod,) = load(written(tmp_path, script))
    (refusal,) = found(codemod, code.encode())[1]
    assert isinstance(refusal, Refusal)
    assert refusal.reason == reason and said in refusal.message


def test_lines_that_differ_are_the_edits() -> None:
    chance = random.Random(0)
    for _ in range(300):
        before = "".join(f"x{chance.randrange(4)} = 1\n" for _ in range(chance.randrange(1, 8)))
        after = "".join(f"x{chance.randrange(4)} = 1\n" for _ in range(chance.randrange(0, 8)))
        before, after = (text if chance.random() < 0.7 else text.removesuffix("\n") for text in (before, after))

        class Given(Foreign):
            id = "given"
            summary = "given"

            def transform(self, text: str, path: str) -> str:
                return after  # noqa: B023

        document, findings = found(Given(), before.encode())
        if before == after:
            assert findings == ()
        else:
            (patch,) = findings
            assert isinstance(patch, Patch), patch
            assert compose(document, patch.variants[0].realise({})).decode() == after


def test_all_stands_for_what_makes_code_faster(tmp_path: Path) -> None:
    every = [codemod.id for codemod in select("all")]
    assert "vmapify" in every and "move-jax-imports" not in every
    path = written(tmp_path, SCRIPTS["bound"])
    both = select(f"move-jax-imports,all,{path}")
    assert [codemod.id for codemod in both] == [*every, "move-jax-imports", "my-script"]
