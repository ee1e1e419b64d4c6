"""Names and messages that would do something where they are shown: annotations, Markdown, mermaid."""

from __future__ import annotations

import re
from pathlib import Path

from markdown_it import MarkdownIt

from jitmod.delivery.bot import Done, Result
from jitmod.delivery.bundle import Bundle, Listed
from jitmod.delivery.pull import Commit
from jitmod.delivery.queue import Entry
from jitmod.model import Outcome, Patch, Refusal, Site, Status, Variant, Verdict
from jitmod.report import github
from jitmod.report.dashboard import dashboard
from jitmod.report.pull import Rewrite, body
from jitmod.report.run import Run

NAMES = (
    "a`b.py", "a\nb.py", "a\n::error::x.py", "</script>.py", "<img src=x>.py", "a,line=1,title=x.py", "a:b%0A.py",
    "a|b.py", "@everyone.py", "#1.py", "[x](http://evil.test).py", "www.evil.test.py", "GH-1.py", "\x1b[31mred.py",
    "\u202egnp.py", "```x.py", "~~~.py", "${{ github.token }}.py", "$(x).py", "\\.py", "# h.py", "- x.py",
    "&lt;b&gt;.py", "ab\u2028cd.py",
)  # fmt: skip


def annotations(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Read as the runner does: a command ends its properties at the next `::`; they are divided by commas."""
    found = []
    for line in text.split("\n"):
        match = re.fullmatch(r"::(\w+) (.*?)::(.*)", line)
        if match is None:
            assert not line, line
            continue
        pairs = [pair.partition("=") for pair in match[2].split(",")]
        values = {name: _plain(value, {"%3A": ":", "%2C": ","}) for name, _, value in pairs}
        found.append((match[1], values, _plain(match[3], {})))
    return found


def _plain(text: str, more: dict[str, str]) -> str:
    for code, letter in {"%0D": "\r", "%0A": "\n", **more, "%25": "%"}.items():
        text = text.replace(code, letter)
    return text


def test_annotations_are_read_as_they_were_meant() -> None:
    outcomes = []
    for name in NAMES:
        site = Site(name, 3, 5, 4, name)
        outcomes.append(Outcome(Patch("toy", site, name, (Variant("plain", ()),)), "", Verdict(Status.REJECTED, name)))
        outcomes.append(Outcome(Refusal("toy", site, "carried-state", name)))
    run = Run("1", tuple(Entry(str(number), outcome) for number, outcome in enumerate(outcomes)))
    read = annotations(github.render(run))
    assert len(read) == 2 * len(NAMES)
    known = {"file", "line", "endLine", "col", "endColumn", "title"}  # as GitHub documents them
    for number, (kind, properties, message) in enumerate(read):
        assert kind in ("notice", "warning", "error") and properties.keys() <= known
        assert properties["file"] == NAMES[number // 2] and properties["line"] == "3"
        assert properties["title"].startswith("jitmod toy") and "\n" not in message


def shown(text: str) -> str:
    """The HTML that a server makes of it, without the comments that it takes out."""
    html = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(text)
    return re.sub(r"<!--.*?-->", "", html, flags=re.DOTALL)


def check(html: str) -> None:
    own = set(re.findall(r"</?([a-zA-Z][^\s>]*)", html))
    assert own <= {"h3", "p", "table", "thead", "tbody", "tr", "th", "td", "pre", "code", "ul", "li"}, own
    assert "href" not in html and "src=" not in html.replace("src=x&gt;", "")
    outside = re.sub(r"<(code)[^>]*>.*?</\1>", "", html, flags=re.DOTALL)  # nothing is looked for in code
    for mark in (r"@[A-Za-z]", r"#\d", r"www\.", r"GH-\d", r"https?://", "\x1b", "\u202e", "^::"):
        assert re.search(mark, outside, re.MULTILINE) is None, (mark, re.search(mark, outside, re.MULTILINE))


def test_markdown_of_a_request_stays_inert() -> None:
    evidence = {"judges": [{"warm": {"seconds": {"baseline": [0.2], "candidate": [0.01]}}}],
                "explore": {"versions": {"jax": "@ev#1"}, "device": {"kind": "<b>"}}}  # fmt: skip
    for name in NAMES:
        job = {"workload": {"run": f"{name}:run", "setup": name}}
        message = f"toy: {name}\n\nWhy {name}.\n\n    {name}\n\nJitmod-Codemod: toy\nJitmod-Device: {name}\n"
        one = Rewrite(Commit("ab12" * 10, message, job, evidence))
        text = body([one, one], f"jitmod/{name}", "c0ffee")
        check(shown(text))
        assert not re.search(r"^\s*::", text, re.MULTILINE)
        for chart in re.findall(r"```mermaid\n(.*?)```", text, re.DOTALL):
            assert re.fullmatch(r'[\w\s"\[\],.>-]*', chart), chart


def test_the_dashboard_stays_inert(tmp_path: Path) -> None:
    patches = tuple(Listed("toy", name, 3, name, "rejected", name) for name in NAMES)
    bundle = Bundle(tmp_path, "c" * 40, (".",), ("toy",), (), patches, {name: 1 for name in NAMES}, ())
    results = [Result(f"jitmod/{name}", Done.MOVED, name) for name in NAMES]
    text = dashboard(bundle, results)
    check(shown(text))
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 6 + 3 * len(NAMES)
