"""The index over all files of a project: modules, imports, functions, classes, scopes, and what a name is bound to.

Everything here is syntax: no file is imported. Dotted names are canonical (`jnp.stack` is `jax.numpy.stack` whatever
the alias), and names of the project's own modules are followed through re-exports to their definition.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from jitmod.model import SourceError
from jitmod.source.document import Document, UnreadableSource

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
ScopeNode = FunctionNode | ast.ClassDef | ast.Module


@dataclass(frozen=True, eq=False)
class Binding:
    """One way a name gets its value. `how` is param, assign, item (of a loop), import, def, class or other.

    `value` is the expression on the right (the iterable for `item`); `path` leads from it into the target's tuple.
    """

    name: str
    how: str
    node: ast.AST
    value: ast.expr | None = None
    path: tuple[int, ...] = ()
    target: str = ""


@dataclass(frozen=True, eq=False)
class Scope:
    """A module, class, or function body with the names bound in it."""

    module: SourceModule
    node: ScopeNode
    parent: Scope | None
    qualname: str
    bindings: Mapping[str, list[Binding]]
    rebinds: frozenset[str] = frozenset()
    stars: tuple[str, ...] = ()

    @property
    def is_function(self) -> bool:
        return isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)

    def find(self, name: str) -> Scope | None:
        """The scope that binds `name`, as Python looks it up from here (class bodies are skipped on the way out)."""
        scope: Scope | None = self
        first = True
        while scope is not None:
            visible = first or not isinstance(scope.node, ast.ClassDef)
            if visible and name in scope.bindings and name not in scope.rebinds:
                return scope
            scope, first = scope.parent, False
        return None


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


class _Binder(ast.NodeVisitor):
    """Collects the bindings of one scope, without entering nested scopes."""

    def __init__(self, module_name: str, is_package: bool) -> None:
        self.module_name, self.is_package = module_name, is_package
        self.bindings: dict[str, list[Binding]] = {}
        self.rebinds: set[str] = set()
        self.nested: list[ast.AST] = []
        self.stars: list[str] = []

    def add(self, binding: Binding) -> None:
        self.bindings.setdefault(binding.name, []).append(binding)

    def bind(self, target: ast.expr, how: str, node: ast.AST, value: ast.expr | None, path: tuple[int, ...]) -> None:
        match target:
            case ast.Name():
                self.add(Binding(target.id, how, node, value, path))
            case ast.Tuple() | ast.List():
                for index, element in enumerate(target.elts):
                    self.bind(element, how, node, value, (*path, index))
            case ast.Starred():
                self.bind(target.value, "other", node, None, ())
            case _:
                self.visit(target)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.bind(target, "assign", node, node.value, ())

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
        self.bind(node.target, "assign", node, node.value, ())

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        self.bind(node.target, "augment", node, node.value, ())

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.bind(node.target, "assign", node, node.value, ())

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.bind(node.target, "item", node, node.iter, ())
        self.generic_visit(node)

    visit_AsyncFor = visit_For

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            if item.optional_vars is not None:
                self.bind(item.optional_vars, "other", node, item.context_expr, ())
        self.generic_visit(node)

    visit_AsyncWith = visit_With

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.add(Binding(node.name, "other", node))
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name:
            self.add(Binding(node.name, "other", node))
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name:
            self.add(Binding(node.name, "other", node))

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        self.rebinds |= set(node.names)

    visit_Nonlocal = visit_Global

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            self.add(Binding(name, "import", node, target=alias.name if alias.asname else name))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            parts = self.module_name.split(".")
            parts = parts[: len(parts) - node.level + (1 if self.is_package else 0)]
            base = ".".join([*parts, *([node.module] if node.module else [])])
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(base)
            else:
                self.add(Binding(alias.asname or alias.name, "import", node, target=f"{base}.{alias.name}"))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.add(Binding(node.name, "def", node))
        self.nested.append(node)
        for expr in [*node.decorator_list, *node.args.defaults, *[d for d in node.args.kw_defaults if d]]:
            self.visit(expr)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.add(Binding(node.name, "class", node))
        self.nested.append(node)
        for expr in [*node.decorator_list, *node.bases, *[k.value for k in node.keywords]]:
            self.visit(expr)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.nested.append(node)
        for expr in [*node.args.defaults, *[d for d in node.args.kw_defaults if d]]:
            self.visit(expr)


@dataclass(frozen=True, eq=False)
class SourceModule:
    """One file as an importable module. `name` is dotted, as the project's own imports would write it."""

    name: str
    document: Document
    is_package: bool

    @cached_property
    def scopes(self) -> Mapping[ast.AST, Scope]:
        """Every scope of the file by its node."""
        found: dict[ast.AST, Scope] = {}
        todo: list[tuple[ScopeNode, Scope | None, str]] = [(self.document.tree, None, "<module>")]
        while todo:
            node, parent, qualname = todo.pop()
            binder = _Binder(self.name, self.is_package)
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
        """The parent of every node of the file."""
        return {child: node for node in ast.walk(self.document.tree) for child in ast.iter_child_nodes(node)}

    def scope_of(self, node: ast.AST) -> Scope:
        """The innermost scope whose body holds `node` (a function's decorators and defaults are outside of it)."""
        inner = node
        outer = self.parents.get(node)
        while outer is not None:
            if outer in self.scopes and _is_inside(outer, inner):
                return self.scopes[outer]
            inner, outer = outer, self.parents.get(outer)
        return self.scope

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


