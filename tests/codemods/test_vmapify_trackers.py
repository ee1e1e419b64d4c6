"""Progress bars around the items: libraries' own, and classes of the project that do as they do."""

from __future__ import annotations

import pytest
from programs import DATA, assert_same, program, reasons, rewritten, run

BARS = """
import sys

try:
    from tqdm import tqdm
except ImportError:

    def tqdm(items, **options):
        return items


class Bar:
    def __init__(self, items, desc="", file=None):
        self.items, self.desc = items, desc
        self.file = file or sys.stdout
        self.count = 0

    def __iter__(self):
        for item in self.items:
            yield item
            self.count += 1
            self.show()
        self.file.write("\\n")

    def note(self, **shown):
        self.desc = ", ".join(f"{k}={v:.3f}" for k, v in shown.items())
        self.show()

    def show(self):
        self.file.write(f"{self.count} {self.desc}")


class Every:
    def __init__(self, items):
        self.items = items

    def __iter__(self):
        for item in self.items:
            if item[0] > 0:
                yield item


class Greedy:
    def __init__(self, items):
        self.items = items

    def __iter__(self):
        for item in self.items:
            yield item
            self.items.clear()


class Rescaling:
    def __init__(self, items, settings):
        self.items, self.settings = items, settings

    def __iter__(self):
        for item in self.items:
            yield item
            self.settings.scale += 1


class Settings:
    def __init__(self):
        self.scale = 1.0


"""

SHOWN = """
def evaluate(net: Net, pairs: list[tuple[jax.Array, jax.Array]]):
    total, seen = 0.0, 0
    bar = Bar(pairs, desc="eval")
    for k, (x, y) in enumerate(bar):
        loss = jnp.mean((net(x) - y) ** 2).item()
        total += loss * len(y)
        seen += len(y)
        # a running mean
        bar.note(loss=total / seen)
        if k == 2:
            print("halfway", bar.count)
    return total, bar.count

def plain(net: Net, xs: list[jax.Array]):
    bar = tqdm(xs, disable=True)
    return [net(x) for x in bar]

def inline(net: Net, xs: jax.Array):
    for x in Bar(xs):
        print(float(net(x).sum()))

def workload():
    inline(NET, XS)
    return evaluate(NET, list(zip(XS, YS))), evaluate(NET, list(zip(XS, YS))[:1]), plain(NET, ITEMS)
"""


def test_a_bar_shows_what_it_showed() -> None:
    before = program(BARS + DATA + SHOWN)
    assert reasons(before) == ["patch"] * 3
    after = rewritten(before)
    expected, printed = run(before)
    got, said = run(after)
    assert_same(expected, got)
    assert printed == said
    assert "# a running mean" in after


REFUSED = {
    "a class that leaves items out": ("for x in Every(xs):", "unknown-iterable"),
    "a class that changes what it iterates over": ("for x in Greedy(xs):", "may-alias"),
    "a class that changes what the computation reads": ("for x in Rescaling(xs, settings):", "mutable-self"),
    "a name that means another list by then": ("bar = Bar(xs)\n    xs = xs[1:]\n    for x in bar:", "unknown-iterable"),
}


@pytest.mark.parametrize(("header", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused(header: str, reason: str) -> None:
    body = f"""
def f(net: Net, xs: list[jax.Array], settings: Settings):
    {header}
        print(float(net(x{" * settings.scale" if "settings" in header else ""}).sum()))
"""
    assert reasons(program(BARS + body)) == [reason]
