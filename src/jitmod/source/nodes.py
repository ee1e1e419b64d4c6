"""Going through syntax trees fast: most of the time of a scan is spent here."""

from __future__ import annotations

import ast

# Names, numbers, and the operator and context objects, which every tree shares.
_LEAVES = frozenset({
    "id", "attr", "arg", "module", "level", "asname", "kind", "type_comment", "conversion", "simple", "is_async",
    "rest", "kwd_attrs", "ctx", "op", "ops", "lineno", "tag",
})  # fmt: skip
_WITHOUT = (ast.Constant, ast.Name, ast.alias, ast.Global, ast.Nonlocal, ast.Pass, ast.Break, ast.Continue)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class _Fields(dict[type, tuple[str, ...]]):
    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        self[kind] = () if issubclass(kind, _WITHOUT) else tuple(f for f in kind._fields if f not in _LEAVES)
        return self[kind]


_fields = _Fields()


def children(node: ast.AST) -> list[ast.AST]:
    """As `ast.iter_child_nodes`, without operators and contexts."""
    found: list[ast.AST] = []
    for field in _fields[node.__class__]:
        value = getattr(node, field, None)
        if value.__class__ is list:
            found += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def walk(root: ast.AST) -> list[ast.AST]:
    """As `ast.walk`, without operators and contexts: `root` and all below it, level by level."""
    found = [root]
    for node in found:  # grows meanwhile
        for field in _fields[node.__class__]:
            value = getattr(node, field, None)
            if value.__class__ is list:
                found += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found
