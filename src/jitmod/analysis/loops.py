"""Loops: where they are, what they iterate over, and which names they bind for each item."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from jitmod.analysis.infer import Inference
from jitmod.analysis.reaching import reaching
from jitmod.analysis.trackers import wrapped
from jitmod.analysis.values import (
    Array,
    Constant,
    Instance,
    Kind,
    Mapping,
    NdArray,
    Number,
    Range,
    Record,
    Sequence,
    item_of,
    length_of,
    unpacked,
)
from jitmod.analysis.values import Iterator as LazyIterator
from jitmod.source.nodes import walk
from jitmod.source.project import Function, SourceModule

LoopNode = ast.For | ast.AsyncFor | ast.While | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
COLLECTING = ast.ListComp | ast.DictComp  # comprehensions that can be planned
LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Unplannable(Exception):
    """Why a loop cannot be planned: a reason code, the node that decides, and a sentence a user can act on."""

    reason: str
    node: ast.AST
    message: str


@dataclass(frozen=True)
class Counter:
    """`while name < stop:` with `name += 1` at the end of its body: it runs for every name of `range(name, stop)`."""

    name: ast.Name
    stop: ast.expr


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop and where it stands. `statement` is the statement that is, or holds, the loop."""

    module: SourceModule
    node: LoopNode
    statement: ast.stmt
    function: Function | None

    @cached_property
    def counter(self) -> Counter | None:
        """How a while loop counts its iterations, where it does nothing else."""
        return _counter(self.node) if isinstance(self.node, ast.While) else None

    @property
    def symbol(self) -> str:
        return self.function.name if self.function else "<module>"

    @property
    def body(self) -> list[ast.stmt]:
        """The statements of one iteration; each part of a comprehension is an expression statement."""
        if isinstance(self.node, ast.For | ast.AsyncFor | ast.While):
            return self.node.body if self.counter is None else self.node.body[:-1]
        parts = [self.node.key, self.node.value] if isinstance(self.node, ast.DictComp) else [self.node.elt]
        return [ast.copy_location(ast.Expr(part), part) for part in parts]


@dataclass(frozen=True, eq=False)
class Stream:
    """One value per item: `name` takes the items of `source`, or the position where `source` is None.

    `kind` is the container's kind; `path` leads to the name where an item is unpacked; `limits`: the loop may end with
    it; `from_zero`: a position that counts from 0; `tracked`: a progress bar shows its items; `of_values`: the items
    are the values of `source`, a dict.
    """

    name: str
    source: ast.expr | None
    kind: Kind
    path: tuple[int, ...] = ()
    limits: bool = True
    from_zero: bool = False
    tracked: bool = False
    of_values: bool = False


@dataclass(frozen=True)
class Trip:
    """How often a loop's body runs: `count` where it is known; `is_stable`: as often in every call."""

    count: int | None
    may_be_zero: bool
    is_stable: bool


def trip_of(found: tuple[Stream, ...]) -> Trip:
    """The trip count of a loop over `found`: what the shortest of them says."""
    lengths = [length_of(s.kind) for s in found if s.limits] or [length_of(s.kind) for s in found]
    known = [n for n in lengths if isinstance(n, int)]
    count = min(known) if known and len(known) == len(lengths) else None
    proved = [*known, *(int(n[1:]) for n in lengths if isinstance(n, str) and n.startswith("="))]
    never_empty = len(proved) == len(lengths) and bool(lengths) and min(proved) > 0
    return Trip(count, not never_empty, bool(lengths) and all(n is not None for n in lengths))


def loops_in(module: SourceModule) -> Iterator[Loop]:
    """Every loop of a file, in source order."""
    found = [node for node in module.document.of(*LOOPS) if isinstance(node, LOOPS)]
    for node in sorted(found, key=lambda n: (n.lineno, n.col_offset)):
        statement: ast.AST = node
        for parent in module.ancestors(node):
            if isinstance(statement, ast.stmt):
                break
            statement = parent
        assert isinstance(statement, ast.stmt)
        yield Loop(module, node, statement, module.functions.get(module.scope_of(node).node))


def header(loop: Loop) -> tuple[ast.expr, ast.expr]:
    """Target and iterable of a loop over items: of several in a comprehension, the innermost.

    Raises `Unplannable` where it is none.
    """
    node = loop.node
    match node:
        case ast.For(orelse=[first, *_]):
            raise Unplannable("loop-else", first, "the loop has an else branch: move it behind the loop")
        case ast.For():
            return node.target, node.iter
        case ast.AsyncFor():
            raise Unplannable("lazy-iterator", node, "an async iterator gives its items one by one")
        case ast.While() if loop.counter is not None:
            name, stop = loop.counter.name, loop.counter.stop
            return name, ast.copy_location(ast.Call(ast.Name("range", ast.Load()), [name, stop], []), node.test)
        case ast.While():
            raise Unplannable("unknown-iterable", node, "a while loop has no items that could be batched")
        case ast.GeneratorExp():
            over = ast.unparse(node.generators[0].iter)
            message = f"the generator over `{over}` gives its items one by one; use a list"
            raise Unplannable("lazy-iterator", node, message)
        case ast.SetComp():
            raise Unplannable("unknown-iterable", node, "a set comprehension is not batched so far")
    generator = node.generators[-1]  # for each item of the others, it is a loop of its own
    if any(g.is_async for g in node.generators):
        raise Unplannable("lazy-iterator", node, "an async iterator gives its items one by one")
    if generator.ifs:
        raise Unplannable("guarded-work", generator.ifs[0], "the `if` skips items; select the items before the call")
    return generator.target, generator.iter


