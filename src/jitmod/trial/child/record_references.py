"""Callables by reference: a name that finds them again, in this process or in a world that has another text of them.

A function that sits inside another one has no name to be imported by. It is found through the code of its module, by
its qualified name and its place among the functions of that name, and gets the cells that it had.
"""

from __future__ import annotations

import builtins
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

_Loader = Callable[[str], types.ModuleType]


class NotFound(Exception):
    """No name leads to the object; the message says what it is."""


def reference_of(value: Any) -> tuple[str, str] | None:
    """Module and qualified name under which `value` itself is found, public names of libraries first."""
    module = getattr(value, "__module__", None)
    if not isinstance(module, str):
        return None
    qualname = getattr(value, "__qualname__", None)
    if isinstance(qualname, str) and not _is_private(module) and _at(module, qualname) is value:
        return module, qualname
    public = _public_name(value, module)
    if public is not None:
        return public
    if isinstance(qualname, str) and _at(module, qualname) is value:
        return module, qualname
    held = sys.modules.get(module)
    names = vars(held) if held is not None else {}
    return next(((module, name) for name, known in list(names.items()) if known is value), None)


def resolve(module: str, qualname: str, load: _Loader = importlib.import_module) -> Any:
    """The object that a reference names. Raises ImportError and AttributeError."""
    found: Any = load(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def place_of(function: types.FunctionType) -> tuple[str, str, int, int]:
    """Module, qualified name, place among its namesakes, and number of cells. Raises `NotFound`."""
    module = function.__module__
    code = function.__code__
    namesakes = _namesakes(_module_code(sys.modules.get(module), module), code.co_qualname)
    # The code may hold probes that the loader's does not, so it is known by its place.
    alike = [
        number
        for number, found in enumerate(namesakes)
        if found.co_firstlineno == code.co_firstlineno and found.co_freevars == code.co_freevars
    ]
    if len(alike) != 1:
        raise NotFound(f"the function {module}.{code.co_qualname}, whose code cannot be found again")
    return module, code.co_qualname, alike[0], len(code.co_freevars)


def make_function(place: tuple[str, str, int, int], load: _Loader = importlib.import_module) -> types.FunctionType:
    """The function at `place` with empty cells; `fill` completes it."""
    module, qualname, number, cells = place
    held = load(module)
    for position, code in enumerate(_namesakes(_module_code(held, held.__name__), qualname)):
        if position == number:
            if len(code.co_freevars) != cells:
                break
            empty = tuple(types.CellType() for _ in code.co_freevars)
            return types.FunctionType(code, vars(held), code.co_name, None, empty)
    raise NotFound(f"the function {module}.{qualname} is not what it was when it was recorded")


def state_of(function: types.FunctionType) -> dict[str, Any]:
    """What a function has beside its code. An empty cell stays empty."""
    cells = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            cells[name] = cell.cell_contents
        except ValueError:
            continue
    own = {k: v for k, v in vars(function).items() if k != "__wrapped__"}
    return {"cells": cells, "defaults": function.__defaults__, "kwdefaults": function.__kwdefaults__, "dict": own,
            "name": function.__name__, "qualname": function.__qualname__}  # fmt: skip


def fill(function: types.FunctionType, state: dict[str, Any]) -> None:
    """Give a function made by `make_function` what `state_of` found."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name in state["cells"]:
            cell.cell_contents = state["cells"][name]
    function.__defaults__, function.__kwdefaults__ = state["defaults"], state["kwdefaults"]
    function.__name__, function.__qualname__ = state["name"], state["qualname"]
    vars(function).update(state["dict"])


def _at(module: str, qualname: str) -> Any:
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        if found is None:
            return None
        found = vars(found).get(part) if isinstance(found, types.ModuleType) else getattr(found, part, None)
    return found


def _is_private(module: str) -> bool:
    return any(part.startswith("_") and part != "__main__" for part in module.split("."))


def _public_name(value: Any, module: str) -> tuple[str, str] | None:
    """A public name of the same library; what is under `jax._src` is to be had from `jax`."""
    top = module.partition(".")[0]
    if top == "__main__" or module == builtins.__name__:
        return None
    for name, held in list(sys.modules.items()):
        if name.partition(".")[0] != top or _is_private(name) or not isinstance(held, types.ModuleType):
            continue
        for key, known in list(vars(held).items()):
            if known is value and not key.startswith("_"):
                return name, key
    return None


def _module_code(module: types.ModuleType | None, name: str) -> types.CodeType | None:
    """The compiled module: a world's loader and the recorder's have it, and every loader of source files."""
    loader = getattr(module, "__loader__", None)
    spec = getattr(module, "__spec__", None)
    try:
        code = loader.get_code(spec.name if spec is not None else name)  # type: ignore[union-attr]
    except Exception:  # a module that was made by hand has no loader, or one that knows nothing of it
        return None
    return code if isinstance(code, types.CodeType) else None


def _namesakes(code: types.CodeType | None, qualname: str) -> Iterator[types.CodeType]:
    if code is None:
        return
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            if constant.co_qualname == qualname:
                yield constant
            yield from _namesakes(constant, qualname)
