"""Docs say what is so: examples run, commands and options exist, links lead somewhere, and nothing is left out."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as xml
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages_of_docs import PAGES, ROOT, Block, anchors, blocks, links

from jitmod.analysis.reasons import REASONS
from jitmod.cli.main import app
from jitmod.cli.pages import Parameter, parameters
from jitmod.model import ADVICE
from jitmod.rewrite.codemod import available

WRITTEN = [page for page in PAGES if page.parent.name != "codemods"]
COMMANDS = {info.name or info.callback.__name__: info.callback for info in app.registered_commands if info.callback}
PARAMETERS: dict[str, list[Parameter]] = {name: list(parameters(function)) for name, function in COMMANDS.items()}
OPTIONS = {name: {option for one in known for part in one.names for option in part.split("/")}
           for name, known in PARAMETERS.items()}  # fmt: skip
NAMES = pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.stem)


def shown_commands(page: Path) -> Iterator[list[str]]:
    """The words of every `jitmod` command in the blocks of a page."""
    for block in blocks(page):
        if block.language in ("sh", "console", ""):
            for line in block.text.splitlines():
                line = line.removeprefix("$ ").strip()
                if line.startswith("jitmod "):
                    yield shlex.split(re.split(r" > | \| ", line.partition(" #")[0])[0])


@NAMES
def test_commands_and_options_exist(page: Path) -> None:
    for _, command, *rest in shown_commands(page):
        assert command in COMMANDS, command
        own = rest[: rest.index("--")] if "--" in rest else rest
        given = {word.partition("=")[0] for word in own if re.fullmatch(r"--?[a-z][\w-]*(=.*)?", word)}
        assert given <= OPTIONS[command] | {"--help"}, (command, given)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        if not re.match(r"[a-z]+:", link):
            target, _, anchor = link.partition("#")
            file = (page.parent / target).resolve() if target else page
            assert file.exists() and file.is_relative_to(ROOT), link
            assert not anchor or anchor in anchors(file), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_is_code_is_code(page: Path) -> None:
    for block in blocks(page):
        match block.language:
            case "python":
                ast.parse(block.text)
            case "toml":
                tomllib.loads(block.text)
            case "json":
                json.loads(block.text)


def test_the_index_leads_to_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    reached = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    assert {page for page in (ROOT / "docs").glob("*.md") if page != index} <= reached
    assert "docs" in {link.strip("/") for link in links(ROOT / "README.md")}


def test_every_command_and_option_says_what_it_is() -> None:
    for name, function in COMMANDS.items():
        assert (inspect.getdoc(function) or "").endswith("."), name
        for one in PARAMETERS[name]:
            assert one.info.help and one.info.help.rstrip()[-1] in ".)?", (name, one.name)
            assert one.names or one.info.metavar, (name, one.name)


def test_every_codemod_and_reason_says_what_it_is() -> None:
    for name, codemod in available().items():
        assert codemod.id == name and codemod.summary and codemod.examples, name
    text = (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8")
    for reason, meaning in REASONS.items():
        assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", reason) and len(meaning) > 10 and f"### {reason}\n" in text
    assert REASONS.keys() >= ADVICE


def test_every_way_to_be_rejected_is_explained() -> None:
    tests = json.loads((ROOT / "docs" / "schema" / "evidence.json").read_text())["properties"]["test"]["enum"]
    text = (ROOT / "docs" / "trial.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in [*filter(None, tests), "rival", "whole"])


EXAMPLES = [page for page in WRITTEN if any(block.language == "console" for block in blocks(page))]


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.stem)
def test_examples_run(page: Path, tmp_path: Path) -> None:
    """Files are written and commands run, from top to bottom; what is printed is what the page says."""
    for block in blocks(page):
        if block.mark.startswith("file: "):
            (tmp_path / block.mark.removeprefix("file: ")).write_text(block.text, encoding="utf-8")
        elif block.language == "console" and block.mark != "slow":
            assert_prints(block, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("JITMOD_SLOW"), reason="JITMOD_SLOW=1 runs the trials of the docs")
@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.stem)
def test_trials_of_examples_run(page: Path, tmp_path: Path) -> None:
    """The same with the trials, whose figures are others every time."""
    for block in blocks(page):
        if block.mark.startswith("file: "):
            (tmp_path / block.mark.removeprefix("file: ")).write_text(block.text, encoding="utf-8")
        elif block.language == "console" and block.mark == "slow":
            assert_prints(block, tmp_path)


def assert_prints(block: Block, folder: Path) -> None:
    """`$ command`, and below it the lines that it prints; `...` stands for any lines, and for any text in one."""
    bin = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"}
    for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
        command, _, expected = part.partition("\n")
        done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
        assert done.returncode in (0, 1), done.stdout
        pattern = _pattern(expected, block.mark == "slow")
        assert re.fullmatch(pattern, _tidy(done.stdout, block.mark == "slow")), f"{command}\n{done.stdout}"


def _pattern(expected: str, is_measured: bool) -> str:
    lines = _tidy(expected, is_measured).splitlines()
    parts = (".*".join(map(re.escape, line.split("..."))) + "\n" for line in lines if line != "...")
    return "".join("(?s:.*?)" if line == "..." else next(parts) for line in lines)


def _tidy(text: str, is_measured: bool) -> str:
    """Lines without what pads them; of a measurement, without its figures and units."""
    if is_measured:
        text = re.sub(r"\d[\d.,e+]*( (ms|us|s)\b)?", "#", text)
    lines = (re.sub(r"(?<=\S) +", " ", line.rstrip()) for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines)


def test_the_picture_stands_alone() -> None:
    """What a page may show as an image: no scripts, nothing from elsewhere, and colours for both kinds of page."""
    text = (ROOT / "docs" / "demo.svg").read_text(encoding="utf-8")
    elements = {one.tag.rpartition("}")[2] for one in xml.fromstring(text).iter()}
    assert elements <= {"svg", "style", "rect", "text", "tspan", "path"} and "prefers-color-scheme: dark" in text
    assert not re.search(r"https?:(?!//www\.w3\.org/2000/svg)|url\(|@import|href", text)


def test_the_picture_shows_what_was_printed() -> None:
    demo = runpy.run_path(str(ROOT / "docs" / "draw.py"))
    printed = (
        "== The diff\nx\n== jitmod apply --codemod vmapify --verbose .\njitmod: vmapify a.py:3: accepted 2x (1 to 3)\n"
        " site \n ───── \na<b `c` & d\njitmod/vmapify  abc  vmapify: x\n1 patch tried\n\n== git log\ny\n"
    )
    lines = demo["lines_of"](printed)
    assert lines == ["$ jitmod apply --codemod vmapify .", "vmapify a.py:3: accepted 2x (1 to 3)", " site", " ─────",
                     "a<b `c` & d", "1 patch tried"]  # fmt: skip
    drawn = xml.fromstring(demo["picture"](lines))
    shown = ["".join(one.itertext()) for one in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert shown == [line for line in lines if "─" not in line]
