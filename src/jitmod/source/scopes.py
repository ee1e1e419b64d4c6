"""Names and where they are bound: scopes, bindings, and the visitor that collects them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jitmod.source.project import SourceModule

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
    bindings: dict[str, list[Binding]]
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


class Binder(ast.NodeVisitor):
    """Collects the bindings of one scope, without entering nested scopes."""

    def __init__(self, module_name: str, is_package: bool) -> None:
        self.module_name, self.is_package = module_name, is_package
        self.bindings: dict[str, list[Binding]] = {}
        self.rebinds: set[str] = set()
        self.globals: set[str] = set()
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

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self.add(Binding(node.rest, "other", node))
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name:
            self.add(Binding(node.name, "other", node))

    def visit_Global(self, node: ast.Global) -> None:
        self.globals |= set(node.names)
        self.rebinds |= set(node.names)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.rebinds |= set(node.names)

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


def names_in(target: ast.expr, path: tuple[int, ...] = ()) -> Iterator[tuple[ast.Name, tuple[int, ...]]]:
    """The names that a target binds, each with its way into nested tuples."""
    match target:
        case ast.Name():
            yield target, path
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            for index, inner in enumerate(elts):
                yield from names_in(inner, (*path, index))
