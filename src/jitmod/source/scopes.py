"""Names and where they are bound: scopes, bindings, and the visitor that collects them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jitmod.source.nodes import children, walk

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
    reached: dict[tuple[str, ast.AST], list[Binding]] = field(default_factory=dict)  # remembered by `reaching`

    @property
    def is_function(self) -> bool:
        return isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)

    @cached_property
    def mentions(self) -> Mapping[str, list[ast.Name]]:
        """The names in the code of the scope, and in the functions inside of it, by their text."""
        found: dict[str, list[ast.Name]] = {}
        for node in walk(self.node):
            if isinstance(node, ast.Name):
                found.setdefault(node.id, []).append(node)
        return found

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


class Binder:
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

    def visit(self, node: ast.AST) -> None:
        handler = _HANDLERS.get(node.__class__)
        if handler is None:
            self._below(node)
        else:
            handler(self, node)

    def _below(self, node: ast.AST) -> None:
        for child in children(node):
            self.visit(child)

    def _assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.bind(target, "assign", node, node.value, ())

    def _ann_assign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
        self.bind(node.target, "assign", node, node.value, ())

    def _aug_assign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        self.bind(node.target, "augment", node, node.value, ())

    def _named_expr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.bind(node.target, "assign", node, node.value, ())

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        self.bind(node.target, "item", node, node.iter, ())
        self._below(node)

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            if item.optional_vars is not None:
                self.bind(item.optional_vars, "other", node, item.context_expr, ())
        self._below(node)

    def _except_handler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.add(Binding(node.name, "other", node))
        self._below(node)

    def _match_as(self, node: ast.MatchAs) -> None:
        if node.name:
            self.add(Binding(node.name, "other", node))
        self._below(node)

    def _match_mapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self.add(Binding(node.rest, "other", node))
        self._below(node)

    def _match_star(self, node: ast.MatchStar) -> None:
        if node.name:
            self.add(Binding(node.name, "other", node))

    def _global(self, node: ast.Global) -> None:
        self.globals |= set(node.names)
        self.rebinds |= set(node.names)

    def _nonlocal(self, node: ast.Nonlocal) -> None:
        self.rebinds |= set(node.names)

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            self.add(Binding(name, "import", node, target=alias.name if alias.asname else name))

    def _import_from(self, node: ast.ImportFrom) -> None:
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

    def _function_def(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.add(Binding(node.name, "def", node))
        self.nested.append(node)
        for expr in [*node.decorator_list, *node.args.defaults, *[d for d in node.args.kw_defaults if d]]:
            self.visit(expr)

    def _class_def(self, node: ast.ClassDef) -> None:
        self.add(Binding(node.name, "class", node))
        self.nested.append(node)
        for expr in [*node.decorator_list, *node.bases, *[k.value for k in node.keywords]]:
            self.visit(expr)

    def _lambda(self, node: ast.Lambda) -> None:
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


_HANDLERS: dict[type[ast.AST], Callable[[Binder, Any], None]] = {
    ast.Assign: Binder._assign,
    ast.AnnAssign: Binder._ann_assign,
    ast.AugAssign: Binder._aug_assign,
    ast.NamedExpr: Binder._named_expr,
    ast.For: Binder._for,
    ast.With: Binder._with,
    ast.ExceptHandler: Binder._except_handler,
    ast.MatchAs: Binder._match_as,
    ast.MatchMapping: Binder._match_mapping,
    ast.MatchStar: Binder._match_star,
    ast.Global: Binder._global,
    ast.Nonlocal: Binder._nonlocal,
    ast.Import: Binder._import,
    ast.ImportFrom: Binder._import_from,
    ast.FunctionDef: Binder._function_def,
    ast.ClassDef: Binder._class_def,
    ast.Lambda: Binder._lambda,
    ast.AsyncFor: Binder._for,
    ast.AsyncWith: Binder._with,
    ast.AsyncFunctionDef: Binder._function_def,
}
