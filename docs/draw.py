"""Draws the picture of the README from what `make demo` has printed: make picture"""

from __future__ import annotations

import re
import sys
from html import escape

_BEGIN = re.compile(r"== (jitmod apply --codemod vmapify) --verbose (.*)")
_MARKS = re.compile(r"\baccepted\b|\brejected\b|\d[\d.]*x(?= \()")
_LINE, _LETTER, _MARGIN = 17, 6.65, 16
_STYLE = """
  svg { --paper: #ffffff; --ink: #1c1e21; --quiet: #61666d; --good: #1a7a3c; --bad: #b3261e; --rule: #d0d4d9; }
  @media (prefers-color-scheme: dark) {
    svg { --paper: #16181b; --ink: #e4e6e9; --quiet: #9aa1aa; --good: #63c486; --bad: #f0857c; --rule: #34383e; }
  }
  rect { fill: var(--paper); stroke: var(--rule); }
  text { font: 11px ui-monospace, "SF Mono", Menlo, Consolas, monospace; fill: var(--ink); white-space: pre; }
  .quiet { fill: var(--quiet); }
  .good { fill: var(--good); font-weight: 600; }
  .bad { fill: var(--bad); font-weight: 600; }
"""


def lines_of(output: str) -> list[str]:
    """The command and what it printed, without empty lines at both ends."""
    lines = [line.rstrip() for line in output.splitlines()]
    start = next(number for number, line in enumerate(lines) if _BEGIN.match(line))
    end = next(number for number in range(start + 1, len(lines)) if lines[number].startswith("== "))
    shown = [
        re.sub(_BEGIN, r"$ \1 \2", lines[start]),
        *(line.removeprefix("jitmod: ") for line in lines[start + 1 : end]),
    ]
    while not shown[-1]:
        shown.pop()
    return [line for line in shown if not line.startswith("jitmod/")]


def picture(lines: list[str]) -> str:
    """An SVG that stands alone, and suits a light and a dark page."""
    width = max(map(len, lines)) * _LETTER + 2 * _MARGIN
    height = len(lines) * _LINE + 2 * _MARGIN
    drawn = [_text(line, _MARGIN + (number + 0.75) * _LINE) for number, line in enumerate(lines) if line]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" role="img"'
    )
    label = escape(f"{lines[0]}: {lines[-1]}")
    frame = f'<rect x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="6"/>'
    return "\n".join([f'{head} aria-label="{label}">', f"<style>{_STYLE}</style>", frame, *drawn, "</svg>", ""])


def _text(line: str, y: float) -> str:
    if re.fullmatch(r"[ ─]+", line):  # the rule of the table: fonts differ in its width
        end = _MARGIN + len(line) * _LETTER
        return f'<path d="M{_MARGIN + _LETTER:.1f} {y - 4:.1f}H{end:.1f}" style="stroke: var(--rule)"/>'
    parts, at = list[str](), 0
    for found in _MARKS.finditer(line):
        parts.append(escape(line[at : found.start()]))
        parts.append(f'<tspan class="{"bad" if found[0] == "rejected" else "good"}">{found[0]}</tspan>')
        at = found.end()
    parts.append(escape(line[at:]))
    kind = ' class="quiet"' if re.search(r": trying|as a whole|carried-state", line) else ""
    length = len(line) * _LETTER  # whatever the font, columns stay below each other
    return (f'<text{kind} x="{_MARGIN}" y="{y:.1f}" textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs" '
            f'xml:space="preserve">{"".join(parts)}</text>')  # fmt: skip


if __name__ == "__main__":
    sys.stdout.write(picture(lines_of(sys.stdin.read())))
