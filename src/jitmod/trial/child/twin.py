"""The old versions of changed functions, compiled where the new ones live: both see the same classes and objects."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from . import sabotage
from .finder import OLD
from .pairs import Pair, binders, find, twin_statements
from .probes import Probes
from .wrap import unseen

_MAKE = "__jitmod_make__"


@dataclass(frozen=True)
class Texts:
    """Both versions of one file, parsed."""

    path: str
    before: ast.Module
    after: ast.Module

    def new_statements(self) -> list[ast.stmt]:
        """The statements of the module that the baseline has not."""
        kept = {ast.dump(statement) for statement in self.before.body}
        return [statement for statement in self.after.body if ast.dump(statement) not in kept]


class _Namespace(dict[str, Any]):
    """Globals of the old functions: what they define themselves, else what the new module has at that moment."""

    def __init__(self, module: Mapping[str, Any]) -> None:
        super().__init__(__name__=module.get("__name__"), __file__=module.get("__file__"))
        self._module = module

    def __missing__(self, name: str) -> Any:
        return self._module[name]


class Twins:
    """Old versions of pairs. `spoil`, where given, passes over everything that their statements compute."""

    def __init__(self, texts: Mapping[str, Texts], probes: Probes, spoil: Callable[[Any], Any] | None = None) -> None:
        self._texts = texts
        self._probes = probes
        self._spoil = spoil
        self._spaces: dict[str, _Namespace] = {}
        self._made: dict[str, Callable[..., Any]] = {}

    def get(self, pair: Pair, module: Mapping[str, Any]) -> Callable[..., Any]:
        """The old version of `pair`, for the new version's module globals."""
        if pair.mark not in self._made:
            space = self._space(pair.path, module)
            made = self._method(pair, space, module) if pair.owner else space[pair.name]
            self._made[pair.mark] = _without(made, self._taken(pair), pair.added) if pair.added else made
        return self._made[pair.mark]

    def _taken(self, pair: Pair) -> int | None:
        """How many arguments the old version takes by position; None where it takes any number."""
        function = find(self._texts[pair.path].before, pair.qualname)
        assert function is not None
        return None if function.args.vararg else len(function.args.posonlyargs) + len(function.args.args)

    def _space(self, path: str, module: Mapping[str, Any]) -> _Namespace:
        if path not in self._spaces:
            space = self._spaces[path] = _Namespace(module)
            space |= {**self._probes.injected(), **(sabotage.injected(self._spoil) if self._spoil else {})}
            texts = self._texts[path]
            self._run(twin_statements(texts.before, texts.after), path, space)
        return self._spaces[path]

    def _method(self, pair: Pair, space: _Namespace, module: Mapping[str, Any]) -> Callable[..., Any]:
        """Compiled inside a class of the same name, for private names, and with the `__class__` that super() reads."""
        function = find(self._texts[pair.path].before, pair.qualname)
        assert function is not None and pair.owner is not None
        bare = _copy(function)
        bare.decorator_list = bare.decorator_list[binders(function) :]
        returned = ast.Return(ast.Name(function.name, ast.Load()))
        make = _copy(ast.parse(f"def {_MAKE}(__class__): pass").body[0])
        make.body = [bare, returned]
        shell = ast.parse(f"class {pair.owner}: pass").body[0]
        assert isinstance(shell, ast.ClassDef)
        shell.body = [make]
        self._run([shell], pair.path, space)
        made = vars(space.pop(pair.owner))[_MAKE](module[pair.owner])
        return made  # type: ignore[no-any-return]

    def _run(self, statements: list[ast.stmt], path: str, space: _Namespace) -> None:
        tree = ast.Module([_copy(statement) for statement in statements], [])
        self._probes.watch_loops(tree, path)
        if self._spoil is not None:
            sabotage.round_whole(tree)
        exec(compile(ast.fix_missing_locations(tree), f"{OLD}{path}>", "exec"), space)


def _without(function: Callable[..., Any], count: int | None, added: Collection[str]) -> Callable[..., Any]:
    """`function`, called with what it knows of a new version's arguments."""

    @functools.wraps(function)
    def old(*args: Any, **kwargs: Any) -> Any:
        return function(*args[:count], **{name: value for name, value in kwargs.items() if name not in added})

    return unseen(old)


def _copy(node: Any) -> Any:
    """A copy of a syntax tree, to be changed."""
    if isinstance(node, ast.AST):
        made = type(node)(**{field: _copy(value) for field, value in ast.iter_fields(node)})
        return ast.copy_location(made, node) if hasattr(node, "lineno") else made
    return [_copy(item) for item in node] if isinstance(node, list) else node
