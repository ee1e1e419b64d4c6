"""Windows: `x[s : s + w]` where the loop says where they begin."""

from __future__ import annotations

import re

import pytest
from programs import DATA, assert_same, findings, program, reasons, rewritten, run

from jitmod.model import Patch

INSIDE = """
def all_of_them(net: Net, xs: jax.Array, w: int):
    return [jnp.tanh(net(xs[i : i + w, :].sum(axis=0))) for i in range(xs.shape[0] - w + 1)]

def centred(net: Net, xs: jax.Array, w: int):
    return [net(xs[i - w : i + w + 1].sum(axis=0)) for i in range(w, len(xs) - w)]

def blocks(net: Net, xs: jax.Array):
    out = []
    for k in range(len(xs) // 2):
        out.append(net(xs[k * 2 : (k + 1) * 2].sum(axis=0)))
    return out

def two(net: Net, xs: jax.Array, w: int):
    return [net(xs[i : i + w, 0].sum() + xs[i + 1 : i + 1 + w, :2].sum() + jnp.ones(3)) for i in range(len(xs) - w)]

def lagged(net: Net, signal: np.ndarray):
    return jnp.stack([net(signal[t - 3 : t]) for t in range(3, len(signal))])

def workload():
    return [all_of_them(NET, XS, 2), all_of_them(NET, XS, 5), all_of_them(NET, XS, 7), centred(NET, XS, 1),
            centred(NET, XS, 0), blocks(NET, XS), blocks(NET, XS[:1]), two(NET, XS, 2), two(NET, XS, 5),
            lagged(NET, np.arange(12.0))]
"""
GUARDED = """
def strided(net: Net, xs: jax.Array, w: int, stride: int):
    out = []
    for s in range(0, len(xs) - w + 1, stride):
        # a window
        out.append(net(xs[s : s + w].mean(axis=0)))  # at s
    return jnp.stack(out)

def open_end(net: Net, xs: jax.Array, w: int, n: int, stride: int):
    out = []
    for s in range(0, n, stride):
        chunk = xs[s : s + w]
        y = net(chunk.sum(axis=0))
        print(s, float(y[0]))
        out.append(y)
    return out

def numbered(net: Net, xs: jax.Array, w: int, stride: int):
    n = (len(xs) - w) // stride + 1
    return jnp.stack([net(xs[k * stride : k * stride + w].sum(axis=0)) for k in range(n)])

def framed(net: Net, xs: jax.Array, hop: int, size: int):
    frames = []
    for k in range((len(xs) - size) // hop + 1):
        start = k * hop
        end = start + size
        frames.append(net(xs[start:end].sum(axis=0)))
    return frames

def framed_loud(net: Net, xs: jax.Array, hop: int):
    frames = {}
    for frame in range(3):
        start = frame * hop
        stop = start + 2
        y = net(xs[start:stop].sum(axis=0))
        print(start, float(y[0]))
        frames[frame] = y
    return frames

def patches(net: Net, image: jax.Array, h: int, w: int):
    rows = []
    for r in range(0, image.shape[0] - h + 1):
        for c in range(0, image.shape[1] - w + 1):
            rows.append(net(image[r : r + h, c : c + w].sum() * jnp.ones(3)))
    return rows

def workload():
    return [strided(NET, XS, 2, 2), strided(NET, XS, 5, 1), open_end(NET, XS, 2, 4, 2), open_end(NET, XS, 2, 5, 2),
            open_end(NET, XS, 2, 0, 2), open_end(NET, XS, 2, 5, 1), open_end(NET, XS, 2, -9, -2),
            numbered(NET, XS, 2, 2), numbered(NET, XS, 2, 1), framed(NET, XS, 2, 2), framed(NET, XS, 1, 4),
            framed(NET, XS, 1, 6), framed_loud(NET, XS, 1), framed_loud(NET, XS, 2), framed_loud(NET, XS, -1),
            patches(NET, XS, 2, 2), patches(NET, XS, 3, 1)]
"""


