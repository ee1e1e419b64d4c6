"""Patches that rest on what a recording saw: the code checks it, so that another kind raises instead of being traced.

Where annotations, call sites and assignments leave the kind of a parameter open, the recorded calls may say it. That
is an observation: the next call may pass something else, and a compiled function would take numpy's double precision,
a list, or another class without a word. So such a patch raises a TypeError there, at the head of the function that
holds the loop, it is never `safe`, and only that function's parameters are taken from the recording.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from jitmod.analysis.infer import Inference
from jitmod.analysis.parameters import observed
from jitmod.analysis.values import UNKNOWN, Array, Instance, Kind, NdArray, Number
from jitmod.analysis.values import Sequence as Items
from jitmod.model import Assumption, Edit, Finding, Patch, Variant
from jitmod.rewrite.edits import EditConflict, compose
from jitmod.source.document import Document, UnreadableSource
from jitmod.source.project import Class, Function, Project, SourceModule
from jitmod.source.recording import RecordedFunction

Find = Callable[[Document, Project], Iterable[Finding]]


def improved(found: Sequence[Finding], find: Find, document: Document, project: Project) -> list[Finding]:
    """The findings of one document, where recordings turn a refusal, or nothing, into a patch."""
    result = list(found)
    for function in project.module(document).functions.values():
        seen = project.recorded.function(document.path, function.name)
        if seen is None or not seen.kinds or isinstance(function.node, ast.Lambda) or not _has_room(function, result):
            continue
        observing = _Observing(find, document, project, function, seen)
        names = observing.open_parameters()
        for patch in observing.patches(names) if names else ():
            if not any(isinstance(f, Patch) and _same_site(f, patch) for f in result):
                checked = observing.checked(patch, names)
                if checked is not None:
                    result = [f for f in result if not _same_site(f, patch)]
                    result.append(checked)
    return result


def _has_room(function: Function, found: Iterable[Finding]) -> bool:
    """Whether there is a loop in the function that is not patched without help."""
    loops = [n for n in ast.walk(function.node) if isinstance(n, ast.For | ast.While | ast.ListComp | ast.DictComp)]
    lines = {f.site.line for f in found if isinstance(f, Patch)}
    return any(loop.lineno not in lines for loop in loops)


def _same_site(one: Finding, other: Finding) -> bool:
    return (one.codemod, one.site) == (other.codemod, other.site)


@dataclass(frozen=True)
class _Observing:
    """One codemod on one function, of which a recording saw calls."""

    find: Find
    document: Document
    project: Project
    function: Function
    seen: RecordedFunction

    def open_parameters(self) -> list[str]:
        """The parameters of which nothing but the recording says anything, and of which it says something."""
        plain, helped = Inference(self.project), Inference(self._believing(self.seen.kinds))
        module = self.function.module
        names = []
        for arg in self.function.parameters:
            binding = next((b for b in self.function.scope.bindings.get(arg.arg, ()) if b.node is arg), None)
            if binding is not None and observed(self.function, arg, helped) != UNKNOWN:
                names += [arg.arg] if plain.bound(binding, module) == UNKNOWN else []
        return names

    def patches(self, names: Iterable[str]) -> list[Patch]:
        """The patches of the function that are possible where these parameters are as they were."""
        found = self.find(self.document, self._believing(names))
        return [f for f in found if isinstance(f, Patch) and self._holds(f)]

    def checked(self, patch: Patch, names: Sequence[str]) -> Patch | None:
        """The patch with checks of those parameters alone that it rests on; None where they cannot be written."""
        needed = list(names)
        for name in names:
            fewer = [other for other in needed if other != name]
            again = next((p for p in self.patches(fewer) if _same_site(p, patch)), None) if fewer else None
            if again is not None and again.variants == patch.variants:
                needed = fewer
        return _checked(patch, self.function, Inference(self._believing(needed)), needed)

    def _believing(self, names: Iterable[str]) -> Project:
        return self.project.with_recorded(self.project.recorded.believing(self.seen, names))

    def _holds(self, patch: Patch) -> bool:
        inner = [
            f
            for f in self.function.module.functions.values()
            if not isinstance(f.node, ast.Lambda)
            and f.node.lineno <= patch.site.line
            and patch.site.end_line <= (f.node.end_lineno or 0)
        ]
        return max(inner, key=lambda f: f.node.lineno, default=None) is self.function


@dataclass(frozen=True)
class _Check:
    """What a parameter must be: a condition that is true of anything else, and words for it."""

    name: str
    failing: str
    words: str


def _checked(patch: Patch, function: Function, infer: Inference, needed: Sequence[str]) -> Patch | None:
    document = function.module.document
    kinds = {a.arg: observed(function, a, infer) for a in function.parameters if a.arg in needed}
    variants, checks = [], []
    for variant in patch.variants:
        try:
            after = Document.parse(document.path, compose(document, variant.realise({})))
        except (EditConflict, UnreadableSource):
            return None
        names = _Names(SourceModule(function.module.name, after, function.module.is_package), function, infer.project)
        checks = [check for name, kind in kinds.items() if (check := _check(name, kind, names)) is not None]
        edits = _with_checks(variant, checks, function, document) if len(checks) == len(kinds) else None
        if edits is None:
            return None
        variants.append(replace(variant, edits=edits))
    assumptions = [
        Assumption("recorded-kind", f"`{check.name}` is {check.words}, as in every recorded call; another kind raises")
        for check in checks
    ]
    return replace(patch, variants=tuple(variants), assumptions=(*patch.assumptions, *assumptions))


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
    """How things are called in the patched module, inside of one function."""

    module: SourceModule
    function: Function
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
        scope = self.function.scope.find(way.partition(".")[0])
        return scope is None or scope.parent is None


def _with_checks(
    variant: Variant, checks: Sequence[_Check], function: Function, document: Document
) -> tuple[Edit, ...] | None:
    """The edits and the checks before the first statement; None where the two cannot be told apart."""
    node = function.node
    assert not isinstance(node, ast.Lambda)
    has_text = ast.get_docstring(node, clean=False) is not None
    if not checks or len(node.body) == int(has_text):
        return None
    first = node.body[int(has_text)]
    indent = document.indent(first)
    if indent is None:  # on the line of the `def`
        return None
    at = document.span(first)[0]
    text = _statement(checks, function.name, indent)
    if document.source[at:].startswith(text.replace("\n", document.newline).encode()):
        return variant.edits  # an earlier patch of the function checks the same
    edits = []
    placed = False
    for edit in variant.edits:
        if edit.start == at and not placed:
            edits.append(replace(edit, text=f"{text}{indent}{edit.text}"))
            placed = True
        elif edit.start == at - len(indent.encode()) and edit.end > edit.start and not placed:
            edits.append(replace(edit, text=f"{indent}{text}{edit.text}"))
            placed = True
        elif edit.start < at < edit.end:
            return None
        else:
            edits.append(edit)
    if not placed:
        edits.append(Edit(at, at, f"{text}{indent}"))
    try:
        compose(document, replace(variant, edits=tuple(edits)).realise({}))
    except EditConflict:
        return None
    return tuple(edits)


def _statement(checks: Sequence[_Check], function: str, indent: str) -> str:
    """An `if` that raises, without the indentation of its first line, with the line end of its last."""
    step = "\t" if "\t" in indent else "    "
    condition = " or ".join(check.failing for check in checks)
    said = ", ".join(f"{check.name} must be {check.words}" for check in checks)
    return f'if {condition}:\n{indent}{step}raise TypeError("{function.rpartition(".")[2]}: {said}")\n'
