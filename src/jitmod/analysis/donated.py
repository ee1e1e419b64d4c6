"""Whether a value that is to be read later may have been donated to a compiled function by then."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from jitmod.analysis.fresh import is_fresh
from jitmod.analysis.infer import Inference
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.syntax import calls_outside_functions
from jitmod.analysis.values import Number, Routine
from jitmod.source.nodes import walk
from jitmod.source.project import SourceModule
from jitmod.source.scopes import Scope


def check_donation(
    device: ast.expr, kept_by: ast.stmt, outer: ast.stmt, module: SourceModule, infer: Inference
) -> None:
    """Raises `Unplannable` where a call in `outer` is handed what `device` may be a part of, and might donate it.

    `kept_by` is the statement that keeps `device`.
    """
    if not any(b"donate" in document.source for document in infer.project.documents.values()):
        return
    names = _sharing({n.id for n in walk(device) if isinstance(n, ast.Name)}, module.scope_of(kept_by), infer)
    keeping = set(walk(kept_by))
    for call in calls_outside_functions(outer):
        kind = infer.kind(call.func, module)
        if call in keeping or (isinstance(kind, Routine) and isinstance(kind.target, str)):
            continue  # no function of a library donates what it is given
        passed = [*call.args, *[k.value for k in call.keywords]]
        if isinstance(call.func, ast.Attribute):
            passed.append(call.func.value)
        handed = next((n.id for a in passed for n in walk(a) if isinstance(n, ast.Name) and n.id in names), None)
        if handed is not None:
            what = f"`{handed}` is handed to `{ast.unparse(call.func)}`, which might donate its buffers"
            raise Unplannable("donated-later-read", call, what)


def _sharing(names: set[str], scope: Scope, infer: Inference) -> set[str]:
    """The names of a function whose values may share buffers with those of `names`, through any assignments."""
    groups = [{name, *others} for name, others in _shares(scope, infer)]
    found, before = set(names), -1
    while len(found) != before:
        before = len(found)
        found = found.union(*(group for group in groups if group & found))
    return found


def _shares(scope: Scope, infer: Inference) -> Iterator[tuple[str, set[str]]]:
    """The names that are bound to something made of the values of others, with these; not what is computed anew."""
    for name, bindings in scope.bindings.items():
        for binding in bindings:
            value = binding.value
            for index in binding.path:
                if isinstance(value, ast.Tuple | ast.List) and index < len(value.elts):
                    value = value.elts[index]
            if value is None or is_fresh(value, scope.module, infer):
                continue
            if isinstance(infer.kind(value, scope.module), Number):
                continue
            called = {n.func for n in walk(value) if isinstance(n, ast.Call)}
            yield name, {n.id for n in walk(value) if isinstance(n, ast.Name) and n not in called}
