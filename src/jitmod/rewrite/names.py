"""Names for generated code: free ones, and ones that read well."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from jitmod.source.project import SourceModule

_RESERVED = frozenset(dir(builtins)) | frozenset(keyword.kwlist)


@dataclass(eq=False)
class Namer:
    """Hands out names that are not in use yet."""

    taken: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, module: SourceModule) -> Namer:
        """A namer that avoids every name which the file mentions."""
        document = module.document
        names = {n.id for n in document.of(ast.Name)}
        names |= {n.name for n in document.of(ast.FunctionDef)} | {n.name for n in document.of(ast.AsyncFunctionDef)}
        names |= {n.name for n in document.of(ast.ClassDef)} | {n.arg for n in document.of(ast.arg)}
        aliases = [a for n in document.of(ast.Import) for a in n.names]
        aliases += [a for n in document.of(ast.ImportFrom) for a in n.names]
        names |= {(a.asname or a.name).split(".")[0] for a in aliases}
        return cls(names)

    def copy(self) -> Namer:
        """A namer that knows the same names, for another form of the same code."""
        return Namer(set(self.taken))

    def fresh(self, wish: str, allowed: Iterable[str] = ()) -> str:
        """`wish`, or `wish_2`, `wish_3`, ... where it is taken and not `allowed`; the answer is taken from now on."""
        number = 1
        name = wish
        while (name in self.taken and name not in allowed) or name in _RESERVED:
            number += 1
            name = f"{wish}_{number}"
        self.taken.add(name)
        return name


def plural(name: str) -> str:
    """`loss` → `losses`, `pose` → `poses`, `xs` → `xs_all`."""
    if len(name) == 1 and name != "s":
        return f"all_{name}" if keyword.iskeyword(f"{name}s") else f"{name}s"
    if name.endswith(("ss", "x", "ch", "sh")):
        return f"{name}es"
    if name.endswith("s"):
        return f"all_{name}"
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return f"{name[:-1]}ies"
    return f"{name}s"


def singular(name: str) -> str:
    """`crops` → `crop`; a name that is no plural gets `_item`."""
    bare = name.lower()
    if bare.endswith("ies") and len(bare) > 4:
        return f"{bare[:-3]}y"
    if bare.endswith(("sses", "xes", "ches", "shes")):
        return bare[:-2]
    if bare.endswith("s") and not bare.endswith("ss") and len(bare) > 1:
        return bare[:-1]
    return f"{bare}_item"


def for_expression(expr: ast.expr, models: frozenset[str] = frozenset()) -> str:
    """A name for a value by what computes it: `jnp.argmax(y)` → `argmax`, `y[0]` → `y_0`, `model(x)` → `output`."""
    match expr:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in models:
            return "output"
        case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)):
            pass
        case ast.Subscript(value=value, slice=ast.Constant(value=int(index))):
            return f"{for_expression(value, models)}_{index}"
        case ast.Subscript(value=value):
            inner = for_expression(value, models)
            return inner if inner != "value" else "entry"
        case ast.Name(id=name):
            pass
        case ast.Compare():
            return "condition"
        case _:
            return "value"
    name = name.strip("_")
    is_function = isinstance(expr, ast.Call) and isinstance(expr.func, ast.Name)
    return f"{name}_value" if name in _RESERVED or is_function or not name else name


def is_reserved(name: str) -> bool:
    """Whether a name is a keyword, or one of Python's own."""
    return name in _RESERVED


def snake(text: str) -> str:
    return re.sub(r"\W+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)).lower().strip("_")
