"""Liveness: which names may be read after a statement before they are bound again.

A backward pass over the statements of one function, structured as Python is. What an exception may skip is not taken
for bound, and a `with` may swallow one. Names that a nested function reads are live everywhere: nobody knows when it
is called.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from jitmod.source.nodes import COMPREHENSIONS, children, walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_Names = frozenset[str]
_NONE: _Names = frozenset()


def live_after(statement: ast.stmt, function: ast.FunctionDef | ast.AsyncFunctionDef) -> _Names:
    """The names that may be read after `statement`, a statement of `function` itself."""
    always = frozenset(_always_live(function))
    pass_ = _Pass(statement)
    pass_.block(function.body, always, _Exits(always, always))
    return pass_.found | always


def _always_live(function: ast.AST) -> Iterator[str]:
    for node in own_nodes(function):
        if isinstance(node, ast.Global | ast.Nonlocal):
            yield from node.names
        elif isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            yield from (n.id for part in _bodies(node) for n in walk(part) if isinstance(n, ast.Name))
            yield from (n for part in walk(node) if isinstance(part, ast.Nonlocal) for n in part.names)


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function's body; functions and classes inside of it come, but not what is in them."""
    todo = children(function)
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            todo += [n for n in children(node) if n not in _bodies(node)]
        else:
            todo += children(node)


def _bodies(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.Lambda):
        return [node.body]
    return list(node.body) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else []


def _reads(node: ast.AST | None, bound: _Names = _NONE) -> _Names:
    """The names that evaluating an expression reads, those that comprehensions bind inside of it aside."""
    match node:
        case None:
            return _NONE
        case ast.Name(id=name, ctx=ast.Load()):
            return frozenset({name}) - bound
        case ast.Lambda(args=args, body=body):
            own = frozenset(a.arg for a in walk(args) if isinstance(a, ast.arg))
            defaults = [d for d in [*args.defaults, *args.kw_defaults] if d is not None]
            return _reads(body, bound | own).union(*(_reads(d, bound) for d in defaults))
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            found = _reads(node.generators[0].iter, bound)
            for index, generator in enumerate(node.generators):
                found |= _reads(generator.iter, bound) if index else _NONE
                bound |= _stores(generator.target)
                found = found.union(*(_reads(c, bound) for c in generator.ifs))
            parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            return found.union(*(_reads(p, bound) for p in parts))
    return _NONE.union(*(_reads(child, bound) for child in children(node)))


def _stores(node: ast.AST) -> _Names:
    return frozenset(n.id for n in walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))


@dataclass(frozen=True)
class _Exits:
    """What is live where control goes other than on: at the function's end, where an error goes, around a loop."""

    returned: _Names
    raised: _Names
    broken: _Names = _NONE
    continued: _Names = _NONE


