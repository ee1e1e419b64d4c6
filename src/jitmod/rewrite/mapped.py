"""`list(map(net, xs))` is read as the comprehension `[net(x) for x in xs]`, which does the same in the same order."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jitmod.analysis.effects import Effects
from jitmod.analysis.jits import is_heavy
from jitmod.analysis.loops import Loop, is_path, loops_in
from jitmod.model import Edit, Finding, Refusal, Site, Variant
from jitmod.rewrite.edits import EditConflict, compose
from jitmod.rewrite.names import Namer, singular
from jitmod.source.document import Document, UnreadableSource
from jitmod.source.nodes import walk
from jitmod.source.project import Project, SourceModule


@dataclass(frozen=True, eq=False)
class Mapped:
    """A file in which comprehensions stand in place of calls of `map`, and the project with that file in it.

    `places`: the byte ranges of the calls, each with that of its comprehension; `loops`: the comprehensions, each with
    the site of its call.
    """

    project: Project
    places: Sequence[tuple[tuple[int, int], tuple[int, int]]]
    loops: Mapping[Loop, Site]

    def told(self, finding: Finding, loop: Loop) -> Finding:
        """What was found of a comprehension, in terms of the file as it is."""
        site = self.loops[loop]
        if isinstance(finding, Refusal):
            return replace(finding, site=site)
        variants = [v for variant in finding.variants if (v := self._back(variant)) is not None]
        if len(variants) < len(finding.variants):
            message = "the call of `map` cannot be edited on its own; write a comprehension"
            return Refusal(finding.codemod, site, "unparsable", message)
        return replace(finding, site=site, variants=tuple(variants))

    def _back(self, variant: Variant) -> Variant | None:
        edits = [(self._offset(e.start), self._offset(e.end), e.text) for e in variant.edits]
        found = tuple(Edit(a, b, text) for a, b, text in edits if a is not None and b is not None)
        return replace(variant, edits=found) if len(found) == len(edits) else None

    def _offset(self, at: int) -> int | None:
        """The byte of the file as it is; None inside of a comprehension."""
        shift = 0
        for (first, last), (start, end) in self.places:
            if start < at < end:
                return None
            if at == start:
                return first
            if at >= end:
                shift = last - end
        return at + shift


def mapped(document: Document, project: Project, effects: Effects) -> Mapped | None:
    """The file with comprehensions for calls of `map` that run a Module or a compiled function; None without any."""
    module = project.module(document)
    calls = [c for c in (*document.of(ast.Call), *document.of(ast.List)) if _is_list_of_map(c, module, effects)]
    calls = sorted(calls, key=document.span)
    texts = [_comprehension(_map_in(call), document, Namer.of(module)) for call in calls]
    edits = [Edit(*document.span(call), text) for call, text in zip(calls, texts, strict=True)]
    if not edits:
        return None
    try:
        other = Document.parse(document.path, compose(document, edits))
    except (EditConflict, UnreadableSource):
        return None
    places, shift = [], 0
    for edit in edits:
        size = len(edit.text.encode())
        places.append(((edit.start, edit.end), (edit.start + shift, edit.start + shift + size)))
        shift += size - (edit.end - edit.start)
    changed = _with(other, document, project)
    by_start = {start: call for (_, (start, _)), call in zip(places, calls, strict=True)}
    loops = {loop: document.site(by_start[start], loop.symbol) for loop in loops_in(changed.module(other))
             if isinstance(loop.node, ast.ListComp) and (start := other.span(loop.node)[0]) in by_start}  # fmt: skip
    return Mapped(changed, tuple(places), loops)


def _with(other: Document, document: Document, project: Project) -> Project:
    """The project with another text of one file."""
    old = project.module(document)
    new = SourceModule(old.name, other, old.is_package)
    return replace(
        project,
        documents={**project.documents, document.path: other},
        modules={name: new if module is old else module for name, module in project.modules.items()},
        by_path={**project.by_path, document.path: new},
    )


def _is_list_of_map(node: ast.expr, module: SourceModule, effects: Effects) -> bool:
    """`list(map(f, xs))` and `[*map(f, xs)]` on one line, where `f` is a name, or a lambda that calls one."""
    match node:
        case ast.Call(func=ast.Name(id="list") as outer, args=[ast.Call() as call], keywords=[]):
            words = [outer, call.func]
        case ast.List(elts=[ast.Starred(value=ast.Call() as call)]):
            words = [call.func]
        case _:
            return False
    infer = effects.inference
    if not (isinstance(call.func, ast.Name) and call.func.id == "map") or node.lineno != node.end_lineno:
        return False
    builtin = all(isinstance(w, ast.Name) and infer.scope_binding(w.id, w, module) is None for w in words)
    plain = len(call.args) > 1 and not call.keywords and not any(isinstance(a, ast.Starred) for a in call.args)
    if not (builtin and plain):
        return False
    function = call.args[0]
    if isinstance(function, ast.Lambda):
        a = function.args
        simple = not (a.vararg or a.kwarg or a.kwonlyargs or a.defaults or a.posonlyargs)
        called = [c.func for c in walk(function.body) if isinstance(c, ast.Call)]
        fits = simple and len(a.args) == len(call.args) - 1
        return fits and any(is_heavy(infer.kind(f, module), effects) for f in called)
    is_property = isinstance(function, ast.Attribute) and infer.classes.is_property(function, module)
    return is_path(function) and not is_property and is_heavy(infer.kind(function, module), effects)


def _map_in(node: ast.expr) -> ast.Call:
    inner = node.args[0] if isinstance(node, ast.Call) else node.elts[0].value  # type: ignore[attr-defined]
    assert isinstance(inner, ast.Call)
    return inner


def _comprehension(call: ast.Call, document: Document, namer: Namer) -> str:
    function, *iterables = call.args
    sources = [document.text(i) for i in iterables]
    if isinstance(function, ast.Lambda):
        names, value = [a.arg for a in function.args.args], document.text(function.body)
        value = f"({value})" if isinstance(function.body, ast.Tuple | ast.NamedExpr) else value
    else:
        plain = [s.rpartition(".")[2] if is_path(i) else "xs" for s, i in zip(sources, iterables, strict=True)]
        names = [namer.fresh(singular(name.lstrip("_") or "xs")) for name in plain]
        value = f"{document.text(function)}({', '.join(names)})"
    source = sources[0] if len(sources) == 1 else f"zip({', '.join(sources)})"
    source = f"({source})" if isinstance(iterables[0], ast.Lambda | ast.IfExp) and len(sources) == 1 else source
    return f"[{value} for {', '.join(names)} in {source}]"
