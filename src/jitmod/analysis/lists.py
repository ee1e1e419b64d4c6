"""Facts that hold only for a while: what a list holds after it was changed, and which names keep their kind."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jitmod.analysis import library
from jitmod.analysis.values import UNKNOWN, Array, Kind, Range, Record, Sequence, item_of, join
from jitmod.source.nodes import walk
from jitmod.source.project import SourceModule
from jitmod.source.scopes import Binding, Scope

if TYPE_CHECKING:
    from jitmod.analysis.infer import Inference


def as_changed(kind: Sequence | Record, name: str, scope: Scope, infer: Inference) -> Kind:
    """A list that its scope changes: what is appended joins in, length and likeness are forgotten."""
    item, changed = item_of(kind), False
    for parent in _changes(name, scope):
        match parent:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=base), attr=attr), args=args) if base == name:
                if attr == "append" and len(args) == 1:
                    added = infer.kind(args[0], scope.module)
                    empty = not changed and isinstance(kind, Sequence) and kind.length in (0, "=0")
                    item, changed = added if empty else join(item, added), True
                elif attr in library.MUTATING_METHODS:
                    item, changed = UNKNOWN, True
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=base))], value=value) if base == name:
                item, changed = join(item, infer.kind(value, scope.module)), True
            case ast.Delete(targets=targets) if any(getattr(t, "value", None) is not None for t in targets):
                roots = [t.value for t in targets if isinstance(t, ast.Subscript)]
                changed = changed or any(isinstance(r, ast.Name) and r.id == name for r in roots)
            case ast.Subscript(value=ast.Name(id=base), ctx=ast.Store()) if base == name:
                plain = isinstance(scope.module.parents[parent], ast.Assign)
                item, changed = item if plain else UNKNOWN, True
            case ast.AugAssign(target=ast.Name(id=base)) if base == name:
                item, changed = UNKNOWN, True
    uses = scope.mentions.get(name, ())
    shared = isinstance(kind, Sequence) and any(_is_handed_on(n, scope.module, infer) for n in uses)
    return Sequence(item) if changed or shared else kind


def _changes(name: str, scope: Scope) -> Iterator[ast.AST]:
    """The nodes of a scope that change a container of that name."""
    parents = scope.module.parents
    for mention in scope.mentions.get(name, ()):
        match parents[mention]:
            case ast.AugAssign() as parent if parent.target is mention:
                yield parent
            case ast.Attribute() as parent if isinstance(parents[parent], ast.Call):
                yield parents[parent]
            case ast.Subscript(ctx=ast.Store()) as parent if parent.value is mention:
                if isinstance(parents[parent], ast.Assign):
                    yield parents[parent]
                yield parent
            case ast.Subscript(ctx=ast.Del()) as parent if parent.value is mention:
                yield parents[parent]


def _is_handed_on(node: ast.Name, module: SourceModule, infer: Inference) -> bool:
    """Whether a list gets another name here, or goes to a function of the project, which may change it."""
    match module.parents[node]:
        case ast.Assign() | ast.AnnAssign() | ast.NamedExpr() if isinstance(node.ctx, ast.Load):
            return True
        case ast.Call(func=func) if func is not node:
            called = infer.dotted(func, module)
            return called is None or library.role(called) is library.Role.UNKNOWN
    return False


def is_alike(elt: ast.expr, generator: ast.comprehension, module: SourceModule, infer: Inference) -> bool:
    """Whether the element of a comprehension has one shape and dtype whatever the item is."""
    counts = isinstance(infer.kind(generator.iter, module), Range)
    for node in walk(elt):
        match node:
            case ast.Call():
                name = infer.dotted(node.func, module)
                if name is None or library.role(name) is not library.Role.PURE:
                    return False
                shaped = not name.startswith("jax.random.") or ("fold" not in name and "ey" not in name)
                if counts and shaped and any(isinstance(a, ast.Name) for a in node.args):
                    return False  # the position may be a shape
            case ast.Subscript(value=value) if not isinstance(infer.kind(value, module), Array):
                return False
            case ast.IfExp() | ast.BoolOp() | ast.Lambda() | ast.ListComp() | ast.Starred() | ast.NamedExpr():
                return False
    return True


def keeps_kind(binding: Binding, module: SourceModule, infer: Inference) -> bool:
    """`model = eqx.tree_at(where, model, new)`: the name stays what it was."""
    match binding.value:
        case ast.Call(func=func, args=args):
            name = infer.dotted(func, module)
            position = 1 if name == "equinox.tree_at" else 0
            keeps = ("equinox.tree_at", "equinox.nn.inference_mode", "equinox.tree_inference",
                     "equinox.apply_updates")  # fmt: skip
            same = len(args) > position and getattr(args[position], "id", None) == binding.name
            return name in keeps and same
    return False
