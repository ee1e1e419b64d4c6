"""A loop over items, mapped: 30 square items, one of them with a NaN."""

from __future__ import annotations

from .bench import Program

_LAYER = '''\
import jax
import jax.numpy as jnp
import numpy as np


def layer(w, x):
    return jnp.tanh(w @ x)


'''
BEFORE = _LAYER + '''\
def score(w, xs, scale=0.5):
    out = []
    total = jnp.zeros(())
    for x in xs:
        y = layer(w, x)
        out.append(y * scale)
        total = total + jnp.nansum(y)
    return {"scaled": jnp.stack(out), "last": out[-1], "total": total, "count": len(out)}
'''
RIGHT = _LAYER + '''\
_KEPT = {}


@jax.jit
def _layers(w, xs):
    return jax.vmap(layer, in_axes=(None, 0))(w, xs)


def score(w, xs, scale=0.5):
    ys = _layers(w, jnp.stack(xs))
    out = ys * scale
    return {"scaled": out, "last": out[-1], "total": jnp.nansum(ys), "count": len(xs)}
'''
BENCH = '''\
import jax

from items import score


def setup():
    one, two = jax.random.split(jax.random.key(0))
    xs = jax.random.normal(two, (30, 30)).at[4, 7].set(float("nan"))
    return jax.random.normal(one, (30, 30)) / 5, list(xs)


def run(w, xs):
    return score(w, xs)
'''
PER_ITEM = Program(BEFORE, RIGHT, BENCH, {
    "axis: items mapped along the other axis": ("in_axes=(None, 0)", "in_axes=(None, 1)", "values"),
    "axis: stacked along the other axis": ("jnp.stack(xs)", "jnp.stack(xs, axis=1)", "values"),
    "axis: result transposed": ("out = ys * scale", "out = (ys * scale).T", "values"),
    "axis: weights mapped too": ("in_axes=(None, 0)", "in_axes=(0, 0)", "structure"),
    "axis: sum keeps an axis": ("jnp.nansum(ys)", "jnp.nansum(ys, axis=0)", "structure"),
    "off by one: items moved": ("jnp.stack(xs)", "jnp.stack(xs[1:] + xs[:1])", "values"),
    "off by one: last but one": ('"last": out[-1]', '"last": out[-2]', "values"),
    "off by one: count": ('"count": len(xs)', '"count": len(xs) - 1', "values"),
    "off by one: results rolled": ("out = ys * scale", "out = jnp.roll(ys, 1, axis=0) * scale", "values"),
    "off by one: first item left out of the sum": ("jnp.nansum(ys)", "jnp.nansum(ys[1:])", "values"),
    "remainder dropped": ("jnp.stack(xs)", "jnp.stack(xs[: len(xs) // 8 * 8])", "structure"),
    "remainder is zeros": (
        "ys = _layers(w, jnp.stack(xs))",
        "k = len(xs) // 8 * 8\n    ys = jnp.concatenate([_layers(w, jnp.stack(xs[:k])), jnp.zeros((len(xs) - k, 30))])",
        "values"),
    "remainder not in the sum": ("jnp.nansum(ys)", "jnp.nansum(ys[: len(xs) // 8 * 8])", "values"),
    "remainder is the last chunk again": (
        "ys = _layers(w, jnp.stack(xs))",
        "k = len(xs) // 8 * 8\n    ys = jnp.concatenate([_layers(w, jnp.stack(xs[:k])), "
        "_layers(w, jnp.stack(xs[k - len(xs) + k : k]))])", "values"),
    "swapped: unscaled results": ('"scaled": out', '"scaled": ys', "values"),
    "swapped: sum of the scaled": ("jnp.nansum(ys)", "jnp.nansum(out)", "values"),
    "swapped: keys": ('"last": out[-1], "total": jnp.nansum(ys)', '"total": out[-1], "last": jnp.nansum(ys)',
                      "structure"),
    "dtype: half precision result": ('"scaled": out', '"scaled": out.astype(jnp.float16)', "structure"),
    "dtype: computed in bfloat16": ("(w, jnp.stack(xs))", "(w, jnp.stack(xs).astype(jnp.bfloat16))", "values"),
    "dtype: numpy for jax": ('"scaled": out', '"scaled": np.asarray(out)', "structure"),
    "dtype: number for array": ("jnp.nansum(ys)", "float(jnp.nansum(ys))", "structure"),
    "dtype: array for number": ('"count": len(xs)', '"count": jnp.asarray(len(xs))', "structure"),
    "NaN masked": ("out = ys * scale", "out = jnp.nan_to_num(ys) * scale", "values"),
    "NaN masked by a condition": ("out = ys * scale", "out = jnp.where(ys > -2, ys, 0.0) * scale", "values"),
    "NaN spreads into the sum": ("jnp.nansum(ys)", "jnp.sum(ys)", "values"),
    "NaN masked by a clip": ("out = ys * scale", "out = jnp.where(jnp.isnan(ys), 1.0, ys) * scale", "values"),
    "folded: the result of the first call": (
        "ys = _layers(w, jnp.stack(xs))", 'ys = _KEPT.setdefault("ys", _layers(w, jnp.stack(xs)))', "structure"),
    "folded: the sum of the first call": (
        "jnp.nansum(ys)", '_KEPT.setdefault("sum", jnp.nansum(ys))', "values"),
    "folded: the scale is a constant": ("out = ys * scale", "out = ys * 0.5", "values"),
    "folded: the weights of the first call": ("ys = _layers(w,", 'ys = _layers(_KEPT.setdefault("w", w),', "values"),
})  # fmt: skip
