"""Whether a document is a job that `jitmod plan` has made: people edit the files, and machines write half of them."""

from __future__ import annotations

import functools
import json
from importlib.resources import files
from typing import Any

_OF_A_PLAN = ("id", "codemod", "jitmod", "contents")  # without them it is the job of a trial here
_SHOWN = 200


def fault_of(job: Any) -> str | None:
    """What is wrong with a document that should be a planned job, in words; None where nothing is."""
    from jsonschema.exceptions import best_match

    error = best_match(_validator().iter_errors(job))
    if error is not None:
        place = "/".join(map(str, error.absolute_path)) or "the document"
        said = error.message if len(error.message) <= _SHOWN else f"{error.message[:_SHOWN]}..."
        return f"{place}: {said}"
    if len(job["contents"]["workloads"]) != 1 + len(job.get("otherwise", ())):
        return "contents/workloads: not as many as there are workloads"
    return None


@functools.cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator  # takes a while to load

    published = json.loads(files("jitmod.schema").joinpath("job.json").read_text(encoding="utf-8"))
    return Draft202012Validator({**published, "required": [*published["required"], *_OF_A_PLAN]})
