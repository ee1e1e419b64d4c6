"""The measurement behind `jitmod explain fuse-jits --measure`."""

from __future__ import annotations

from jitmod.trial.nested import Nested, Stages, as_text, nested_jits


def test_every_stage_is_measured() -> None:
    measured = list(nested_jits(calls=(1, 3), terms=4, rounds=1))
    assert [one.calls for one in measured] == [1, 3]
    assert all(
        0 < seconds < one.cold for n in measured for one in (n.kept, n.dropped) for seconds in (one.trace, one.lower)
    )


def test_the_table_says_from_where_on_an_inner_jit_pays() -> None:
    slow, fast = Stages(0.2, 0.1, 0.3, 1e-5), Stages(0.1, 0.1, 0.1, 1e-5)
    lines = list(as_text(iter([Nested(1, fast, fast), Nested(4, fast, slow), Nested(8, fast, slow)])))
    assert lines[-1] == "here an inner jit pays from 4 calls on"
    assert "       keeping it makes the first call 2x as fast" in lines
    assert list(as_text(iter([Nested(2, slow, fast)])))[-1] == "here an inner jit never pays"
