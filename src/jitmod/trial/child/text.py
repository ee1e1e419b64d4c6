"""Comparing what two runs printed: token by token, numbers by value."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

Lines = Sequence[tuple[str, str]]

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)"
_VERSION = r"\bv\d+(?:\.\d+)+|\d+(?:\.\d+){2,}"
_TOKEN = re.compile(rf"0x[0-9a-fA-F]+|{_VERSION}|{_NUMBER}|[^\W\d_]+|\S")
_MARKS = re.compile(r"[\t\r\f\v]")  # white space that a file does not have by chance
_UNITS = {"s", "ms", "us", "µs", "ns", "sec", "secs", "second", "seconds"}
_RELATIVE = 1e-4
_DOUBLE = 12  # digits that only numbers in double precision have to say
FILE = "file "  # what the channels of files begin with


def compare(expected: Lines, again: Lines, got: Lines, factor: float) -> dict[str, Any] | None:
    """How `got` differs from `expected`, or None. Tokens that differ between `expected` and `again` do not count.

    `expected` and `again` are two runs of the baseline; `factor` widens the bounds of numbers.
    """
    for number in range(max(len(expected), len(got))):
        left = expected[number] if number < len(expected) else None
        right = got[number] if number < len(got) else None
        if left is None or right is None or left[0] != right[0]:
            return difference(number, left, right)
        masked = _masked(tokens(*left), tokens(*again[number])) if number < len(again) else frozenset()
        if not _line_agrees(tokens(*left), tokens(*right), masked, factor):
            return difference(number, left, right)
    return None


def errors_in_double(expected: Lines, again: Lines, got: Lines) -> dict[tuple[int, int], float]:
    """The errors of numbers that only double precision holds, in units of the bounds of single precision.

    By line and position in it, from 0. Text of another shape has none.
    """
    found: dict[tuple[int, int], float] = {}
    for number, (left, twin, right) in enumerate(zip(expected, again, got, strict=False)):
        one, two, three = tokens(*left), tokens(*twin), tokens(*right)
        if len(one) == len(two) == len(three):
            for position, (a, b, c) in enumerate(zip(one, two, three, strict=True)):
                size = _in_double(a, c) if a == b != c else 0.0
                if size > 0:
                    found[number, position] = size
    return found


def is_stable(expected: Lines, again: Lines) -> bool:
    """Do two runs of the baseline print the same number of lines, on the same channels?"""
    return [channel for channel, _ in expected] == [channel for channel, _ in again]


def tokens(channel: str, line: str) -> list[str]:
    """Numbers, words and signs. White space does not count on a screen, because the width of printed arrays varies.

    In a file, tabs, returns and the indentation of words count, and whether a word and a number stand apart.
    """
    if not channel.startswith(FILE):
        return _TOKEN.findall(line)
    found: list[str] = []
    end = 0
    for match in _TOKEN.finditer(line):
        space, token = line[end : match.start()], match[0]
        found += _MARKS.findall(space)
        if space and (_is_word(token) and (not found or _is_number(found[-1]))):
            found.append(space if not found else " ")
        elif space and found and _is_word(found[-1]) and _is_number(token):
            found.append(" ")
        found.append(token)
        end = match.end()
    return found + _MARKS.findall(line[end:])


def _is_word(token: str) -> bool:
    return (token.isalpha() and token not in {"nan", "inf"}) or token in {"-", "_", "#", '"', "'"}


def _is_number(token: str) -> bool:
    return re.fullmatch(_NUMBER, token) is not None


def _masked(first: list[str], second: list[str]) -> frozenset[int] | None:
    """The positions that vary between two runs; None where the line has no fixed shape at all."""
    if len(first) != len(second):
        return None
    return frozenset(i for i, (a, b) in enumerate(zip(first, second, strict=True)) if a != b)


def _line_agrees(left: list[str], right: list[str], masked: frozenset[int] | None, factor: float) -> bool:
    if masked is None:
        return True
    if len(left) != len(right):
        return False
    for position, (a, b) in enumerate(zip(left, right, strict=True)):
        if position in masked or a == b or _is_address(left, position) or _is_duration(left, right, position):
            continue
        if not _numbers_agree(a, b, factor):
            return False
    return True


def _is_address(left: list[str], position: int) -> bool:
    """`<f at 0x7f00aa>`. A hash or a mask printed in that base says something."""
    return left[position].startswith("0x") and left[max(0, position - 1)] == "at"


def _is_duration(left: list[str], right: list[str], position: int) -> bool:
    """`0.5 s`, `12.3 it/s`: times are what a patch is meant to change.

    Printed with more digits, a measured time varies between two runs of the baseline, and a simulated one does not.
    """
    rest = [token for token in left[position + 1 : position + 5] if token != " "][:3]
    coarse = max(_digits(left[position]), _digits(right[position])) <= 2
    return rest == ["it", "/", "s"] or (coarse and rest[:1] != [] and rest[0] in _UNITS)


def _digits(number: str) -> int:
    """Significant digits."""
    return len(re.sub(r"[eE].*|\D", "", number).lstrip("0"))


def _numbers_agree(a: str, b: str, factor: float) -> bool:
    try:
        left, right = float(a), float(b)
    except ValueError:
        return False
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    whole = [not any(mark in number for mark in ".eE") for number in (a, b)]
    if whole[0] != whole[1] and left == right:
        return False  # 3 and 3.0: numbers of two kinds. Rounded to a few digits, 1 may become 0.99999
    if all(whole):
        return left == right and _is_padded(a) == _is_padded(b) and a.startswith("+") == b.startswith("+")
    bound = _RELATIVE * factor * abs(left)
    if _digits(a) >= 3:  # an error far below the bound may still move the last printed digit
        bound = max(bound, 1.01 * min(_last_place(a), _last_place(b)))  # the finer: fewer digits are another format
    return abs(left - right) <= bound


def _in_double(a: str, b: str) -> float:
    """The error of two numbers of which one has more digits than single precision, if that cannot be its value."""
    if a == b or max(_digits(a), _digits(b)) < _DOUBLE:
        return 0.0
    try:
        left, right = float(a), float(b)
    except ValueError:
        return 0.0
    if not (math.isfinite(left) and math.isfinite(right)) or (_is_single(a) and _is_single(b)):
        return 0.0
    return abs(left - right) / (_RELATIVE * max(abs(left), abs(right)) or 1.0)


def _is_single(number: str) -> bool:
    """May it be a number of single precision, as far as its digits tell?"""
    value = float(number)
    with np.errstate(over="ignore"):
        return abs(float(np.float32(value)) - value) <= _last_place(number)


def _is_padded(number: str) -> bool:
    """Does it begin with zeros, as names and dates do?"""
    digits = number.lstrip("+-")
    return len(digits) > 1 and digits.startswith("0")


def _last_place(text: str) -> float:
    mantissa, _, exponent = text.lower().partition("e")
    return float(10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2])))


def difference(number: int, left: tuple[str, str] | None, right: tuple[str, str] | None) -> dict[str, Any]:
    """Lines are numbered from 1, over all channels."""

    def show(line: tuple[str, str] | None) -> str:
        return "nothing" if line is None else f"{line[0]}: {line[1][:200]}".replace("\r", r"\r")

    return {"test": "effects", "line": number + 1, "expected": show(left), "got": show(right)}
