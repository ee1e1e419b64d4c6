"""Writes what of docs is made from the code: python docs/build.py

A test compares every file with what this would write, and runs the examples.
"""

from __future__ import annotations

from pathlib import Path

from jitmod.cli.pages import pages


def main() -> None:
    for name, text in pages().items():
        path = Path(__file__).parent / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
