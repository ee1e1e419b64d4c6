"""The samples that go into a report are those of the evidence."""

from __future__ import annotations

from jitmod.trial.measured import samples

COLD = {"seconds": 9.0, "trace": 1.0, "lower": 2.0, "compile": 3.0, "compilations": 1}


def test_samples_of_every_process() -> None:
    judge = {
        "warm": {"seconds": {"baseline": [0.123456789, 0.2], "candidate": [0.1]}},
        "cold": {"baseline": [COLD, COLD], "candidate": [COLD]},
        "loading": {"baseline": {"seconds": 5.0, "trace": 0.5, "lower": 0.0, "compile": 0.25}},
    }
    tuned = {"form": "map", "knobs": {"batch_size": 4}, "seconds": 0.1, "failure": None, "candidate": 2}
    explored = {"tuning 2": tuned, "device": {"kind": "cpu"}, "versions": {"jax": "0.10"}, "parity": {}}
    longer = {"trace": 1.5, "lower": 2.0, "compile": 3.25}
    assert samples(explored, [judge, judge]) == {
        "warm": {"baseline": [[0.123457, 0.2]] * 2, "candidate": [[0.1]] * 2},
        "cold": {"baseline": [longer] * 4, "candidate": [{"trace": 1.0, "lower": 2.0, "compile": 3.0}] * 2},
        "tuning": [tuned],
        "device": "cpu",
        "versions": {"jax": "0.10"},
    }


def test_evidence_without_measurements_has_none() -> None:
    assert samples({}, []) == {} and samples({}, [{"failure": {}}]) == {}
