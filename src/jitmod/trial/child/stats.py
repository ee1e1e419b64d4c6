"""What paired samples of two arms allow one to say. The child stops by these rules, and the gate judges by them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

FIRST_LOOK = 5
STEPS = (8, 16, 24, 40)
CLEAR = math.log(1.5)

Array = np.ndarray[Any, Any]


def log_ratios(baseline: Sequence[float], candidate: Sequence[float]) -> Array:
    """Log of baseline over candidate, pair by pair: positive where the candidate is faster."""
    return np.asarray(np.log(np.asarray(baseline)) - np.log(np.asarray(candidate)))


def medians(ratios: Array, seed: int, resamples: int = 4000) -> Array:
    """Bootstrap distribution of the median."""
    draws = np.random.default_rng(seed).integers(0, len(ratios), (resamples, len(ratios)))
    return np.asarray(np.median(ratios[draws], axis=1))


def lower(distribution: Array, confidence: float) -> float:
    return float(np.quantile(distribution, 1 - confidence))


def upper(distribution: Array, confidence: float) -> float:
    return float(np.quantile(distribution, confidence))


def is_clear(ratios: Array) -> bool:
    """Are the first pairs all far on one side? Then more pairs would only cost time."""
    first = ratios[:FIRST_LOOK]
    return len(first) == FIRST_LOOK and (bool(np.all(first > CLEAR)) or bool(np.all(first < -CLEAR)))


def stops(
    baseline: Sequence[float], candidate: Sequence[float], gate: Mapping[str, Any], seed: int, steps: Sequence[int],
    to_24: bool,
) -> str | None:  # fmt: skip
    """Why no more pairs are needed, or None. `to_24` asks for that many, unless every pair is a clear win."""
    number = len(candidate)
    ratios = log_ratios(baseline, candidate)
    if number == FIRST_LOOK and is_clear(ratios) and (not to_24 or bool(ratios.min() > 0)):
        return "clear"
    if number in steps and (not to_24 or number >= 24) and is_settled(
        ratios, gate["min_speedup"], gate["confidence"], seed
    ):  # fmt: skip
        return "settled"
    return None


def is_settled(ratios: Array, min_speedup: float, confidence: float, seed: int) -> bool:
    """Is it known already whether the speedup exceeds `min_speedup`?"""
    distribution = medians(ratios, seed)
    threshold = math.log(min_speedup)
    return lower(distribution, confidence) > threshold or upper(distribution, 0.95) < threshold


def false_gain(against_itself: Array, min_speedup: float, confidence: float, seed: int) -> float:
    """The log ratio that equal arms show, where the rule that tells a faster arm tells them apart; else 0."""
    if len(against_itself) == 0:
        return 0.0
    distribution = medians(against_itself, seed)
    bound = max(lower(distribution, confidence), -upper(distribution, confidence))
    return abs(float(np.median(against_itself))) if bound > math.log(min_speedup) else 0.0


def even_against_odd(baseline: Sequence[float]) -> Array:
    """The baseline against itself: log ratios of neighbouring samples. What they show is noise."""
    even, odd = np.asarray(baseline[0::2]), np.asarray(baseline[1::2])
    count = min(len(even), len(odd))
    return log_ratios(even[:count].tolist(), odd[:count].tolist())
