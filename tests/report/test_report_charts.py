"""The pictures: what they show lies where it belongs, and odd samples break none."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as xml

import pytest

from jitmod.delivery.figures import seconds
from jitmod.report.html.charts import PHASES, Scale, calls, curves, phases, speeds, whisker
from jitmod.report.html.judged import judged


def drawn(picture: str | None) -> xml.Element:
    assert picture is not None
    return xml.fromstring(picture)


def places(picture: xml.Element, kind: str, axis: str) -> list[float]:
    of_kind = (one.attrib for one in picture.iter() if kind in one.attrib.get("class", "").split())
    return [float(attributes[axis]) for attributes in of_kind if axis in attributes]


def test_each_sample_is_a_dot_and_each_process_a_row() -> None:
    picture = drawn(calls({"baseline": [[0.2, 0.3], [0.25]], "candidate": [[0.02], [0.03, 0.02]]}))
    assert len(places(picture, "baseline", "cx")) == len(places(picture, "candidate", "cx")) == 3
    assert len(set(places(picture, "baseline", "cy"))) == len(set(places(picture, "candidate", "cy"))) == 2
    assert max(places(picture, "candidate", "cx")) < min(places(picture, "baseline", "cx"))
    before, after = places(picture, "median", "x1")
    assert after < before
    assert "250 ms of 3" in picture.attrib["aria-label"] and "20 ms of 3" in picture.attrib["aria-label"]


def test_a_first_call_is_the_sum_of_its_phases() -> None:
    parts = {"trace": 1.0, "lower": 2.0, "compile": 4.0}
    first_calls = {"baseline": [parts, parts], "candidate": [{p: 0.5 for p in PHASES}]}
    picture = drawn(phases(first_calls, {"baseline": 7.0, "candidate": 1.5}))
    widths = {arm: [float(one.attrib["width"]) for one in picture.iter() if one.attrib.get("class", "").startswith(arm)]
              for arm in ("baseline", "candidate")}  # fmt: skip
    assert widths["baseline"] == pytest.approx([widths["baseline"][0] * factor for factor in (1, 2, 4)], abs=0.3)
    assert sum(widths["candidate"]) == pytest.approx(sum(widths["baseline"]) * 1.5 / 7, abs=0.3)


def test_curves_keep_to_the_picture() -> None:
    picture = drawn(curves({"vmap": [(1, 0.5), (4, 0.1)], "map": [(1, 0.01), (256, 9.0)]}, "said", seconds, "map"))
    assert all(0 <= x <= 440 for x in places(picture, "candidate", "cx") + places(picture, "baseline", "cx"))
    assert len(places(picture, "candidate", "cx")) == 2
    assert curves({"vmap": [(1, 0.5)]}, "said", seconds, "vmap") is None
    limited = drawn(curves({"vmap": [(1, 2e6), (4, 4e6)]}, "said", seconds, "vmap", 6e6))
    assert 0 < places(limited, "limit", "y1")[0] < min(places(limited, "candidate", "cy"))


def test_what_is_slower_ends_left_of_one() -> None:
    scale = speeds([0.5, 8.0])
    faster, slower = (drawn(whisker(value, (value * 0.9, value * 1.1), scale)) for value in (8.0, 0.5))
    one = places(faster, "one", "x1")[0]
    assert places(faster, "bar", "x") == pytest.approx([one]) and places(slower, "bar", "x")[0] < one
    assert places(slower, "worse", "x")


def test_nothing_measured_is_no_picture() -> None:
    assert calls({}) is calls({"baseline": [[]], "candidate": []}) is phases({}, {}) is None
    assert phases({"baseline": [{p: 0.0 for p in PHASES}], "candidate": []}, {"baseline": 1.0}) is None


def test_any_samples_make_a_picture_inside_of_its_frame() -> None:
    chance = random.Random(0)
    for _ in range(300):
        made = [[10 ** chance.uniform(-9, 6) for _ in range(chance.randrange(4))] for _ in range(4)]
        picture = calls({"baseline": made[:2], "candidate": made[2:]})
        if any(made):
            found = drawn(picture)
            assert all(0 <= x <= 440 for kind in ("baseline", "candidate") for x in places(found, kind, "cx"))
            assert 1 <= len(re.findall('class="tick', str(picture))) <= 7
    same = drawn(calls({"baseline": [[0.5, 0.5]], "candidate": [[0.5]]}))
    assert len(set(places(same, "baseline", "cx"))) == 1


@pytest.mark.parametrize(("low", "high"), [(0.01, 0.02), (1e-6, 1e3), (0.9, 300), (3.1, 3.2), (1, 1.5)])
@pytest.mark.parametrize("is_log", [True, False])
def test_ticks_are_few_and_inside(low: float, high: float, is_log: bool) -> None:
    ticks = Scale(low, high, 0.0, 100.0, is_log).ticks()
    assert 1 <= len(ticks) <= 6 and ticks == sorted(ticks)
    assert all(low * 0.999 <= tick <= high * 1.001 for tick in ticks)


def test_figures_that_are_none_are_left_out() -> None:
    trial = {
        "verdict": "accepted", "test": None, "why": "w", "device": None, "speedup": 1e300, "speedup_ci": [None, 2],
        "cold": {"baseline": "x", "candidate": True}, "compiles": {"baseline": 3}, "parity": {}, "memory": {},
        "knobs": {},
        "measured": {"warm": {"baseline": [[0.0, -1.0, 1e300]], "candidate": [[1.0]]},
                     "cold": {"baseline": [{"trace": -1.0, "lower": 0.0, "compile": 0.0}], "candidate": []}},
    }  # fmt: skip
    found = judged(trial)
    assert found is not None and found.verdict.speedup is found.interval is None and not found.rows
    assert found.warm == {"baseline": [[]], "candidate": [[1.0]]} and not found.first_calls["baseline"]
    assert judged(None) is None
