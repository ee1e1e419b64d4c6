"""What a workload names: a function of a file, a script or notebook run as `__main__`, or a test pytest would run."""

from __future__ import annotations

import ast
import os
import runpy
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import files, kernel, tests
from .finder import Transform
from .world import World

_NO_DATA = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp,
            ast.GeneratorExp)  # fmt: skip

Bound = tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]


def bind(world: World, target: str, names: tuple[str, ...]) -> Bound | None:
    """`run` and `setup` of a script or a test; None for a function. The world must be active.

    The output of a script is what it has bound to `names`. Raises FileNotFoundError, and `tests.TestError`.
    """
    if target.endswith(kernel.SUFFIX):
        return _script(world, world.find(target), names), tuple
    file, _, rest = target.partition(".py")
    if rest and not rest.startswith("::"):
        return None
    place = world.find(f"{file}.py")
    return tests.bind(world, place, rest) if rest else (_script(world, place, names), tuple)


def program_file(target: str) -> str | None:
    """The file of a script, a notebook or a test; None where a function is named."""
    file, suffix, rest = target.partition(".py")
    return file + suffix if not rest or rest.startswith("::") else None


def is_script(target: str) -> bool:
    return target.endswith((".py", kernel.SUFFIX))


def is_test(target: str) -> bool:
    return ".py::" in target


def data_names(text: str | bytes | None) -> tuple[str, ...]:
    """What the statements of a script bind, in order of the alphabet, but for modules, functions, classes, and `_`."""
    try:
        tree = ast.parse(text or "")
    except (SyntaxError, ValueError):
        return ()
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                found.add(child.id)
            if not isinstance(child, _NO_DATA):
                visit(child)

    visit(tree)
    return tuple(sorted(name for name in found if name != "_" and not name.startswith("__")))


def scratch_names(text: str | bytes | None, others: Iterable[str | bytes | None]) -> frozenset[str]:
    """What a script binds nowhere but in its loops, and none of its other versions so much as mentions."""
    try:
        tree, *versions = [ast.parse(one or "") for one in (text, *others)]
    except (SyntaxError, ValueError):
        return frozenset()
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While)]
    inside = {node for loop in loops for part in (loop.body, getattr(loop, "target", None)) for node in _walked(part)}
    stored = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    outside = {node.id for node in stored if node not in inside}
    mentioned = {node.id for one in versions for node in ast.walk(one) if isinstance(node, ast.Name)}
    return frozenset(node.id for node in stored if node in inside) - outside - mentioned


def _walked(part: list[ast.stmt] | ast.expr | None) -> Iterator[ast.AST]:
    for node in part if isinstance(part, list) else [part] if part is not None else []:
        yield from ast.walk(node)


def instrumented(target: str, transform: Transform | None) -> Transform | None:
    """`transform`, and where `target` is a test: its locals are kept when it ends."""
    file, _, rest = target.partition("::")
    if not rest:
        return transform

    def watch(path: str, tree: ast.Module) -> ast.Module:
        if os.path.normpath(path) == os.path.normpath(file):
            tests.keep_locals(tree, rest)
        return transform(path, tree) if transform is not None else tree

    return watch


def _script(world: World, place: str, names: tuple[str, ...]) -> Callable[..., Any]:
    """A notebook runs as it does in a kernel: in its own folder, with the names that a kernel gives."""
    world.add_root(os.path.dirname(place))
    is_notebook = place.endswith(kernel.SUFFIX)
    given = kernel.names() if is_notebook else {}
    folder = _notebook_folder(world, place) if is_notebook else None

    def run() -> dict[str, Any]:
        before = sys.argv[:]
        sys.argv[:] = [place]
        if folder is not None:
            os.chdir(folder)
        try:
            bound = runpy.run_path(place, given, run_name="__main__")
        except SystemExit as end:
            if end.code not in (None, 0):
                raise
            return {}
        finally:
            sys.argv[:] = before
        return {name: bound[name] for name in names if name in bound}

    return run


def _notebook_folder(world: World, place: str) -> str:
    """Where the kernel of a notebook would be: in the notebook's folder, as the active world has it."""
    folder = files.own_folder(world.folder, world.tree.relative(os.path.dirname(place)) or "")
    return folder if os.path.isdir(folder) else world.folder
