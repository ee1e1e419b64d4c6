"""A GitHub in memory, behind a socket: as much of it as pull requests need, and its ways to say no."""

from __future__ import annotations

import base64
import json
import re
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PYPROJECT = "[tool.jitmod]\n"


@dataclass
class FakeHub:
    """`failures` are answered first, in order: status, headers, message. `requests` is what was asked, with queries.

    `ago`: so long ago is now, for what is made.
    """

    pyproject: str | None = PYPROJECT
    has_issues: bool = True
    issues: list[dict[str, Any]] = field(default_factory=list)
    secret: str = "s3cret"
    pulls: list[dict[str, Any]] = field(default_factory=list)
    failures: list[tuple[int, dict[str, str], str]] = field(default_factory=list)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    ago: timedelta = timedelta()
    queries: list[dict[str, str]] = field(default_factory=list)

    def __enter__(self) -> FakeHub:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                given = json.loads(self.rfile.read(length)) if length else None
                status, headers, document = hub.respond(self.command, self.path, given, self.headers["Authorization"])
                data = json.dumps(document).encode()
                self.send_response(status)
                own = {"Content-Type": "application/json", "Content-Length": str(len(data))}
                for name, value in (own | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = answer

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def respond(self, method: str, path: str, given: Any, secret: str | None) -> tuple[int, dict[str, str], Any]:
        if self.failures:
            status, headers, message = self.failures.pop(0)
            return status, headers, {"message": message}
        if self.secret not in (secret or ""):
            return 401, {}, {"message": "Bad credentials"}
        split = urlsplit(path)
        self.requests.append((method, split.path, given))
        route, asked = f"{method} {split.path}", {name: values[0] for name, values in parse_qs(split.query).items()}
        self.queries.append(asked)
        if route == "GET /repos/own/app":
            return 200, {}, self._repository()
        if route == "GET /repos/own/app/contents/pyproject.toml" and self.pyproject is not None:
            content = base64.b64encode(self.pyproject.encode()).decode()
            named = {"path": "pyproject.toml", "name": "pyproject.toml"}
            return 200, {}, {"type": "file", "encoding": "base64", "content": content, **named}
        if route == "GET /repos/own/app/pulls":
            found = [one for one in self.pulls if asked.get("head") in (None, f"own:{one['head']['ref']}")]
            found = [one for one in found if asked.get("state", "open") in ("all", one["state"])]
            return 200, {}, found[::-1] if asked.get("direction") == "desc" else found
        if route == "GET /repos/own/app/issues":
            return 200, {}, [one for one in self.issues if {"name": asked["labels"]} in one["labels"]]
        if route == "POST /repos/own/app/issues":
            return 201, {}, self._told(given)
        if route == "POST /repos/own/app/pulls":
            return 201, {}, self._made(given)
        reviews = re.fullmatch(r"GET /repos/own/app/pulls/(\d+)/reviews", route)
        if reviews is not None:
            return 200, {}, self.pulls[int(reviews[1]) - 1]["reviews"]
        of_one = r"(PATCH|POST) /repos/own/app/(pulls|issues)/(\d+)(?:/(labels|requested_reviewers|comments))?"
        match = re.fullmatch(of_one, route)
        if match is None:
            return 404, {}, {"message": "Not Found"}
        return self._changed(match[2], int(match[3]), match[4], given)

    def _changed(self, kind: str, number: int, part: str | None, given: Any) -> tuple[int, dict[str, str], Any]:
        """Numbers of issues begin at 1000 here, so that they are none of requests."""
        if number >= 1000:
            self.issues[number - 1000].update(given)
            return 200, {}, self.issues[number - 1000]
        pull = self.pulls[number - 1]
        if part == "comments":
            pull["comments"].append(given["body"])
            return 201, {}, {"url": f"{self.url}/comment", "body": given["body"]}
        if part == "labels":
            pull["labels"] += [{"name": name} for name in (given["labels"] if isinstance(given, dict) else given)]
            return 200, {}, pull["labels"]
        if part == "requested_reviewers":
            pull["requested_reviewers"] += [{"login": name} for name in given["reviewers"]]
            return 201, {}, pull
        pull.update({name: value for name, value in given.items() if name != "base"})
        if "base" in given:
            pull["base"]["ref"] = given["base"]
        return 200, {}, pull

    def _repository(self) -> dict[str, Any]:
        url = f"{self.url}/repos/own/app"
        return {"url": url, "name": "app", "full_name": "own/app", "owner": {"login": "own"}, "default_branch": "main",
                "has_issues": self.has_issues}  # fmt: skip

    def _made(self, given: dict[str, Any]) -> dict[str, Any]:
        number = len(self.pulls) + 1
        url = f"{self.url}/repos/own/app"
        self.pulls.append({
            "url": f"{url}/pulls/{number}", "issue_url": f"{url}/issues/{number}", "number": number, "state": "open",
            "html_url": f"https://hub.test/own/app/pull/{number}", "title": given["title"], "body": given["body"],
            "draft": given.get("draft", False), "merged_at": None, "labels": [], "requested_reviewers": [],
            "head": {"ref": given["head"], "label": f"own:{given['head']}", "repo": self._repository()},
            "base": {"ref": given["base"]}, "comments": [], "reviews": [],
            "created_at": self.now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        })  # fmt: skip
        return self.pulls[-1]

    def _told(self, given: dict[str, Any]) -> dict[str, Any]:
        number = 1000 + len(self.issues)
        labels = [{"name": name} for name in given["labels"]]
        where = {"url": f"{self.url}/repos/own/app/issues/{number}", "html_url": f"https://hub.test/own/app/issues/{number}"}
        self.issues.append({**where, "number": number, "state": "open", "title": given["title"], "body": given["body"],
                            "labels": labels})  # fmt: skip
        return self.issues[-1]

    @property
    def now(self) -> datetime:
        return datetime.now(UTC) - self.ago