@pytest.mark.parametrize("text", [INSIDE, GUARDED], ids=["inside for certain", "under a guard"])
def test_same_results(text: str) -> None:
    before = program(DATA + text)
    assert set(reasons(before)) == {"patch"}
    after = rewritten(before)
    expected, printed = run(before)
    got, said = run(after)
    assert_same(expected, got)
    assert printed == said
    assert not any(isinstance(finding, Patch) for finding in findings(after))


def test_nothing_is_guarded_where_every_window_lies_inside() -> None:
    text = rewritten(program(DATA + INSIDE))
    assert text.count("dynamic_slice_in_dim(") == 6
    assert not re.search(r"\bif .* and ", text)


def test_a_guard_asks_for_what_is_not_known() -> None:
    text = rewritten(program(DATA + GUARDED))
    found = re.findall(r"if len\(.*?\)+ and (.*?)(?::$| else |$)", text, re.MULTILINE)
    assert found == [
        "stride > 0",
        "positions[-1] >= 0 and positions[-1] + w <= len(xs)",
        "range(n)[-1] * stride >= 0 and range(n)[-1] * stride + w <= len(xs)",
        "hop * positions[-1] >= 0 and hop * positions[-1] + size <= len(xs)",
        "frames_2[-1] * hop >= 0 and frames_2[-1] * hop + 2 <= len(xs)",
        "r >= 0 and r + h <= len(image)",
    ]


REFUSED = {
    "the last windows are cut off": (
        """
        def f(net: Net, xs: jax.Array):
            return [net(xs[i : i + 3]) for i in range(len(xs))]
        """,
        "slice-bounds",
    ),
    "the first windows begin before the array": (
        """
        def f(net: Net, xs: jax.Array):
            return [net(xs[i - 2 : i]) for i in range(len(xs))]
        """,
        "slice-bounds",
    ),
    "windows of no items": (
        """
        def f(net: Net, xs: jax.Array):
            return [net(xs[i : i - 1]) for i in range(len(xs))]
        """,
        "slice-bounds",
    ),
    "windows that grow": (
        """
        def f(net: Net, xs: jax.Array):
            return [net(xs[0:i]) for i in range(1, len(xs))]
        """,
        "slice-bounds",
    ),
    "windows with gaps": (
        """
        def f(net: Net, xs: jax.Array):
            return [net(xs[i : i + 4 : 2]) for i in range(len(xs) - 4)]
        """,
        "slice-bounds",
    ),
    "a window that moves back": (
        """
        def f(net: Net, xs: jax.Array):
            return [net(xs[9 - i : 12 - i]) for i in range(4)]
        """,
        "slice-bounds",
    ),
    "an array that the loop changes": (
        """
        def f(net: Net, xs: jax.Array):
            out = []
            for i in range(len(xs) - 3):
                y = net(xs[i : i + 3])
                xs = xs.at[i].set(y[0])
                out.append(y)
            return out
        """,
        "carried-state",
    ),
    "a buffer that the loop writes": (
        """
        def f(net: Net, xs: np.ndarray):
            out = []
            for i in range(len(xs) - 3):
                y = net(xs[i : i + 3])
                xs[i + 3] = float(y[0])
                out.append(y)
            return out
        """,
        "may-alias",
    ),
    "a width that changes": (
        """
        def f(net: Net, xs: jax.Array, w: int):
            out = []
            for i in range(len(xs) - 3):
                out.append(net(xs[i : i + w]))
                w = w + 1
            return out
        """,
        "slice-bounds",
    ),
    "a start that depends on a condition": (
        """
        def f(net: Net, xs: jax.Array, odd: bool):
            out = []
            for i in range(len(xs) - 3):
                start = i
                if odd:
                    start = i + 1
                out.append(net(xs[start : start + 2]))
            return out
        """,
        "host-arithmetic",
    ),
    "a number of windows that is computed anew": (
        """
        def count(log: list):
            log.append(1)
            return 3

        def f(net: Net, xs: jax.Array, log: list):
            return [net(xs[i : i + 3]) for i in range(count(log))]
        """,
        "unknown-iterable",
    ),
}


@pytest.mark.parametrize(("body", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused(body: str, reason: str) -> None:
    assert reasons(program(body)) == [reason]
