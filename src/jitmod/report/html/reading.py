"""The JSON of a run as it comes back: whoever wrote the file, what gets past here keeps to the published schema."""

from __future__ import annotations

import json
import math
from importlib.resources import files
from pathlib import Path
from typing import Any

_LARGEST = 2**63


class BadRun(Exception):
    """The file is no run of jitmod; the message names it and says what is wrong."""


def read(path: Path) -> dict[str, Any]:
    """What `jitmod apply --format json` or `jitmod check --format json` wrote to `path`. Raises `BadRun`."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadRun(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadRun(f"{path}: cannot be read: it is not in UTF-8") from None
    if not text.strip():
        raise BadRun(f"{path}: is empty: the run that should have written it has failed, or is not done")
    try:
        document = json.loads(text, parse_constant=_no_number, parse_float=_finite, parse_int=_bounded)
    except json.JSONDecodeError as error:
        raise BadRun(f"{path}:{error.lineno}:{error.colno}: is not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise BadRun(f"{path}: is not JSON that jitmod writes: {str(error).partition('; ')[0]}") from None
    if isinstance(document, dict) and "evidence" in document and "findings" not in document:
        raise BadRun(f"{path}: holds the evidence of one trial; a report is made of apply --format json")
    _check(document, path)
    return dict(document)


def schema() -> dict[str, Any]:
    """The published schema of findings."""
    found: dict[str, Any] = json.loads(files("jitmod.schema").joinpath("findings.json").read_text(encoding="utf-8"))
    return found


def _check(document: Any, path: Path) -> None:
    """Raise `BadRun` where the document does not keep to the schema, with the place that says most."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    known = schema()
    version = document.get("schema_version") if isinstance(document, dict) else None
    if isinstance(version, int) and version != known["properties"]["schema_version"]["const"]:
        raise BadRun(f"{path}: has schema_version {version}, and this jitmod reads another: use the one that wrote it")
    error = best_match(Draft202012Validator(known).iter_errors(document))
    while error is not None and error.context:  # of several that it may be, the one that it comes closest to
        error = max(error.context, key=lambda one: len(one.absolute_path))
    if error is not None:
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
        said = error.message if len(error.message) < 200 else f"{error.message[:200]}..."
        raise BadRun(f"{path}: is no run of jitmod: {place.lstrip('.') or 'the whole'}: {said}")


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is too large")
    return value


def _bounded(text: str) -> int:
    if len(text) > 20 or abs(int(text)) >= _LARGEST:
        raise ValueError(f"{text[:20]} is too large")
    return int(text)
