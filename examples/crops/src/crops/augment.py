"""How far the landmarks move when the lighting changes a little."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from .ops import soft_argmax, standardise
from .vit import LandmarkHead


class JitteredHead(eqx.Module):
    """The head on a crop with random gain and sensor noise."""

    head: LandmarkHead
    gain: float = 0.1
    noise: float = 0.02

    def __call__(self, crop: Array, mask: Array, key):
        gain_key, noise_key = jax.random.split(key)
        gain = 1.0 + self.gain * jax.random.normal(gain_key)
        noise = self.noise * jax.random.normal(noise_key, crop.shape)
        return self.head(standardise(gain * crop + noise, mask), mask)


def jittered_landmarks(head: LandmarkHead, crops: Array, masks: Array, key) -> Array:
    """Landmarks of every crop under its own random lighting, (crops, landmarks, 2)"""
    model = JitteredHead(head)
    samples = []
    for crop, mask in zip(crops, masks):
        key, sub = jax.random.split(key)
        heatmaps, _ = model(crop, mask, sub)
        samples.append(soft_argmax(heatmaps))
    return jnp.stack(samples)