def streams(loop: Loop, infer: Inference) -> tuple[Stream, ...]:
    """What each item brings. Raises `Unplannable`."""
    target, iterable = header(loop)
    if loop.counter is not None:
        return (_counted(loop.counter, loop, infer),)
    return tuple(_streams(target, iterable, loop.module, infer))


def _counter(loop: ast.While) -> Counter | None:
    """The counter of a while loop whose last statement, and no other, changes it."""
    match loop.test, loop.body[-1], loop.orelse:
        case (
            ast.Compare(left=ast.Name() as name, ops=[ast.Lt()], comparators=[stop]),
            ast.AugAssign(target=ast.Name(id=counted), op=ast.Add(), value=ast.Constant(value=1)),
            [],
        ) if counted == name.id:
            inner = [n for s in loop.body[:-1] for n in walk(s)]
            bound = {n.id for n in inner if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
            fixed = isinstance(stop, ast.Constant) or (isinstance(stop, ast.Name) and stop.id not in bound | {counted})
            skips = any(isinstance(n, ast.Continue | ast.Break) for n in inner)
            return Counter(name, stop) if fixed and not skips and counted not in bound else None
    return None


def _counted(counter: Counter, loop: Loop, infer: Inference) -> Stream:
    """The positions of a while loop that counts. Raises `Unplannable` where its bounds may be no integers."""
    scope = infer.scope_binding(counter.name.id, counter.name, loop.module)
    inside = {n for s in loop.node.body for n in walk(s)} if isinstance(loop.node, ast.While) else set()
    before = [b for b in reaching(counter.name.id, counter.name, scope) if b.node not in inside] if scope else []
    starts = [b.value.value for b in before if isinstance(b.value, ast.Constant) and type(b.value.value) is int]
    if len(starts) != 1 or len(before) != 1 or infer.kind(counter.stop, loop.module) != Number("int"):
        what = f"it cannot be told that `{counter.name.id}` counts in integers up to `{ast.unparse(counter.stop)}`"
        raise Unplannable("unknown-iterable", counter.stop, what)
    return Stream(counter.name.id, None, Range(), from_zero=starts[0] == 0)


def _streams(target: ast.expr, iterable: ast.expr, module: SourceModule, infer: Inference) -> Iterator[Stream]:
    match iterable:
        case ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]) if _builtin(iterable, module, infer):
            if not (isinstance(target, ast.Tuple) and len(target.elts) == 2 and isinstance(target.elts[0], ast.Name)):
                raise Unplannable("unknown-iterable", target, "write the target of enumerate as `i, x`")
            yield from _streams(target.elts[1], inner, module, infer)
            plain = len(iterable.args) == 1 and not iterable.keywords
            yield Stream(target.elts[0].id, None, Range(), limits=False, from_zero=plain)
            return
        case ast.Call(func=ast.Name(id="zip"), args=parts) if _builtin(iterable, module, infer):
            if not (isinstance(target, ast.Tuple) and len(target.elts) == len(parts)):
                raise Unplannable("unknown-iterable", target, "write the target of zip as one name for each argument")
            for element, part in zip(target.elts, parts, strict=True):
                yield from _streams(element, part, module, infer)
            return
        case ast.Call(func=ast.Name(id="range"), args=args) if _builtin(iterable, module, infer):
            if not isinstance(target, ast.Name):
                raise Unplannable("unknown-iterable", target, "the target of range is not a name")
            match args:
                case [ast.Call(func=ast.Name(id="len"), args=[ast.expr() as counted]) as length] if _builtin(
                    length, module, infer
                ):
                    kind = infer.kind(counted, module)
                    yield Stream(target.id, None, Range(length_of(kind)), limits=False, from_zero=True)
                    return
                case [length] if (array := rows_of(length)) is not None:
                    kind = infer.kind(array, module)
                    if isinstance(kind, Array | NdArray):
                        yield Stream(target.id, None, Range(length_of(kind)), limits=False, from_zero=True)
                        return
            yield Stream(target.id, None, Range(_range_length(args)), from_zero=_counts_from_zero(args))
            return
    tracked = wrapped(iterable, module, infer)
    if tracked is not None:
        yield from (replace(stream, tracked=True) for stream in _streams(target, tracked, module, infer))
        return
    kind = _as_ensemble(infer.kind(iterable, module), infer)
    written = ast.unparse(iterable)
    if isinstance(iterable, ast.Attribute) and infer.classes.is_property(iterable, module):
        raise Unplannable("unknown-iterable", iterable, f"`{written}` is a property; give its value a name first")
    if isinstance(kind, LazyIterator):
        raise Unplannable("lazy-iterator", iterable, f"`{written}` is used up item by item; make it a list to batch it")
    if isinstance(kind, Instance | Number | Constant | Range):
        raise Unplannable("unknown-iterable", iterable, f"`{written}` is not an array, list or tuple of arrays")
    for name, path in names_of(target):
        yield Stream(name.id, iterable, kind, path)


