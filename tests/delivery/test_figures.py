"""Measurements in words."""

from __future__ import annotations

import pytest

from jitmod.delivery.figures import cold as cold_change
from jitmod.delivery.figures import comparison, compiles, describe, knobs, one_line, parity, seconds, speedup
from jitmod.model import Status, Verdict


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12.345, "12.3 s"),
        (1.0, "1 s"),
        (0.5123, "512 ms"),
        (0.0015, "1.5 ms"),
        (2.5e-6, "2.5 us"),
        (1e-9, "0.001 us"),
        (2468.0, "2470 s"),
    ],
)
def test_seconds(value: float, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (Verdict(Status.ACCEPTED, "fast", speedup=8.123, speedup_ci=(7.6, 8.8)), "accepted 8.12x (7.6 to 8.8)"),
        (
            Verdict(Status.ACCEPTED, "fast", speedup=2912.3, speedup_ci=(999.6, 56789.0)),
            "accepted 2910x (1000 to 56800)",
        ),
        (Verdict(Status.ACCEPTED, "compiles faster"), "accepted"),
        (Verdict(Status.REJECTED, "0.7x", test="slower"), "rejected: slower - 0.7x"),
        (Verdict(Status.REJECTED, "values at [0]: no", test="values"), "rejected: values at [0]: no"),
        (
            Verdict(Status.CRASHED, "it said:\n\x1b[1mSegmentation\x1b[0m\x00 fault"),
            "crashed: it said: Segmentation fault",
        ),
    ],
)
def test_describe(verdict: Verdict, text: str) -> None:
    assert describe(verdict) == text


def test_what_was_not_measured_is_left_out() -> None:
    nothing = Verdict(Status.UNPROVEN, "x")
    assert [speedup(nothing), cold_change(nothing), compiles(nothing), parity(nothing), knobs(nothing)] == [""] * 5
    assert comparison(nothing, {"explore": {}, "judges": [{"failure": {}}]}) == []


def test_retraces_are_told_where_there_are_any() -> None:
    arms = {"baseline": {"cold": 12.0, "warm": 0}, "candidate": {"cold": 1, "warm": 0}}
    assert compiles(Verdict(Status.ACCEPTED, "x", compiles=arms)) == "12 -> 1"
    arms["baseline"]["warm"] = 20
    assert compiles(Verdict(Status.ACCEPTED, "x", compiles=arms)) == "12 -> 1, warm 20 -> 0"


def test_medians_are_taken_over_all_processes() -> None:
    judges = [
        {"warm": {"seconds": {"baseline": [3.0, 3.0], "candidate": [1.0, 1.0]}}},
        {"warm": {"seconds": {"baseline": [5.0], "candidate": [2.0]}}},
    ]
    rows = comparison(Verdict(Status.ACCEPTED, "x", speedup=3.0), {"judges": judges})
    assert rows == [("warm call", "3 s", "1 s", "3x")]


def test_one_line_keeps_letters_of_every_script() -> None:
    assert one_line("größe\t日本 \x1b[1;31mrot\x1b[0m \x1b]0;title\x07ok\x1b") == "größe 日本 rot ok"
