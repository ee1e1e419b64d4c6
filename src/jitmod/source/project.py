"""The index over all files of a project: modules, imports, functions, classes, scopes, and what a name is bound to.

Everything here is syntax: no file is imported. Dotted names are canonical (`jnp.stack` is `jax.numpy.stack` whatever
the alias), and names of the project's own modules are followed through re-exports to their definition.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TypeVar

from jitmod.model import SourceError
from jitmod.source.document import Document, UnreadableSource
from jitmod.source.nodes import COMPREHENSIONS, walk
from jitmod.source.recording import NOTHING, Recorded
from jitmod.source.scopes import Binder, Binding, FunctionNode, Scope, ScopeNode
from jitmod.source.stars import bind_stars


@dataclass(frozen=True, eq=False)
class Function:
    """A `def` or `lambda`: its own scope, and the class whose method it is."""

    scope: Scope
    node: FunctionNode
    owner: Class | None = None

    @property
    def name(self) -> str:
        return self.scope.qualname

    @property
    def module(self) -> SourceModule:
        return self.scope.module

    @property
    def parameters(self) -> list[ast.arg]:
        a = self.node.args
        extra = [x for x in (a.vararg, a.kwarg) if x is not None]
        return [*a.posonlyargs, *a.args, *a.kwonlyargs, *extra]

    @cached_property
    def own_nodes(self) -> tuple[ast.AST, ...]:
        """The nodes of the function's code, without those of functions and classes inside of it."""
        return tuple(n for n in walk(self.node) if self.module.scope_of(n) is self.scope)

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        """The calls in the function's code, those in functions inside of it included."""
        return tuple(node for node in walk(self.node) if isinstance(node, ast.Call))

    @cached_property
    def returns(self) -> tuple[ast.Return, ...]:
        return tuple(node for node in self.own_nodes if isinstance(node, ast.Return))

    @cached_property
    def is_generator(self) -> bool:
        return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in self.own_nodes)

    @property
    def decorators(self) -> list[ast.expr]:
        return [] if isinstance(self.node, ast.Lambda) else self.node.decorator_list


@dataclass(frozen=True, eq=False)
class Class:
    """A class statement; `methods` are those of its own body."""

    scope: Scope
    node: ast.ClassDef

    @cached_property
    def methods(self) -> Mapping[str, Function]:
        own = [s for s in self.node.body if isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef)]
        return {s.name: self.module.functions[s] for s in own}

    @property
    def name(self) -> str:
        return self.scope.qualname

    @property
    def module(self) -> SourceModule:
        return self.scope.module


@dataclass(frozen=True, eq=False)
class SourceModule:
    """One file as an importable module. `name` is dotted, as the project's own imports would write it."""

    name: str
    document: Document
    is_package: bool

    def function_at(self, first: int, last: int) -> Function | None:
        """The innermost function that holds these lines, from 1."""
        around = [f for f in self.functions.values() if f.node.lineno <= first and last <= (f.node.end_lineno or 0)]
        return min(around, key=lambda f: (f.node.end_lineno or 0) - f.node.lineno, default=None)

    @cached_property
    def scopes(self) -> Mapping[ast.AST, Scope]:
        """Every scope of the file by its node."""
        found: dict[ast.AST, Scope] = {}
        todo: list[tuple[ScopeNode, Scope | None, str]] = [(self.document.tree, None, "<module>")]
        while todo:
            node, parent, qualname = todo.pop()
            binder = Binder(self.name, self.is_package)
            if isinstance(node, ast.Lambda):
                binder.visit(node.body)
            else:
                for statement in node.body:
                    binder.visit(statement)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                a = node.args
                for arg in [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]:
                    if arg is not None:
                        binder.bindings.setdefault(arg.arg, []).insert(0, Binding(arg.arg, "param", arg))
            rebinds = frozenset(binder.rebinds)
            scope = Scope(self, node, parent, qualname, binder.bindings, rebinds, tuple(binder.stars))
            found[node] = scope
            for name in binder.globals & set(binder.bindings):  # a variable of the module, wherever it is bound
                if parent is not None:
                    found[self.document.tree].bindings.setdefault(name, list(binder.bindings[name]))
            for inner in binder.nested:
                assert isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef)
                name = getattr(inner, "name", "<lambda>")
                todo.append((inner, scope, name if parent is None else f"{qualname}.{name}"))
        return found

    @property
    def scope(self) -> Scope:
        return self.scopes[self.document.tree]

    @cached_property
    def parents(self) -> Mapping[ast.AST, ast.AST]:
        return self.document.parents

    @cached_property
    def in_comprehensions(self) -> frozenset[ast.AST]:
        """The nodes of all comprehensions of the file."""
        return frozenset(node for outer in self.document.of(*COMPREHENSIONS) for node in walk(outer))

    def scope_of(self, node: ast.AST) -> Scope:
        """The innermost scope whose body holds `node` (a function's decorators and defaults are outside of it)."""
        found = self._scope_by_node.get(node)
        if found is None:
            outer = self.parents.get(node)
            if outer is None:
                return self.scope
            found = self.scopes[outer] if outer in self.scopes and _is_inside(outer, node) else self.scope_of(outer)
            self._scope_by_node[node] = found
        return found

    @cached_property
    def _scope_by_node(self) -> dict[ast.AST, Scope]:
        return {}

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        parent = self.parents.get(node)
        while parent is not None:
            yield parent
            parent = self.parents.get(parent)

    @cached_property
    def functions(self) -> Mapping[ast.AST, Function]:
        """Every `def` and `lambda` of the file by its node."""
        found: dict[ast.AST, Function] = {}
        for node, scope in self.scopes.items():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                outer = scope.parent.node if scope.parent else None
                owner = self.classes.get(outer) if isinstance(outer, ast.ClassDef) else None
                found[node] = Function(scope, node, owner)
        return found

    @cached_property
    def classes(self) -> Mapping[ast.AST, Class]:
        """Every class of the file by its node."""
        return {node: Class(s, node) for node, s in self.scopes.items() if isinstance(node, ast.ClassDef)}


