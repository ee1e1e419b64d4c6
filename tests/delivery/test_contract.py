"""Every request to GitHub against GitHub's own description of its API: a part of it that is kept here, or the whole.

    make contract     # takes the whole description from npm (@octokit/openapi)
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fake_hub import FakeHub
from github_api import OPERATIONS, SLICE
from test_bot import Deliver, Make, deliver, make, on_main  # noqa: F401
from test_pull import MESSAGE, commit, hub, pr, remote  # noqa: F401
from typer.testing import Result

Pr = Callable[..., Result]


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(os.environ.get("JITMOD_OPENAPI", SLICE)).read_text(encoding="utf-8"))
    return found


def operation(description: dict[str, Any], method: str, path: str) -> dict[str, Any]:
    """The operation whose path has the fewest open parts."""
    fitting = [
        template
        for template, operations in description["paths"].items()
        if method.lower() in operations and re.fullmatch(re.sub(r"\\{\w+\\}", r"[^/]+", re.escape(template)), path)
    ]
    assert fitting, f"GitHub has no {method} {path}"
    template = min(fitting, key=lambda one: one.count("{"))
    found: dict[str, Any] = description["paths"][template][method.lower()]
    return found


def resolved(description: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in part:
        inner: Any = description
        for key in part["$ref"].removeprefix("#/").split("/"):
            inner = inner[key]
        part = inner
    return part


def test_requests_are_those_that_github_describes(
    pr: Pr, hub: FakeHub, checkout: Path, description: dict[str, Any]  # noqa: F811
) -> None:
    assert pr("--label", "speed", "--reviewer", "ann", "--draft").exit_code == 0
    commit(checkout, "jitmod/toy", "two = 2\n", MESSAGE)
    assert pr("--base", "main").exit_code == 0
    check(hub, description, 8)


def test_requests_of_the_bot(
    make: Make, deliver: Deliver, hub: FakeHub, checkout: Path, remote: Path, description: dict[str, Any]  # noqa: F811
) -> None:
    assert deliver(make(), "--reviewer", "ann", "--label", "speed").exit_code == 0
    source = checkout / "src" / "app.py"
    source.write_text(f"{source.read_text()}\n\ndef third(x):\n    return slow(x)\n")
    on_main(checkout, remote)
    assert "updated: jitmod/toy" in deliver(make()).stdout
    source.write_text("x = 1\n")
    on_main(checkout, remote)
    assert "closed: jitmod/toy" in deliver(make()).stdout
    check(hub, description, len(OPERATIONS))


def check(hub: FakeHub, description: dict[str, Any], kinds: int) -> None:  # noqa: F811
    """Every request is one that GitHub describes, with parameters and a body that it takes; they are of many kinds."""
    asked = {(method, re.sub(r"\d+", "N", path)) for method, path, _ in hub.requests}
    assert len(asked) == kinds, asked
    for (method, path, given), query in zip(hub.requests, hub.queries, strict=True):
        path = path if not path.startswith("/repos/own/app/contents/") else "/repos/own/app/contents/file"
        described = operation(description, method, path)
        parameters = [resolved(description, one) for one in described.get("parameters", [])]
        known = {one["name"]: one["schema"] for one in parameters if one["in"] == "query"}
        assert query.keys() <= known.keys(), (method, path, query)
        for name, value in query.items():
            choices = resolved(description, known[name]).get("enum")
            assert choices is None or value in choices, (name, value)
        if isinstance(given, list):  # of labels: the text beside the schema allows the plain list, too
            given = {path.rpartition("/")[2]: given}
        if given is not None:
            content = resolved(description, described["requestBody"])["content"]["application/json"]
            whole = {**content["schema"], "components": description["components"]}
            jsonschema.Draft202012Validator(whole).validate(given)
            properties = resolved(description, content["schema"]).get("properties", {})
            if isinstance(given, dict) and properties:
                assert given.keys() <= properties.keys(), (path, given.keys() - properties.keys())
