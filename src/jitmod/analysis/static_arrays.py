"""Fields of Modules that are declared static and hold arrays."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from jitmod.analysis.boundaries import function_around
from jitmod.analysis.concrete import takes_traced
from jitmod.analysis.effects import Effects
from jitmod.analysis.jits import Contexts
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.values import Array, Instance, Transformed, unpacked
from jitmod.source.project import Class, Project, SourceModule

# what does not go through the leaves of a tree: all else might train, save, map over or count one that was none before
_WITHOUT_LEAVES = (
    "jax.numpy.", "jax.nn.", "jax.lax.", "jax.random.", "jax.scipy.", "jax.image.", "jax.dtypes.", "jax.typing.",
    "jax.jit", "jax.vmap", "jax.Array", "jax.block_until_ready", "jax.config", "jax.clear_caches", "jax.named_scope",
    "jax.debug.print", "jax.default_matmul_precision", "equinox.Module", "equinox.field", "equinox.filter_jit",
    "equinox.nn.", "equinox.is_", "equinox.error_if", "equinox.debug.", "equinox.Abstract",
)  # fmt: skip
_PACKAGES = frozenset({"numpy", "jaxtyping", "beartype", "tqdm", "matplotlib", "pytest", "einops", "rich", "PIL"})
_BY_TEXT = ("getattr", "attrgetter")
_COPYING = frozenset({"dataclasses", "copy", "pickle", "shelve", "marshal", "multiprocessing", "concurrent"})
_MAPPING = ("jax.lax.scan", "jax.lax.map", "jax.lax.associative_scan", "jax.lax.cond", "jax.lax.while_loop",
            "jax.lax.fori_loop", "jax.lax.switch")  # fmt: skip


@dataclass(frozen=True, eq=False)
class StaticField:
    """`name: annotation = eqx.field(static=True)` in the body of a Module."""

    cls: Class
    statement: ast.AnnAssign
    name: str
    call: ast.Call

    @property
    def module(self) -> SourceModule:
        return self.cls.module


def static_array_fields(module: SourceModule, effects: Effects) -> Iterator[StaticField]:
    """The static fields of a file that get an array somewhere in the project."""
    infer = effects.inference
    for cls in module.classes.values():
        if not infer.classes.is_module(cls):
            continue
        for statement in cls.node.body:
            match statement:
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call() as call):
                    static = any(k.arg == "static" and _is_true(k.value) for k in call.keywords)
                    if static and infer.dotted(call.func, module) == "equinox.field":
                        field = StaticField(cls, statement, name, call)
                        if any(isinstance(k, Array) for k in _kinds(field, effects)):
                            yield field


def _is_true(expr: ast.expr) -> bool:
    return isinstance(expr, ast.Constant) and expr.value is True


def _kinds(field: StaticField, effects: Effects) -> list[object]:
    """The kinds of all that the project puts into the field."""
    infer = effects.inference
    found: list[object] = []
    for cls in (field.cls, *infer.classes.subclasses(field.cls)):
        for module, value, path in infer.classes.field_values(cls, field.name):
            if value is not field.call:
                found.append(unpacked(infer.kind(value, module), path))
    return found


def check_field(field: StaticField, effects: Effects, contexts: Contexts) -> None:
    """Raises `Unplannable` where a normal field would not do the same."""
    infer, name, at = effects.inference, field.name, field.statement
    if not all(isinstance(kind, Array) for kind in _kinds(field, effects)):
        raise Unplannable("varying-static", at, f"`{name}` is an array here, and something else, or unknown, there")
    classes = [field.cls, *infer.classes.subclasses(field.cls)]
    if any(infer.classes.escapes(cls) for cls in classes):
        raise Unplannable("varying-static", at, f"`{field.cls.node.name}` is handed on: not every `{name}` is seen")
    _check_leaves(field, effects)
    for reader in _BY_TEXT:
        for module, call in infer.project.calls.get(reader, ()):
            if any(isinstance(a, ast.Constant) and a.value == name for a in call.args):
                what = f"`{ast.unparse(call)[:60]}` ({module.document.path}:{call.lineno}) may need its values"
                raise Unplannable("scalar-needed-as-python", at, f"{what}, and reads it by its name")
    for module, node in infer.project.uses.get(name, ()):
        if not isinstance(node, ast.Attribute):
            continue
        around = function_around(node, module)
        eager = around is None or contexts.of(around) == {"eager"}
        if not eager and not takes_traced(module.parents[node], node, module, effects):
            what = f"`{ast.unparse(module.parents[node]).splitlines()[0][:60]}` may need the values of `{name}`"
            where = f"{module.document.path}:{node.lineno}"
            raise Unplannable("scalar-needed-as-python", at, f"{what} while it is traced ({where})")


def _check_leaves(field: StaticField, effects: Effects) -> None:
    infer, what = effects.inference, "an array more in the Module would show"
    for module in infer.project.by_path.values():
        for node in module.document.of(ast.Attribute, ast.Name):
            dotted = infer.dotted(node, module) or ""
            inner = isinstance(module.parents[node], ast.Attribute) or "." not in dotted
            if not inner and _sees_leaves(dotted, infer.project):
                where = f"{module.document.path}:{getattr(node, 'lineno', 0)}"
                raise Unplannable("stateful-module", field.statement, f"`{ast.unparse(node)}` ({where}): {what}")
        for call in module.document.of(ast.Call):
            mapped = (infer.dotted(call.func, module) or "").startswith(_MAPPING)
            kind = infer.kind(call.func, module)
            mapped = mapped or (isinstance(kind, Transformed) and kind.transform == "jax.vmap")
            values = [*call.args, *[k.value for k in call.keywords]]
            if mapped and any(isinstance(infer.kind(v, module), Instance) for v in values):
                where = f"{module.document.path}:{call.lineno}"
                raise Unplannable("stateful-module", field.statement, f"`{ast.unparse(call)[:60]}` ({where}): {what}")
        for compared in module.document.of(ast.Compare):
            sides = (compared.left, *compared.comparators)
            if any(isinstance(infer.kind(side, module), Instance) for side in sides):
                where = f"{module.document.path}:{compared.lineno}"
                raise Unplannable("stateful-module", field.statement, f"`{ast.unparse(compared)}` ({where}): {what}")


def _sees_leaves(dotted: str, project: Project) -> bool:
    """Whether a name of a library may be of something that goes through the leaves of a Module."""
    package = dotted.partition(".")[0]
    if isinstance(project.lookup(dotted), tuple | SourceModule) or package in _PACKAGES:
        return False
    if package in sys.stdlib_module_names:
        return package in _COPYING
    return not dotted.startswith(_WITHOUT_LEAVES)
