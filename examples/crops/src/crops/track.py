"""Reads the coins in order: what was seen on one coin is context for the next."""

import equinox as eqx
import jax
import jax.numpy as jnp

from .ops import soft_argmax
from .vit import LandmarkHead


class Tracker(eqx.Module):
    head: LandmarkHead
    recall: eqx.nn.Linear
    remember: eqx.nn.Linear

    def __init__(self, head: LandmarkHead, *, key):
        recall_key, remember_key = jax.random.split(key)
        dim = head.heatmap.in_features
        self.head = head
        self.recall = eqx.nn.Linear(dim, dim, key=recall_key)
        self.remember = eqx.nn.Linear(dim, dim, key=remember_key)

    def __call__(self, crop, mask, memory):
        tokens = self.head.encoder(crop, mask, self.recall(memory))
        grid = crop.shape[0] // self.head.encoder.embed.patch
        heatmaps = jax.vmap(self.head.heatmap)(tokens).T.reshape(-1, grid, grid)
        return heatmaps, jnp.tanh(self.remember(tokens.mean(axis=0)))


def follow(tracker, crops, masks):
    """Landmarks of each coin, given the coins before it."""
    memory = jnp.zeros(tracker.recall.in_features)
    path = []
    for crop, mask in zip(crops, masks):
        heatmaps, memory = tracker(crop, mask, memory)
        path.append(soft_argmax(heatmaps))
    return path