@dataclass(eq=False)
class _Pass:
    """One backward pass; `found` gathers what is live after the statement in question."""

    wanted: ast.stmt
    found: _Names = field(default=_NONE)

    def block(self, statements: list[ast.stmt], after: _Names, exits: _Exits) -> _Names:
        for statement in reversed(statements):
            if statement is self.wanted:
                self.found |= after
            after = self._statement(statement, after, exits) | exits.raised
        return after

    def _statement(self, s: ast.stmt, after: _Names, exits: _Exits) -> _Names:
        match s:
            case ast.Assign(targets=targets, value=value):
                return self._assigned(targets, after) | _reads(value)
            case ast.AnnAssign(target=target, value=value):
                return (self._assigned([target], after) if value is not None else after) | _reads(value)
            case ast.AugAssign(target=target, value=value):
                own = frozenset({target.id}) if isinstance(target, ast.Name) else _reads(target)
                return after | own | _reads(value)
            case ast.Delete(targets=targets):  # fails where the name is unbound, so it reads it
                return self._assigned(targets, after).union(*(_stores(t) for t in targets))
            case ast.If(test=test, body=body, orelse=orelse):
                arms = self.block(body, after, exits) | self.block(orelse, after, exits)
                return (arms - _walrus(test)) | _reads(test)
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(s, after, exits)
            case ast.Try() | ast.TryStar():
                return self._try(s, after, exits)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                inner = self.block(body, after, replace(exits, raised=exits.raised | after))
                for item in reversed(items):
                    inner = self._assigned([item.optional_vars] if item.optional_vars else [], inner)
                    inner |= _reads(item.context_expr)
                return inner
            case ast.Match(subject=subject, cases=cases):
                found = after
                for case in cases:
                    captured = frozenset(n.name for n in walk(case.pattern)
                                         if isinstance(n, ast.MatchAs | ast.MatchStar) and n.name)  # fmt: skip
                    found |= (self.block(case.body, after, exits) | _reads(case.guard)) - captured
                    found |= _reads(case.pattern)
                return found | _reads(subject)
            case ast.Return(value=value):
                return exits.returned | _reads(value)
            case ast.Raise():
                return exits.raised | _reads(s.exc) | _reads(s.cause)
            case ast.Break():
                return exits.broken
            case ast.Continue():
                return exits.continued
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                a = s.args
                notes = [x.annotation for x in walk(a) if isinstance(x, ast.arg) and x.annotation is not None]
                given = [*a.defaults, *[d for d in a.kw_defaults if d is not None], *s.decorator_list, *notes]
                given += [s.returns] if s.returns is not None else []
                return (after - {s.name}).union(*(_reads(d) for d in given))
            case ast.ClassDef():
                parts = [*s.bases, *[k.value for k in s.keywords], *s.decorator_list]
                return (after - {s.name}).union(*(_reads(p) for p in parts))
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                return after - {(n.asname or n.name).partition(".")[0] for n in names}
        bound = _walrus(s.test) if isinstance(s, ast.Assert) else _walrus(s)
        return (after - bound) | _reads(s)

    def _assigned(self, targets: list[ast.expr], after: _Names) -> _Names:
        killed = _NONE.union(*(_stores(t) for t in targets))
        return (after - killed).union(*(_reads(t) for t in targets))

    def _loop(self, s: ast.For | ast.AsyncFor | ast.While, after: _Names, exits: _Exits) -> _Names:
        head = _reads(s.test) if isinstance(s, ast.While) else _NONE
        targets = _NONE if isinstance(s, ast.While) else _stores(s.target)
        target_reads = _NONE if isinstance(s, ast.While) else _reads(s.target)
        ended = self.block(s.orelse, after, exits)
        while True:
            body = self.block(s.body, head, replace(exits, broken=after, continued=head))
            new = head | ended | (body - targets) | target_reads
            if new == head:
                return head if isinstance(s, ast.While) else head | _reads(s.iter)
            head = new

    def _try(self, s: ast.Try | ast.TryStar, after: _Names, exits: _Exits) -> _Names:
        def through(names: _Names) -> _Names:
            return self.block(s.finalbody, names, exits)

        outer = _Exits(through(exits.returned), through(exits.raised), through(exits.broken), through(exits.continued))
        end = through(after)
        caught = outer.raised
        for handler in s.handlers:
            inside = self.block(handler.body, end, outer)
            caught |= (inside - ({handler.name} if handler.name else set())) | _reads(handler.type)
        normal = self.block(s.orelse, end, outer)
        return self.block(s.body, normal, replace(outer, raised=caught))


def _walrus(node: ast.AST) -> _Names:
    """Names that an expression binds in every case; inside of `and`, `or`, `if` and comprehensions it may not."""
    if isinstance(node, (ast.BoolOp, ast.IfExp, ast.Lambda, ast.Compare, *COMPREHENSIONS)):
        return _NONE
    own = frozenset({node.target.id}) if isinstance(node, ast.NamedExpr) else _NONE
    return own.union(*(_walrus(child) for child in children(node)))
