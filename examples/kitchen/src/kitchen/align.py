"""How well two scans of points fit each other: many small compiled functions, called one after the other."""

import jax
import jax.numpy as jnp


@jax.jit
def centre(points):
    return points - points.mean(axis=0)


@jax.jit
def unit(points):
    return points / jnp.sqrt((points**2).sum() + 1e-9)


@jax.jit
def covariance(points, others):
    return points.T @ others


@jax.jit
def rotation(matrix):
    # a few Newton steps towards the orthogonal polar factor
    for _ in range(6):
        matrix = 1.5 * matrix - 0.5 * matrix @ matrix.T @ matrix
    return matrix


@jax.jit
def residual(points, others, turned):
    return jnp.abs(points @ turned - others).mean()


def misfit(points: jax.Array, others: jax.Array):
    points, others = unit(centre(points)), unit(centre(others))
    turned = rotation(covariance(points, others))
    return residual(points, others, turned)


def best_fit(scan: jax.Array, models: list[jax.Array]):
    """The number of the model that a scan fits best, and how well."""
    best, found = float("inf"), -1
    for number, model in enumerate(models):
        error = float(misfit(scan, model))
        if error < best:
            best, found = error, number
    return found, best
