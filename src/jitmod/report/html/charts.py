"""The figures of a page as SVG: both arms of a trial on one axis. Colours and fonts are those of the style sheet."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from jitmod.delivery.figures import seconds

ARMS = ("baseline", "candidate")
PHASES = ("trace", "lower", "compile")
WIDTH = 440
_LEFT, _RIGHT = 72, 64  # what labels and figures take beside the plot
_NAME = 10  # characters of a name that fit beside its line
_TALL = 1.8  # the ratio of the largest to the least value from which an axis is logarithmic


@dataclass(frozen=True)
class Scale:
    """Values to pixels of `[start, end]`."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool

    def __call__(self, value: float) -> float:
        if self.is_log:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.start + min(max(part, 0.0), 1.0) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values inside the scale, no more than fit beside each other."""
        found = _decades(self.low, self.high) if self.is_log else []
        return found if len(found) > 2 else _steps(self.low, self.high)


def calls(samples: Mapping[str, Sequence[Sequence[float]]]) -> Markup | None:
    """Every warm call as a dot, a row for each process; None where there is none. `samples` are seconds by arm."""
    every = [value for arm in ARMS for row in samples.get(arm, ()) for value in row if value > 0]
    if not every:
        return None
    scale = _around(every, _LEFT, WIDTH - _RIGHT)
    parts, y = list[str](), 16.0
    for arm in ARMS:
        rows = [row for row in ([v for v in row if v > 0] for row in samples.get(arm, ())) if row]
        if not rows:
            continue
        middle = statistics.median(value for row in rows for value in row)
        height = 12.0 * len(rows)
        parts.append(_text(0, y + height / 2 + 4, arm, "label"))
        parts.append(_line(scale(middle), y - 2, scale(middle), y + height + 2, f"median {arm}"))
        for row in rows:
            parts += [f'<circle class="{arm}" cx="{scale(v):.1f}" cy="{y + 6:.1f}" r="2.6"/>' for v in row]
            y += 12.0
        parts.append(_text(WIDTH, y - height / 2 + 4, seconds(middle), "value end"))
        y += 14.0
    said = "; ".join(f"{arm}: {_median(samples.get(arm, ()))}" for arm in ARMS)
    return _svg(y + 20, f"Seconds of warm calls, medians. {said}", [*_axis(scale, y, seconds), *parts])


def phases(first_calls: Mapping[str, Sequence[Mapping[str, float]]], totals: Mapping[str, float]) -> Markup | None:
    """The first call of each arm as a bar of its parts: tracing, lowering, compiling.

    A bar is as long as the total, in seconds, and its parts have the shares that they have in all first calls.
    """
    arms = {arm: _shared(first_calls[arm], totals[arm]) for arm in ARMS if first_calls.get(arm) and totals.get(arm)}
    longest = max((sum(parts.values()) for parts in arms.values()), default=0.0)
    if longest <= 0:
        return None
    scale = Scale(0.0, longest * 1.04, _LEFT, WIDTH - _RIGHT, is_log=False)
    drawn, y = list[str](), 12.0
    for arm, parts in arms.items():
        drawn.append(_text(0, y + 13, arm, "label"))
        at = 0.0
        for phase in PHASES:
            start, end = scale(at), scale(at + parts[phase])
            title = f"<title>{arm}, {phase}: {seconds(parts[phase])}</title>"
            drawn.append(f'<rect class="{arm} {phase}" x="{start:.1f}" y="{y:.1f}" width="{max(end - start, 0):.1f}" '
                         f'height="18">{title}</rect>')  # fmt: skip
            at += parts[phase]
        drawn.append(_text(WIDTH, y + 13, seconds(at), "value end"))
        y += 28.0
    said = "; ".join(f"{arm}: " + ", ".join(f"{phase} {seconds(s)}" for phase, s in parts.items())
                     for arm, parts in arms.items())  # fmt: skip
    return _svg(y + 22, f"Seconds of the first call. {said}", [*_axis(scale, y + 2, seconds), *drawn])


def _shared(calls: Sequence[Mapping[str, float]], total: float) -> dict[str, float]:
    sums = {phase: sum(call[phase] for call in calls) for phase in PHASES}
    whole = sum(sums.values())
    return {phase: total * part / whole if whole > 0 else 0.0 for phase, part in sums.items()}


def curves(
    lines: Mapping[str, Sequence[tuple[float, float]]], said: str, show: Callable[[float], str], chosen: str,
    limit: float | None = None,
) -> Markup | None:  # fmt: skip
    """Lines over a knob, one for each name; both axes are logarithmic where values lie far apart.

    `chosen` is the line that is drawn in the candidate's colour; no value should lie above `limit`.
    """
    points = [point for line in lines.values() for point in line if point[0] > 0 and point[1] > 0]
    if len(points) < 2:
        return None
    across = _around([x for x, _ in points], _LEFT, WIDTH - _RIGHT - 8)
    up = _around([*(y for _, y in points), *((limit,) if limit is not None else ())], 150.0, 14.0)
    drawn = list[str]()
    if limit is not None:
        drawn.append(_line(_LEFT, up(limit), WIDTH - _RIGHT, up(limit), "limit"))
        drawn.append(_text(WIDTH - _RIGHT + 8, up(limit) + 4, "limit", "tick"))
    for tick in up.ticks():
        drawn.append(_line(_LEFT, up(tick), WIDTH - _RIGHT, up(tick), "grid"))
        drawn.append(_text(_LEFT - 8, up(tick) + 4, show(tick), "tick end"))
    for x in sorted({x for x, _ in points}):
        drawn += [_line(across(x), 150, across(x), 154, "grid"), _text(across(x), 168, f"{x:g}", "tick middle")]
    for name, line in lines.items():
        placed = [(across(x), up(y)) for x, y in sorted(line) if x > 0 and y > 0]
        if not placed:
            continue
        kind = "candidate" if name == chosen else "baseline"
        path = " ".join(f"{'L' if number else 'M'}{x:.1f} {y:.1f}" for number, (x, y) in enumerate(placed))
        drawn.append(f'<path class="curve {kind}" d="{path}"/>')
        drawn += [f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in placed]
        x, y = placed[-1]
        drawn.append(_text(x + 8, y + 4, name[:_NAME], "tick"))
    return _svg(176, said, drawn)


def whisker(value: float, interval: tuple[float, float] | None, scale: Scale) -> Markup:
    """A speedup as a bar from 1, with its interval. For cells of a table, all on one `scale`."""
    one, at = scale(1.0), scale(value)
    kind = "candidate" if value >= 1 else "worse"
    parts = [f'<rect class="{kind} bar" x="{min(one, at):.1f}" y="4" width="{abs(at - one):.1f}" height="8"/>']
    if interval is not None:
        low, high = scale(interval[0]), scale(interval[1])
        parts.append(_line(low, 8, high, 8, "whisker"))
    parts.append(_line(one, 1, one, 15, "one"))
    return Markup(f'<svg class="speed" viewBox="0 0 96 16" width="96" height="16" aria-hidden="true">'
                  f'{"".join(parts)}</svg>')  # fmt: skip


def speeds(values: Iterable[float]) -> Scale:
    """One scale for all speedups of a run: logarithmic, with 1 on it."""
    known = [1.0, *(value for value in values if value > 0)]
    low, high = min(known), max(known)
    return Scale(low / 1.1, max(high * 1.1, low * 1.5), 1.0, 95.0, is_log=True)


def _around(values: Sequence[float], start: float, end: float) -> Scale:
    low, high = min(values), max(values)
    if high >= _TALL * low:
        pad = (high / low) ** 0.04
        return Scale(low / pad, high * pad, start, end, is_log=True)
    pad = (high - low) * 0.06 or low * 0.05
    return Scale(low - pad, high + pad, start, end, is_log=False)


def _steps(low: float, high: float) -> list[float]:
    rough = (high - low) / 4
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [number * step for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _decades(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [factor * 10.0**power for power in powers for factor in factors if low <= factor * 10.0**power <= high]
        if len(found) <= 5:
            return found or [low, high]
    return found[:: math.ceil(len(found) / 5)]


def _axis(scale: Scale, y: float, show: Callable[[float], str]) -> Iterator[str]:
    for tick in scale.ticks():
        yield _line(scale(tick), 4, scale(tick), y + 2, "grid")
        yield _text(scale(tick), y + 15, show(tick) if tick else "0", "tick middle")


def _median(rows: Sequence[Sequence[float]]) -> str:
    values = [value for row in rows for value in row]
    return f"{seconds(statistics.median(values))} of {len(values)}" if values else "none"


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{Markup.escape(text)}</text>'


def _svg(height: float, said: str, parts: Iterable[str]) -> Markup:
    return Markup(f'<svg role="img" aria-label="{Markup.escape(said)}" viewBox="0 0 {WIDTH} {height:.0f}">'
                  f'{"".join(parts)}</svg>')  # fmt: skip