Definition = Function | Class | SourceModule


@dataclass(frozen=True, eq=False)
class Project:
    """All files of one project. `documents` and `errors` are by relative path, `modules` by dotted name."""

    documents: Mapping[str, Document]
    errors: Mapping[str, SourceError]
    modules: Mapping[str, SourceModule]
    by_path: Mapping[str, SourceModule]

    @classmethod
    def build(cls, root: Path, paths: Iterable[str]) -> Project:
        """Parse the `.py` files at `paths`, relative to `root`. Unreadable ones end up in `errors`."""
        wanted = sorted(set(paths))
        documents: dict[str, Document] = {}
        errors: dict[str, SourceError] = {}
        for path in wanted:
            try:
                documents[path] = Document.read(root, path)
            except UnreadableSource as unreadable:
                errors[path] = unreadable.error
        return cls.of(documents, errors)

    @classmethod
    def of(cls, documents: Mapping[str, Document], errors: Mapping[str, SourceError] | None = None) -> Project:
        packages = {str(PurePosixPath(p).parent) for p in documents if PurePosixPath(p).name == "__init__.py"}
        by_path = {}
        for path, document in documents.items():
            file = PurePosixPath(path)
            is_package = file.name == "__init__.py"
            folder = file.parent
            parts = [] if is_package else [file.stem]
            while str(folder) in packages:
                parts.insert(0, folder.name)
                folder = folder.parent
            by_path[path] = SourceModule(".".join(parts) or file.parent.name, document, is_package)
        modules: dict[str, SourceModule] = {}
        for path, module in by_path.items():
            modules.setdefault(module.name, module)
            dotted = PurePosixPath(path).with_suffix("").parts  # namespace packages: named from the root, or below src
            tail = dotted[1:] if dotted and dotted[0] == "src" else dotted
            modules.setdefault(".".join(tail), module)
        return cls(documents, errors or {}, modules, by_path)

    def module(self, document: Document) -> SourceModule:
        return self.by_path[document.path]

    def lookup(self, dotted: str) -> tuple[Scope, str] | SourceModule | str:
        """What a canonical dotted name means: a name in a module of the project, a module, or a library's name.

        Follows re-exports through `__init__` files and star imports; a name of a library comes back unchanged.
        """
        for _ in range(20):  # a chain of re-exports; circular ones end here
            if dotted in self.modules:
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
            for node in ast.walk(module.document.tree):
                if isinstance(node, ast.Call):
                    match node.func:
                        case ast.Name(id=name) | ast.Attribute(attr=name):
                            found.setdefault(name, []).append((module, node))
        return {name: tuple(sites) for name, sites in found.items()}

    @cached_property
    def classes(self) -> tuple[Class, ...]:
        return tuple(c for module in self.by_path.values() for c in module.classes.values())
