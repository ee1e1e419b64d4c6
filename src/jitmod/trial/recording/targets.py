"""What a recording watches: every function of the project, those with loops and sites above all."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jitmod.model import Finding, Patch, Site
from jitmod.source.document import Document
from jitmod.source.loops import loops, names_read
from jitmod.source.project import Project
from jitmod.source.recording import digest_of
from jitmod.trial.child.record_transform import functions

_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

# Refusals that the kinds of a recording may lift.
UNKNOWN_KIND = frozenset(["unknown-iterable", "unresolved-callee", "unknown-result", "mutable-self"])


@dataclass(frozen=True)
class Targets:
    """The part of a request that names files, functions and sites. `sites` are in the order of their numbers.

    `whole`: a site that is waited for is in no function, so that the program must run to its end.
    """

    files: tuple[dict[str, Any], ...]
    sites: tuple[Site, ...]
    whole: bool

    @property
    def functions(self) -> dict[int, dict[str, Any]]:
        return {f["number"]: {**f, "path": entry["path"]} for entry in self.files for f in entry["functions"]}

    @property
    def loops(self) -> dict[int, dict[str, Any]]:
        return {loop["number"]: {**loop, "path": entry["path"]} for entry in self.files for loop in entry["loops"]}


def targets(project: Project, root: Path, findings: Sequence[Finding]) -> Targets:
    """Everything to watch. `root` is where the files lie; only files as they are in `project` will be watched."""
    sites = tuple(sorted({f.site for f in findings}, key=lambda s: (s.path, s.line, s.column, s.end_line)))
    awaited = {f.site for f in findings if isinstance(f, Patch) or f.reason in UNKNOWN_KIND}
    files = []
    number = looped = 0
    for path, document in sorted(project.documents.items()):
        own = [(index, site) for index, site in enumerate(sites) if site.path == path]
        described = []
        for one in _functions(document, [site for _, site in own], awaited):
            described.append({**one, "number": number})
            number += 1
        places = [{"number": index, "line": site.line, "column": site.column} for index, site in own]
        watched = []
        for loop, key in loops(document):
            watched.append({"number": looped, "line": loop.lineno, "column": loop.col_offset, "key": key,
                            "names": names_read(loop)})  # fmt: skip
            looped += 1
        text = document.source.decode() if document.notebook is not None else None
        files.append({"path": path, "file": str((root / path).resolve()), "digest": digest_of(document), "text": text,
                      "functions": described, "sites": places, "loops": watched})  # fmt: skip
    trees = {path: document.tree for path, document in project.documents.items()}
    return Targets(tuple(files), sites, any(_innermost(trees[site.path], site) is None for site in awaited))


def _functions(document: Document, sites: Iterable[Site], awaited: Set[Site]) -> list[dict[str, Any]]:
    """`store`: the arguments of its calls are wanted. `awaited`: the program may be stopped when it has enough calls;
    where no site is waited for at all, it is functions with loops of which nothing was found."""
    found = list(functions(document.tree))
    names = Counter(qualname for _, qualname in found)
    held: dict[ast.AST | None, list[Site]] = {}
    for site in sites:
        held.setdefault(_innermost(document.tree, site), []).append(site)
    methods = _methods(document.tree)
    described = []
    for node, qualname in found:
        own = held.get(node, [])
        loops = any(isinstance(n, _LOOPS) for n in ast.walk(node))
        described.append({
            **_signature(node, qualname, methods),
            "store": bool(own) or loops,
            "awaited": not awaited.isdisjoint(own) if awaited else loops and not own,
            "unreachable": _unreachable(node, qualname, names[qualname]),
        })  # fmt: skip
    return described


def _signature(
    node: ast.FunctionDef | ast.AsyncFunctionDef, qualname: str, methods: frozenset[ast.AST]
) -> dict[str, Any]:
    a = node.args
    order = (*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs, a.kwarg)
    is_class_method = any(isinstance(d, ast.Name) and d.id == "classmethod" for d in node.decorator_list)
    makes = node in methods and node.name == "__init__"
    return {
        "name": node.name, "qualname": qualname, "line": node.lineno,
        "code_line": min([node.lineno, *(d.lineno for d in node.decorator_list)]),
        "target": qualname.rpartition(".")[0] if makes else qualname,
        "parameters": [x.arg for x in order if x is not None],
        "positional": len(a.posonlyargs) + len(a.args),
        "bound": int(is_class_method or makes),
        "vararg": a.vararg is not None, "keywords": [x.arg for x in a.kwonlyargs], "kwarg": a.kwarg is not None,
    }  # fmt: skip


def _methods(tree: ast.Module) -> frozenset[ast.AST]:
    return frozenset(item for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for item in node.body)


def _unreachable(node: ast.FunctionDef | ast.AsyncFunctionDef, qualname: str, namesakes: int) -> str:
    """Why the function cannot be called again by its name; empty where it can."""
    if isinstance(node, ast.AsyncFunctionDef):
        return "a coroutine"
    if "<locals>" in qualname:
        return "a function inside another one"
    if namesakes > 1:
        return "one of several functions of that name"
    inner = {n for child in ast.walk(node) if child is not node and isinstance(child, ast.FunctionDef | ast.Lambda)
             for n in ast.walk(child)}  # fmt: skip
    if any(isinstance(n, ast.Yield | ast.YieldFrom) and n not in inner for n in ast.walk(node)):
        return "a generator"
    return ""


def holder(tree: ast.Module, site: Site) -> str | None:
    """The qualified name of the innermost function around a site; None at module level."""
    found = _innermost(tree, site)
    return next((qualname for node, qualname in functions(tree) if node is found), None)


def _innermost(tree: ast.Module, site: Site) -> ast.AST | None:
    around = [n for n, _ in functions(tree) if n.lineno <= site.line and site.end_line <= (n.end_lineno or n.lineno)]
    return max(around, key=lambda n: n.lineno, default=None)