def _is_inside(scope: ast.AST, child: ast.AST) -> bool:
    match scope:
        case ast.Module():
            return True
        case ast.Lambda():
            return child is scope.body
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return child in scope.body
    return False


# what jax and equinox make of a function takes the same arguments, traced
_TRANSFORMS = frozenset({"jit", "filter_jit", "grad", "value_and_grad", "filter_grad", "filter_value_and_grad", "vmap",
                         "filter_vmap", "checkpoint", "remat", "eval_shape"})  # fmt: skip


def _last(func: ast.expr) -> str:
    return getattr(func, "attr", getattr(func, "id", ""))


def _is_value(node: ast.expr, module: SourceModule) -> bool:
    """Whether a read does anything but call what it reads, or hand it to a transform."""
    parent = module.parents[node]
    if isinstance(parent, ast.Call) and (parent.func is node or _last(parent.func) in _TRANSFORMS):
        return False
    return not isinstance(parent, ast.Attribute | ast.ClassDef | ast.arg)


_Found = TypeVar("_Found", ast.Call, ast.Attribute, ast.Name | ast.Attribute)


def _without(
    index: Mapping[str, Sequence[tuple[SourceModule, _Found]]], hidden: Set[SourceModule]
) -> dict[str, Sequence[tuple[SourceModule, _Found]]]:
    """An index by name, but for what is in `hidden`."""
    left = {name: [site for site in sites if site[0] not in hidden] for name, sites in index.items()}
    return {name: sites for name, sites in left.items() if sites}


_OF_SYNTAX = ("calls", "uses", "stores", "_escaping", "classes")  # what is cached of the text alone


