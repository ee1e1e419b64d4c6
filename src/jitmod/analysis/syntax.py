"""Small questions about syntax that the analyses share."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from jitmod.source.nodes import children, walk
from jitmod.source.project import SourceModule
from jitmod.source.scopes import Binder


def names_of_target(target: ast.expr) -> tuple[str, ...] | None:
    """The names of a plain target, or of a flat tuple of them; None for other targets."""
    match target:
        case ast.Name(id=name):
            return (name,)
        case ast.Tuple(elts=elts) if all(isinstance(e, ast.Name) for e in elts):
            return tuple(e.id for e in elts if isinstance(e, ast.Name))
    return None


def target_of(statement: ast.stmt) -> ast.expr:
    """The target of an augmented assignment."""
    assert isinstance(statement, ast.AugAssign)
    return statement.target


def loads(root: ast.AST) -> Iterator[ast.Name]:
    """The names that are read below a node; an augmented assignment reads its target."""
    for node in walk(root):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            yield node.target


def stored(statement: ast.stmt) -> list[str]:
    """The names that a statement binds in its own scope."""
    binder = Binder("", False)
    binder.visit(statement)
    declared = {n for n, found in binder.bindings.items()
                if all(isinstance(b.node, ast.AnnAssign) and b.value is None for b in found)}  # fmt: skip
    return [name for name in binder.bindings if name not in declared]


def calls(root: ast.AST) -> Iterator[ast.Call]:
    """The calls below a node."""
    return (n for n in walk(root) if isinstance(n, ast.Call))


def calls_outside_functions(root: ast.AST) -> Iterator[ast.Call]:
    """The calls below a node that run with it: none inside of functions that are defined there."""
    later = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    todo = [root]
    while todo:
        node = todo.pop(0)
        if isinstance(node, ast.Call):
            yield node
        todo += [child for child in children(node) if not isinstance(child, later)]


def below(root: ast.AST, apart: AbstractSet[ast.AST] = frozenset()) -> Iterator[ast.AST]:
    """`root` and the nodes below it, but for those in `apart` and what is below them."""
    todo = [root]
    while todo:
        node = todo.pop()
        if node not in apart:
            yield node
            todo += reversed(children(node))


def between(node: ast.AST, outer: ast.AST, module: SourceModule) -> Iterator[ast.AST]:
    """The nodes around `node` up to and including `outer`."""
    if node is outer:
        return
    for parent in module.ancestors(node):
        yield parent
        if parent is outer:
            return


def is_simple_comparison(expr: ast.Compare) -> bool:
    """One comparison of values, not of identity or membership."""
    simple = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
    return len(expr.ops) == 1 and isinstance(expr.ops[0], simple)


def unconditional(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement that are evaluated once in every iteration, in order."""
    match statement:
        case ast.Expr(value=value) | ast.Assign(value=value) | ast.AugAssign(value=value):
            yield value
        case ast.AnnAssign(value=ast.expr() as value):
            yield value
        case ast.If(test=test) | ast.Assert(test=test):
            yield test
        case ast.For(iter=iterable):
            yield iterable


def strict_children(expr: ast.expr) -> Iterator[ast.expr]:
    """The parts of an expression that are always evaluated with it."""
    match expr:
        case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return
        case ast.BoolOp(values=[first, *_]):
            yield first
        case ast.IfExp(test=test):
            yield test
        case ast.Compare(left=left, comparators=comparators):
            yield left
            yield comparators[0]
        case ast.Call(func=func, args=args, keywords=keywords):
            if not isinstance(func, ast.Name):
                yield func
            yield from args
            yield from (k.value for k in keywords)
        case _:
            for child in children(expr):
                if isinstance(child, ast.expr):
                    yield child


def first_line(node: ast.stmt) -> int:
    """The line on which a statement begins, decorators included."""
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *[int(d.lineno) for d in decorators]])
