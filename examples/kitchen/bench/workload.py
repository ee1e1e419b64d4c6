"""What jitmod runs to try its patches: one function for each file of the package."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp

sys.path.append(str(Path(__file__).parents[1] / "src"))

from kitchen.align import best_fit  # noqa: E402
from kitchen.calibrate import depth, undistort  # noqa: E402
from kitchen.fit import fit as fit_network  # noqa: E402
from kitchen.follow import Air, path, speeds  # noqa: E402
from kitchen.recognise import Network  # noqa: E402
from kitchen.recognise import recognise as recognise_crops

KEYS = jax.random.split(jax.random.key(0), 8)
NAMES = ["cup", "plate", "fork", "spoon"]


def align(rep=0):
    scans = jax.random.normal(jax.random.fold_in(KEYS[0], rep), (30, 24, 3))
    return best_fit(scans[0], list(scans[1:]))


def follow(rep=0):
    from equinox.nn import MLP

    air = Air(jnp.asarray(0.2), MLP(4, 3, 16, 1, key=KEYS[1]))
    start = jnp.array([1.0, 0.5, 3.0])
    return speeds(air, start, 0.01 + 1e-4 * rep, 6), path(jnp.zeros(3), start, 200)


def recognise(rep=0):
    network = Network(16, 4, len(NAMES), KEYS[2])
    crops = jax.random.normal(jax.random.fold_in(KEYS[3], rep), (40, 16))
    return recognise_crops(network, list(crops), NAMES)


def calibrate(rep=0):
    pixels = jax.random.normal(jax.random.fold_in(KEYS[4], rep), (6, 32, 2))
    rays = undistort(list(pixels), jnp.asarray(1.2))
    return rays, depth(jax.random.normal(KEYS[5], (600,)) * (1 + rep))


def fit(rep=0):
    network = Network(16, 2, len(NAMES), KEYS[6])
    crops = jax.random.normal(jax.random.fold_in(KEYS[7], rep), (12, 16))
    return fit_network(network, crops, jnp.arange(12) % len(NAMES), 12)
