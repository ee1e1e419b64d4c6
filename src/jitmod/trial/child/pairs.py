"""Functions that both versions of a file have, with another body: the regions of a change."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

Function = ast.FunctionDef
_BINDERS = {"property", "staticmethod", "classmethod", "cached_property", "setter", "getter", "deleter", "overload"}
_BUILDERS = {"__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__", "__getattr__",
             "__getattribute__", "__setattr__", "__hash__", "__eq__", "__repr__", "__del__"}  # fmt: skip
_DEFINING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)


@dataclass(frozen=True)
class Pair:
    """A function or method of the file at `path`, by its qualified name.

    `added` are parameters, with defaults, that only the new version has.
    """

    path: str
    qualname: str
    added: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        return f"{self.path}:{self.qualname}"

    @property
    def owner(self) -> str | None:
        return self.qualname.rpartition(".")[0] or None

    @property
    def name(self) -> str:
        return self.qualname.rpartition(".")[2]


def changed_pairs(before: ast.Module, after: ast.Module, path: str) -> tuple[Pair, ...]:
    """The pairs of a changed file: functions that take the same, or more that has defaults.

    Generators and coroutines are left out: their bodies run when others read them.
    """
    old, new = dict(_functions(before)), dict(_functions(after))
    return tuple(
        Pair(path, name, _added(function, new[name]) or ())
        for name, function in old.items()
        if name in new
        and ast.dump(function) != ast.dump(new[name])
        and _added(function, new[name]) is not None
        and binders(function) == binders(new[name])
        and not any(_yields(one) for one in (function, new[name]))
        and name.rpartition(".")[2] not in _BUILDERS
    )


def find(tree: ast.Module, qualname: str) -> Function | None:
    return dict(_functions(tree)).get(qualname)


def binders(function: Function) -> int:
    """How many of the first decorators bind the function to its class; what comes below them is callable."""
    count = 0
    for decorator in function.decorator_list:
        name = decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")
        if name not in _BINDERS:
            break
        count += 1
    return count


def twin_statements(before: ast.Module, after: ast.Module) -> list[ast.stmt]:
    """What the old module defines in another way than the new one: changed definitions and all that builds on them.

    Classes stay the new module's, because there is one set of instances; their methods are pairs of their own. Those
    that the new module has no more are the old functions' alone.
    """
    classes = {node.name for node in ast.walk(after) if isinstance(node, ast.ClassDef)}
    kept = Counter(ast.dump(statement) for statement in after.body)
    own: list[bool] = []
    names: set[str] = set()
    for statement in before.body:
        text = ast.dump(statement)
        kept[text] -= 1
        own.append(kept[text] < 0)
        if own[-1]:
            names |= _bound(statement)
    grown = True
    while grown:
        grown = False
        for number, statement in enumerate(before.body):
            if not own[number] and _mentioned(statement) & names:
                own[number] = grown = True
                names |= _bound(statement)
    return [s for s, changed in zip(before.body, own, strict=True) if changed and _defines(s, classes)]


def _defines(statement: ast.stmt, kept: Collection[str]) -> bool:
    """Does it do nothing but define names, in whichever branch? `kept` are the classes that stay the new module's."""
    match statement:
        case ast.ClassDef(name=name):
            return name not in kept
        case ast.If(test=test) if "__name__" in _mentioned(test):
            return False  # a script's main part
        case ast.If() | ast.Try() | ast.TryStar() | ast.With():
            return all(_defines(inner, kept) for inner in _inside(statement))
    return isinstance(statement, (*_DEFINING, ast.Pass, ast.Raise))


def _inside(statement: ast.stmt) -> Iterator[ast.stmt]:
    """The statements of the blocks of a compound one."""
    for name in ("body", "orelse", "finalbody"):
        yield from getattr(statement, name, ())
    for handler in getattr(statement, "handlers", ()):
        yield from handler.body


def keeps_classes(before: ast.Module, after: ast.Module, pairs: Collection[Pair]) -> bool:
    """Do objects of the new classes serve the old functions? Methods may be added, and pairs may change."""
    new = {node.name: node for node in after.body if isinstance(node, ast.ClassDef)}
    return all(
        _keeps(node, new[node.name], {pair.name for pair in pairs if pair.owner == node.name})
        for node in before.body
        if isinstance(node, ast.ClassDef) and node.name in new
    )


def _keeps(old: ast.ClassDef, new: ast.ClassDef, changed: set[str]) -> bool:
    def head(node: ast.ClassDef) -> list[str]:
        return [ast.dump(part) for part in (*node.bases, *node.keywords, *node.decorator_list)]

    members, left = Counter(map(ast.dump, new.body)), Counter(map(ast.dump, old.body))
    gone = [one for one in old.body if ast.dump(one) not in members and getattr(one, "name", "") not in changed]
    added = [one for one in new.body if ast.dump(one) not in left and not isinstance(one, Function)]
    docstrings = [one for one in (*gone, *added) if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)]
    return head(old) == head(new) and len(docstrings) == len(gone) + len(added)


def constants(function: ast.AST, below: int) -> list[int]:
    """Integers that may be the length of a block: operands of `%` first, then any other constant."""
    first: list[int] = []
    later: list[int] = []
    for node in ast.walk(function):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.right, ast.Constant):
            first.append(node.right.value)  # type: ignore[arg-type]
        elif isinstance(node, ast.Constant):
            later.append(node.value)  # type: ignore[arg-type]
    return [n for n in dict.fromkeys([*first, *later]) if type(n) is int and 2 <= n < below]


def _functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Functions of the module and methods of its classes; a name that is defined twice says nothing."""
    found: list[tuple[str, Function]] = []
    for node in tree.body:
        if isinstance(node, Function):
            found.append((node.name, node))
        elif isinstance(node, ast.ClassDef):
            found += [(f"{node.name}.{inner.name}", inner) for inner in node.body if isinstance(inner, Function)]
    count = Counter(name for name, _ in found)
    return ((name, function) for name, function in found if count[name] == 1)


def _added(old: Function, new: Function) -> tuple[str, ...] | None:
    """The parameters that only the new version has; None where calls of the old one mean something else there."""
    a, b = old.args, new.args
    first, second = ([one.arg for one in (*x.posonlyargs, *x.args)] for x in (a, b))
    more = second[len(first) :]
    defaults = {one.arg: default for one, default in zip(b.kwonlyargs, b.kw_defaults, strict=True)}
    named = [one.arg for one in a.kwonlyargs]
    free = [name for name in defaults if name not in named]
    same = (
        first == second[: len(first)]
        and len(a.posonlyargs) == min(len(b.posonlyargs), len(first))
        and set(named) <= set(defaults)
        and [x and x.arg for x in (a.vararg, a.kwarg)] == [x and x.arg for x in (b.vararg, b.kwarg)]
    )
    clear = len(more) <= len(b.defaults) and all(defaults[name] is not None for name in free)
    taken = (a.vararg is not None and more) or (a.kwarg is not None and (more or free))
    return (*more, *free) if same and clear and not taken else None


def _yields(function: Function) -> bool:
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))
    return False


def bound_names(tree: ast.Module) -> set[str]:
    """Whatever the statements of a module bind outside of its functions."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.Import() | ast.ImportFrom():
                found |= _bound(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))
    return found


def _bound(statement: ast.stmt) -> set[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return {name}
        case ast.If() | ast.Try() | ast.TryStar() | ast.With():
            return set().union(*map(_bound, _inside(statement)))
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            return {(alias.asname or alias.name).partition(".")[0] for alias in aliases}
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
            return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return set()


def _mentioned(statement: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
