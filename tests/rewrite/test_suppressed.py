"""`# jitmod: ignore`: what it keeps away, and when it is of no use."""

import textwrap

import pytest

from jitmod.model import Patch, Refusal, UserError
from jitmod.rewrite.codemod import scan, select
from jitmod.rewrite.suppressed import check_names
from jitmod.source.document import Document
from jitmod.source.project import Project

HEAD = "import equinox as eqx\nimport jax\n\n\n"


def found(text: str, codemods: str = "all", path: str = "app.py") -> list[str]:
    """The lines of the findings of a function below `HEAD`, with their codemod or reason."""
    document = Document.parse(path, (HEAD + textwrap.dedent(text)).encode())
    findings = scan(select(codemods), Project.of({path: document}), [path]).findings
    return [f"{f.site.line - 4} {f.codemod if isinstance(f, Patch) else f.reason}" for f in findings]


FUNCTION = """\
def predict(net: eqx.nn.MLP, xs: jax.Array):{on_def}
    return [net(x) for x in xs]{on_line}
"""


@pytest.mark.parametrize("names", ["", "[vmapify]", "[ vmapify , carried-state ]"])
@pytest.mark.parametrize("place", ["on_def", "on_line"])
def test_a_comment_keeps_findings_of_its_statement_or_definition_away(place: str, names: str) -> None:
    assert found(FUNCTION.format(on_def="", on_line="")) == ["2 vmapify"]
    comments = {"on_def": "", "on_line": ""} | {place: f"  # why not  # jitmod: ignore{names} (slow is fine)"}
    assert found(FUNCTION.format(**comments)) == []


def test_a_comment_about_another_codemod_keeps_nothing_away_and_is_told() -> None:
    text = FUNCTION.format(on_def="", on_line="  # jitmod: ignore[scanify]")
    assert found(text) == ["2 vmapify", "2 unused-suppression"]
    assert found(text, "vmapify") == ["2 vmapify"]  # scanify has not run
    assert found(text, "scanify") == ["2 unused-suppression"]


def test_a_comment_with_nothing_to_keep_away_is_told() -> None:
    assert found("x = 1  # jitmod: ignore\n") == ["1 unused-suppression"]
    assert found("x = 1  # jitmod: ignore\n", "vmapify") == []


def test_a_name_that_does_not_exist_is_told() -> None:
    document = Document.parse("a.py", b"x = 1  # jitmod: ignore[vmapfy]\n")
    (finding,) = scan(select("all"), Project.of({"a.py": document}), ["a.py"]).findings
    assert isinstance(finding, Refusal) and finding.is_advice and "'vmapfy'" in finding.message
    assert (finding.site.line, finding.site.column) == (1, 8)


def test_a_refusal_is_kept_away_by_its_reason() -> None:
    text = """\
    def walk(net: eqx.nn.MLP, xs: jax.Array):
        out = []
        for x in xs:{}
            if float(x[0]) > 0:
                break
            out.append(net(x))
        return out
    """
    (refused, *_) = found(text.format(""), "vmapify")
    line, reason = refused.split()
    assert line == "3" and found(text.format(f"  # jitmod: ignore[{reason}]"), "vmapify") == []


def test_a_statement_of_several_lines_is_kept_as_it_is_by_a_comment_on_any() -> None:
    head = "def predict(net: eqx.nn.MLP, xs: jax.Array):\n"
    text = head + "    return [\n        net(x)  # jitmod: ignore\n        for x in xs\n    ]\n"
    assert found(text) == []


def test_text_that_looks_like_a_comment_is_none() -> None:
    text = FUNCTION.format(on_def="", on_line=" + ['# jitmod: ignore']")
    assert found(text) == found(text.replace("jitmod", "nothing"))


def test_a_decorated_function_and_a_class_are_kept_as_a_whole() -> None:
    inner = textwrap.indent(FUNCTION.format(on_def="", on_line="").replace("(net", "(self, net"), "    ")
    assert found(f"class A:  # jitmod: ignore\n{inner}") == []
    assert found(f"class A:\n{inner}") == ["3 vmapify"]


def test_a_setting_keeps_codemods_and_reasons_away_from_files() -> None:
    text = FUNCTION.format(on_def="", on_line="  # jitmod: ignore[scanify]")
    document = Document.parse("tests/app.py", (HEAD + text).encode())

    def told(*names: str, pattern: str = "tests/") -> list[str]:
        project, ignored = Project.of({document.path: document}), {"src/": ("vmapify",), pattern: names}
        found = scan(select("all"), project, [document.path], ignored).findings
        return [f.codemod if isinstance(f, Patch) else f.reason for f in found]

    assert told() == told("vmapify", pattern="/app.py") == ["vmapify", "unused-suppression"]
    assert told("vmapify") == ["unused-suppression"]
    assert told("scanify") == ["vmapify"]  # it has not run, so that the comment is not judged
    assert told("vmapify", "unused-suppression") == []


def test_a_setting_that_names_what_does_not_exist_is_told() -> None:
    check_names({"tests/": ("vmapify", "carried-state")})
    with pytest.raises(UserError, match="no codemod and no reason 'vmapfy'; did you mean vmapify"):
        check_names({"tests/": ("vmapfy",)})
