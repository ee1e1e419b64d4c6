"""The page of a run: complete, self-contained, and nothing from code or from a child process takes effect in it."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import random
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from run_documents import HOSTILE, strings

from jitmod.report.html.page import render
from jitmod.report.html.reading import BadRun, read
from jitmod.report.html.sections import page, words

VOID = {"meta", "link", "br", "img", "input", "hr", "wbr"}


class Read(HTMLParser):
    """The elements of a page, and its text without style and scripts. Raises where elements do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.raw = "", dict[str, list[str]]()
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        within = self._open[-1] if self._open else ""
        if within in ("script", "style"):
            self.raw.setdefault(within, []).append(data)
        else:
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def assert_self_contained(read: Read) -> None:
    for tag, attributes in read.elements:
        assert tag not in ("iframe", "object", "embed", "img", "form", "base"), tag
        for name, value in attributes.items():
            assert not name.startswith("on") and name not in ("src", "style", "action", "srcset"), (tag, name)
            if name == "href":
                assert value == "data:," or re.fullmatch(r"#[\w-]+", value or ""), value
    assert [one.get("type") for one in read.all("script")] == ["application/json", None] and len(read.all("style")) == 1
    assert not re.search(r"url\(|@import|https?:", "".join(read.raw["style"]) + read.raw["script"][1])


def assert_policy(read: Read) -> None:
    policy = next(one["content"] or "" for one in read.all("meta") if one.get("http-equiv"))
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    for text in (read.raw["style"][0], read.raw["script"][1]):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_all_of_a_run_is_there(report: dict[str, Any]) -> None:
    read = Read(render(report))
    assert_self_contained(read)
    assert_policy(read)
    text = " ".join(read.text.split())
    for finding in report["findings"]:
        assert f"{finding['path']}:{finding['line']}:{finding['column']}" in text and finding["codemod"] in text
    for said in (
        "1 of 3 patches accepted", "accepted 8x", "rejected: values", "200 ms→ 20 ms", "500 ms→ 250 ms", "3→ 1",
        "0.003 of what is allowed", "1 of 3 executions compared", "spoiled results, scalednoticed",
        "spoiled results, rollednot noticed", "double precision", "lengths tried5, 1, 0",
        "carried-state 1 an item depends on the one before it", "src/bad.py:3:7 cannot be parsed", "equal items",
        "tests/test_x.py:4", "batch_size 16", "jitmod/vmapify", "bench/x.py:run", "@jax.jit", "A call over batch_size",
        "Memory over batch_size", "A call may take 64 MiB.", "memory3 MiB9 MiB",
    ):  # fmt: skip
        assert said in text, said


def test_links_lead_somewhere(report: dict[str, Any]) -> None:
    read = Read(render(report))
    names = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(names) == len(set(names))
    links = {href for one in read.all("a") if (href := one.get("href"))}
    assert links and {link.removeprefix("#") for link in links} <= set(names)
    labels = {attributes["aria-labelledby"] for _, attributes in read.elements if "aria-labelledby" in attributes}
    assert labels <= set(names)


def test_the_data_comes_back(report: dict[str, Any], hostile: dict[str, Any]) -> None:
    for run in (report, hostile):
        data = Read(render(run)).raw["script"][0]
        assert json.loads(data) == run and data.isascii() and not set(data) & set("<>&")


def test_hostile_text_is_inert(report: dict[str, Any], hostile: dict[str, Any]) -> None:
    text = render(hostile)
    read, tame = Read(text), Read(render(report))
    assert_self_contained(read)
    assert_policy(read)
    assert {name for name, _ in read.elements} <= {name for name, _ in tame.elements}
    assert len(read.all("article")) == len(tame.all("article"))
    assert "alert(1)" in read.text and "{{ 7 * 7 }}" in read.text and "49" not in read.text
    outside = text.replace(read.raw["script"][0], "")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", outside)
    assert not re.search(r"^\s*::", read.text, re.MULTILINE)
    outside.encode()
    assert sum(HOSTILE[:9] in one for one in strings(hostile)) > 30


