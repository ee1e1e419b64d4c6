"""From landmarks in crops to landmarks in the photograph."""

from dataclasses import dataclass

import numpy as np

from .data import Box


@dataclass(frozen=True)
class Landmark:
    """A landmark in pixels of the photograph; `coin` is the index of its crop."""

    coin: int
    y: float
    x: float
    score: float


def to_photo(points: np.ndarray, box: Box) -> np.ndarray:
    """(n, 2) relative to the crop -> (n, 2) in pixels"""
    return points * box.size + np.array([box.top, box.left], np.float32)


def suppress(landmarks: list[Landmark], radius: float) -> list[Landmark]:
    """Non-maximum suppression: of landmarks closer than `radius`, the one with the best score stays."""
    kept: list[Landmark] = []
    for candidate in sorted(landmarks, key=lambda landmark: -landmark.score):
        if all((candidate.y - k.y) ** 2 + (candidate.x - k.x) ** 2 >= radius**2 for k in kept):
            kept.append(candidate)
    return kept


def locate(predictions: list, boxes: list[Box], radius: float = 2.0) -> list[Landmark]:
    """Landmarks of all coins in the photograph, coin by coin."""
    found = []
    for coin, ((points, score), box) in enumerate(zip(predictions, boxes)):
        for y, x in to_photo(np.asarray(points), box):
            found.append(Landmark(coin, float(y), float(x), float(score)))
    return sorted(suppress(found, radius), key=lambda landmark: landmark.coin)
