"""Writes the pages of docs/codemods from the codemods' docstrings and examples: python docs/build.py [CODEMOD ...]"""

from __future__ import annotations

import sys
from pathlib import Path

from jitmod.report.page import markdown
from jitmod.rewrite.codemod import available

FOLDER = Path(__file__).parent / "codemods"


def main(names: list[str]) -> None:
    codemods = available()
    for name in names or [path.stem for path in FOLDER.glob("*.md")]:
        (FOLDER / f"{name}.md").write_text(markdown(codemods[name]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
