"""Which arguments of a compiled function may be donated: those whose buffers die in every call that there is."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from jitmod.analysis.boundaries import function_around, statement_of
from jitmod.analysis.compiled import Compiled, calls_of
from jitmod.analysis.dying import Dying, Rebinding, is_in_loop, rebinding
from jitmod.analysis.effects import Effects
from jitmod.analysis.fresh import is_fresh
from jitmod.analysis.jits import Contexts
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.reaching import reaching
from jitmod.analysis.shapes import JOINING
from jitmod.analysis.statics import StaticOptions
from jitmod.analysis.syntax import names_of_target
from jitmod.analysis.values import Constant, Number
from jitmod.source.nodes import walk
from jitmod.source.project import SourceModule
from jitmod.source.signatures import argument

_KEPT = frozenset({"static_argnums", "static_argnames", "inline", "keep_unused"})
# what places arrays, or shares their buffers with others
_PLACING = ("device_put", "device_get", "NamedSharding", "PositionalSharding", "SingleDeviceSharding", "Mesh",
            "make_mesh", "shard_map", "pmap", "filter_pmap", "filter_shard", "with_sharding_constraint", "set_mesh",
            "make_array_from_callback", "make_array_from_single_device_arrays", "default_device", "from_dlpack",
            "copy_to_host_async", "addressable_shards", "addressable_data", "addressable_devices")  # fmt: skip
_LOOKUPS = frozenset({"getattr", "attrgetter", "methodcaller", "patch", "object"})
_SHORTER = frozenset({"sum", "mean", "max", "min", "prod", "any", "all", "astype", "reshape", "ravel", "flatten"})


@dataclass(frozen=True, eq=False)
class Donation:
    """`names`: the parameters to donate; `at`: one call; `every`: the donation is that of all, or all but the first."""

    compiled: Compiled
    names: tuple[str, ...]
    at: Rebinding
    every: str = ""


@dataclass(frozen=True, eq=False)
class Donating:
    """Judges one compiled function."""

    compiled: Compiled
    effects: Effects
    contexts: Contexts

    def rebindings(self) -> list[Rebinding]:
        """The calls that rebind what they are given: without one there is nothing to donate."""
        if any((o.arg or "").startswith("donate") for o in self.compiled.options):
            return []
        infer = self.effects.inference
        sites = infer.call_sites(self.compiled.function)
        found = [r for m, c in sites if (r := rebinding(c, m)) is not None and is_in_loop(r)]
        return [r for r in found if self._is_eager(r.call, r.module)]

    def _is_eager(self, call: ast.Call, module: SourceModule) -> bool:
        around = function_around(call, module)
        return around is None or "traced" not in self.contexts.of(around)

    def judged(self, first: Rebinding) -> Donation:
        """Raises `Unplannable` where no argument may be donated."""
        compiled, node = self.compiled, self.compiled.node
        for option in compiled.options:
            if option.arg not in _KEPT:
                raise Unplannable("may-alias", option.value, f"`{option.arg}=` says where arrays are: left alone")
        if len(node.decorator_list) != 1 or node.args.vararg or node.args.kwarg:
            what = f"`{node.name}` has other decorators, or takes any number of arguments"
            raise Unplannable("local-callable", node, what)
        self._check_placing()
        self._check_exported()
        calls = calls_of(compiled, self.effects)
        found: list[Rebinding] = []
        for module, call in calls:
            one = rebinding(call, module)
            if one is None or not self._is_eager(call, module):
                place = f"{module.document.path}:{call.lineno}"
                what = f"`{ast.unparse(call)[:60]}` ({place}) does not rebind what it takes"
                raise Unplannable("donated-later-read", call, what)
            found.append(one)
        names = self._dead(found)
        for name in names:
            self._check_result(name, found)
        if compiled.jit == "equinox.filter_jit":
            return self._of_all(names, found, first)
        return Donation(compiled, names, first)

    def _check_placing(self) -> None:
        project = self.effects.inference.project
        for name in _PLACING:
            for module, node in project.uses.get(name, ()):
                where = f"{module.document.path}:{node.lineno}"
                raise Unplannable("may-alias", node, f"`{name}` ({where}) places arrays, or shares them: left alone")

    def _check_exported(self) -> None:
        """What a package offers, or text looks up, is called by code that nobody sees."""
        name, scope = self.compiled.node.name, self.compiled.around
        if scope.parent is not None:
            return
        project = self.effects.inference.project
        for module in project.by_path.values():
            handed = [b.node for b in module.scope.bindings.get(name, ()) if b.how == "import"
                      and project.lookup(b.target) == (scope, name)]  # fmt: skip
            offers = module is scope.module or bool(handed)
            handed = handed if module.is_package else []
            handed += [c for c in module.document.of(ast.Constant) if _is_lookup(c, name, module, offers)]
            for node in handed:
                where = f"{module.document.path}:{getattr(node, 'lineno', 0)}"
                what = f"`{name}` is handed out by its name ({where}): who calls it may read on what it passed"
                raise Unplannable("donated-later-read", self.compiled.node, what)

    def _dead(self, found: list[Rebinding]) -> tuple[str, ...]:
        """The parameters whose arguments die in every call. Raises `Unplannable` where there is none."""
        static, dying = self._static(), Dying(self.effects)
        why: Unplannable | None = None
        names: list[str] = []
        for parameter in self.compiled.function.parameters:
            given = [(r, argument(self.compiled.function, r.call, parameter.arg)) for r in found]
            own = [(r, v) for r, v in given if isinstance(v, ast.Name) and r.arguments.get(v.id) is v]
            if parameter.arg in static or not own:
                continue
            try:
                if len(own) < len(given):
                    other = next(r for r, v in given if (r, v) not in own)
                    what = f"`{ast.unparse(other.call)[:60]}` does not rebind `{parameter.arg}`"
                    raise Unplannable("donated-later-read", other.call, what)
                for one, value in own:
                    assert isinstance(value, ast.Name)
                    dying.check(one, value.id)
                names.append(parameter.arg)
            except Unplannable as reason:
                why = why or reason
        if not names:
            raise why or Unplannable("donated-later-read", found[0].call, "nothing that it takes dies in the call")
        return tuple(names)

    def _static(self) -> frozenset[str]:
        written = self.compiled.decorator
        keywords = tuple(o for o in self.compiled.options if o.arg in ("static_argnums", "static_argnames"))
        if not keywords or not isinstance(written, ast.Call):
            return frozenset()
        return frozenset(StaticOptions(self.compiled.module, self.compiled.function, written, keywords).names())

    def _check_result(self, name: str, found: list[Rebinding]) -> None:
        """A result of the same shape must take the place of the buffer."""
        function = self.compiled.function
        for node in function.own_nodes:
            if isinstance(node, ast.Return) and node.value is not None:
                for one in found:
                    self._check_returned(node.value, self._place(name, one), name)

    def _place(self, name: str, one: Rebinding) -> int | None:
        """Where the result stands that is bound to the argument's name; None: it is the whole result."""
        value = argument(self.compiled.function, one.call, name)
        target = one.statement.targets[0]
        names = names_of_target(target) or ()
        assert isinstance(value, ast.Name)
        return None if isinstance(target, ast.Name) else names.index(value.id)

    def _check_returned(self, value: ast.expr, place: int | None, name: str) -> None:
        module, scope = self.compiled.module, self.compiled.function.scope
        if place is not None:
            if not isinstance(value, ast.Tuple) or place >= len(value.elts):
                return  # what another function returns
            value = value.elts[place]
        if isinstance(value, ast.Name) and module.scope_of(value).find(value.id) is scope:
            bindings = reaching(value.id, value, scope)
            plain = [b.value for b in bindings if b.how == "assign" and not b.path and b.value is not None]
            values = plain
        else:
            values = [value]
        for one in values:
            called = getattr(one.func, "attr", getattr(one.func, "id", "")) if isinstance(one, ast.Call) else ""
            if called in JOINING:
                raise Unplannable("growing-carry", one, f"`{name}` grows: no result fits into its buffer")
            if called in _SHORTER or isinstance(one, ast.Subscript):
                what = f"`{ast.unparse(one)[:60]}` may not have the shape of `{name}`"
                raise Unplannable("carry-type", one, what)

    def _of_all(self, names: tuple[str, ...], found: list[Rebinding], first: Rebinding) -> Donation:
        """`filter_jit` donates all arguments, or all but the first: the others must be new, or no arrays."""
        parameters = [p.arg for p in self.compiled.function.parameters]
        for every, others in (("all", parameters), ("all-except-first", parameters[1:])):
            given = [(r, argument(self.compiled.function, r.call, p)) for p in others if p not in names for r in found]
            if others and set(names) & set(others) and all(v is not None and self._is_unheld(v, r) for r, v in given):
                return Donation(self.compiled, names, first, every)
        other = next(p for p in parameters if p not in names)
        what = f"filter_jit donates all arguments, or all but the first, and nothing tells that `{other}` dies too"
        raise Unplannable("donated-later-read", first.call, what)

    def _is_unheld(self, value: ast.expr, one: Rebinding) -> bool:
        infer = self.effects.inference
        plain = isinstance(infer.kind(value, one.module), Number | Constant)
        return plain or (isinstance(value, ast.Call | ast.BinOp) and is_fresh(value, one.module, infer))


def _is_lookup(text: ast.Constant, name: str, module: SourceModule, offers: bool) -> bool:
    """Whether `"step"` stands in `__all__`, or `"step"` or `"module.step"` is what something is looked up by."""
    if not isinstance(text.value, str) or text.value.rpartition(".")[2] != name:
        return False
    parent = module.parents[text]
    if isinstance(parent, ast.Call):
        return getattr(parent.func, "attr", getattr(parent.func, "id", "")) in _LOOKUPS
    listed = walk(statement_of(text, module)) if offers else ()
    return any(isinstance(n, ast.Name) and n.id == "__all__" for n in listed)
