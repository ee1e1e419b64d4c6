"""Landmarks and a score for every crop."""

from jax import Array

from .ops import overlap, soft_argmax, standardise
from .vit import LandmarkHead


def predict_landmarks(head: LandmarkHead, crops: Array, masks: Array) -> list:
    """A pair for each crop: landmarks (n, 2) relative to the crop, and how well the segmentation fits the mask."""
    out = []
    for crop, mask in zip(crops, masks):
        # contrast differs a lot from coin to coin
        image = standardise(crop, mask)
        heatmaps, logits = head(image, mask)
        points = soft_argmax(heatmaps)
        out.append((points, overlap(logits, mask)))
    return out
