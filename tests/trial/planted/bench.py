"""Exploring many candidates in one process: a trial's first process without the process."""

from __future__ import annotations

import logging
import os
import random
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from jitmod.model import Verdict
from jitmod.source.config import GateSettings, Workload
from jitmod.trial import gate
from jitmod.trial.child import bars, capture, explore, finder, logs, measure, stats
from jitmod.trial.child.arms import Bench, Place
from jitmod.trial.child.channel import Channel
from jitmod.trial.child.hosts import Together
from jitmod.trial.job import candidate_of, digest, make_job


@dataclass(frozen=True)
class Program:
    """A project of one module beside its workload; `right` is the module rewritten well, `wrong` edits of that."""

    before: str
    right: str
    bench: str
    wrong: Mapping[str, tuple[str, str, str]]  # by name: old text, new text, the test that must fail

    def candidate(self, name: str) -> str:
        old, new, _ = self.wrong[name]
        assert self.right.count(old) >= 1, f"{name}: nothing to replace"
        return self.right.replace(old, new)


class Clock:
    """Time that passes only where a program sleeps, with one percent of noise: what is measured does not depend on
    the machine."""

    def __init__(self) -> None:
        self.now = 0.0
        self._chance = random.Random(0)

    def sleep(self, seconds: float) -> None:
        self.now += float(seconds) * self._chance.gauss(1.0, 0.01)

    def perf_counter(self) -> float:
        return self.now


class Kept(Channel):
    """A channel that keeps what is put into it."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def put(self, key: str, value: Any) -> None:
        self.found[key] = value


class Trials:
    """Explores candidates in a project at `root`."""

    def __init__(self, root: Path, scratch: Path, patch: pytest.MonkeyPatch) -> None:
        self.root, self._scratch, self._patch = root, scratch, patch

    @cached_property
    def _routers(self) -> tuple[capture.Router, capture.Router]:
        """Installed when a test runs, because pytest puts its own streams in place between a fixture and its test."""
        self._patch.setattr(logging.Logger, "handle", logging.Logger.handle)
        self._patch.setattr(logging.Logger, "isEnabledFor", logging.Logger.isEnabledFor)
        for owner, name in ((sys, "stdout"), (sys, "stderr"), (sys, "__stdout__"), (sys, "__stderr__"), (os, "write")):
            self._patch.setattr(owner, name, getattr(owner, name))
        routers = capture.install()
        logs.listen(finder.Tree(str(self.root), str(self.root), {}))
        return routers

    def write(self, files: Mapping[str, str]) -> None:
        for path, text in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(dedent(text), encoding="utf-8")

    def explore(
        self, files: Mapping[str, str], run: str = "bench.py:run", setup: str | None = "bench.py:setup", **options: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The job of trying `files`, and what its first process finds."""
        workload = Workload("planted", run, setup, options.pop("metric", None))
        settings = options.pop("settings", GateSettings())
        job = make_job(
            [candidate_of(files)], baseline={}, base_commit="", workload=workload, settings=settings, seed=0,
            budget=60.0, require_gpu=False, site=None, new_functions=(), fingerprint="", **options,
        )  # fmt: skip
        channel = Kept()
        explore.explore(self.host(job), channel, time.monotonic() + 60.0, {})
        return job, channel.found

    def judge(self, files: Mapping[str, str], **options: Any) -> Verdict:
        """The whole trial: what the first process finds, then two measurements."""
        job, found = self.explore(files, **options)
        judges: list[dict[str, Any]] = []
        if gate.screen(job, found) is None:
            for seed in (1, 2):
                channel = Kept()
                measure.measure(self.host(job), channel, time.monotonic() + 60.0, 0, seed, stats.STEPS, False)
                judges.append(channel.found)
        return gate.judge(job, {"job": digest(job), "explore": found, "judges": judges})

    def host(self, job: dict[str, Any]) -> Together:
        """Where the arms of `job` are opened."""
        return Together(Bench(job, Place(str(self.root), str(self.root), str(self._scratch)), self._routers))

    def screen(self, files: Mapping[str, str], **options: Any) -> Verdict | None:
        """The verdict that needs no timing; None where only times are left to decide."""
        job, found = self.explore(files, **options)
        return gate.screen(job, found)


@pytest.fixture
def trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trials]:
    monkeypatch.setattr(finder, "listeners", [bars.hear])
    for name in ("code", "scratch"):
        (tmp_path / name).mkdir()
    yield Trials(tmp_path / "code", tmp_path / "scratch", monkeypatch)
