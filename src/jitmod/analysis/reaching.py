"""Reaching definitions: which bindings of a name may give it its value at a place in the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from jitmod.source.nodes import walk
from jitmod.source.project import Function, SourceModule
from jitmod.source.scopes import Binding, Scope

_COMPOUND = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.Try, ast.With, ast.AsyncWith, ast.Match)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def reaching(name: str, use: ast.AST, scope: Scope) -> list[Binding]:
    """The bindings of `name` in `scope` that may reach `use`.

    A use inside a nested function, or one that flow does not explain, is reached by every binding.
    """
    bindings = scope.bindings.get(name, [])
    if len(bindings) <= 1 or scope.module.scope_of(use) is not scope:
        return bindings
    if (name, use) not in scope.reached:
        scope.reached[name, use] = _reaching(bindings, use, scope)
    return scope.reached[name, use]


def _reaching(bindings: list[Binding], use: ast.AST, scope: Scope) -> list[Binding]:
    inside = {binding: _statements(binding, scope.module) for binding in bindings}
    found: list[Binding] = []
    node: ast.AST = use
    for parent in scope.module.ancestors(use):
        block = _block(parent, node)
        if block is not None:
            position = next(i for i, statement in enumerate(block) if statement is node)
            for statement in reversed(block[:position]):
                here = [b for b in bindings if statement in inside[b]]
                found += here
                if here and not isinstance(statement, _COMPOUND):
                    return found
                if here and isinstance(statement, ast.If) and _both_arms(statement, here, inside):
                    return found
        own = _bound_by(parent, node, bindings)
        if own:
            found += [b for b in own if b not in found]
            if not isinstance(parent, ast.If | ast.While | ast.Try | ast.TryStar):
                return found
        if isinstance(parent, _LOOPS) and block is not None:
            targets = [b for b in bindings if b.node is parent and b.how == "item"]
            if block is parent.body and targets:
                return found + targets  # bound anew in every iteration
            found += [b for b in bindings if parent in inside[b] and b not in found]
        if parent is scope.node:
            break
        node = parent
    return (found + [b for b in bindings if b.how == "param"]) or bindings


def reads_of_parameter(function: Function, parameter: str) -> Iterator[ast.Name]:
    """The reads of a parameter before it is bound to anything else."""
    for node in walk(function.node):
        if isinstance(node, ast.Name) and node.id == parameter and isinstance(node.ctx, ast.Load):
            scope = function.module.scope_of(node).find(parameter)
            if scope is function.scope and any(b.how == "param" for b in reaching(parameter, node, scope)):
                yield node


def reads_of_binding(name: str, binding: ast.AST, function: Function) -> Iterator[ast.Name]:
    """The reads of a name that may see what the statement `binding` gave it."""
    for node in walk(function.node):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            scope = function.module.scope_of(node).find(name)
            if scope is not None and any(b.node is binding for b in reaching(name, node, scope)):
                yield node


def _bound_by(parent: ast.AST, node: ast.AST, bindings: list[Binding]) -> list[Binding]:
    """What a compound statement binds before a part of it runs: `with ... as w:`, `case [w]:`, `except E as w:`."""
    before: list[ast.AST] = []
    match parent:
        case ast.With() | ast.AsyncWith() if any(node is s for s in parent.body):
            return [b for b in bindings if b.node is parent]
        case ast.ExceptHandler() if node is not parent.type:
            return [b for b in bindings if b.node is parent]
        case ast.match_case(pattern=pattern) if node is not pattern:
            before = [pattern]
        case ast.If(test=test) | ast.While(test=test) if node is not test:
            before = [test]
        case ast.Try(body=body) | ast.TryStar(body=body) if not any(node is s for s in body):
            before = list(body)
    inside = {n for part in before for n in walk(part)}
    return [b for b in bindings if b.node in inside]


def _both_arms(statement: ast.If, here: list[Binding], inside: dict[Binding, set[ast.AST]]) -> bool:
    arms = (statement.body, statement.orelse)
    return all(any(s in inside[b] and not isinstance(s, _COMPOUND) for b in here for s in arm) for arm in arms)


def _statements(binding: Binding, module: SourceModule) -> set[ast.AST]:
    """The binding's own node and everything around it."""
    return {binding.node, *module.ancestors(binding.node)}


def _block(parent: ast.AST, node: ast.AST) -> list[ast.stmt] | None:
    for name in ("body", "orelse", "finalbody", "handlers"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and any(statement is node for statement in block):
            return block
    return None
