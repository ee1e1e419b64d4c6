"""Opening the arms of a job: a plain one, one with probes, one that is sabotaged, one that shadows the other."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from . import files, reached, replay, sabotage, targets, tests, wrap
from .capture import Router
from .changes import changed_lines
from .finder import Transform, Tree
from .pairs import Pair, changed_pairs
from .predict import Predictions
from .probes import Probes
from .program import Program
from .shadow import Shadow
from .share import Clock
from .twin import Texts
from .world import World

Overlay = dict[str, str | None]


@dataclass(frozen=True)
class Place:
    """Where the project is on this machine; a job does not say it, so that it can run anywhere.

    `scratch` is a folder for files that calls write.
    """

    code_root: str
    user_root: str
    scratch: str


@dataclass(frozen=True)
class Bench:
    """Everything that loading an arm of `job` takes."""

    job: dict[str, Any]
    place: Place
    routers: tuple[Router, Router]

    @property
    def any_tree(self) -> Tree:
        """For questions about places, which are the same in every arm."""
        return self._tree({})

    @property
    def baseline(self) -> Overlay:
        """With the script or test that is run, where it is as new as the change: both arms run the same."""
        overlay = dict(self.job["baseline"])
        path = targets.program_file(self.job["workload"]["run"])
        if path is not None and self._tree(overlay).source(path) is None:
            added = self._tree(self.job["candidates"][0]["files"]).source(path)
            text = added if added is not None else Tree(self.place.user_root, self.place.user_root, {}).source(path)
            overlay |= {} if text is None else {path: _text(text)}
        return overlay

    def candidate(self, number: int) -> Overlay:
        return {**self.baseline, **self.job["candidates"][number]["files"]}

    def load(
        self, overlay: Overlay, transform: Transform | None = None, injected: dict[str, Any] | None = None
    ) -> Program:
        """The workload in a new world. Raises whatever the project's code raises."""
        folder = files.scratch(self.place.user_root, self.place.scratch)
        workload = self.job["workload"]
        watched = targets.instrumented(workload["run"], replay.shortened(workload, transform))
        world = World(self._tree(overlay), watched, {**(injected or {}), **tests.injected()}, folder)
        return Program(world, workload, self.job["seed"], self.routers, self._script_names())

    def load_watched_baseline(self, number: int) -> tuple[Program, Probes, Clock]:
        """With probes at the site; without a site, at the lines that candidate `number` changes. And with a clock."""
        probes, clock, site = Probes(), Clock(), self.job["site"]
        lines, pairs = self._changes(self.candidate(number), self.baseline), self._pairs(number)

        def watch(path: str, tree: ast.Module) -> ast.Module:
            if site is None:
                probes.watch_lines(tree, path, lines.get(path, ()))
            elif path == site["path"]:
                tree = probes.watch_site(tree, site)
            return wrap.decorate(tree, path, pairs)

        program = self.load(self.baseline, watch, {**probes.injected(), **clock.injected()})
        probes.forget()
        return program, probes, clock

    def load_watched_candidate(self, number: int) -> tuple[Program, Probes]:
        """With probes in the new functions; without any, at the changed lines. And at the changed functions."""
        probes, names = Probes(), self.job["new_functions"]
        lines = self._changes(self.baseline, self.candidate(number))
        functions = {one.path: (*one.changed, *one.added) for one in self.touched(number)}

        def watch(path: str, tree: ast.Module) -> ast.Module:
            if path not in lines:
                return tree
            probes.watch_functions(tree, names) if names else probes.watch_lines(tree, path, lines[path])
            return probes.watch_entries(tree, path, functions.get(path, ()))

        program = self.load(self.candidate(number), watch, probes.injected())
        probes.forget()
        return program, probes

    def load_shadowed_candidate(self, number: int, deadline: float) -> tuple[Program, Shadow]:
        """With every execution of a changed function compared with the baseline's version of it."""
        shadow = Shadow(self._texts(number), self.routers, deadline, self.job["site"] is not None)

        def watch(path: str, tree: ast.Module) -> ast.Module:
            return wrap.decorate(tree, path, shadow.pairs.values())

        return self.load(self.candidate(number), watch, shadow.injected()), shadow

    def load_predicting(self, number: int, predictions: Predictions) -> Program:
        """Candidate `number`, whose changed and new functions ask how much memory they need before they run."""
        pairs = [Pair(one.path, name) for text in self._texts(number)
                 for one in [reached.touched(text.path, text.before, text.after)]
                 for name in (*one.changed, *one.added)]  # fmt: skip

        def watch(path: str, tree: ast.Module) -> ast.Module:
            return wrap.decorate(tree, path, pairs)

        return self.load(self.candidate(number), watch, predictions.injected())

    def load_rounded_baseline(self, number: int) -> Program:
        """The baseline with what its changed code computes moved by units in the last place."""
        lines, pairs = self._changes(self.candidate(number), self.baseline), self._pairs(number)

        def move(path: str, tree: ast.Module) -> ast.Module:
            sabotage.round_whole(tree, [pair.qualname for pair in pairs if pair.path == path])
            return sabotage.spoil_lines(tree, lines.get(path, ()))

        return self.load(self.baseline, move, sabotage.injected(sabotage.nudged))

    def load_scaled_script(self, overlay: Overlay, other: Overlay) -> Program:
        """An arm's script with the values that it binds as the other arm's script does scaled."""
        script, lines = targets.program_file(self.job["workload"]["run"]), self._changes(other, overlay)

        def move(path: str, tree: ast.Module) -> ast.Module:
            return sabotage.spoil_bound(tree, lines.get(path, ())) if path == script else tree

        return self.load(overlay, move, sabotage.injected(sabotage.scaled))

    def load_sabotaged(self, number: int, spoil: Callable[[Any], Any]) -> Program:
        """Candidate `number` with the results of its new code, or of its changed functions, passed through `spoil`."""
        names, pairs = self.job["new_functions"], self._pairs(number)
        lines = self._changes(self.baseline, self.candidate(number))

        def damage(path: str, tree: ast.Module) -> ast.Module:
            if path not in lines:
                return tree
            if names:
                return sabotage.spoil_functions(tree, names)
            sabotage.spoil_lines(tree, lines[path])
            return sabotage.spoil_functions(tree, [pair.qualname for pair in pairs if pair.path == path])

        return self.load(self.candidate(number), damage, sabotage.injected(spoil))

    def changed_files(self, number: int) -> list[str]:
        """Those that candidate `number` changes, adds or removes."""
        return _changed_paths(self.baseline, self.candidate(number))

    def fresh_functions(self, number: int) -> tuple[tuple[str, ...], int]:
        """The changed files, and how many functions their new top-level statements define."""
        texts = self._texts(number)
        kinds = ast.FunctionDef | ast.Lambda
        defined = (node for one in texts for new in one.new_statements() for node in ast.walk(new))
        return tuple(one.path for one in texts), sum(isinstance(node, kinds) for node in defined)

    def touched(self, number: int) -> list[reached.Touched]:
        """What a person changed, file by file, but for tests. What a codemod changes is known from its site."""
        if self.job["site"] is not None:
            return []
        changed = [one for one in self._texts(number) if not reached.is_test(one.path)]
        return [reached.touched(one.path, one.before, one.after) for one in changed]

    def mentioned(self, number: int) -> frozenset[str]:
        """The names in the functions that a person changed, in either version."""
        return frozenset(
            name
            for one in self._texts(number)
            if self.job["site"] is None
            for tree in (one.before, one.after)
            for name in reached.names(tree, reached.touched(one.path, one.before, one.after))
        )

    def _script_names(self) -> tuple[str, ...]:
        """What the baseline's script binds: both arms show that, and a candidate's new names are its own business."""
        script = self.job["workload"]["run"]
        text = self._tree(self.baseline).source(script)
        others = [self._tree(self.candidate(n)).source(script) for n in range(len(self.job["candidates"]))]
        scratch = targets.scratch_names(text, others)
        return tuple(name for name in targets.data_names(text) if name not in scratch)

    def _tree(self, overlay: Overlay) -> Tree:
        return Tree(self.place.code_root, self.place.user_root, overlay)

    def _pairs(self, number: int) -> list[Pair]:
        return [pair for one in self._texts(number) for pair in changed_pairs(one.before, one.after, one.path)]

    def _texts(self, number: int) -> list[Texts]:
        """The changed files that both arms have and that can be parsed."""
        old, new = self._tree(self.baseline), self._tree(self.candidate(number))
        found: list[Texts] = []
        for path in _changed_paths(self.baseline, self.candidate(number)):
            before, after = old.source(path), new.source(path)
            if before is not None and after is not None and path.endswith((".py", ".ipynb")):
                try:
                    found.append(Texts(path, ast.parse(before), ast.parse(after)))
                except (SyntaxError, ValueError):
                    continue  # it fails when it is loaded, and that is what the trial reports
        return found

    def _changes(self, before: Overlay, after: Overlay) -> dict[str, Iterable[int]]:
        old, new = self._tree(before), self._tree(after)
        return {path: changed_lines(_text(old.source(path)), _text(new.source(path)))
                for path in _changed_paths(before, after)}  # fmt: skip


def _changed_paths(before: Overlay, after: Overlay) -> list[str]:
    return [path for path in sorted(before | after) if before.get(path, "") != after.get(path, "")]


def _text(source: str | bytes | None) -> str:
    return source.decode(errors="replace") if isinstance(source, bytes) else source or ""
