"""Every page of docs that is made from the code, by its path below docs."""

from __future__ import annotations

import json

from jitmod.report.page import markdown
from jitmod.rewrite.codemod import available
from jitmod.source.config_schema import schema


def pages() -> dict[str, str]:
    """The texts. What they are made from is documented where it is registered, so nothing can be left out."""
    codemods = {f"codemods/{name}.md": markdown(codemod) for name, codemod in available().items()}
    return {**codemods, "schema/config.json": json.dumps(schema(), indent=2) + "\n"}
