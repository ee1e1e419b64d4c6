"""Functions that a decorator compiles, and how the project uses them: by calls alone, or otherwise too."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jitmod.analysis.boundaries import jit_of
from jitmod.analysis.effects import Effects
from jitmod.analysis.infer import Inference
from jitmod.analysis.loops import Unplannable
from jitmod.source.project import Function, SourceModule
from jitmod.source.scopes import Scope


@dataclass(frozen=True, eq=False)
class Compiled:
    """A compiled `def` of the module level, or of a function: its decorator, the jit, its options."""

    function: Function
    decorator: ast.expr
    jit: str
    options: tuple[ast.keyword, ...]

    @property
    def node(self) -> ast.FunctionDef:
        assert isinstance(self.function.node, ast.FunctionDef)
        return self.function.node

    @property
    def module(self) -> SourceModule:
        return self.function.module

    @property
    def around(self) -> Scope:
        """The scope that the function is defined in."""
        assert self.function.scope.parent is not None
        return self.function.scope.parent

    @property
    def holder(self) -> Function | None:
        return self.module.functions.get(self.around.node)


def compiled_functions(module: SourceModule, effects: Effects) -> Iterator[Compiled]:
    """The functions of a file that a decorator compiles, methods aside."""
    for function in module.functions.values():
        if not isinstance(function.node, ast.FunctionDef) or function.owner is not None:
            continue
        for decorator in function.decorators:
            jit, options = jit_of(decorator, module, effects.inference)
            if jit is None and isinstance(decorator, ast.Call):
                jit, options = jit_of(decorator.func, module, effects.inference)
                options = (*options, *decorator.keywords)
            if jit is not None:
                yield Compiled(function, decorator, jit, options)
                break


def calls_of(compiled: Compiled, effects: Effects) -> list[tuple[SourceModule, ast.Call]]:
    """The calls of a compiled function, also by the names that what a factory returns gets.

    Raises `Unplannable` where it is used otherwise, or may be.
    """
    node, infer = compiled.node, effects.inference
    found: list[tuple[SourceModule, ast.Call]] = []
    for module, read in reads_of(node.name, compiled.around, infer):
        parent = module.parents[read]
        if isinstance(parent, ast.Call) and parent.func is read:
            if node in module.ancestors(read):
                raise Unplannable("local-callable", read, f"`{node.name}` calls itself")
            found.append((module, parent))
            continue
        holder = compiled.holder
        made = _calls_of_made(holder, infer) if isinstance(parent, ast.Return) and holder is not None else None
        if made is None:
            what = f"`{ast.unparse(parent).splitlines()[0][:60]}` hands `{node.name}` on: its uses cannot all be seen"
            raise Unplannable("local-callable", read, what)
        found += made
    return found


def reads_of(name: str, scope: Scope, infer: Inference) -> Iterator[tuple[SourceModule, ast.expr]]:
    """The reads of what `name` means in `scope`, in every file. Raises `Unplannable` where it has another name too."""
    for module, node in infer.project.uses.get(name, ()):
        if isinstance(node, ast.Name) and module is scope.module:
            if module.scope_of(node).find(name) is scope:
                yield module, node
        elif scope.parent is None and infer.project.lookup(infer.dotted(node, module) or "") == (scope, name):
            yield module, node
    if scope.parent is not None:
        return
    for module in infer.project.by_path.values():
        for binding in (b for s in module.scopes.values() for bs in s.bindings.values() for b in bs):
            renamed = binding.how == "import" and binding.name != name
            if renamed and infer.project.lookup(binding.target) == (scope, name):
                raise Unplannable("local-callable", binding.node, f"`{name}` is imported as `{binding.name}`")


def _calls_of_made(holder: Function, infer: Inference) -> list[tuple[SourceModule, ast.Call]] | None:
    """The calls of what a factory returns, where every result gets a name that is only called; else None."""
    sites = infer.call_sites(holder)
    if isinstance(holder.node, ast.Lambda) or holder.decorators or not sites:
        return None
    if infer.project.escapes(holder.node.name):
        return None
    found: list[tuple[SourceModule, ast.Call]] = []
    for module, made in sites:
        reads = _reads_of_made(made, module, infer)
        if reads is None:
            return None
        for where, read in reads:
            parent = where.parents[read]
            if not (isinstance(parent, ast.Call) and parent.func is read):
                return None
            found.append((where, parent))
    return found


def _reads_of_made(
    made: ast.Call, module: SourceModule, infer: Inference
) -> Sequence[tuple[SourceModule, ast.expr]] | None:
    match module.parents[made]:
        case ast.Call(func=func) if func is made:
            return [(module, made)]
        case ast.Assign(targets=[ast.Name(id=name)]):
            scope = module.scope_of(made).find(name)
            known = scope is not None and not isinstance(scope.node, ast.ClassDef)
            return list(reads_of(name, scope, infer)) if known and scope is not None else None
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=attr)]):
            return infer.project.uses.get(attr, ())
    return None
