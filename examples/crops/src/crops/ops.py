"""Pre- and post-processing of a single crop."""

import jax
import jax.numpy as jnp
from jax import Array


def standardise(crop: Array, mask: Array) -> Array:
    """Zero mean and unit variance over the coin, so that worn and bright coins look alike."""
    weight = mask / jnp.sum(mask)
    mean = jnp.sum(weight * crop)
    variance = jnp.sum(weight * (crop - mean) ** 2)
    return (crop - mean) / jnp.sqrt(variance + 1e-6)


def soft_argmax(heatmaps: Array, sharpness=4.0) -> Array:
    """Expected (y, x) of each heatmap, in [0, 1]: (landmarks, g, g) -> (landmarks, 2)"""
    count, height, width = heatmaps.shape
    weight = jax.nn.softmax(sharpness * heatmaps.reshape(count, -1), axis=-1).reshape(heatmaps.shape)
    y = (jnp.arange(height) + 0.5) / height
    x = (jnp.arange(width) + 0.5) / width
    return jnp.stack([jnp.sum(weight.sum(axis=2) * y, axis=-1), jnp.sum(weight.sum(axis=1) * x, axis=-1)], axis=-1)


def overlap(logits: Array, mask: Array) -> Array:
    """Soft intersection over union of the predicted segmentation and the mask."""
    predicted = jax.nn.sigmoid(logits)
    rows, columns = logits.shape
    target = mask.reshape(rows, mask.shape[0] // rows, columns, mask.shape[1] // columns).mean(axis=(1, 3))
    shared = jnp.sum(predicted * target)
    return shared / (jnp.sum(predicted) + jnp.sum(target) - shared)
