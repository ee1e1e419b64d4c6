"""What a project that does not know jitmod yet has to try patches with: its benchmarks and tests."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from enum import StrEnum
from importlib.resources import files
from pathlib import Path, PurePosixPath

from jitmod.delivery.repository import DeliveryError
from jitmod.delivery.write import replace_file
from jitmod.source.config import Workload
from jitmod.source.nodes import walk
from jitmod.source.project import Project, SourceModule

_BENCH = re.compile(r"(^|/)(bench|benches|benchmark|benchmarks|perf)(/|_[^/]*\.py$|\.py$)|(^|/)[^/]*_bench(mark)?\.py$")
_TEST = re.compile(r"(^|/)(test_[^/]*|[^/]*_test)\.py$")
_RUN = re.compile(r"(?:run|bench|benchmark|main|workload)(?:_(.+))?|(.+)_(?:bench|benchmark)")
_Target = tuple[str, str | None]  # what is run, and what makes its arguments
_PREPARING = ("_", "setup", "teardown", "make_", "build_", "load_", "get_", "parse_", "report", "print_")
_TESTS_EACH = 2  # of a file


def workloads_for(project: Project, patched: Iterable[str]) -> list[Workload]:
    """Workloads for the files at `patched`: for each the benchmarks that use it, else some of the tests that do."""
    wanted = sorted(set(patched))
    found = [(path, target) for path in sorted(project.by_path) for target in _targets(path, project)]
    reached = {target: _used(path, target, project) for path, target in found}
    covered: dict[_Target, list[str]] = {}
    for path in wanted:
        using = [target for _, target in found if path in reached[target]]
        benchmarks = [target for target in using if "::" not in target[0]]
        for target in benchmarks or using[:_TESTS_EACH]:
            covered.setdefault(target, []).append(path)
    names: set[str] = set()
    return [Workload(_name(run, names), run, setup, covers=tuple(paths)) for (run, setup), paths in covered.items()]


def _targets(path: str, project: Project) -> Iterator[_Target]:
    if _BENCH.search(path):
        yield from _benchmarks(path, project)
    elif _TEST.search(path):
        yield from ((f"{path}::{f.name}", None) for f in _functions(path, project) if f.name.startswith("test"))


def as_toml(workloads: Iterable[Workload]) -> str:
    """The tables of pyproject.toml."""
    tables = []
    for workload in workloads:
        lines = ["[[tool.jitmod.workloads]]"]
        lines += [f"{key} = {_string(value)}" for key, value in (("name", workload.name), ("run", workload.run))]
        lines += [f"setup = {_string(workload.setup)}"] if workload.setup is not None else []
        lines += [f"covers = [{', '.join(map(_string, workload.covers))}]"] if workload.covers else []
        tables.append("".join(f"{line}\n" for line in lines))
    return "\n".join(tables)


def _string(text: str) -> str:
    """A string of TOML: one of JSON, but that it has no halves of characters, and writes DEL as an escape."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def add_to(file: Path, text: str) -> None:
    """Put tables at the end of a TOML file. Raises `DeliveryError` where they would not be read as they are meant."""
    file = file.resolve()  # what a link points to is written, not the link
    try:
        before = file.read_bytes() if file.exists() else b""
        newline = "\r\n" if b"\r\n" in before else "\n"
        gap = "" if not before else newline if before.endswith(b"\n") else 2 * newline
        after = before + (gap + text.replace("\n", newline)).encode()
        whole, added = (tomllib.loads(one)["tool"]["jitmod"]["workloads"] for one in (after.decode(), text))
        if whole != added:
            raise DeliveryError(f"{file} has workloads already")
        replace_file(file, after)
    except (tomllib.TOMLDecodeError, UnicodeError) as error:
        raise DeliveryError(f"{file}: tables cannot be put at its end: {error}") from None
    except OSError as error:
        raise DeliveryError(f"{file} cannot be written: {error.strerror}") from None


