"""Star imports of the project's own modules: each name that one brings in is bound as if it were imported by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jitmod.source.scopes import Binding

if TYPE_CHECKING:
    from jitmod.source.project import Project, SourceModule


def bind_stars(project: Project) -> None:
    """Add the bindings to the modules of `project`; names that a module binds itself stay what they are."""
    done: set[SourceModule] = set()
    for module in project.by_path.values():
        _bind(module, project, done)


def _bind(module: SourceModule, project: Project, done: set[SourceModule]) -> None:
    if module in done:
        return
    done.add(module)
    stars = [n for n in module.document.of(ast.ImportFrom) if any(a.name == "*" for a in n.names)]
    if not stars:
        return
    bindings = module.scope.bindings
    for base, node in zip(module.scope.stars, stars, strict=False):  # in the order of the text, both
        origin = project.modules.get(base)
        if origin is None or origin is module:
            continue
        _bind(origin, project, done)
        for name in _exported(origin):
            if name not in bindings:
                found = project.lookup(f"{base}.{name}")
                target = found if isinstance(found, str) else f"{base}.{name}"
                bindings[name] = [Binding(name, "import", node, target=target)]


def _exported(module: SourceModule) -> Iterator[str]:
    """The names that a star import of `module` takes."""
    listed = [b.value for b in module.scope.bindings.get("__all__", ()) if b.how == "assign"]
    if len(listed) == 1 and isinstance(listed[0], ast.List | ast.Tuple):
        yield from (e.value for e in listed[0].elts if isinstance(e, ast.Constant) and isinstance(e.value, str))
    else:
        yield from (name for name in module.scope.bindings if not name.startswith("_"))
