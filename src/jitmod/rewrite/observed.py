"""Patches that rest on what a recording saw: the code checks it, so that another kind raises instead of being traced.

Where annotations, call sites and assignments leave the kind of a name open, the recorded runs of the loop may say it.
That is an observation: the next run may hold something else, and a compiled function would take numpy's double
precision, a list, or another class without a word. So such a patch raises a TypeError right before the loop where a
name that it rests on is of another kind, it is never `safe`, and only names that the loop does not bind count.

What can be changed in place may be known under two names, and a list may break off in the middle of a run; neither can
be checked. So lists, numpy arrays and objects that are no Modules count only where the loop changes nothing but lists
and dicts of its own function.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from jitmod.analysis.infer import Inference
from jitmod.analysis.parameters import described, observed
from jitmod.analysis.values import UNKNOWN, Array, Instance, Kind, NdArray, Number
from jitmod.analysis.values import Sequence as Items
from jitmod.model import Assumption, Edit, Finding, Patch, Variant
from jitmod.rewrite.edits import EditConflict, compose
from jitmod.source.document import Document, UnreadableSource
from jitmod.source.loops import Loop, loops
from jitmod.source.nodes import walk
from jitmod.source.project import Class, Project, SourceModule
from jitmod.source.recording import Kinds
from jitmod.source.scopes import Scope

# What evaluates a part of itself only sometimes, later, or again and again.
_SOMETIMES = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

# Methods that change what they are called on, of lists, dicts, sets and arrays.
_CHANGING = frozenset([
    "append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "update", "setdefault", "popitem", "add",
    "discard", "difference_update", "intersection_update", "symmetric_difference_update", "fill", "put", "partition",
    "resize", "setfield", "setflags", "itemset", "byteswap", "appendleft", "extendleft", "popleft", "rotate",
])  # fmt: skip

Find = Callable[[Document, Project], Iterable[Finding]]


def improved(found: Sequence[Finding], find: Find, document: Document, project: Project) -> list[Finding]:
    """The findings of one document, where recordings turn a refusal, or nothing, into a patch."""
    result = list(found)
    if not any(path == document.path for path, _ in project.recorded.loops):
        return result
    plain, module = Inference(project), project.module(document)
    for loop, key in sorted(loops(document), key=lambda entry: (entry[0].lineno, entry[0].col_offset)):
        kinds = project.recorded.loops.get((document.path, key), {})
        statement = _statement_of(loop, module)
        if not kinds or statement is None or any(isinstance(f, Patch) and _is_at(f, loop, document) for f in result):
            continue
        observing = _Observing(find, module, project, loop, statement, kinds)
        names = observing.open_names(plain)
        patch = observing.patch(names) if names else None
        checked = observing.checked(patch, names) if patch is not None else None
        if checked is not None:
            result = [f for f in result if (f.codemod, f.site) != (checked.codemod, checked.site)]
            result.append(checked)
    return result


def _is_at(finding: Finding, loop: Loop, document: Document) -> bool:
    site = document.site(loop, "")
    return (finding.site.line, finding.site.column) == (site.line, site.column)


def _statement_of(loop: Loop, module: SourceModule) -> ast.stmt | None:
    """The statement before which the loop's names can be checked: one that always runs the loop, and first of all."""
    inner: ast.AST = loop
    for outer in (*module.ancestors(loop),) if isinstance(loop, ast.expr) else ():
        if isinstance(outer, _SOMETIMES):
            return None
        inner = outer
        if isinstance(outer, ast.stmt):
            break
    plain = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return, ast.For, ast.While)
    if not isinstance(inner, plain) or (isinstance(inner, ast.While) and inner is not loop):
        return None
    return inner


def _is_mutable(kind: Kind, infer: Inference) -> bool:
    match kind:
        case Items() | NdArray():
            return True
        case Instance(Class() as cls):
            return not infer.classes.is_module(cls)
    return False