class Ci(StrEnum):
    """A file for a service that runs jobs."""

    GITHUB_BOT = "github-bot"
    GITHUB_GUARD = "github-guard"
    GITHUB_MATRIX = "github-matrix"
    GITLAB = "gitlab"

    @property
    def place(self) -> str:
        """Where a project has it, relative to its root."""
        service, _, name = self.partition("-")
        return f".github/workflows/jitmod-{name}.yml" if service == "github" else "jitmod.gitlab-ci.yml"


def write_ci(which: Ci, root: Path) -> Path:
    """Write the file of a service into a project that does not have it. Raises `DeliveryError`."""
    target = root / which.place
    text = (files("jitmod.ci") / f"{which}.yml").read_bytes()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            file.write(text)
    except FileExistsError:
        raise DeliveryError(f"{target} is there already: it stays as it is") from None
    except OSError as error:
        raise DeliveryError(f"{target} cannot be written: {error.strerror}") from None
    return target


def _used(path: str, target: _Target, project: Project) -> set[str]:
    """The files of the project that a workload uses: what its functions name, and what that imports."""
    module = project.by_path[path]
    names = [part.rpartition(":")[2] for part in target if part is not None]
    seen: set[str] = set()
    dotted: set[str] = set()
    while names:
        name = names.pop()
        if name in seen:
            continue
        seen.add(name)
        for binding in module.scope.bindings.get(name, ()):
            if isinstance(binding.node, ast.Import):  # `import a.b` binds `a`, and is for what is in it
                dotted |= {alias.name for alias in binding.node.names if (alias.asname or alias.name).startswith(name)}
            elif binding.how == "import":
                dotted.add(binding.target)
            elif binding.node is not None:
                names += [n.id for n in walk(binding.node) if isinstance(n, ast.Name)]
    files: set[str] = set()
    waiting = [found for one in dotted if (found := _module(one, project)) is not None]
    while waiting:
        other = waiting.pop()
        if other.document.path not in files:
            files.add(other.document.path)
            bindings = [b for scope in other.scopes.values() for found in scope.bindings.values() for b in found]
            modules = (_module(b.target, project) for b in bindings if b.how == "import")
            waiting += [found for found in modules if found is not None]
    return files


def _module(dotted: str, project: Project) -> SourceModule | None:
    """The module of the project that a dotted name is, or is in."""
    parts = dotted.split(".")
    names = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((project.modules[name] for name in names if name in project.modules), None)


def _functions(path: str, project: Project) -> Iterator[ast.FunctionDef]:
    return (n for n in project.documents[path].tree.body if isinstance(n, ast.FunctionDef))


def _benchmarks(path: str, project: Project) -> Iterator[_Target]:
    """`run()`, or `run(...)` with what `setup()` gives; `run_x` goes with `setup_x`. Any name will do."""
    functions = {function.name: function for function in _functions(path, project)}
    for name, function in functions.items():
        if name.startswith(_PREPARING):
            continue
        match = _RUN.fullmatch(name)
        suffix = match and (match[1] or match[2])
        setup = f"setup_{suffix}" if suffix and f"setup_{suffix}" in functions else "setup"
        needed = [p for p in _needed(function) if p != "rep"]
        if not needed:
            yield f"{path}:{name}", None
        elif match is not None and setup in functions and not _needed(functions[setup]):
            yield f"{path}:{name}", f"{path}:{setup}"


def _needed(function: ast.FunctionDef) -> list[str]:
    """The parameters without a default."""
    a = function.args
    listed = [*a.posonlyargs, *a.args]
    free = listed[: len(listed) - len(a.defaults)]
    named = [p for p, default in zip(a.kwonlyargs, a.kw_defaults, strict=True) if default is None]
    return [p.arg for p in (*free, *named)]


def _name(run: str, taken: set[str]) -> str:
    """A short name for a workload that no other one has."""
    path, function = run.replace("::", ":").rsplit(":", 1)
    match = _RUN.fullmatch(function)
    short = (match[1] or match[2] if match is not None else function.removeprefix("test_")) or PurePosixPath(path).stem
    name, number = short, 1
    while name in taken:
        number += 1
        name = f"{short}-{number}"
    taken.add(name)
    return name
