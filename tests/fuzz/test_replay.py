"""Random loop programs: what their plans do is what they did. A bug planted in the analysis does not go unseen.

JITMOD_LOOPS=20000 pytest tests/fuzz/test_replay.py -k original     # `make oracle`: more programs than CI runs
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from loops import CELLS, Cell, program
from oracle import difference

from jitmod.analysis import batching, build, channels, fold, heap, periods, plan
from jitmod.analysis.build import Builder
from jitmod.analysis.causes import Batchable
from jitmod.analysis.channels import Access
from jitmod.analysis.graph import Edge, Graph
from jitmod.analysis.periods import Block
from jitmod.analysis.ssa import Environment, Value

COUNT = 2000
PARTS = 20


def programs(first: int, step: int) -> Iterator[tuple[Cell, str]]:
    for number in range(first, COUNT, step):
        cell = Cell(*CELLS[number * 7919 % len(CELLS)])
        yield cell, program(cell, number)


@pytest.mark.parametrize("part", range(PARTS))
def test_plans_do_what_the_original_did(part: int) -> None:
    outcomes: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for cell, text in programs(part, PARTS):
        found, outcome = difference(text)
        assert found is None, f"{text}\n{found}"
        if cell.can_be_split:
            for feature in ("collector", "carry", "effect", "scope"):
                outcomes[feature, getattr(cell, feature)][outcome] += 1
    for key, counts in outcomes.items():
        split = counts["split"] + counts["split by period"]
        assert counts.total() < 10 or split >= 0.6 * counts.total(), f"{key}: {counts}"


# -- bugs that the programs above must reveal --------------------------------------------------------------------------


def _commuting(*names: str) -> Callable[[Access, Access], bool]:
    real = channels.commute
    return lambda a, b: a.channel in names or b.channel in names or real(a, b)


def _edges(keep: Callable[[Edge], bool]) -> property:
    real = Graph.edges.func
    return property(lambda self: tuple(e for e in real(self) if keep(e)))


def _block(**changes: Callable[[Block], Any]) -> Callable[[Any], Iterator[Block]]:
    real = periods.periods
    return lambda body: (replace(b, **{k: change(b) for k, change in changes.items()}) for b in real(body))


def _swapped_arms(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, statement, condition, then, other, guards: real(self, statement, condition, other, then, guards)


def _nothing_carried(real: Callable[..., Any]) -> Callable[..., Any]:
    def read(self: Environment, name: str, at: Any) -> Value:
        known = name in self.body.env or name in self.body.entry
        value = real(self, name, at)
        if not known and value.origin == "carried":
            self.body.entry[name] = replace(value, origin="invariant")
        return self.body.entry.get(name, value) if name not in self.body.env else value

    return read


def _unguarded(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, statements, guards: real(self, statements, ())


def _without_flows(real: Callable[..., Any]) -> Callable[..., Any]:
    def host(self: Builder, statement: Any, guards: Any) -> None:
        real(self, statement, guards)
        self.env.body.nodes[-1].flows.clear()

    return host


def _without_target(real: Callable[..., Any]) -> Callable[..., Any]:
    def device(self: Builder, statement: Any, value: Any, targets: Any, guards: Any) -> None:
        real(self, statement, value, targets, guards)
        if isinstance(statement, ast.AugAssign):
            del self.env.body.nodes[-1].uses[statement.target]

    return device


def _ignoring(reason: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def cause(self: Batchable, node: Any) -> Any:
        found = real(self, node)
        return None if found is not None and found.reason == reason else found

    return cause


def _all_on_one_side(real: Callable[..., Any]) -> Callable[..., Any]:
    def joined(body: Any) -> None:
        for node in body.nodes:
            if node.parent is not None:
                node.parent.side = node.side
        real(body)

    return joined


BUGS: dict[str, tuple[Any, str, Any]] = {
    "functions of the project have no effects": (channels, "of_function", lambda f, e: frozenset()),
    "libraries have no effects": (channels, "_of_library", lambda name: ()),
    "every container is the function's own": (heap, "own_container", lambda e, m, f: getattr(e, "id", "")),
    "text may be reordered": (channels, "commute", _commuting("text")),
    "random draws may be reordered": (channels, "commute", _commuting("rng", "exit")),
    "errors may be reordered": (channels, "commute", _commuting("exit")),
    "changes of objects may be reordered": (channels, "commute", _commuting("heap")),
    "what host work changes is read before": (Graph, "clashes", property(lambda self: ())),
    "no dependence on the iteration before": (Graph, "edges", _edges(lambda e: not e.carried)),
    "no dependence within an iteration on effects": (
        Graph,
        "edges",
        _edges(lambda e: e.carried or any(v.maker is e.first for v in e.then.reads())),
    ),
    "pieces run in the wrong order": (plan, "_pieces", (lambda real: lambda g, b: real(g, b)[::-1])(plan._pieces)),
    "a carry is taken for an invariant": (Environment, "read", _nothing_carried(Environment.read)),
    "the arms of a merge are swapped": (Builder, "_merged", _swapped_arms(Builder._merged)),
    "merges that are read only later are dropped": (
        build,
        "_drop_unread",
        (lambda real: lambda body, live: real(body, frozenset()))(build._drop_unread),
    ),
    "statements below a condition always run": (Builder, "block", _unguarded(Builder.block)),
    "names after `continue` are forgotten": (Builder, "join_skipped", lambda self: None),
    "an inner loop always binds its names": (Builder, "_host_statement", _without_flows(Builder._host_statement)),
    "`a += b` does not read a": (Builder, "_device_statement", _without_target(Builder._device_statement)),
    "a period ends one iteration late": (plan, "periods", _block(phase=lambda b: b.phase + 1)),
    "a period ends one iteration early": (plan, "periods", _block(phase=lambda b: b.phase - 1)),
    "everything is due at the end of a period": (
        Block,
        "dropped",
        lambda self, edges: frozenset(e for e in edges if e.carried and self.kind == "period"),
    ),
    "nothing changes within a period": (plan, "periods", _block(steady=lambda b: frozenset("abcdmn"))),
    "scans are taken for maps": (
        plan,
        "_kinds",
        (lambda real: lambda *a: ["map" if k == "scan" else k for k in real(*a)])(plan._kinds),
    ),
    "batching ignores what is carried": (Batchable, "cause", _ignoring("carried-state", Batchable.cause)),
    "batching ignores conditions": (Batchable, "cause", _ignoring("guarded-work", Batchable.cause)),
    "parts of a statement are joined across sides": (batching, "fold", _all_on_one_side(fold.fold)),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, wrong = BUGS[bug]
    assert hasattr(owner, name)
    monkeypatch.setattr(owner, name, wrong)
    for _, text in programs(0, 1):
        try:
            found, _ = difference(text)
        except Exception as error:
            found = repr(error)
        if found is not None:
            return
    pytest.fail(f"{COUNT} programs did not show it")
