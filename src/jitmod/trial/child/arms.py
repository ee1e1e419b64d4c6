"""Opening the arms of a job: a plain one, one with probes, one that is sabotaged."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from . import sabotage
from .capture import Router
from .changes import changed_lines
from .finder import Transform, Tree
from .probes import Probes
from .program import Program
from .world import World

Overlay = dict[str, str | None]


@dataclass(frozen=True)
class Place:
    """Where the project is on this machine; a job does not say it, so that it can run anywhere."""

    code_root: str
    user_root: str


@dataclass(frozen=True)
class Bench:
    """Everything that loading an arm of `job` takes."""

    job: dict[str, Any]
    place: Place
    routers: tuple[Router, Router]

    @property
    def baseline(self) -> Overlay:
        return dict(self.job["baseline"])

    def candidate(self, number: int) -> Overlay:
        return {**self.baseline, **self.job["candidates"][number]["files"]}

    def load(
        self, overlay: Overlay, transform: Transform | None = None, injected: dict[str, Any] | None = None
    ) -> Program:
        """The workload in a new world. Raises whatever the project's code raises."""
        world = World(self._tree(overlay), transform, injected)
        return Program(world, self.job["workload"], self.job["seed"], self.routers)

    def load_watched_baseline(self, number: int) -> tuple[Program, Probes]:
        """With probes at the site; without a site, at the lines that candidate `number` changes."""
        probes, site = Probes(), self.job["site"]
        lines = self._changes(self.candidate(number), self.baseline)

        def watch(path: str, tree: ast.Module) -> ast.Module:
            if site is None:
                return probes.watch_lines(tree, path, lines.get(path, ()))
            return probes.watch_site(tree, site) if path == site["path"] else tree

        return self._watched(self.baseline, watch, probes)

    def load_watched_candidate(self, number: int) -> tuple[Program, Probes]:
        """With probes in the new functions; without any, at the changed lines."""
        probes, names = Probes(), self.job["new_functions"]
        lines = self._changes(self.baseline, self.candidate(number))

        def watch(path: str, tree: ast.Module) -> ast.Module:
            if path not in lines:
                return tree
            return probes.watch_functions(tree, names) if names else probes.watch_lines(tree, path, lines[path])

        return self._watched(self.candidate(number), watch, probes)

    def load_sabotaged(self, number: int, spoil: Callable[[Any], Any]) -> Program:
        """Candidate `number` with the results of its new code passed through `spoil`."""
        names = self.job["new_functions"]
        lines = self._changes(self.baseline, self.candidate(number))

        def damage(path: str, tree: ast.Module) -> ast.Module:
            if path not in lines:
                return tree
            return sabotage.spoil_functions(tree, names) if names else sabotage.spoil_lines(tree, lines[path])

        return self.load(self.candidate(number), damage, sabotage.injected(spoil))

    def _watched(self, overlay: Overlay, watch: Transform, probes: Probes) -> tuple[Program, Probes]:
        program = self.load(overlay, watch, probes.injected())
        probes.forget()
        return program, probes

    def _tree(self, overlay: Overlay) -> Tree:
        return Tree(self.place.code_root, self.place.user_root, overlay)

    def _changes(self, before: Overlay, after: Overlay) -> dict[str, Iterable[int]]:
        old, new = self._tree(before), self._tree(after)
        changed = [path for path in sorted(before | after) if before.get(path, "") != after.get(path, "")]
        return {path: changed_lines(_text(old.source(path)), _text(new.source(path))) for path in changed}


def _text(source: str | bytes | None) -> str:
    return source.decode(errors="replace") if isinstance(source, bytes) else source or ""
