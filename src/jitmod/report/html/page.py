"""One page that holds all it needs: opened from a file, it asks the network for nothing and runs nothing of others."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from jitmod.report.checklist import ITEMS
from jitmod.report.html.sections import page

_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def render(run: Mapping[str, Any]) -> str:
    """The page of a run that `reading.read` has let pass. Only the style sheet and the script of jitmod take effect."""
    environment = Environment(
        loader=PackageLoader("jitmod.report.html", ""), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    style, script = (_own(name) for name in ("style.css", "script.js"))
    text = environment.get_template("page.html.jinja").render(
        page=page(run),
        checks=len(ITEMS),
        run=Markup(embedded(run)),
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
    )
    return text.encode("utf-8", "replace").decode()  # a half of a pair of surrogates is no character


def embedded(run: Mapping[str, Any]) -> str:
    """JSON for a script element: nothing in it ends the element or begins a comment, and all of it is ASCII."""
    text = json.dumps(run, separators=(",", ":"), allow_nan=False)
    return "".join(_UNSAFE.get(character, character) for character in text)


def _own(name: str) -> str:
    return files("jitmod.report.html").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