def _as_ensemble(kind: Kind, infer: Inference) -> Kind:
    """Modules of one class that are written out one by one are a list as any other."""
    match kind:
        case Record(items=(Instance(cls) as first, *others)) if all(other == first for other in others):
            return Sequence(first, len(kind.items)) if infer.classes.is_module(cls) else kind
    return kind


def _range_length(args: list[ast.expr]) -> int | None:
    numbers = [a.value for a in args if isinstance(a, ast.Constant) and type(a.value) is int]
    valid = len(numbers) == len(args) and 1 <= len(args) <= 3 and (len(args) < 3 or numbers[2])
    return len(range(*numbers)) if valid else None


def _counts_from_zero(args: list[ast.expr]) -> bool:
    """`range(n)` or `range(0, n)`."""
    first = args[0] if len(args) == 2 else None
    return len(args) == 1 or (isinstance(first, ast.Constant) and first.value == 0)


def _builtin(call: ast.Call, module: SourceModule, infer: Inference) -> bool:
    return isinstance(call.func, ast.Name) and infer.scope_binding(call.func.id, call, module) is None


def names_of(target: ast.expr, path: tuple[int, ...] = ()) -> Iterator[tuple[ast.Name, tuple[int, ...]]]:
    """The names of a target, each with its way into nested tuples. Raises `Unplannable` for other targets."""
    match target:
        case ast.Name():
            yield target, path
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            for index, element in enumerate(elts):
                yield from names_of(element, (*path, index))
        case _:
            raise Unplannable("unknown-iterable", target, f"`{ast.unparse(target)}` is no plain name")


def is_path(expr: ast.expr) -> bool:
    """`a`, `a.b`, `a.b.c`, and a view of a dict there: may be evaluated twice."""
    if is_view(expr) and isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute):
        expr = expr.func.value
    while isinstance(expr, ast.Attribute):
        expr = expr.value
    return isinstance(expr, ast.Name)


def is_range(expr: ast.expr) -> bool:
    """`range(n)`: an array of positions does as well, and it may be evaluated twice."""
    return isinstance(expr, ast.Call) and isinstance(expr.func, ast.Name) and expr.func.id == "range"


def rows_of(expr: ast.expr) -> ast.expr | None:
    """The array whose rows `xs.shape[0]` counts."""
    match expr:
        case ast.Subscript(value=ast.Attribute(value=array, attr="shape"), slice=ast.Constant(value=0)):
            return array
    return None


def is_view(expr: ast.expr) -> bool:
    """`d.values()`, `d.items()`: what a jit takes for one static object has to be made a list first."""
    match expr:
        case ast.Call(func=ast.Attribute(attr="values" | "items" | "keys"), args=[], keywords=[]):
            return True
    return False


def check_stackable(stream: Stream, infer: Inference) -> None:
    """Raise `Unplannable` where the items of a stream cannot be one array, or one Module, with a leading axis."""
    assert stream.source is not None
    item = item_of(stream.kind)
    written = ast.unparse(stream.source)
    if stream.path:
        part = unpacked(item, stream.path)
        if not (isinstance(stream.kind, Sequence) and isinstance(item, Record) and isinstance(part, Array | NdArray)):
            message = f"it cannot be told that the items of `{written}` are tuples with an array for `{stream.name}`"
            raise Unplannable("ragged-items", stream.source, message)
        return
    match stream.kind, item:
        case Sequence(), Instance(cls) if infer.classes.is_module(cls):
            return
        case _, Instance():
            message = f"`{written}` holds objects whose fields may differ, so they are not stacked"
            raise Unplannable("static-leaves-differ", stream.source, message)
        case (Record(), _):
            raise Unplannable("ragged-items", stream.source, f"the items of `{written}` are written out one by one")
        case (Mapping(), _):
            raise Unplannable("unknown-iterable", stream.source, f"`{written}` is a dict: iterate over its values")
        case (_, Number() | Constant()):
            message = f"the items of `{written}` are Python values; make them one array before the loop"
            raise Unplannable("index-as-python", stream.source, message)
        case (Sequence(), Record() | Sequence() | Mapping()):
            message = f"the items of `{written}` are tuples or containers; unpack them in the loop's target"
            raise Unplannable("ragged-items", stream.source, message)
        case (Array() | NdArray(), _) | (Sequence(), Array() | NdArray()):
            return
    message = f"it cannot be told that `{written}` gives arrays; annotate it (jax.Array, list[jax.Array])"
    raise Unplannable("unknown-iterable", stream.source, message)
