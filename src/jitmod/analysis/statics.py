"""The static arguments of compiled functions: which parameters, and where the options say so."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from jitmod.analysis.boundaries import jit_of
from jitmod.analysis.infer import Inference
from jitmod.analysis.values import Routine
from jitmod.source.nodes import walk
from jitmod.source.project import Function, SourceModule


@dataclass(frozen=True, eq=False)
class StaticOptions:
    """`static_argnums=` and `static_argnames=` of one `jax.jit`: `holder` is the call with the keywords."""

    module: SourceModule
    function: Function
    holder: ast.Call
    keywords: tuple[ast.keyword, ...]

    def names(self) -> dict[str, ast.keyword]:
        """The static parameters, each with the keyword that makes it so."""
        a = self.function.node.args
        positional = [p.arg for p in (*a.posonlyargs, *a.args)]
        found: dict[str, ast.keyword] = {}
        for keyword in self.keywords:
            for entry in entries(keyword):
                if isinstance(entry, int) and -len(positional) <= entry < len(positional):
                    found[positional[entry]] = keyword
                elif isinstance(entry, str):
                    found[entry] = keyword
        return found

    def called(self, infer: Inference) -> tuple[str, list[tuple[SourceModule, ast.Call]]]:
        """The name by which the compiled function is called, and its calls in the project."""
        if self.holder in self.function.decorators:
            return self.function.name.rpartition(".")[2], infer.call_sites(self.function)
        match self.module.parents[self.holder]:
            case ast.Assign(targets=[ast.Name(id=name)]):
                sites = infer.project.calls.get(name, ())
                return name, [(m, c) for m, c in sites if infer.target(infer.kind(c.func, m)) is self.function]
        return "", []

    def index_of(self, name: str) -> int:
        a = self.function.node.args
        return [p.arg for p in (*a.posonlyargs, *a.args)].index(name)


def entries(keyword: ast.keyword) -> list[int | str]:
    """The numbers or names that the keyword lists; nothing where it is no literal."""
    try:
        value = ast.literal_eval(keyword.value)
    except ValueError:
        return []
    several = list(value) if isinstance(value, tuple | list) else [value]
    return [v for v in several if isinstance(v, int | str)]


def static_options(module: SourceModule, infer: Inference) -> Iterator[StaticOptions]:
    """Every `jax.jit` of a file that has static arguments, by decorator or by assignment."""
    for function in module.functions.values():
        for decorator in function.decorators:
            if isinstance(decorator, ast.Call):
                jit, _ = jit_of(decorator, module, infer)
                own, _ = jit_of(decorator.func, module, infer)
                if "jax.jit" in (jit, own):
                    yield from _options(module, function, decorator)
    for name in ("jit", "partial"):
        for where, call in infer.project.calls.get(name, ()):
            if where is not module or not call.args:
                continue
            jit, _ = jit_of(call.func, module, infer)
            kind = infer.kind(call.args[0], module)
            if jit == "jax.jit" and isinstance(kind, Routine) and isinstance(kind.target, Function):
                yield from _options(module, kind.target, call)


def _options(module: SourceModule, function: Function, call: ast.Call) -> Iterator[StaticOptions]:
    keywords = tuple(k for k in call.keywords if k.arg in ("static_argnums", "static_argnames"))
    if keywords:
        yield StaticOptions(module, function, call, keywords)


def hashed_self(options: StaticOptions, changed: Collection[str]) -> str:
    """What it costs to hold `self` static, in words; `changed` are the attributes that something assigns later."""
    function, own = options.function, options.function.parameters[0].arg
    name = function.owner.node.name if function.owner is not None else "its class"
    reads = [n for n in walk(function.node) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
             and n.value.id == own and n.attr in changed]  # fmt: skip
    what = f"`{own}` is static, so `{function.name}` compiles again for every object of {name}"
    if reads:
        what += f", and never sees that `{ast.unparse(reads[0])}` changes (line {reads[0].lineno})"
    return f"{what}; pass what it reads to a function of the module level"
