"""Codemods in a file that is named on the command line: jitmod's own kind, LibCST commands, Bowler scripts."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from jitmod.rewrite.codemod import Codemod, UnknownCodemod
from jitmod.rewrite.foreign import Command, Queries

_BOWLER = "Bowler is needed for this script: pip install 'jitmod[bowler]'"


class ScriptError(UnknownCodemod):
    """The file holds no codemod that can be used; the message says why."""


def load(path: Path) -> list[Codemod]:
    """The codemods of a file, which is run as a module. Raises `ScriptError`."""
    if not path.is_file():
        raise ScriptError(f"no such file: {path}")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScriptError(f"{path} cannot be read: {error}") from None
    with _recorded(text) as queries:
        module = _run(path)
        main = getattr(module, "main", None)
        if not queries and _imports_bowler(text):
            queries += _held(module)
            if not queries and inspect.isfunction(main) and not inspect.signature(main).parameters:
                _called(main, path)
    found = [*_own(module), *_commands(module, path)]
    if queries:
        found.append(_of_queries(path, module, queries))
    if not found:
        kinds = "a subclass of jitmod's Codemod, a LibCST CodemodCommand, or a Bowler Query"
        raise ScriptError(f"{path} holds no codemod: define {kinds}")
    return found


def _run(path: Path) -> ModuleType:
    digest = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]
    name = f"jitmod_script_{digest}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ScriptError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    execute = spec.loader.exec_module
    _called(lambda: execute(module), path)
    return module


def _called(function: Any, path: Path) -> None:
    """Run what a file says, as Python runs a script: what lies beside it can be imported. It prints to stderr."""
    beside = str(path.resolve().parent)
    sys.path.append(beside)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            function()
    except ModuleNotFoundError as error:
        raise ScriptError(_BOWLER if error.name == "bowler" else f"{path}: {error}") from None
    except (Exception, SystemExit) as error:
        raise ScriptError(f"{path} raised {type(error).__name__}: {error}") from None
    finally:
        with contextlib.suppress(ValueError):  # the file may have set the path anew
            sys.path.remove(beside)


def _own(module: ModuleType) -> Iterator[Codemod]:
    for value in vars(module).values():
        own = isinstance(value, type) and issubclass(value, Codemod) and value.__module__ == module.__name__
        if own and not inspect.isabstract(value):
            yield value()


def _commands(module: ModuleType, path: Path) -> Iterator[Codemod]:
    if "libcst" not in sys.modules:
        return
    from libcst.codemod import CodemodCommand, CodemodContext

    for value in vars(module).values():
        own = isinstance(value, type) and issubclass(value, CodemodCommand) and value.__module__ == module.__name__
        if own and not inspect.isabstract(value):
            try:
                value(CodemodContext())
            except TypeError as error:
                raise ScriptError(f"{path}: {value.__name__} needs arguments; give them defaults ({error})") from None
            name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", value.__name__.removesuffix("Command")).lower()
            told = " ".join(value.DESCRIPTION.split()) if value.DESCRIPTION != "No description." else value.__name__
            yield type(value.__name__, (Command,), {"id": name, "summary": told, "command": value})()


def _of_queries(path: Path, module: ModuleType, queries: list[Any]) -> Codemod:
    if any(query.processors for query in queries):
        raise ScriptError(f"{path}: `process(...)` decides hunk by hunk, which jitmod does not; use `filter(...)`")
    name = re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-") or "bowler"
    told = (inspect.getdoc(module) or f"the queries of {path.name}").strip().partition("\n")[0]
    script: type[Codemod] = type("Script", (Queries,), {"id": name, "summary": told, "queries": tuple(queries)})
    return script()


def _imports_bowler(text: str) -> bool:
    return re.search(r"^\s*(?:from|import)\s+bowler\b", text, re.MULTILINE) is not None


def _held(module: ModuleType) -> list[Any]:
    """The queries that a module binds and does not run."""
    from bowler import Query

    return [value for value in vars(module).values() if isinstance(value, Query)]


@contextlib.contextmanager
def _recorded(text: str) -> Iterator[list[Any]]:
    """While a Bowler script runs: its queries are kept where it would execute them."""
    kept: list[Any] = []
    if not _imports_bowler(text):
        yield kept
        return
    try:
        from bowler import Query
    except ModuleNotFoundError:
        raise ScriptError(_BOWLER) from None
    before = Query.execute

    def keep(self: Any, **_: Any) -> Any:
        kept.append(self)
        return self

    Query.execute = keep
    try:
        yield kept
    finally:
        Query.execute = before
