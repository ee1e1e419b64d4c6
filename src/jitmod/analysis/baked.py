"""Arrays that a compiled function captures: XLA gets them as constants, folds them, and keeps them in the program."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from jitmod.analysis.blocks import in_try
from jitmod.analysis.boundaries import loop_around
from jitmod.analysis.compiled import Compiled, calls_of
from jitmod.analysis.concrete import takes_traced
from jitmod.analysis.effects import Effects
from jitmod.analysis.jits import Contexts
from jitmod.analysis.loops import Unplannable
from jitmod.analysis.prepared import Prepared, Preparing
from jitmod.analysis.sizes import LARGE, Sizes
from jitmod.analysis.stable import block_of
from jitmod.analysis.syntax import first_line
from jitmod.analysis.values import Array, Constant, Number
from jitmod.source.nodes import walk
from jitmod.source.project import SourceModule
from jitmod.source.scopes import Scope

_OPTIONS = frozenset({"static_argnums", "static_argnames", "donate_argnums", "donate_argnames", "inline",
                      "keep_unused"})  # fmt: skip
# what is set for a while, and for what is computed meanwhile
_MODES = ("default_matmul_precision", "enable_x64", "default_device", "disable_jit", "numpy_dtype_promotion",
          "numpy_rank_promotion", "debug_nans", "debug_infs", "set_mesh", "use_mesh")  # fmt: skip


@dataclass(frozen=True, eq=False)
class CapturedArray:
    """An array of the scope `scope` that is captured: its reads in the compiled function, and its size if known."""

    name: str
    scope: Scope
    reads: tuple[ast.Name, ...]
    size: int | None


@dataclass(frozen=True, eq=False)
class Baked:
    """What is known of one compiled function: the arrays that it captures, and what it prepares of them."""

    compiled: Compiled
    arrays: tuple[CapturedArray, ...]
    prepared: Prepared


@dataclass(frozen=True, eq=False)
class Baking:
    """Judges one compiled function."""

    compiled: Compiled
    effects: Effects
    contexts: Contexts

    @property
    def module(self) -> SourceModule:
        return self.compiled.module

    def arrays(self) -> list[CapturedArray]:
        """The captured arrays, unless all of them are known to be small."""
        infer, module, node = self.effects.inference, self.module, self.compiled.node
        reads: dict[tuple[str, Scope], list[ast.Name]] = {}
        mentioned = [n for part in node.body for n in walk(part) if isinstance(n, ast.Name)]
        for name in sorted(mentioned, key=lambda n: (n.lineno, n.col_offset)):
            if isinstance(name.ctx, ast.Load):
                scope = module.scope_of(name).find(name.id)
                inside = scope is None or scope.node is node or node in module.ancestors(scope.node)
                if scope is None or inside or infer.comprehension_binding(name.id, name, module) is not None:
                    continue
                kind = infer.kind(name, module)
                if isinstance(kind, Array) and not kind.is_key and not isinstance(scope.node, ast.ClassDef):
                    reads.setdefault((name.id, scope), []).append(name)
        sizes = Sizes(infer)
        found = [CapturedArray(n, s, tuple(r), sizes.of(r[0], module)) for (n, s), r in reads.items()]
        return [a for a in found if a.size is None or a.size >= LARGE]

    def is_worth_it(self) -> bool:
        """Whether the compiled function runs as a program of its own: not where only other traces call it."""
        holder = self.compiled.holder
        if holder is not None and self.contexts.of(holder) == {"traced"}:
            return False
        around = [m.functions.get(m.scope_of(c).node) for m, c in self._calls()]
        return not around or any(f is None or self.contexts.of(f) != {"traced"} for f in around)

    def _calls(self) -> list[tuple[SourceModule, ast.Call]]:
        return self.effects.inference.call_sites(self.compiled.function)

    def judged(self, arrays: Sequence[CapturedArray]) -> Baked:
        """Raises `Unplannable` where the arrays cannot become arguments."""
        self._check_definition()
        for array in arrays:
            self._check_stable(array)
            self._check_reads(array)
        calls_of(self.compiled, self.effects)
        node = self.compiled.node
        names = frozenset(a.name for a in arrays)
        preparing = Preparing(self.compiled.function, names, self._fixed(names), self.effects, self._top_line())
        prepared = preparing.find()
        if prepared.statements or prepared.expressions:
            self._check_modes(arrays)
            for array in arrays:
                if not any(self._is_before(b.node) for b in array.scope.bindings[array.name]):
                    what = f"`{array.name}` is bound after `{node.name}`, so nothing can be prepared of it before"
                    raise Unplannable("late-binding", array.reads[0], what)
        return Baked(self.compiled, tuple(arrays), prepared)

    def _top_line(self) -> int:
        """The first line of the top-level statement that holds the function."""
        body = self.module.document.tree.body
        inside = [self.compiled.node, *self.module.ancestors(self.compiled.node)]
        return next(first_line(s) for s in body if s in inside)

    # -- the function itself -----------------------------------------------------------------------------------------

    def _check_definition(self) -> None:
        node, module = self.compiled.node, self.module
        a = node.args
        if len(node.decorator_list) != 1:
            raise Unplannable("local-callable", node, f"`{node.name}` has other decorators beside the jit")
        if a.vararg or a.kwarg or a.defaults or any(d is not None for d in a.kw_defaults):
            what = f"`{node.name}` has defaults, or takes any number of arguments: passed on, those are traced"
            raise Unplannable("local-callable", node, what)
        if loop_around(node, module) is not None or self._is_conditional(node):
            raise Unplannable("late-binding", node, f"`{node.name}` is defined in a loop, or on a condition")
        if len(self.compiled.around.bindings[node.name]) != 1:
            raise Unplannable("rebound-global", node, f"`{node.name}` is bound more than once")
        if any(isinstance(n, ast.Global | ast.Nonlocal | ast.Yield | ast.YieldFrom) for n in walk(node)):
            raise Unplannable("host-effect", node, f"`{node.name}` rebinds outer names, or yields")
        if any(isinstance(n, ast.Name) and n.id in ("locals", "vars", "eval", "exec", "globals") for n in walk(node)):
            raise Unplannable("dynamic-scope", node, f"`{node.name}` looks its names up by text")
        for option in self.compiled.options:
            self._check_option(option)

    def _is_conditional(self, node: ast.stmt) -> bool:
        outer = self.module.parents[node]
        return not isinstance(outer, ast.FunctionDef | ast.Module)

    def _check_option(self, option: ast.keyword) -> None:
        try:
            value = ast.literal_eval(option.value)
        except ValueError:
            raise Unplannable("varying-static", option.value, f"`{option.arg}=` is not a plain constant") from None
        if option.arg == "donate" and value == "none":
            return
        if option.arg == "donate":
            raise Unplannable("donated-later-read", option.value, "what is passed from now on would be donated")
        several = value if isinstance(value, tuple | list) else (value,)
        if option.arg not in _OPTIONS or any(isinstance(v, int) and v < 0 for v in several):
            raise Unplannable("varying-static", option.value, f"`{option.arg}=` is for the arguments as they are")

    # -- what is captured --------------------------------------------------------------------------------------------

    def _check_stable(self, array: CapturedArray) -> None:
        """An array must be the same from the first trace on."""
        scope, name, at = array.scope, array.name, array.reads[0]
        module, infer = scope.module, self.effects.inference
        bindings = scope.bindings[name]
        frozen = list(self.effects.frozen.of_name(at, self.compiled.function)) if scope.parent is None else []
        origin = infer.project.lookup(bindings[-1].target) if bindings[-1].how == "import" else None
        if isinstance(origin, tuple) and isinstance(origin[0], Scope):
            rebound = self.effects.frozen.is_rebound(*origin)
        else:
            rebound = origin is not None
        nested = any(name in s.rebinds for s in module.scopes.values())
        deleted = any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Del) for n in walk(scope.node))
        if frozen or rebound or nested or deleted or len(bindings) != 1:
            what = f"`{name}` is bound anew or deleted somewhere, and the compiled function keeps its first value"
            raise Unplannable("frozen-by-jit", at, what)
        binding = bindings[0]
        plain = binding.how in ("param", "import") or (binding.how == "assign" and not binding.path)
        if not plain or loop_around(binding.node, module) is not None:
            raise Unplannable("late-binding", at, f"`{name}` is not bound once for all calls")

    def _check_reads(self, array: CapturedArray) -> None:
        """Where the array itself is read it must do as a traced one, and so must what is made of it."""
        for hazard in self.effects.of_function(self.compiled.function):
            if hazard.when == "traced" and hazard.reason in ("host-arithmetic", "ragged-items"):
                what = f"{hazard.what} ({hazard.path}:{hazard.line}): it may need the values of `{array.name}`"
                raise Unplannable("scalar-needed-as-python", array.reads[0], what)
        for read in array.reads:
            parent = self.module.parents[read]
            if not self._is_result(parent, read) and not takes_traced(parent, read, self.module, self.effects):
                what = f"`{ast.unparse(parent)[:60]}` may need the values of `{array.name}` when it is traced"
                raise Unplannable("scalar-needed-as-python", read, what)

    def _is_result(self, parent: ast.AST, read: ast.expr) -> bool:
        """Whether the compiled function returns the array."""
        while isinstance(parent, ast.Tuple):
            parent = self.module.parents[parent]
        return isinstance(parent, ast.Return) and self.module.scope_of(read) is self.compiled.function.scope

    def _is_before(self, node: ast.AST) -> bool:
        """Whether what binds a name has run whenever the function is defined."""
        if isinstance(node, ast.arg):
            return True
        inner: ast.AST = self.compiled.node
        for parent in self.module.ancestors(inner):
            block = block_of(inner, self.module) if isinstance(inner, ast.stmt) else []
            if node in block and inner in block:
                return block.index(node) < block.index(inner)
            inner = parent
        return False

    def _fixed(self, arrays: frozenset[str]) -> frozenset[str]:
        """Other names around the function that are there before, and stay what they are: numbers, and small arrays."""
        found: set[str] = set()
        node, module, infer = self.compiled.node, self.module, self.effects.inference
        for name in {n.id: n for n in walk(node) if isinstance(n, ast.Name)}.values():
            scope = module.scope_of(name).find(name.id)
            if scope is None or scope.node is node or name.id in arrays or node in module.ancestors(scope.node):
                continue
            bindings = scope.bindings[name.id]
            once = len(bindings) == 1 and not any(name.id in s.rebinds for s in module.scopes.values())
            changed = name.id in self.effects.frozen.changed_names
            kind = infer.bound(bindings[0], module)
            plain = bindings[0].how in ("param", "assign") and isinstance(kind, Array | Number | Constant)
            if once and plain and not changed and self._is_before(bindings[0].node):
                found.add(name.id)
        return frozenset(found)

    def _check_modes(self, arrays: Sequence[CapturedArray]) -> None:
        """What is prepared is computed earlier: under the same settings, it must be."""
        project = self.effects.inference.project
        for module, call in self._calls():
            if in_try(call, module):
                what = f"a handler around `{ast.unparse(call)[:60]}` could catch what is raised earlier from now on"
                raise Unplannable("exception-order", call, what)
        for mode in _MODES:
            for module, call in project.calls.get(mode, ()):
                what = f"`{ast.unparse(call)[:60]}` ({module.document.path}:{call.lineno}) may be for what is prepared"
                raise Unplannable("host-effect", arrays[0].reads[0], what)
        for module, call in project.calls.get("update", ()):
            name = self.effects.inference.dotted(call.func, module) or ""
            above = module is self.module and module.scope_of(call) is module.scope and call.lineno < self._top_line()
            if name.startswith("jax.config") and not above:
                place = f"{module.document.path}:{call.lineno}"
                what = f"`{ast.unparse(call)[:60]}` ({place}) may come after what is prepared"
                raise Unplannable("host-effect", arrays[0].reads[0], what)
