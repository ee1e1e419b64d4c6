"""Whole trials of planted candidates: each wrong one is turned away by the right test, the right one is accepted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jitmod.model import Edit, Knob, Patch, Site, Status, Variant
from jitmod.source.config import GateSettings, Workload
from jitmod.source.document import Document
from jitmod.trial.trial import try_patch

from .conftest import BENCH, LAYERS, LOOP, MAPPED, NET, WORKLOAD, Try, write
from .planted.bench import Trials, trials
from .test_schemas import assert_valid

__all__ = ["trials"]

BLIND = """\
import jax.numpy as jnp

from app.net import score
from bench import setup


def run(w, xs):
    score(w, xs)
    return jnp.zeros(3)


def elsewhere(w, xs):
    return w


def many(w, xs, rep):
    return score(w + rep, xs)[0]


def broken(w, xs):
    raise KeyError("no such thing")
"""

WRONG = {
    "wrong axis": (NET.replace("jnp.stack(out)", "jnp.stack(out, axis=1)"), "values"),
    "off by one": (NET.replace("in xs:", "in xs[1:] + xs[:1]:"), "values"),
    "dropped last item": (NET.replace("in xs:", "in xs[:-1]:"), "structure"),
    "wrong dtype": (NET.replace("jnp.stack(out)", "jnp.stack(out).astype(jnp.float16)"), "structure"),
    "array became numpy": (NET.replace("jnp.stack(out)", "__import__('numpy').asarray(jnp.stack(out))"), "structure"),
    "swapped outputs": (
        NET.replace("jnp.stack(out), jnp.sum(out[-1])", "jnp.sum(out[-1]), jnp.stack(out)"), "structure"),
    "last state wrong": (NET.replace("out[-1]", "out[-2]"), "values"),
    "lost print": (NET.replace('print("mean", float(jnp.mean(out[0])))', "pass"), "effects"),
    "print on the other stream": (NET.replace("out[0])))", "out[0])), file=sys.stderr)"), "effects"),
    "wrong number printed": (NET.replace("jnp.mean(out[0])", "jnp.mean(out[1])"), "effects"),
    "argument mutated": (NET.replace("    out = []\n", "    out = []\n    xs.reverse(); xs = xs[::-1]\n"), "effects"),
    "raises": (NET.replace("    out = []\n", "    out = []\n    raise ValueError('planted')\n"), "exception"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_candidate_is_rejected(name: str, trials: Trials) -> None:
    text, test = WRONG[name]
    trials.write({"app/__init__.py": "", "app/net.py": NET, "app/layers.py": LAYERS, "bench.py": BENCH})
    verdict = trials.screen({"app/net.py": text})
    assert verdict is not None
    assert (verdict.status, verdict.test) == (Status.REJECTED, test), verdict.why
    assert test in verdict.why


def test_wrong_candidate_is_rejected_by_a_whole_trial(try_text: Try) -> None:
    text, test = WRONG["last state wrong"]
    trial = try_text(text)
    assert (trial.verdict.status, trial.verdict.test) == (Status.REJECTED, test), trial.verdict.why
    assert trial.evidence["judges"] == []


def test_right_candidate_is_accepted(try_text: Try, capfd: pytest.CaptureFixture[str]) -> None:
    trial = try_text(MAPPED, new_functions=["_layers"])
    verdict = trial.verdict
    assert verdict.status is Status.ACCEPTED, verdict.why
    assert verdict.speedup is not None and verdict.speedup > 1
    assert verdict.device == trial.evidence["explore"]["device"]["platform"]
    assert verdict.parity["sabotage"] == {"scaled": "seen"}
    assert verdict.compiles["candidate"]["warm"] == 0
    assert len(trial.evidence["judges"]) == 2
    assert capfd.readouterr() == ("", "")
    assert_valid(trial)


@pytest.mark.slow
def test_slower_candidate_is_rejected(try_text: Try) -> None:
    verdict = try_text(NET.replace("y = layer(w, x)", "y = [layer(w, x) for _ in range(12)][0]")).verdict
    assert (verdict.status, verdict.test) == (Status.REJECTED, "slower"), verdict.why


@pytest.mark.slow
def test_candidate_that_compiles_on_every_call_is_rejected(project: Path, try_text: Try) -> None:
    write(project, {"other.py": BLIND})
    leaky = NET.replace("out = []", "out, step = [], jax.jit(lambda a, b: layer(a, b))").replace(
        "layer(w, x)", "step(w, x)"
    )  # fmt: skip
    verdict = try_text(leaky, Workload("many", "other.py:many", "other.py:setup")).verdict
    assert (verdict.status, verdict.test) == (Status.REJECTED, "retraces"), verdict.why
    assert verdict.compiles["retraces"] == "compared"


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("other.py:run", "blind"),
        ("other.py:elsewhere", "never reaches"),
        ("other.py:broken", "raises in the baseline: KeyError"),
        ("other.py:missing", "has no function missing"),
        ("nowhere.py:run", "no file nowhere.py"),
    ],
)
def test_workload_that_proves_nothing_is_unproven(function: str, said: str, project: Path, try_text: Try) -> None:
    write(project, {"other.py": BLIND})
    text = NET.replace("y = layer(w, x)", "y = layer(w, x) + 0.0").replace('print("mean", float(jnp.mean(out[0])))', "")
    write(project, {"app/net.py": NET.replace('print("mean", float(jnp.mean(out[0])))', "")})
    verdict = try_text(text, Workload("other", function, "other.py:setup" if "other" in function else None)).verdict
    assert verdict.status is Status.UNPROVEN
    assert said in verdict.why


def test_new_function_that_never_runs_is_unproven(try_text: Try) -> None:
    verdict = try_text(MAPPED.replace("_layers(w, xs)\n    print", "jnp.stack([layer(w, x) for x in xs])\n    print"),
                       new_functions=["_layers"]).verdict  # fmt: skip
    assert verdict.status is Status.UNPROVEN
    assert "_layers" in verdict.why


def test_cpu_trial_is_unproven_where_a_gpu_is_required(try_text: Try, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    verdict = try_text(MAPPED, require_gpu=True).verdict
    assert verdict.status is Status.UNPROVEN
    assert "GPU" in verdict.why


def _patch(before: str, variants: list[tuple[str, str]], knob: Knob) -> Patch:
    start = before.index(LOOP)
    at_score = before.index("def score")
    made = []
    for form, call in variants:
        function = f"@jax.jit\ndef _layers(w, xs):\n    return {call}\n\n\n"
        call_it = Edit(start, start + len(LOOP), "    out = _layers(w, jnp.stack(xs))\n")
        edits = (Edit(at_score, at_score, function), call_it)
        made.append(Variant(form, edits, (knob,) if knob.token in call else ()))
    site = Site("app/net.py", before[: start + 10].count("\n") + 2, 5, before[:start].count("\n") + 4, "score")
    return Patch("vmapify", site, "planted", tuple(made), new_functions=("_layers",))


def test_patch_is_judged_with_its_best_form_and_knob(project: Path) -> None:
    knob = Knob("repeats", 64, (1, 64))
    slow = f"jax.lax.fori_loop(0, {knob.token} * 1000, lambda i, v: v + 0.0 * i, jax.vmap(layer, (None, 0))(w, xs))"
    patch = _patch(NET, [("wrong", "jax.vmap(layer, (None, 0))(w, xs)[::-1]"), ("repeated", slow)], knob)
    document = Document.parse("app/net.py", NET.encode())
    trial = try_patch(
        patch, document, code_root=project, user_root=project, base_commit="0" * 40, workload=WORKLOAD,
        settings=GateSettings(), python=Path(sys.executable), budget=90.0,
    )  # fmt: skip
    assert trial.variant == patch.variants[1]
    assert trial.knobs == {"repeats": 1}
    assert trial.evidence["explore"]["baseline_execution"]["trips"] == 32
    assert trial.evidence["explore"]["tuning 0"]["failure"]["test"] == "values"


def test_loop_of_one_iteration_is_unproven(project: Path) -> None:
    bench = (project / "bench.py").read_text().replace("two, (32, 32)))", "two, (32, 32)))[:1]")
    write(project, {"bench.py": bench})
    knob = Knob("n", 1, (1,))
    trial = try_patch(
        _patch(NET, [("vmap", "jax.vmap(layer, (None, 0))(w, xs)")], knob), Document.parse("app/net.py", NET.encode()),
        code_root=project, user_root=project, base_commit="", workload=WORKLOAD, settings=GateSettings(),
        python=Path(sys.executable), budget=90.0,
    )  # fmt: skip
    assert trial.verdict.status is Status.UNPROVEN
    assert "1 iteration" in trial.verdict.why
