"""Cut out of GitHub's description of its API what our requests need: parameters and bodies, without the prose.

    python tests/delivery/github_api.py api.github.com.json     # writes github_api.json beside this file

`make contract` tests with the whole description, so a change of the API shows there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SLICE = Path(__file__).with_name("github_api.json")
_PROSE = {"description", "example", "examples", "summary", "externalDocs", "title", "tags", "operationId", "deprecated"}
_REPO = "/repos/{owner}/{repo}"
OPERATIONS = (
    ("get", _REPO), ("get", f"{_REPO}/contents/{{path}}"), ("get", f"{_REPO}/pulls"), ("post", f"{_REPO}/pulls"),
    ("patch", f"{_REPO}/pulls/{{pull_number}}"), ("post", f"{_REPO}/pulls/{{pull_number}}/requested_reviewers"),
    ("post", f"{_REPO}/issues/{{issue_number}}/labels"), ("post", f"{_REPO}/issues/{{issue_number}}/comments"),
    ("get", f"{_REPO}/pulls/{{pull_number}}/reviews"), ("get", f"{_REPO}/issues"), ("post", f"{_REPO}/issues"),
    ("patch", f"{_REPO}/issues/{{issue_number}}"),
)  # fmt: skip


def cut(full: dict[str, Any]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for method, path in OPERATIONS:
        described = full["paths"][path][method]
        parts = {name: described[name] for name in ("parameters", "requestBody") if name in described}
        paths.setdefault(path, {})[method] = _plain(parts)
    result: dict[str, Any] = {"paths": paths, "components": {}}
    waiting, met = list(_references(paths)), set()
    while waiting:
        reference = waiting.pop()
        if reference in met:
            continue
        met.add(reference)
        *folders, name = reference.removeprefix("#/").split("/")
        source, target = full, result
        for folder in folders:
            source, target = source[folder], target.setdefault(folder, {})
        target[name] = _plain(source[name])
        waiting += _references(target[name])
    return result


def _plain(part: Any) -> Any:
    if isinstance(part, dict):  # a property may be called title: then there is a schema under that name
        kept = {key: value for key, value in part.items() if isinstance(value, dict) or key not in _PROSE}
        return {key: _plain(value) for key, value in kept.items() if not key.startswith("x-") and key != "examples"}
    return [_plain(one) for one in part] if isinstance(part, list) else part


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"]
        part = list(part.values())
    if isinstance(part, list):
        for one in part:
            yield from _references(one)


if __name__ == "__main__":
    text = json.dumps(cut(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))), indent=1, sort_keys=True)
    SLICE.write_text(text + "\n", encoding="utf-8")