def _changes_only_its_own(loop: Loop, scope: Scope) -> bool:
    """Whether everything that the loop changes in place is a list or dict that its function has made."""
    changed: list[ast.expr] = []
    for node in walk(loop):
        match node:
            case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
                changed.append(value)
            case ast.Attribute(value=value, ctx=ast.Store() | ast.Del()):
                changed.append(value)
            case ast.AugAssign(target=target):
                changed.append(target)
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in _CHANGING:
                changed.append(value)
    return all(isinstance(one, ast.Name) and _is_fresh(one.id, scope) for one in changed)


def _is_fresh(name: str, scope: Scope) -> bool:
    fresh = (ast.List, ast.Dict, ast.ListComp, ast.DictComp, ast.Constant)
    bindings = scope.bindings.get(name, [])
    return bool(bindings) and all(
        binding.how == "augment" or (binding.how == "assign" and not binding.path and isinstance(binding.value, fresh))
        for binding in bindings
    )


@dataclass(frozen=True)
class _Observing:
    """One codemod on one loop, of which a recording saw runs; `statement` is the loop, or holds it."""

    find: Find
    module: SourceModule
    project: Project
    loop: Loop
    statement: ast.stmt
    kinds: Kinds

    def open_names(self, plain: Inference) -> list[str]:
        """The names of which nothing but the recording says anything, and of which it says something."""
        helped = Inference(self._believing(self.kinds))
        read: dict[str, ast.Name] = {}
        for node in walk(self.loop):
            if isinstance(node, ast.Name) and node.id in self.kinds:
                read.setdefault(node.id, node)
        kinds = {name: observed(node, self.module, helped) for name, node in sorted(read.items())}
        own = _changes_only_its_own(self.loop, self.module.scope_of(self.loop))
        return [
            name
            for name, kind in kinds.items()
            if kind != UNKNOWN and (own or not _is_mutable(kind, helped))
            if plain.kind(read[name], self.module) == UNKNOWN
        ]

    def patch(self, names: Iterable[str]) -> Patch | None:
        """The patch of the loop that is possible where these names are as they were."""
        document = self.module.document
        found = self.find(document, self._believing(names))
        return next((f for f in found if isinstance(f, Patch) and _is_at(f, self.loop, document)), None)

    def checked(self, patch: Patch, names: Sequence[str]) -> Patch | None:
        """The patch with checks of those names alone that it rests on; None where they cannot be written."""
        needed = list(names)
        for name in names:
            fewer = [other for other in needed if other != name]
            again = self.patch(fewer) if fewer else None
            if again is not None and again.variants == patch.variants:
                needed = fewer
        infer = Inference(self._believing(needed))
        document = self.module.document
        kinds = {name: described(self.kinds[name][0], infer) for name in needed}
        variants: list[Variant] = []
        checks: list[_Check] = []
        for variant in patch.variants:
            try:
                after = Document.parse(document.path, compose(document, variant.realise({})))
            except (EditConflict, UnreadableSource):
                return None
            patched = SourceModule(self.module.name, after, self.module.is_package)
            spelling = _Names(patched, self.module.scope_of(self.statement), self.project)
            checks = [check for name, kind in kinds.items() if (check := _check(name, kind, spelling)) is not None]
            edits = _with_checks(variant, checks, self.statement, document) if len(checks) == len(kinds) else None
            if edits is None:
                return None
            variants.append(replace(variant, edits=edits))
        assumptions = [
            Assumption("recorded-kind", f"`{check.name}` is {check.words}, as in every recorded run; else it raises")
            for check in checks
        ]
        return replace(patch, variants=tuple(variants), assumptions=(*patch.assumptions, *assumptions))

    def _believing(self, names: Iterable[str]) -> Project:
        kinds = {name: self.kinds[name] for name in names}
        return self.project.with_recorded(self.project.recorded.believing(kinds, self.loop))


@dataclass(frozen=True)
class _Check:
    """What a name must hold: a condition that is true of anything else, and words for it."""

    name: str
    failing: str
    words: str


def _check(name: str, kind: Kind, names: _Names) -> _Check | None:
    test = _test(name, kind, names)
    return None if test is None else _Check(name, test[0], test[1])