@dataclass(frozen=True, eq=False)
class Project:
    """All files of one project. `documents` and `errors` are by relative path, `modules` by dotted name.

    `recorded` is what recordings of the project saw.
    """

    documents: Mapping[str, Document]
    errors: Mapping[str, SourceError]
    modules: Mapping[str, SourceModule]
    by_path: Mapping[str, SourceModule]
    recorded: Recorded = NOTHING

    @classmethod
    def build(cls, root: Path, paths: Iterable[str]) -> Project:
        """Parse the files at `paths`, relative to `root`. Unreadable ones end up in `errors`."""
        wanted = sorted(set(paths))
        documents: dict[str, Document] = {}
        errors: dict[str, SourceError] = {}
        for path in wanted:
            try:
                documents[path] = Document.read(root, path)
            except UnreadableSource as unreadable:
                errors[path] = unreadable.error
        return cls.of(documents, errors, root.resolve().name)

    @classmethod
    def of(
        cls, documents: Mapping[str, Document], errors: Mapping[str, SourceError] | None = None, root_name: str = "root"
    ) -> Project:
        """The index of documents by relative path; `root_name` is the package's name where the root itself is one."""
        packages = {str(PurePosixPath(p).parent) for p in documents if PurePosixPath(p).name == "__init__.py"}
        by_path = {}
        for path, document in documents.items():
            file = PurePosixPath(path)
            is_package = file.name == "__init__.py"
            if document.notebook is not None:  # nobody can import it, so its name is one that nobody can write
                by_path[path] = SourceModule(f"<{path.replace('.', '//')}>", document, False)
                continue
            folder = file.parent
            parts = [] if is_package else [file.stem]
            while str(folder) in packages:
                parts.insert(0, folder.name or root_name)
                if folder == folder.parent:
                    break
                folder = folder.parent
            by_path[path] = SourceModule(".".join(parts) or file.parent.name, document, is_package)
        modules: dict[str, SourceModule] = {}
        for path, module in by_path.items():
            modules.setdefault(module.name, module)
            if module.document.notebook is not None:
                continue
            dotted = PurePosixPath(path).with_suffix("").parts  # namespace packages: named from the root, or below src
            tail = dotted[1:] if dotted and dotted[0] == "src" else dotted
            modules.setdefault(".".join(tail), module)
        project = cls(documents, errors or {}, modules, by_path)
        bind_stars(project)
        return project

    def with_recorded(self, recorded: Recorded) -> Project:
        other = replace(self, recorded=recorded)
        vars(other).update({name: vars(self)[name] for name in _OF_SYNTAX if name in vars(self)})
        return other

    def around(self, document: Document) -> Project:
        """The project as a part of which `document` runs: no notebook has to do with another one."""
        notebooks = {path for path, other in self.documents.items() if other.notebook is not None}
        if document.notebook is None or len(notebooks) < 2:
            return self
        hidden = {self.by_path[path] for path in notebooks if path != document.path}
        by_path = {path: module for path, module in self.by_path.items() if module not in hidden}
        modules = {name: module for name, module in self.modules.items() if module not in hidden}
        documents = {path: self.documents[path] for path in by_path}
        other = replace(self, documents=documents, modules=modules, by_path=by_path)
        vars(other)["calls"] = _without(self.calls, hidden)
        vars(other)["uses"] = _without(self.uses, hidden)
        vars(other)["stores"] = _without(self.stores, hidden)
        return other

    def module(self, document: Document) -> SourceModule:
        return self.by_path[document.path]

    def lookup(self, dotted: str) -> tuple[Scope, str] | SourceModule | str:
        """What a canonical dotted name means: a name in a module of the project, a module, or a library's name.

        Follows re-exports through `__init__` files and star imports; a name of a library comes back unchanged.
        """
        for _ in range(20):  # a chain of re-exports; circular ones end here
            if dotted in self.modules and not self._is_hidden(dotted):
                return self.modules[dotted]
            owner, _, rest = self._split(dotted)
            if owner is None:
                return dotted
            head, _, tail = rest.partition(".")
            bindings = owner.scope.bindings.get(head)
            if bindings is None:
                base = next((s for s in owner.scope.stars if self._exports(s, head)), None)
                if base is None:
                    return dotted
                dotted = f"{base}.{rest}"
            elif bindings[-1].how == "import":
                dotted = bindings[-1].target + (f".{tail}" if tail else "")
            else:
                return (owner.scope, rest)
        return dotted

    def _is_hidden(self, dotted: str) -> bool:
        """Whether a package binds the name of a module in it to something else: `from .collect import collect`."""
        package, _, name = dotted.rpartition(".")
        found = self.modules[package].scope.bindings.get(name) if package in self.modules else None
        return found is not None and not (found[-1].how == "import" and found[-1].target == dotted)

    def _exports(self, module: str, name: str) -> bool:
        return module in self.modules and name in self.modules[module].scope.bindings

    def _split(self, dotted: str) -> tuple[SourceModule | None, str, str]:
        parts = dotted.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            prefix = ".".join(parts[:cut])
            if prefix in self.modules:
                return self.modules[prefix], prefix, ".".join(parts[cut:])
        return None, "", dotted

    @cached_property
    def calls(self) -> Mapping[str, tuple[tuple[SourceModule, ast.Call], ...]]:
        """Every call of the project by the last name of its callee: `f(...)`, `m.f(...)` and `self.f(...)` are `f`."""
        found: dict[str, list[tuple[SourceModule, ast.Call]]] = {}
        for module in self.by_path.values():
            for node in module.document.of(ast.Call):
                match node.func:
                    case ast.Name(id=name) | ast.Attribute(attr=name):
                        found.setdefault(name, []).append((module, node))
        return {name: tuple(sites) for name, sites in found.items()}

    @cached_property
    def uses(self) -> Mapping[str, list[tuple[SourceModule, ast.Name | ast.Attribute]]]:
        """Every read of a name or an attribute of the project, by that name."""
        found: dict[str, list[tuple[SourceModule, ast.Name | ast.Attribute]]] = {}
        for module in self.by_path.values():
            for name in module.document.of(ast.Name):
                if isinstance(name.ctx, ast.Load):
                    found.setdefault(name.id, []).append((module, name))
            for attribute in module.document.of(ast.Attribute):
                if isinstance(attribute.ctx, ast.Load):
                    found.setdefault(attribute.attr, []).append((module, attribute))
        return found

    @cached_property
    def stores(self) -> Mapping[str, list[tuple[SourceModule, ast.Attribute]]]:
        """Every attribute of the project that is assigned or deleted, by its name."""
        found: dict[str, list[tuple[SourceModule, ast.Attribute]]] = {}
        for module in self.by_path.values():
            for node in module.document.of(ast.Attribute):
                if not isinstance(node.ctx, ast.Load):
                    found.setdefault(node.attr, []).append((module, node))
        return found

    def escapes(self, name: str) -> bool:
        """Whether something of that name is used as a value anywhere: stored, passed on, wrapped."""
        if name not in self._escaping:
            self._escaping[name] = any(_is_value(node, module) for module, node in self.uses.get(name, ()))
        return self._escaping[name]

    @cached_property
    def _escaping(self) -> dict[str, bool]:
        return {}

    @cached_property
    def classes(self) -> tuple[Class, ...]:
        return tuple(c for module in self.by_path.values() for c in module.classes.values())
