"""Distances from a camera: a compiled function that is made anew for every batch, and one that holds a large table."""

import jax
import jax.numpy as jnp

TABLE = jnp.sin(jnp.arange(600 * 400, dtype=jnp.float32)).reshape(600, 400)


def undistort(pixels: list[jax.Array], focal: jax.Array):
    straight = []
    for batch in pixels:
        ray = jax.jit(lambda p: p / (focal + 1e-3 * (p**2).sum(axis=-1, keepdims=True)))
        straight.append(ray(batch))
    return straight


@jax.jit
def depth(ray):
    return jnp.tanh(TABLE @ TABLE.T / 400) @ ray