def test_a_run_that_tried_nothing(report: dict[str, Any]) -> None:
    for finding in report["findings"]:
        finding["trial"] = None
    report |= {"whole": []}
    read = Read(render(report))
    text = " ".join(read.text.split())
    assert "3 patches possible" in text and "Verdict" not in text and "batch the loop" in text
    assert not read.all("svg")


def test_an_empty_run(report: dict[str, Any]) -> None:
    read = Read(render(report | {"findings": [], "errors": [], "whole": []}))
    assert "No patch found" in read.text and "There is nothing that could be rewritten" in read.text
    assert not read.all("article")


def test_many_diffs_are_closed_but_the_accepted(report: dict[str, Any]) -> None:
    first, second = report["findings"][:2]
    report["findings"] = [first | {"id": f"{n:016x}"} if n < 3 else second | {"id": f"{n:016x}", "diff": first["diff"]}
                          for n in range(40)]  # fmt: skip
    changes = [one for one in Read(render(report)).all("details") if one.get("class") == "change"]
    assert len(changes) == 40 and sum("open" in one for one in changes) == 3


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("plain", [("", "plain")]),
        ("`x` and `y`.", [("code", "x"), ("", " and "), ("code", "y"), ("", ".")]),
        ("a ` alone", [("", "a ` alone")]),
        ("two\nlines", [("", "two lines")]),
        ("a\u200bb", [("", "a"), ("hidden", "U+200B"), ("", "b")]),
    ],
)
def test_words(text: str, made: list[tuple[str, str]]) -> None:
    assert [(piece.kind, piece.text) for piece in words(text)] == made


def test_reasons_come_by_their_number(report: dict[str, Any]) -> None:
    refusal = report["findings"][3]
    more = [refusal | {"id": f"{n:016x}", "reason": "host-effect", "line": n} for n in (90, 91)]
    report["findings"] += more
    counts = [(group.reason, len(group.places)) for group in page(report).refused]
    assert counts == [("host-effect", 2), ("carried-state", 1)]


def test_functions_have_their_checklists(report: dict[str, Any]) -> None:
    report["findings"][0]["compared"] = []
    accepted = report["findings"][0] | {"id": "f" * 16, "symbol": "<module>"}
    report["findings"].append(accepted)
    cards = {(card.place, card.symbol): card for card in page(report).scorecards}
    assert list(cards) == [("src/a, b.py", "score"), ("src/c.py", "<module>"), ("src/a, b.py", "<module>")]
    item = "no model is called once per item in a Python loop"
    said = {key: [(mark, "".join(piece.text for piece in text)) for mark, what, text in card.rows if what == item]
            for key, card in cards.items()}  # fmt: skip
    assert [mark for mark, _ in said["src/a, b.py", "score"]] == ["no", "no"]
    assert said["src/c.py", "<module>"] == [
        ("?", ": line 2, vmapify carried-state: x depends on the item before: line 3")
    ]
    assert said["src/a, b.py", "<module>"] == [("ok", "(accepted)")]
    assert [card.good for card in cards.values()] == [10, 11, 12]
    assert "Checklists" in Read(render(report)).text


def test_whatever_the_schema_lets_pass_becomes_a_page(tmp_path: Path, report: dict[str, Any]) -> None:
    """Runs with values put in the place of others: each is turned away with a message, or has a page."""
    chance = random.Random(0)
    values = [None, True, 0, -1, 3.5, 1e-300, 1e300, 2**62, "", "x" * 300, [], [[]], [1, 2], {}, {"a": {"b": [None]}}]
    rendered = 0
    for _ in range(200):
        run = copy.deepcopy(report)
        for _ in range(chance.choice((1, 1, 1, 2))):
            holder, key = chance.choice(list(places_in(run)))
            holder[key] = copy.deepcopy(chance.choice(values))
        (tmp_path / "run.json").write_text(json.dumps(run), encoding="utf-8")
        try:
            known = read(tmp_path / "run.json")
        except BadRun as error:
            assert len(str(error)) < 1000
            continue
        Read(render(known))
        rendered += 1
    assert rendered > 30


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a document where a value stands, as its holder and its key."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from places_in(item)
