"""Compilations during warm calls, and which arm they are laid to.

Both arms of a process share what a library compiles, and whoever meets a new shape first pays for it. A function that
both compile, but neither where the other arm has just had the same values, is such a one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ARMS = ("baseline", "candidate")


@dataclass(frozen=True)
class Warm:
    """The warm calls of an arm, and the compilations by function, without the `shared` ones."""

    own: Mapping[str, int]
    shared: int
    calls: int

    @property
    def compilations(self) -> int:
        return sum(self.own.values())

    @property
    def rate(self) -> float:
        """Of a call, with those that are shared."""
        return (self.compilations + self.shared) / self.calls

    @property
    def own_rate(self) -> float:
        return self.compilations / self.calls


def warm_calls(judges: Sequence[Mapping[str, Any]]) -> dict[str, Warm]:
    """All warm calls of each arm, in every process."""
    compiled, behind = (
        {arm: _by_function(judges, arm, key) for arm in ARMS} for key in ("functions", "functions_behind")
    )
    either = compiled["baseline"].keys() & compiled["candidate"].keys()
    shared = either - behind["baseline"].keys() - behind["candidate"].keys()
    found: dict[str, Warm] = {}
    for arm, counts in compiled.items():
        own = {name: count for name, count in counts.items() if name not in shared}
        calls = sum(measured["warm"]["calls"][arm] for measured in judges)
        found[arm] = Warm(own, counts.total() - sum(own.values()), calls)
    return found


def _by_function(judges: Sequence[Mapping[str, Any]], arm: str, key: str) -> Counter[str]:
    counted = Counter[str]()
    for measured in judges:
        counted.update(measured["warm"][key][arm])
    return counted
