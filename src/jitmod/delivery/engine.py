"""A scan without a trial: which files are read at all, what is shared out to processes, what is known from last time.

What is found in a file depends on the files that it hangs together with (`source/related.py`), and on nothing else: the
same groups of files are searched, each by analyses of its own, whether one process does it or several.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import cached_property

from jitmod.analysis.jits import forget
from jitmod.delivery.files import Files
from jitmod.delivery.preview import Wanted
from jitmod.delivery.queue import Preview
from jitmod.model import SourceError
from jitmod.rewrite.codemod import is_ours
from jitmod.source.document import Document, UnreadableSource
from jitmod.source.project import Project
from jitmod.source.recording import Recording, current
from jitmod.source.related import Related, related

Search = Callable[[Wanted, Project], Preview]  # `find` or `preview` of `delivery/preview.py`

_GROUP = 64  # files that share their analyses
_WORTH_PROCESSES = 100_000  # bytes of source; less is done before other processes have begun
_MISTAKE = "jitmod failed on this file, please report it"
_UNRELATED_READ = 500  # files without JAX that are read nevertheless, so that one that is not Python is told


@dataclass(frozen=True)
class Task:
    """Files whose sites are looked for together, or that are only read."""

    paths: tuple[str, ...]
    is_search: bool = True


def searched(
    search: Search, wanted: Wanted, files: Files, recordings: Sequence[Recording], root_name: str, processes: int
) -> Preview:
    """What there is in the files that are wanted, in the order of a scan."""
    about = _related(wanted, files, recordings)
    tasks = _tasks(wanted, files, about)
    work = _Work(search, wanted, files, tuple(recordings), root_name, about.read)
    size = sum(len(files.contents[path]) for task in tasks for path in task.paths)
    several = processes > 1 and len(tasks) > 1 and size > _WORTH_PROCESSES and _can_fork()
    found = list(_by_processes(work, tasks, processes) if several else map(work.do, tasks))
    asked = set(wanted.paths)
    return merged([Preview((), tuple(e for path, e in files.errors.items() if path in asked)), *found])


def merged(found: Sequence[Preview]) -> Preview:
    """What was found in several groups of files, in the order of a scan."""
    errors = [error for one in found for error in one.errors]
    entries = [entry for one in found for entry in one.entries]
    entries.sort(key=lambda e: (e.outcome.finding.site.path, e.outcome.finding.site.line,
                                e.outcome.finding.site.column, e.outcome.finding.codemod))  # fmt: skip
    diffs = sorted(diff for one in found for diff in one.diffs)
    return Preview(tuple(entries), tuple(sorted(errors, key=lambda e: e.path)), tuple(diffs))


def _related(wanted: Wanted, files: Files, recordings: Iterable[Recording]) -> Related:
    if all(is_ours(codemod) for codemod in wanted.codemods):
        return related(files.contents, (path for recording in recordings for path in recording.digests))
    return Related(tuple(sorted(files.contents)), frozenset(files.contents))  # who knows what a foreign one looks for


def _tasks(wanted: Wanted, files: Files, about: Related) -> list[Task]:
    asked = [path for path in wanted.paths if path in files.contents]
    sites = [path for path in asked if path in about.sites]
    others = [path for path in asked if path not in about.sites]
    tasks = [Task(tuple(sites[at : at + _GROUP])) for at in range(0, len(sites), _GROUP)]
    if len(others) <= _UNRELATED_READ:
        tasks += [Task(tuple(others[at : at + _GROUP]), False) for at in range(0, len(others), _GROUP)]
    return tasks


@dataclass(frozen=True)
class _Work:
    """What a process needs to know to do a task; `paths` are the files that make up the project."""

    search: Search
    wanted: Wanted
    files: Files
    recordings: tuple[Recording, ...]
    root_name: str
    paths: tuple[str, ...]

    @cached_property
    def project(self) -> Project:
        documents: dict[str, Document] = {}
        errors: dict[str, SourceError] = {}
        for path in self.paths:
            try:
                documents[path] = Document.parse(path, self.files.contents[path])
            except UnreadableSource as unreadable:
                errors[path] = unreadable.error
        project = Project.of(documents, errors, self.root_name)
        return project.with_recorded(current(self.recordings, documents))

    def do(self, task: Task) -> Preview:
        if not task.is_search:
            return Preview((), tuple(self._unreadable(task.paths)))
        forget()
        try:
            return self.search(replace(self.wanted, paths=task.paths), self.project)
        except Exception as error:  # a mistake of jitmod: it costs the one file
            if len(task.paths) == 1:
                return Preview((), (SourceError(task.paths[0], 1, 1, _mistake(error)),))
        return merged([self.do(Task((path,))) for path in task.paths])

    def _unreadable(self, paths: Iterable[str]) -> Iterator[SourceError]:
        for path in paths:
            try:
                Document.parse(path, self.files.contents[path])
            except UnreadableSource as unreadable:
                yield unreadable.error


def _mistake(error: Exception) -> str:
    """What is said of an error that nobody foresaw, so that it can be reported."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return f"{_MISTAKE}: {type(error).__name__}: {error}{where}"


def is_whole(found: Preview) -> bool:
    """Whether no file is missing for a mistake of jitmod: the next run may have more memory, say."""
    return not any(error.message.startswith(_MISTAKE) for error in found.errors)


def _can_fork() -> bool:
    """Whether this process can be split as it is: not with threads, and the libraries of macOS cannot at all."""
    alone = threading.active_count() == 1 and "jax" not in sys.modules
    return alone and "fork" in multiprocessing.get_all_start_methods() and sys.platform != "darwin"


def _by_processes(work: _Work, tasks: Sequence[Task], processes: int) -> Iterator[Preview]:
    """The results of the tasks, in their order. A process that dies (of memory, say) leaves its tasks to this one."""
    if any(task.is_search for task in tasks):
        work.project  # noqa: B018 - read once, for all of them
    _WORK[:] = [work]
    pool = ProcessPoolExecutor(
        min(processes, len(tasks)), multiprocessing.get_context("fork"), _begin, (os.getpid(),)
    )
    try:
        waiting = [_begun(pool, task) for task in tasks]
        for task, future in zip(tasks, waiting, strict=True):
            found = None
            if future is not None:
                with contextlib.suppress(BrokenProcessPool):
                    found = future.result()
            yield work.do(task) if found is None else found
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()
        _WORK.clear()


def _begun(pool: ProcessPoolExecutor, task: Task) -> Future[Preview] | None:
    """None where a process has died already while others were being given their work."""
    try:
        return pool.submit(_do, task)
    except BrokenProcessPool:
        return None


_WORK: list[_Work] = []  # what a forked process finds


def _begin(parent: int) -> None:
    """In a new process: signals end it without words, and so does the end of the one that made it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    gc.freeze()  # what is shared stays shared
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _do(task: Task) -> Preview:
    found = _WORK[0].do(task)
    gc.collect()  # analyses go in circles; the collector is off meanwhile
    return found
