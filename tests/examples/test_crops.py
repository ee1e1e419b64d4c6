"""The bundled example runs, and its loops are what it claims: per item, with host work, carried, keyed."""

from __future__ import annotations

import ast
import importlib
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("skimage", reason="the example reads its photograph from scikit-image")

EXAMPLE = Path(__file__).parents[2] / "examples" / "crops"
OWN = ("crops", "bench")
FEW = 3


@dataclass(frozen=True)
class Example:
    """The imported project, a head, and its first few crops."""

    head: Any
    crops: jax.Array
    masks: jax.Array
    boxes: list[Any]

    def module(self, name: str) -> ModuleType:
        return importlib.import_module(name)


def _forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in OWN]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def example() -> Iterator[Example]:
    _forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLE / "src"))
        patch.syspath_prepend(str(EXAMPLE))
        crops, masks, boxes = importlib.import_module("crops.data").load_crops()
        head = importlib.import_module("crops").LandmarkHead(key=jax.random.key(0))
        yield Example(head, crops, masks, boxes)
    _forget()


def _workloads() -> list[dict[str, Any]]:
    settings = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())
    workloads: list[dict[str, Any]] = settings["tool"]["jitmod"]["workloads"]
    return workloads


def _function(reference: str) -> Any:
    path, name = reference.split(":")
    return getattr(importlib.import_module(path.removesuffix(".py").replace("/", ".")), name)


def test_every_coin_of_the_photograph_becomes_a_crop_and_a_mask(example: Example) -> None:
    assert len(example.boxes) >= 20
    assert example.crops.shape == example.masks.shape == (len(example.boxes), 32, 32)
    assert example.crops.dtype == example.masks.dtype == jnp.float32
    assert all(0.2 < float(mask.mean()) < 0.9 for mask in example.masks)
    inside = jnp.sum(example.crops * example.masks) / jnp.sum(example.masks)
    outside = jnp.sum(example.crops * (1 - example.masks)) / jnp.sum(1 - example.masks)
    assert inside > outside + 0.1, "coins are brighter than the tray"


def test_head_has_twelve_blocks_and_reads_both_inputs(example: Example) -> None:
    crop, mask = example.crops[0], example.masks[0]
    run = eqx.filter_jit(example.head)
    heatmaps, logits = run(crop, mask)
    assert len(example.head.encoder.blocks) >= 12
    assert (heatmaps.shape, logits.shape) == ((5, 4, 4), (4, 4))
    assert not jnp.allclose(heatmaps, run(crop[::-1], mask)[0], atol=1e-3)
    assert not jnp.allclose(heatmaps, run(crop, jnp.ones_like(mask))[0], atol=1e-3)


def test_predict_is_one_independent_computation_per_crop(example: Example) -> None:
    predict = example.module("crops.predict").predict_landmarks
    crops, masks = example.crops[:FEW], example.masks[:FEW]
    ops = example.module("crops.ops")

    @eqx.filter_jit
    def batched(head: Any, crops: jax.Array, masks: jax.Array) -> Any:
        def per_crop(item: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            crop, mask = item
            heatmaps, logits = head(ops.standardise(crop, mask), mask)
            return ops.soft_argmax(heatmaps), ops.overlap(logits, mask)

        return jax.lax.map(per_crop, (crops, masks), batch_size=2)

    out = predict(example.head, crops, masks)
    points, scores = batched(example.head, crops, masks)
    assert isinstance(out, list) and len(out) == FEW
    np.testing.assert_allclose(np.stack([p for p, _ in out]), points, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.stack([s for _, s in out]), scores, rtol=1e-4, atol=1e-5)
    assert predict(example.head, crops[:0], masks[:0]) == []


def test_report_prints_a_line_and_returns_a_float_per_crop(
    example: Example, capsys: pytest.CaptureFixture[str]
) -> None:
    report = example.module("crops.report").CoinReport(example.head)
    scores = report.show(example.crops[:FEW], example.masks[:FEW])
    lines = capsys.readouterr().out.splitlines()
    assert [type(score) for score in scores] == [float] * FEW
    for i, (line, score) in enumerate(zip(lines, scores, strict=True)):
        assert line.startswith(f"coin {i:2d}") and f"overlap {score:.2f}" in line


def test_track_carries_what_it_saw_to_the_next_crop(example: Example) -> None:
    track = example.module("crops.track")
    tracker = track.Tracker(example.head, key=jax.random.key(2))
    crops, masks = example.crops[:2], example.masks[:2]
    both = track.follow(tracker, crops, masks)
    alone = track.follow(tracker, crops[1:], masks[1:])
    assert len(both) == 2
    assert not np.allclose(both[1], alone[0], atol=1e-4)


def test_augment_draws_anew_for_every_crop_from_a_chain_of_keys(example: Example) -> None:
    jitter = example.module("crops.augment").jittered_landmarks
    crops, masks = jnp.stack([example.crops[0]] * 2), jnp.stack([example.masks[0]] * 2)
    key = jax.random.key(1)
    first = jitter(example.head, crops, masks, key)
    assert first.shape == (2, 5, 2)
    assert not np.allclose(first[0], first[1], atol=1e-5)
    second_alone = jitter(example.head, crops[1:], masks[1:], jax.random.split(key)[0])
    np.testing.assert_array_equal(first[1], second_alone[0])


def test_landmarks_are_taken_back_to_the_photograph(example: Example) -> None:
    consume = example.module("crops.consume")
    corners = np.array([[0.25, 0.25], [0.75, 0.75], [0.75, 0.75]], np.float32)
    predictions = [(corners, np.float32(0.5)) for _ in example.boxes[:FEW]]
    found = consume.locate(predictions, example.boxes[:FEW])
    assert {landmark.coin for landmark in found} == set(range(FEW))
    assert len(found) == 2 * FEW, "the doubled landmark is suppressed"
    box = example.boxes[found[0].coin]
    assert box.top < found[0].y < box.top + box.size and box.left < found[0].x < box.left + box.size


@pytest.mark.parametrize("workload", _workloads(), ids=lambda workload: str(workload["name"]))
def test_workload_runs_and_covers_a_loop(example: Example, workload: dict[str, Any]) -> None:
    covered = [path for pattern in workload["covers"] for path in EXAMPLE.glob(pattern)]
    assert covered
    for path in covered:
        assert any(isinstance(node, ast.For) for node in ast.walk(ast.parse(path.read_text())))
    leaves = jax.tree.leaves(_function(workload["run"])(*_function(workload["setup"])()))
    assert leaves and all(np.all(np.isfinite(leaf)) for leaf in leaves)


def test_source_knows_nothing_of_compilation() -> None:
    for path in (EXAMPLE / "src").rglob("*.py"):
        text = path.read_text()
        assert "jitmod" not in text and "jit(" not in text and "lax." not in text, path