def _test(value: str, kind: Kind, names: _Names) -> tuple[str, str] | None:
    """A condition that is true where `value` is not of `kind`, and the kind in words."""
    match kind:
        case Array(is_key=False) if spelled := names.of("jax.Array") or names.of("jax.numpy.ndarray"):
            return f"not isinstance({value}, {spelled})", "a jax.Array"
        case NdArray() if spelled := names.of("numpy.ndarray"):
            return f"not isinstance({value}, {spelled})", "a numpy array"
        case Number(name):
            return f"type({value}) is not {name}", f"a Python {name}"
        case Instance(cls) if spelled := names.of_class(cls):
            return f"type({value}) is not {spelled}", f"a {spelled}"
        case Items(item):
            inner = _test("item", item, names)
            if inner is not None and not isinstance(item, Items):
                both = f"not isinstance({value}, list | tuple) or any({inner[0]} for item in {value})"
                return both, f"a list in which each item is {inner[1]}"
    return None


@dataclass(frozen=True)
class _Names:
    """How things are called in the patched module, inside of one scope of the module as it was."""

    module: SourceModule
    scope: Scope
    project: Project

    def of(self, dotted: str) -> str | None:
        """The shortest way that the module's imports give to write a canonical dotted name."""
        ways = []
        for name, bindings in self.module.scope.bindings.items():
            target = bindings[-1].target
            if all(b.how == "import" for b in bindings) and (dotted == target or dotted.startswith(f"{target}.")):
                ways.append(name + dotted[len(target) :])
        return min((way for way in ways if self._is_free(way)), key=len, default=None)

    def of_class(self, cls: Class | str) -> str | None:
        if isinstance(cls, str):
            return self.of(cls)
        if cls.module.document.path == self.module.document.path:
            own = self.module.scope.bindings.get(cls.name, ())
            return cls.name if len(own) == 1 and own[0].how == "class" and self._is_free(cls.name) else None
        for name, bindings in self.module.scope.bindings.items():
            if len(bindings) == 1 and bindings[0].how == "import" and self._is_free(name):
                found = self.project.lookup(bindings[0].target)
                if isinstance(found, tuple) and found[0] is cls.module.scope and found[1] == cls.name:
                    return name
        return None

    def _is_free(self, way: str) -> bool:
        scope = self.scope.find(way.partition(".")[0])
        return scope is None or scope.parent is None


def _with_checks(
    variant: Variant, checks: Sequence[_Check], statement: ast.stmt, document: Document
) -> tuple[Edit, ...] | None:
    """The edits, and the checks before the statement, or before what is replaced together with it; None where that
    does not begin a line of the same block."""
    indent = document.indent(statement)
    if not checks or indent is None:  # behind something else on its line
        return None
    at = document.span(statement)[0]
    around = [edit for edit in variant.edits if edit.start <= at < edit.end or edit.start == at]
    first = min(around, key=lambda edit: edit.start, default=Edit(at, at, ""))
    line = document.source.rfind(b"\n", 0, first.start) + 1
    begun = document.source[line : first.start].decode()
    start = document.source[line:].decode()
    if begun.strip() or not start.startswith(indent) or start[len(indent) : len(indent) + 1].isspace():
        return None
    text = _statement(checks, indent)
    moved = f"{text}{indent}" if begun else f"{indent}{text}"
    edits = [replace(edit, text=moved + edit.text) if edit is first else edit for edit in variant.edits]
    edits += [] if first in variant.edits else [Edit(first.start, first.end, moved)]
    try:
        compose(document, replace(variant, edits=tuple(edits)).realise({}))
    except EditConflict:
        return None
    return tuple(edits)


def _statement(checks: Sequence[_Check], indent: str) -> str:
    """An `if` that raises, without the indentation of its first line, with the line end of its last."""
    step = "\t" if "\t" in indent else "    "
    condition = " or ".join(check.failing for check in checks)
    said = ", ".join(f"{check.name} must be {check.words}" for check in checks)
    return f'if {condition}:\n{indent}{step}raise TypeError("{said}")\n'
